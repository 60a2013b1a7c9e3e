"""What the runs of a sweep cost that nothing has measured: counted, and priced on named processors.

Only the simulation of a class that is not known yet loads torch.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from harness.cost import estimate as costs
from harness.cost import kept
from harness.cost.estimate import RunCost
from harness.cost.gpus import Processor
from harness.cost.shapes import NotEstimatedError
from harness.show.emit import say
from harness.show.note import Note
from harness.show.numbers import worked
from harness.store import Store
from harness.store.layout import cache_folder
from sweeps.screens.cost_card import SHORT, Row, Work


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

    def rows(self, rows: Iterable[Row]) -> list[Row]:
        """The rows, with an estimate where there is no cost."""
        return [
            row if row.cost or row.why == SHORT else replace(row, estimate=self._estimate(row.work))
            for row in rows
        ]

    def _estimate(self, work: Work) -> RunCost | None:
        config, kind = work.config, work.kind
        # The processors that were named say whether `auto` means a GPU.
        on_gpu = config.device == "auto" and any(not processor.cpu for processor in self._processors)
        device = "cuda" if work.wants_gpu or on_gpu else "cpu"
        try:
            if kept.find(config, self._cache, device) is None:
                if not self._simulate:
                    return None
                counting = Note("counting", task=kind.task, model=kind.model, optimizer=kind.optimizer)
                say(counting)
            cost = costs.estimate(config, self._cache, device)
        except NotEstimatedError as error:
            say(Note("no_estimate", error=str(error)))
            return None
        offers = [costs.offer(cost, one, self._records) for one in self._processors]
        return RunCost.of(cost, offers)


def sums(rows: Iterable[Row]) -> list[Note]:
    """GPU-hours of all estimated runs on each processor, and what they leave out."""
    notes = []
    offered = [[(row.work.runs, offer) for offer in row.estimate.offers] for row in rows if row.estimate]
    for offers in zip(*offered, strict=True):
        offer = offers[0][1]
        hours = [(runs, own.gpu_hours) for runs, own in offers]
        known = [runs * of_a_run for runs, of_a_run in hours if of_a_run is not None]
        notes.append(
            Note(
                "hours_estimated",
                time=worked(sum(known), "core" if offer.cpu else "GPU"),
                processor=offer.gpu,
                unknown=len(hours) - len(known),
                lines=len(hours),
            )
        )
    return notes


def warnings(row: Row) -> list[Note]:
    """A note for each processor whose memory is too small for an estimated run, or for all that share it."""
    if row.estimate is None:
        return []
    needed, sharing = row.estimate.memory.peak, row.work.resources.runs_per_gpu
    crowded = [
        Note("runs_share_gpu", runs=sharing, needed=sharing * needed, gpu=offer.gpu, memory=offer.memory)
        for offer in row.estimate.offers
        if offer.fits and sharing * needed > offer.memory
    ]
    return crowded + [
        Note("tensors_do_not_fit", needed=needed, gpu=offer.gpu, memory=offer.memory)
        for offer in row.estimate.offers
        if offer.fits is False
    ]
