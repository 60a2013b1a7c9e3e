"""The numbers of a run's cost that its record keeps, made once for all runs of a class.

They are kept in `cache/costs/`, beside what was measured of the class, and in this process.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from harness.config import RunConfig
from harness.cost import shapes
from harness.cost.run_class import run_class
from harness.cost.shapes import NotEstimatedError
from harness.errors import UsageError
from harness.system import atomic, environment
from harness.system.folders import make_folder

Numbers = dict[str, float]
_here: dict[str, Numbers] = {}


def numbers(config: RunConfig, cache: Path, device: str, *, make: bool = True) -> Numbers:
    """What the cost of a run adds to its record; empty if it can't be estimated, whatever the reason.

    `flops_per_step`: of forward and backward pass, and of what is computed again. `optimizer_flops_per_step`.
    `state_bytes`: that the optimizer keeps. `estimated_peak_memory`: bytes of tensors in one process.

    Args:
        config: of the run.
        cache: folder of prepared data and measured costs.
        device: "cpu" or "cuda".
        make: whether to estimate what is not known, which takes a second or a few.
    """
    try:
        place = _place(cache, config, device)
        known = _here.get(place.name) or atomic.read_json(place)
        if not isinstance(known, dict):
            known = _made(place, config, device) if make else {}
        _here[place.name] = known
        return dict(known)
    except Exception:  # a price tag never fails a run: a user's model, a full disk
        return {}


def _made(place: Path, config: RunConfig, device: str) -> Numbers:
    found = _estimated(config, device)
    make_folder(place.parent)
    atomic.write_json(place, found)
    return found


def _estimated(config: RunConfig, device: str) -> Numbers:
    from harness.cost import flops, memory

    try:
        sizes = shapes.of(config)
        work, peak = flops.training(config, sizes, device), memory.estimate(config, sizes, device)
    except (NotEstimatedError, UsageError):
        return {}
    return {
        "flops_per_step": work.per_step - work.optimizer,
        "optimizer_flops_per_step": work.optimizer,
        "state_bytes": peak.states,
        "estimated_peak_memory": peak.peak,
    }


def _place(cache: Path, config: RunConfig, device: str) -> Path:
    described = repr((run_class(config), device, environment.code_version()))
    return cache / "costs" / f"estimate-{hashlib.sha256(described.encode()).hexdigest()[:16]}.json"
