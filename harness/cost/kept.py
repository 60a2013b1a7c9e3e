"""What a step of a class of runs works and holds: simulated once, then kept in `cache/costs/`. Torch-free.

Only the simulation itself loads torch.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypedDict

from harness.config import RunConfig
from harness.cost import flops, memory, shapes
from harness.cost.flops import TrainingFlops
from harness.cost.memory import Memory
from harness.cost.run_class import run_class
from harness.system import atomic, environment, typed
from harness.system.folders import make_folder


@dataclass(frozen=True)
class Simulated:
    """What is known of the runs of a class without a run.

    Attributes:
        work: of a step, over all processes.
        memory: of one process.
        note: what was assumed; empty if nothing.
    """

    work: TrainingFlops
    memory: Memory
    note: str


class _File(TypedDict):
    work: dict[str, Any]
    memory: dict[str, Any]
    note: str


_here: dict[str, Simulated] = {}


def find(config: RunConfig, cache: Path, device: str) -> Simulated | None:
    """What was simulated of the run's class by this code before.

    Args:
        config: of the run.
        cache: folder of prepared data and measured costs.
        device: "cpu" or "cuda", where optimizers may work otherwise.
    """
    place = _place(cache, config, device)
    if place.name not in _here:
        found = _read(atomic.read_json(place))
        if found is None:
            return None
        _here[place.name] = found
    return _here[place.name]


def make(config: RunConfig, cache: Path, device: str) -> Simulated:
    """Find or simulate, which takes up to a few seconds; kept if `cache` exists. Arguments as in `find`.

    Raises:
        NotEstimatedError: the model or the optimizer does not work on tensors without memory.
    """
    known = find(config, cache, device)
    if known is not None:
        return known
    sizes = shapes.of(config)
    work, held = flops.training(config, sizes, device), memory.estimate(config, sizes, device)
    found = Simulated(work, held, sizes.note)
    place = _place(cache, config, device)
    _here[place.name] = found
    _keep(place, found)
    return found


def _keep(place: Path, found: Simulated) -> None:
    """Note it for other processes, unless there is no store yet or it can't be written to."""
    if not place.parent.parent.is_dir():
        return
    try:
        make_folder(place.parent)
        atomic.write_json(place, asdict(found))
    except Exception:  # a read-only store, a full disk: it is simulated again next time
        return


def _read(value: Any) -> Simulated | None:
    if not typed.fits(_File, value):  # no file, or that of other code
        return None
    work, memory = typed.made(TrainingFlops, value["work"]), typed.made(Memory, value["memory"])
    return Simulated(work, memory, value["note"]) if work is not None and memory is not None else None


def _place(cache: Path, config: RunConfig, device: str) -> Path:
    described = repr((run_class(config), device, environment.code_version()))
    return cache / "costs" / f"estimate-{hashlib.sha256(described.encode()).hexdigest()[:16]}.json"


def for_record(config: RunConfig, cache: Path, device: str) -> dict[str, float]:
    """What the estimate adds to a record; empty if the model or the optimizer can't be counted.

    Whether a record has it depends on the class of the run and not on how long it took, so that two machines
    give the same tables. The first run of a class in a store waits 0.2 to 0.5 s for it (docs/cost.md).

    `flops_per_step`: of forward and backward pass, and of what is computed again. `optimizer_flops_per_step`.
    `state_bytes`: that the optimizer keeps, and `estimated_peak_memory`: of all tensors, in one process.

    Args:
        config, cache, device: as in `find`.
    """
    try:
        found = make(config, cache, device)
    except Exception:  # a price tag never fails a run, whatever a user's model does
        return {}
    return {
        "flops_per_step": found.work.per_step - found.work.optimizer,
        "optimizer_flops_per_step": found.work.optimizer,
        "state_bytes": found.memory.states,
        "estimated_peak_memory": found.memory.peak,
    }
