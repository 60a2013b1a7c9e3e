"""The config of one run: frozen dataclasses of plain values, each field with its type, range and meaning.

The same declarations serve four readers: YAML and the command line (`harness/config/settings.py`), the key
(`harness/config/key.py`), the config reference (`docs/config.md`) and the code. Torch-free.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from htbench.optimizers.zoo.registry import Param

METHODS = ("hill_mid", "ks")  # of `harness/spectra/tail.py`
# Shapes of the learning rate: `harness/train/schedule.py`.
SCHEDULES = ("cosine", "linear", "constant", "wsd", "power", "piecewise")
AUGMENTATIONS = ("none", "crop-flip", "resized-crop-flip", "randaugment")  # see `harness/data/augment.py`

Value = Any  # a plain value: None, bool, int, float, str or a list of them


def option(kind: Any, default: Any, help: str, *, key: bool = True, **more: Any) -> Any:
    """A config field.

    Args:
        kind, default, help, more: of its `Param`; a field added after version 0.1.0 sets `before`.
        key: False if the field stays out of the key: it cannot change the numbers, which
            tests/harness/train/test_inert_fields.py proves, or it changes their last digits only (threads,
            processes, micro_batch, device, compile). Tables name the latter in a footnote.
    """
    param = Param(kind, default, help=help, **more)
    return dataclasses.field(default=default, metadata={"param": param, "key": key})


def part(kind: type, *, key: bool = True) -> Any:
    """A config field that is itself a group of fields."""
    return dataclasses.field(default_factory=kind, metadata={"part": kind, "key": key})


@dataclass(frozen=True)
class OptimizerConfig:
    """The optimizer and its hyperparameters. YAML has fields and hyperparameters as `optimizer.X` alike."""

    name: str = option(str, "adamw", "a row of `htbench zoo`, or `module:Class` of your own")
    lr: float | None = option(float, None, "peak learning rate; empty: the optimizer's default")
    weight_decay: float | None = option(float, None, "empty: the optimizer's default")
    routing: str = option(
        str,
        "released",
        "which parameters get the matrix rule: as in the released code, every matrix, or hidden ones only",
        choices=("released", "matrix", "hidden"),
    )
    aux_lr: float | None = option(
        float, None, "learning rate of the AdamW that trains the rest; empty: the task's AdamW rate"
    )
    hyper: Mapping[str, Value] = dataclasses.field(default_factory=dict, metadata={"key": True})
    # By named group of parameters its optimizer and settings: `harness/config/groups.py`.
    groups: Mapping[str, Mapping[str, Value]] = dataclasses.field(
        default_factory=dict, metadata={"key": True}
    )


def _unless(*schedules: str) -> tuple[dict[str, tuple[str, ...]]]:
    """That a field acts with these schedules only."""
    return ({"schedule.name": tuple(name for name in SCHEDULES if name not in schedules)},)


@dataclass(frozen=True)
class ScheduleConfig:
    """The learning rate, and maybe hyperparameters, over the run (`harness/train/schedule.py`).

    YAML has the schedule of a hyperparameter as `schedule.X`.
    """

    name: str = option(str, "cosine", "shape after the warm-up", choices=SCHEDULES)
    warmup: float = option(float, 0.1, "linear warm-up: below 1 a fraction of the run, else steps", low=0)
    floor: float = option(
        float,
        0.1,
        "fraction of the peak that remains at the end",
        low=0,
        high=1,
        inert=_unless("cosine", "linear", "wsd", "power"),
    )
    decay: float = option(
        float,
        0.2,
        "wsd and power: fraction of the run that decays linearly to the floor, the cooldown",
        low=0,
        high=1,
        inert=_unless("wsd", "power"),
    )
    exponent: float = option(
        float,
        0.5,
        "power: before the cooldown the rate falls as this power of one over the step",
        low=0,
        before=0.5,
        inert=_unless("power"),
    )
    at: tuple[float, ...] = option(
        tuple,
        (),
        "piecewise: fractions of the run in rising order; the same one twice makes a jump",
        low=0,
        high=1,
        before=(),
        inert=_unless("piecewise"),
    )
    factors: tuple[float, ...] = option(
        tuple,
        (),
        "piecewise: fractions of the peak there, with straight lines between; after the last one it stays",
        low=0,
        high=1,
        before=(),
        inert=_unless("piecewise"),
    )
    # By hyperparameter the parts of its schedule: `harness/config/hyper_schedules.py`.
    hyper: Mapping[str, Mapping[str, Value]] = dataclasses.field(default_factory=dict, metadata={"key": True})


@dataclass(frozen=True)
class PrecisionConfig:
    """Number formats. None of them depends on the device."""

    params: str = option(
        str, "float32", "format of parameters and optimizer states", choices=("float32", "bfloat16")
    )
    autocast: str = option(
        str, "none", "format of the forward and backward matrix products", choices=("none", "bfloat16")
    )
    tf32: bool = option(
        bool, False, "let CUDA use TF32 in the model's float32 matrix products and convolutions"
    )
    tf32_convolutions: bool = option(
        bool,
        False,
        "in its convolutions at least, as PyTorch does by default",
        before=False,
        inert=({"precision.tf32": (True,)},),
    )


@dataclass(frozen=True)
class DivergenceConfig:
    """When a run counts as diverged; a non-finite loss always does (`harness/train/divergence.py`)."""

    below: float = option(
        float,
        0.1,
        "the smoothed loss has been below the untrained one by this share of it ...",
        low=0,
        high=1,
    )
    factor: float = option(
        float, 3.0, "... and less than one part in so many is left of its greatest fall ...", low=1
    )
    patience: int = option(
        int,
        200,
        "... for so many steps of a run of 2000 (200: a tenth), in proportion for others, for at least 20",
        low=1,
    )
    floor: float = option(
        float,
        1e-3,
        "a smoothed loss below this many nats is never a divergence: the run has memorised its data",
        low=0,
    )
    smoothing: float = option(
        float,
        0.98,
        "weight of the past in the smoothed loss; runs below 2000 steps forget faster in proportion",
        low=0,
        high=1,
    )


@dataclass(frozen=True)
class EvaluationConfig:
    """When to evaluate on the validation split besides the end. It cannot change the numbers."""

    every: int = option(int, 0, "steps between evaluations; 0: only at the end", low=0, key=False)
    untrained: bool = option(bool, False, "evaluate the untrained model, too", key=False)


@dataclass(frozen=True)
class CheckpointConfig:
    """When to save. It cannot change the numbers: a resumed run continues bit for bit."""

    every_steps: int = option(int, 0, "steps between checkpoints; 0: by time only", low=0, key=False)
    every_seconds: float = option(float, 300.0, "seconds between checkpoints", low=0, key=False)
    keep_weights: bool = option(bool, False, "keep the final weights as weights.pt", key=False)


@dataclass(frozen=True)
class SpectraConfig:
    """Which singular values to record (`harness/train/spectra.py`). It cannot change the numbers."""

    every: int = option(
        int, 0, "steps between measurements of the weights; 0: see `spectra.final`", low=0, key=False
    )
    final: bool = option(bool, False, "measure the final weights; with `spectra.every` always", key=False)
    method: str = option(
        str, "hill_mid", "how alpha is estimated, see docs/spectra.md", choices=METHODS, key=False
    )
    layers: str = option(
        str, "hidden", "all: the embedding and the head, too", choices=("hidden", "all"), key=False
    )
    updates: tuple[float, ...] = option(
        tuple,
        (),
        "when to record the singular values of updates, as fractions of the run: the paper's "
        "`[0, 0.45, 0.95]` are its steps 1, 9000 and 19000 of 20000",
        low=0,
        high=1,
        key=False,
    )


def _of_base(help: str) -> Any:
    standard = {"parametrization": ("standard",)}
    return option(int, None, "mup only: " + help, low=1, before=None, inert=(standard,))


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides one run. `harness.config.settings` fills the defaults."""

    task: str = option(str, "pydocs", "`pydocs`, `digits`, or `module:TASK` of your own")
    model: str = option(str, "llama-nano", "a row of `htbench models`, or `module:factory` of your own")
    optimizer: OptimizerConfig = part(OptimizerConfig)
    schedule: ScheduleConfig = part(ScheduleConfig)
    steps: int | None = option(int, None, "updates; give this or epochs", low=1)
    epochs: float | None = option(float, None, "passes over the training split", low=0, low_open=True)
    batch_size: int = option(int, 32, "sequences or images per update, over all processes", low=1)
    seq_len: int | None = option(int, None, "tokens per sequence; empty: the task's", low=1)
    layout: str | None = option(
        str,
        None,
        "rows of text: padded has one document each, cut or filled up to seq_len; packed reads on "
        "over the ends of documents; empty: the task's",
        choices=("padded", "packed"),
    )
    held_out_tokens: int | None = option(
        int, None, "tokens of the validation split that are evaluated; empty: the task's", low=1
    )
    augment: str | None = option(
        str,
        None,
        "random changes of training images (`harness/data/augment.py`); empty: the task's",
        choices=AUGMENTATIONS,
    )
    mixup: float | None = option(
        float,
        None,
        "images are mixed in pairs, the shares drawn from Beta(mixup, mixup); 0: not; empty: the task's",
        low=0,
    )
    dropout: float = option(
        float,
        0.0,
        "share of activations that are dropped, in models that have dropout",
        low=0,
        high=1,
        high_open=True,
    )
    sync_batch_norm: bool = option(
        bool, False, "BatchNorm takes its statistics over all processes of a run, not over each one's part"
    )
    grad_clip: float | None = option(
        float, None, "largest norm of the whole gradient; empty: no clipping", low=0, low_open=True
    )
    parametrization: str = option(
        str,
        "standard",
        "mup: rate, decay and first weights are those of a model of `base_width` and `base_depth`, carried "
        "over (`optimizers/transfer.py`)",
        choices=("standard", "mup"),
        before="standard",
    )
    base_width: int | None = _of_base("width of the model whose settings are carried over")
    base_depth: int | None = _of_base("its layers")
    base_head: int | None = _of_base("size of its heads; empty: as here")
    seed: int = option(int, 0, "initial weights, and what Sophia draws", low=0)
    data_seed: int = option(int, 0, "order of the training data", low=0)
    precision: PrecisionConfig = part(PrecisionConfig)
    divergence: DivergenceConfig = part(DivergenceConfig)
    protocol: str = option(
        str,
        "honest",
        "honest: choose on validation, report test; paper: as published",
        choices=("honest", "paper"),
    )
    replica: str = option(str, "", "a free word that makes a deliberate rerun a run of its own")
    data_fingerprint: str = option(str, "", "hash of the data; filled in")
    # Of a run that a program makes which is not ours: `harness/config/programs.py`. Empty: our own loop.
    program: Mapping[str, Value] = dataclasses.field(default_factory=dict, metadata={"key": True})
    # Which version of the code makes the numbers, as `harness.config.revisions.current` fills it in.
    revisions: Mapping[str, int | str] = dataclasses.field(default_factory=dict, metadata={"key": True})
    micro_batch: int | None = option(
        int, None, "sequences or images per backward pass; empty: the whole batch", low=1, key=False
    )
    processes: int = option(
        int, 1, "data-parallel processes, each with its part of every batch", low=1, key=False
    )
    evaluation: EvaluationConfig = part(EvaluationConfig, key=False)
    checkpoint: CheckpointConfig = part(CheckpointConfig, key=False)
    spectra: SpectraConfig = part(SpectraConfig, key=False)
    device: str = option(str, "auto", "where to train", choices=("auto", "cpu", "cuda"), key=False)
    threads: int = option(int, 1, "CPU threads of the run", low=1, key=False)
    compile: bool = option(bool, False, "torch.compile the model", key=False)
    activation_checkpointing: bool = option(
        bool, False, "compute activations again in the backward pass, to save memory", key=False
    )
    shard_optimizer: bool = option(
        bool,
        True,
        "of several processes each steps some of the parameters and keeps the state of those only",
        key=False,
    )
    log_every: int = option(int, 10, "steps between transfers of the loss from the device", low=1, key=False)

    def updates(self, epoch_size: float) -> int:
        """The length of the run in steps, where an epoch has `epoch_size` samples."""
        return self.steps or max(1, round((self.epochs or 0) * epoch_size / self.batch_size))
