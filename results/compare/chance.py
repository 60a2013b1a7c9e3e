"""Whether a row has learned anything: its answers beside guesses, its loss beside the untrained one."""

import math
import statistics
from collections.abc import Sequence

from htbench.harness.show.note import Note
from htbench.harness.store import Store, curve
from htbench.results.compare.select import Row
from htbench.results.compare.summary import finite_values
from htbench.results.frames.metrics import Metric, describe_task

_ERRORS = 2  # standard errors of a share of answers by chance
_FALL = 0.01  # of the untrained loss: less than that is nothing


def note_learned_nothing(runs: Sequence[Row], metric: Metric, store: Store | None = None) -> tuple[Note, ...]:
    """The footnote to a row that has learned nothing; none if it has, or if nobody knows.

    A share of right answers is held against guesses, where the task says among how many classes; a loss
    against that of the untrained model, else against that of the first batch.

    Args:
        runs: those that are reported.
        metric: by which runs are chosen.
        store: where their curves are; None: they are not known.
    """
    values = list(map(metric.on_scale, finite_values(runs, f"test_{metric.name}")))
    if values and metric.is_share and (count := describe_task(runs).classes):
        items = min(finite_values(runs, "test_samples"), default=math.inf)
        limit = (1 + _ERRORS * math.sqrt((count - 1) / items)) / count
        return (Note("at_chance", classes=count),) if statistics.fmean(values) <= limit else ()
    if values and metric.is_log:
        loss, untrained = statistics.fmean(values), finite_values(runs, "untrained_val_loss")
        if not untrained and store is not None:
            first = curve.head(store.files(str(runs[0]["key"])).metrics)
            untrained = [row["loss"] for row in first if row["step"] == 1 and row.get("loss") is not None]
        if untrained and loss > (1 - _FALL) * statistics.fmean(untrained):
            return (Note("as_untrained", loss=loss, untrained=statistics.fmean(untrained)),)
    return ()
