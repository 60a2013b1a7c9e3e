"""What the runs of a sweep cost that nothing has measured: counted, and priced on named processors.

Only the simulation of a class that is not known yet loads torch.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from harness import display
from harness.cost import estimate as costs
from harness.cost import kept
from harness.cost.estimate import Estimate, Offer
from harness.cost.gpus import Processor
from harness.cost.shapes import NotEstimatedError
from harness.display import Column
from harness.store import Store
from harness.store.layout import cache_folder
from sweeps.screens.cost_card import Row, Work


@dataclass(frozen=True)
class Priced:
    """Runs of one class, what one costs by estimate, and its time on each processor that was named."""

    work: Work
    found: Estimate
    offers: list[Offer]

    def to_json(self) -> dict[str, Any]:
        """Plain values of one run; times are in seconds, memory is in bytes."""
        kind, found = self.work.kind, self.found
        return {
            "task": kind.task,
            "model": kind.model,
            "optimizer": kind.optimizer,
            "runs": self.work.runs,
            "steps": found.steps,
            "parameters": found.work.parameters,
            "flops_per_step": found.training,
            "optimizer_flops_per_step": found.work.optimizer,
            "memory": asdict(found.memory) | {"peak": found.memory.peak},
            "offers": [
                {
                    **{"gpu": one.processor.name, "count": one.count, "seconds_per_step": one.step},
                    **{"seconds": one.seconds, "gpu_hours": one.gpu_hours},
                    **{"fits": one.fits, "basis": str(one.basis)},
                }
                for one in self.offers
            ],
        }


class Prices:
    """Estimates the rows of cost cards that have no cost.

    Args:
        store: of finished runs, and of what was simulated before.
        processors: for which times are wanted.
        simulate: whether classes are simulated that are not known, which takes some seconds each.
    """

    def __init__(self, store: Store, processors: Sequence[Processor], simulate: bool) -> None:
        self._processors, self._simulate = processors, simulate
        self._cache = cache_folder(store.root)
        self._records = [record for _, record in store.index.rows().values()] if processors else []

    def rows(self, rows: Iterable[Row]) -> list[Priced | None]:
        """One for each row; None for one that has a cost, or that can't be estimated."""
        return [self._priced(row.work) if row.cost is None else None for row in rows]

    def _priced(self, work: Work) -> Priced | None:
        config = work.config
        device = "cuda" if work.wants_gpu or self._on_gpu(config.device) else "cpu"
        try:
            if kept.find(config, self._cache, device) is None:
                if not self._simulate:
                    return None
                kind = work.kind
                print(f"htbench: counting {kind.task} {kind.model} {kind.optimizer} ...", file=sys.stderr)
            found = costs.estimate(config, self._cache, device)
        except NotEstimatedError as error:
            print(f"htbench: no estimate: {error}", file=sys.stderr)
            return None
        return Priced(work, found, [costs.offer(found, one, self._records) for one in self._processors])

    def _on_gpu(self, device: str) -> bool:
        """Whether `auto` means a GPU: the processors that were named say so."""
        return device == "auto" and any(not one.cpu for one in self._processors)


# --- on the screen ---

_COLUMNS = {
    "to run": Column(rank=0),
    "task": Column(words=True, least=6),
    "model": Column(words=True),
    "optimizer": Column(words=True, least=20),
    "on": Column(words=True),
    "GPU-hours": Column(rank=2),
    "all": Column(rank=3),
    "a run": Column(rank=4),
    "memory": Column(rank=5),
    "basis": Column(words=True, least=10, rank=6),
    "a step": Column(rank=7),
    "FLOP a step": Column(rank=8),
    "optimizer's": Column(rank=9),
    "params": Column(rank=10),
}


def table(priced: Sequence[tuple[Priced, str]]) -> str:
    """The estimates, at least one, each with its optimizer in words: a line for each of its processors."""
    head = ["to run", "task", "model", "optimizer", "params", "FLOP a step", "optimizer's", "memory"]
    times = ["on", "a step", "a run", "all", "GPU-hours", "basis"] if priced[0][0].offers else []
    rows: list[list[object]] = [[*head, *times]]
    for one, name in priced:
        found, kind = one.found, one.work.kind
        share = f"{found.work.optimizer / found.work.per_step:.1%}"
        start = [one.work.runs, kind.task, kind.model, name, display.count(found.work.parameters)]
        start += [f"{found.work.per_step:.3g}", share, display.memory(found.memory.peak)]
        rows += [[*start, *_times(one, offer)] for offer in one.offers] or [start]
    return display.aligned(rows, _COLUMNS, display.terminal_width())


def _times(one: Priced, offer: Offer) -> list[object]:
    runs, name = one.work.runs, offer.processor.name
    whole = None if offer.seconds is None else runs * offer.seconds
    hours = "-" if offer.gpu_hours is None else display.hours(runs * offer.gpu_hours)
    on = f"{offer.count} x {name}" if offer.count > 1 else name
    return [
        *(on, display.duration(offer.step), display.duration(offer.seconds), display.duration(whole)),
        *(hours, str(offer.basis)),
    ]


def sums(priced: Sequence[Priced]) -> list[str]:
    """GPU-hours of all estimated runs on each processor, and what they leave out."""
    lines = []
    for place, processor in enumerate(offer.processor for offer in (priced[0].offers if priced else [])):
        hours = [(one.work.runs, one.offers[place].gpu_hours) for one in priced]
        known = [runs * each for runs, each in hours if each is not None]
        rest = len(hours) - len(known)
        without = f", without {rest} of {len(hours)} lines, whose steps are not known" if rest else ""
        unit = "core-hours" if processor.cpu else "GPU-hours"
        lines.append(
            f"about {display.hours(sum(known))} {unit} on {processor.name} for what is estimated, "
            f"evaluations and starts not counted{without}"
        )
    return lines


def warnings(one: Priced) -> list[str]:
    """A sentence for each processor whose memory is too small for a run, or for all that share it."""
    needed, sharing = one.found.memory.peak, one.work.resources.runs_per_gpu
    crowded = [
        f"{sharing} runs that share a GPU need {display.memory(sharing * needed)} for their tensors, and "
        f"{offer.processor.name} has {display.memory(round(offer.processor.memory * 1e9))}; lower "
        f"runs_per_gpu"
        for offer in one.offers
        if offer.fits and sharing * needed > offer.processor.memory * 1e9
    ]
    return crowded + [
        f"a process needs {display.memory(needed)} for its tensors, and {offer.processor.name} has "
        f"{display.memory(round(offer.processor.memory * 1e9))}; lower micro_batch or set "
        f"activation_checkpointing=true"
        for offer in one.offers
        if offer.fits is False
    ]
