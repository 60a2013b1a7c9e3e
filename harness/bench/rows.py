"""The results of `htbench bench optimizers`: one row per optimizer, one per implementation by others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.bench.measurement import Measurement


@dataclass(frozen=True)
class Row:
    """The measurements of one optimizer and its ratio to the baseline.

    Attributes:
        label, name, hyper: as in `subjects.Entry`.
        step: milliseconds per step; with `period` > 1 the mean over a whole period.
        ratio: time of a step divided by the time of a step of the baseline.
        period: T, if only every T-th step does all the work (a full step); else 1.
        ordinary, special: median milliseconds of the other steps and of the full step; None for period 1.
        flops: floating point operations of the matrix products per step, by precision.
        share: the time of these products at the machine's peak rate, as a fraction of the time of a step.
        calls: of PyTorch's operations per step, views not counted.
        state_bytes: bytes of optimizer state per scalar parameter.
    """

    label: str
    name: str
    hyper: Mapping[str, Any]
    step: Measurement
    ratio: Measurement
    period: int
    ordinary: float | None
    special: float | None
    flops: Mapping[str, float]
    share: float
    calls: float
    state_bytes: float


@dataclass(frozen=True)
class PeerRow:
    """One of our optimizers compared with an implementation of it in another package.

    Attributes:
        label: as in `subjects.Entry`.
        peer, version: package and class of the other implementation, and the package's version.
        matrices: whether both sides updated only the matrices (parameters with two dimensions).
        ours, theirs: milliseconds per step.
        ratio: ours / theirs.
        state_bytes: bytes of the other implementation's state per scalar parameter.
        note: why nothing was measured; the measurements are then None.
    """

    label: str
    peer: str
    version: str | None
    matrices: bool
    ours: Measurement | None = None
    theirs: Measurement | None = None
    ratio: Measurement | None = None
    state_bytes: float | None = None
    note: str = ""
