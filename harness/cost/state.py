"""Steps of a run's optimizer on fake tensors: its work, its state and its temporaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from harness.building.optimizer import build_optimizer
from harness.config import RunConfig
from harness.cost import fake
from harness.cost.ledger import Ledger, Tally
from harness.cost.shapes import Shapes

# Hyperparameters that are the period of a rule's dear steps.
PERIODS: Final = ("precondition_frequency", "update_gap", "interval")


@dataclass(frozen=True)
class Steps:
    """What a step of an optimizer takes for all parameters.

    Attributes:
        flops: by kind, as in `Tally`, the mean over a period.
        moved, calls: as in `Tally`, the mean over a period.
        state: bytes that the optimizer keeps from step to step.
        workspace: most bytes that a step needs besides weights, gradients and state.
        parameters: of the model.
        matrix: of these the numbers in parameters that the rule itself treats as matrices.
    """

    flops: Mapping[str, float]
    moved: float
    calls: float
    state: int
    workspace: int
    parameters: int
    matrix: int


def run(config: RunConfig, shapes: Shapes, device: str) -> Steps:
    """Make a few steps, with a period of two where the rule has one, so that both kinds of steps are seen."""
    place, mode, ledger = torch.device(device), FakeTensorMode(allow_non_fake_inputs=True), Ledger()
    model = fake.model(config, fake.task(config, shapes), mode, place)
    with mode, ledger:
        optimizer = build_optimizer(config, model)
        for p in model.parameters():
            p.grad = torch.empty_like(p)
        period = _shorten_periods(optimizer)
        ledger.follow(model.parameters())
        without = ledger.live
        tallies = []
        for number in range(4):
            with ledger.phase(f"step {number}") as tally:
                optimizer.step()
            tallies.append(tally)
    state = sum(storage.nbytes() for storage in set(_storages(optimizer.state)))
    cheap, dear = sorted(tallies[2:], key=lambda tally: tally.total)
    return Steps(
        _mean(cheap, dear, period),
        cheap.moved + (dear.moved - cheap.moved) / period,
        cheap.calls + (dear.calls - cheap.calls) / period,
        state,
        max(tally.peak for tally in tallies) - without - state,
        parameters=sum(p.numel() for p in model.parameters()),
        matrix=0,
    )


def _shorten_periods(optimizer: torch.optim.Optimizer) -> int:
    """Make the period of dear steps two, and return what it was."""
    found = 1
    for group in optimizer.param_groups:
        for name in PERIODS:
            if group.get(name, 1) > 1:
                found, group[name] = group[name], 2
    return found


def _mean(cheap: Tally, dear: Tally, period: int) -> dict[str, float]:
    rest: Counter[str] = Counter(cheap.flops)
    return {
        kind: rest[kind] + (dear.flops[kind] - rest[kind]) / period
        for kind in rest.keys() | dear.flops.keys()
    }


def _storages(value: Any) -> Iterator[Any]:
    if isinstance(value, Tensor):
        yield value.untyped_storage()
    elif isinstance(value, Mapping | list | tuple):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _storages(part)
    elif hasattr(value, "__dict__"):
        yield from _storages(vars(value))
