"""What `htbench bench optimizers` finds: a row per optimizer, and one per other implementation of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.bench.measurement import Measurement


@dataclass(frozen=True)
class Row:
    """One optimizer beside the baseline.

    Attributes:
        label, name, hyper: of the entry.
        step: milliseconds per step, with `period` above 1 the mean of a whole period.
        ratio: in units of the baseline's step.
        period: one in so many steps is a full one.
        ordinary, special: median milliseconds of the other steps and of the full one; None for period 1.
        flops: of matrix products per step, by precision.
        share: time that they would take at the machine's peak, in units of the step.
        state_bytes: of the state per parameter.
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
    state_bytes: float


@dataclass(frozen=True)
class Beside:
    """One optimizer beside another implementation of it. If it could not be measured, `note` says why.

    Attributes:
        label: of the entry.
        peer, version: the other one.
        matrices: whether both stepped the matrices only.
        ours, theirs: milliseconds per step.
        ratio: of ours to theirs.
        state_bytes: of their state per parameter.
        note: why there are no measurements, which are None then.
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
