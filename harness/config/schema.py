"""The config of one run: frozen dataclasses of plain values, each field with its type, range and meaning.

The same declarations serve four readers: YAML and the command line (`harness/config/settings.py`), the key
(`harness/config/key.py`), the config reference (`docs/config.md`) and the code. Torch-free.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.config.fields import option, part
from optimizers.zoo.registry import Param

AUGMENTATIONS = ("none", "crop-flip", "resized-crop-flip", "randaugment")  # see `harness/data/augment.py`
METHODS = ("hill_mid", "ks", "ks_peak", "farms")  # of `harness/spectra/layers.py`
SCHEDULES = ("cosine", "constant", "wsd")  # shapes of the learning rate: `harness/train/schedule.py`

Value = Any  # a plain value: None, bool, int, float, str or a list of them


@dataclass(frozen=True)
class OptimizerConfig:
    """The optimizer and its hyperparameters. YAML has fields and hyperparameters as `optimizer.X` alike."""

    name: str = option(Param(str, "adamw", help="a row of `htbench zoo`, or `module:Class` of your own"))
    lr: float | None = option(Param(float, None, help="peak learning rate; empty: the optimizer's default"))
    weight_decay: float | None = option(Param(float, None, help="empty: the optimizer's default"))
    routing: str = option(
        Param(
            str,
            "released",
            choices=("released", "matrix", "hidden"),
            help="which parameters get the matrix rule: "
            "as in the released code, every matrix, or hidden ones only",
        )
    )
    aux_lr: float | None = option(
        Param(
            float, None, help="learning rate of the AdamW that trains the rest; empty: the task's AdamW rate"
        )
    )
    hyper: Mapping[str, Value] = dataclasses.field(default_factory=dict, metadata={"key": True})


@dataclass(frozen=True)
class ScheduleConfig:
    """The learning rate, and maybe hyperparameters, over the run (`harness/train/schedule.py`).

    YAML has the schedule of a hyperparameter as `schedule.X`.
    """

    name: str = option(Param(str, "cosine", choices=SCHEDULES, help="shape after the warm-up"))
    warmup: float = option(
        Param(float, 0.1, low=0, help="linear warm-up: below 1 a fraction of the run, else steps")
    )
    floor: float = option(
        Param(
            float,
            0.1,
            low=0,
            high=1,
            inert=({"schedule.name": ("constant",)},),
            help="fraction of the peak that remains at the end",
        )
    )
    decay: float = option(
        Param(
            float,
            0.2,
            low=0,
            high=1,
            inert=({"schedule.name": ("cosine", "constant")},),
            help="wsd only: fraction of the run that decays",
        )
    )
    # By hyperparameter the parts of its schedule: `harness/config/hyper_schedules.py`.
    hyper: Mapping[str, Mapping[str, Value]] = dataclasses.field(default_factory=dict, metadata={"key": True})


@dataclass(frozen=True)
class PrecisionConfig:
    """Number formats. None of them depends on the device."""

    params: str = option(
        Param(
            str, "float32", choices=("float32", "bfloat16"), help="format of parameters and optimizer states"
        )
    )
    autocast: str = option(
        Param(
            str,
            "none",
            choices=("none", "bfloat16"),
            help="format of the forward and backward matrix products",
        )
    )
    tf32: bool = option(Param(bool, False, help="let CUDA use TF32 in float32 matrix products"))


@dataclass(frozen=True)
class DivergenceConfig:
    """When a run counts as diverged; a non-finite loss always does (`harness/train/divergence.py`)."""

    below: float = option(
        Param(
            float,
            0.1,
            low=0,
            high=1,
            neutral=0.1,
            help="the smoothed loss has been below the untrained one by this share of it ...",
        )
    )
    factor: float = option(
        Param(
            float, 3.0, low=1, help="... and less than one part in so many is left of its greatest fall ..."
        )
    )
    patience: int = option(
        Param(
            int,
            200,
            low=1,
            help="... for so many steps of a run of 2000 (200: a tenth), in proportion for others, "
            "for at least 20",
        )
    )
    floor: float = option(
        Param(
            float,
            1e-3,
            low=0,
            neutral=1e-3,
            help="a smoothed loss below this many nats is never a divergence: the run has memorised its data",
        )
    )
    smoothing: float = option(
        Param(
            float,
            0.98,
            low=0,
            high=1,
            help="weight of the past in the smoothed loss; runs below 2000 steps forget faster in proportion",
        )
    )


@dataclass(frozen=True)
class EvaluationConfig:
    """When to evaluate on the validation split besides the end. It cannot change the numbers."""

    every: int = option(Param(int, 0, low=0, help="steps between evaluations; 0: only at the end"), key=False)
    untrained: bool = option(Param(bool, False, help="evaluate the untrained model, too"), key=False)


@dataclass(frozen=True)
class CheckpointConfig:
    """When to save. It cannot change the numbers: a resumed run continues bit for bit."""

    every_steps: int = option(
        Param(int, 0, low=0, help="steps between checkpoints; 0: by time only"), key=False
    )
    every_seconds: float = option(Param(float, 300.0, low=0, help="seconds between checkpoints"), key=False)
    keep_weights: bool = option(Param(bool, False, help="keep the final weights as weights.pt"), key=False)


@dataclass(frozen=True)
class SpectraConfig:
    """Which singular values to record (`harness/train/spectra.py`). It cannot change the numbers."""

    every: int = option(
        Param(int, 0, low=0, help="steps between measurements of the weights; 0: see `spectra.final`"),
        key=False,
    )
    final: bool = option(
        Param(bool, False, help="measure the final weights; with `spectra.every` always"), key=False
    )
    method: str = option(
        Param(str, "hill_mid", choices=METHODS, help="how alpha is estimated, see docs/spectra.md"), key=False
    )
    layers: str = option(
        Param(str, "hidden", choices=("hidden", "all"), help="all: the embedding and the head, too"),
        key=False,
    )
    updates: tuple[float, ...] = option(
        Param(
            tuple,
            (),
            low=0,
            high=1,
            help="when to record the singular values of updates, as fractions of the run: the paper's "
            "`[0, 0.45, 0.95]` are its steps 1, 9000 and 19000 of 20000",
        ),
        key=False,
    )


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides one run. `harness.config.settings` fills the defaults."""

    task: str = option(Param(str, "pydocs", help="`pydocs`, `digits`, or `module:TASK` of your own"))
    model: str = option(
        Param(str, "llama-nano", help="a row of `htbench models`, or `module:factory` of your own")
    )
    optimizer: OptimizerConfig = part(OptimizerConfig)
    schedule: ScheduleConfig = part(ScheduleConfig)
    steps: int | None = option(Param(int, None, low=1, help="updates; give this or epochs"))
    epochs: float | None = option(
        Param(float, None, low=0, low_open=True, help="passes over the training split")
    )
    batch_size: int = option(Param(int, 32, low=1, help="sequences or images per update, over all processes"))
    seq_len: int | None = option(Param(int, None, low=1, help="tokens per sequence; empty: the task's"))
    layout: str | None = option(
        Param(
            str,
            None,
            choices=("padded", "packed"),
            neutral=None,
            help="rows of text: padded has one document each, cut or filled up to seq_len; packed reads on "
            "over the ends of documents; empty: the task's",
        )
    )
    held_out_tokens: int | None = option(
        Param(
            int,
            None,
            low=1,
            neutral=None,
            help="tokens of each held-out split that are evaluated; empty: the task's",
        )
    )
    augment: str | None = option(
        Param(
            str,
            None,
            choices=AUGMENTATIONS,
            neutral=None,
            help="random changes of training images (`harness/data/augment.py`); empty: the task's",
        )
    )
    mixup: float | None = option(
        Param(
            float,
            None,
            low=0,
            neutral=None,
            help="images are mixed in pairs, the shares drawn from Beta(mixup, mixup); 0: not; "
            "empty: the task's",
        )
    )
    dropout: float = option(
        Param(
            float,
            0.0,
            low=0,
            high=1,
            high_open=True,
            neutral=0.0,
            help="share of activations that are dropped, in models that have dropout",
        )
    )
    sync_batch_norm: bool = option(
        Param(
            bool,
            False,
            neutral=False,
            help="BatchNorm takes its statistics over all processes of a run, not over each one's part",
        )
    )
    grad_clip: float | None = option(
        Param(
            float, None, low=0, low_open=True, help="largest norm of the whole gradient; empty: no clipping"
        )
    )
    seed: int = option(Param(int, 0, low=0, help="initial weights, and what Sophia draws"))
    data_seed: int = option(Param(int, 0, low=0, help="order of the training data"))
    precision: PrecisionConfig = part(PrecisionConfig)
    divergence: DivergenceConfig = part(DivergenceConfig)
    protocol: str = option(
        Param(
            str,
            "honest",
            choices=("honest", "paper"),
            help="honest: choose on validation, report test; paper: as published",
        )
    )
    replica: str = option(Param(str, "", help="a free word that makes a deliberate rerun a run of its own"))
    data_fingerprint: str = option(Param(str, "", help="hash of the data; filled in"))
    # Which version of the code makes the numbers, as `harness.config.revisions.current` fills it in.
    revisions: Mapping[str, int | str] = dataclasses.field(default_factory=dict, metadata={"key": True})
    micro_batch: int | None = option(
        Param(int, None, low=1, help="sequences or images per backward pass; empty: the whole batch"),
        key=False,
    )
    processes: int = option(
        Param(int, 1, low=1, help="data-parallel processes, each with its part of every batch"), key=False
    )
    evaluation: EvaluationConfig = part(EvaluationConfig, key=False)
    checkpoint: CheckpointConfig = part(CheckpointConfig, key=False)
    spectra: SpectraConfig = part(SpectraConfig, key=False)
    device: str = option(
        Param(str, "auto", choices=("auto", "cpu", "cuda"), help="where to train"), key=False
    )
    threads: int = option(Param(int, 1, low=1, help="CPU threads of the run"), key=False)
    compile: bool = option(Param(bool, False, help="torch.compile the model"), key=False)
    activation_checkpointing: bool = option(
        Param(bool, False, help="compute activations again in the backward pass, to save memory"), key=False
    )
    shard_optimizer: bool = option(
        Param(
            bool,
            True,
            help="of several processes each steps some of the parameters and keeps the state of those only",
        ),
        key=False,
    )
    log_every: int = option(
        Param(int, 10, low=1, help="steps between transfers of the loss from the device"), key=False
    )

    def updates(self, epoch_size: float) -> int:
        """The length of the run in steps, where an epoch has `epoch_size` samples."""
        return self.steps or max(1, round((self.epochs or 0) * epoch_size / self.batch_size))
