"""The groups of settings in the config of a run, such as `optimizer.X` and `schedule.X`. Torch-free."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.config.fields import option
from optimizers.zoo.registry import Param

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
