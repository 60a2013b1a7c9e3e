"""The config of one run: frozen dataclasses of plain values, each field with its type, range and meaning.

The same declarations serve four readers: YAML and the command line (`harness/config/settings.py`), the key
(`harness/config/key.py`), the config reference (`docs/config.md`) and the code. Torch-free.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from harness.config.fields import option, part
from harness.config.groups import (
    CheckpointConfig,
    DivergenceConfig,
    EvaluationConfig,
    OptimizerConfig,
    PrecisionConfig,
    ScheduleConfig,
    SpectraConfig,
)
from optimizers.zoo.registry import Param

AUGMENTATIONS = ("none", "crop-flip", "resized-crop-flip", "randaugment")  # see `harness/data/augment.py`


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
            help="rows of text: padded has one document each, cut or filled up to seq_len; packed reads on "
            "over the ends of documents; empty: the task's",
        )
    )
    held_out_tokens: int | None = option(
        Param(
            int,
            None,
            low=1,
            help="tokens of each held-out split that are evaluated; empty: the task's",
        )
    )
    augment: str | None = option(
        Param(
            str,
            None,
            choices=AUGMENTATIONS,
            help="random changes of training images (`harness/data/augment.py`); empty: the task's",
        )
    )
    mixup: float | None = option(
        Param(
            float,
            None,
            low=0,
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
            help="share of activations that are dropped, in models that have dropout",
        )
    )
    sync_batch_norm: bool = option(
        Param(
            bool,
            False,
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
