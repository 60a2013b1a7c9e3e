"""A row of a table as the judge takes it: values on the scale of the comparison, its search, its test items.

Perplexities are compared by their logarithm, so that differences are ratios; accuracies as shares.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from htbench.harness.choice import parabola
from htbench.harness.show.status import Status
from htbench.harness.store import Store, items
from htbench.harness.store.items import TestItems
from htbench.results.compare import judge
from htbench.results.compare.edges import along, edges
from htbench.results.compare.items import Items
from htbench.results.compare.select import Candidate, Choice, Row
from htbench.results.compare.summary import finite_values
from htbench.results.compare.to_target import Seeds, seeds
from htbench.results.compare.tuning import Search, Setting
from htbench.results.frames.metrics import Metric, is_missing

_RATES = ("lr", "aux_lr")  # settings along which losses are fitted


@dataclass(frozen=True)
class Contender:
    """A row for the judge.

    Attributes:
        row: as the judge takes it.
        lost: how many of its runs have test items that are damaged or gone, though the record names them.
        scored_on: which items its runs were scored on, by their digests. Other ones can't be compared.
    """

    row: judge.Row
    lost: int = 0
    scored_on: frozenset[str] = frozenset()


def contender(
    name: str,
    values: Mapping[Seeds, float],
    metric: Metric,
    runs: Sequence[Row],
    questions: str = "",
    choice: Choice | None = None,
    store: Store | None = None,
) -> Contender | None:
    """What the judge takes of a row; None without a value.

    Args:
        name: of the row.
        values: by (seed, data_seed), in the printed unit.
        metric: of the values.
        runs: of the row. Those without a value, such as one that diverged, say nothing of the test items.
        questions: the column with the number of test items behind a share; empty: it is none.
        choice: what was selected; None: nothing was.
        store: where the test items are; None: they are not known.
    """
    if not values:
        return None
    behind = [run for run in runs if run["state"] == Status.COMPLETED and seeds(run) in values]
    scored, lost = (None, 0) if store is None else _items(behind, metric, store)
    counts = finite_values(behind, questions) if questions else []
    row = judge.Row(
        name,
        {own: metric.on_scale(value / metric.scale) for own, value in values.items()},
        None if choice is None else _search(choice, metric),
        scored,
        int(min(counts)) if counts and len(counts) == len(behind) else None,
    )
    return Contender(row, lost, frozenset(filter(None, map(_digest, behind))))


def _digest(run: Row) -> str:
    """Which items of the test split a run was scored on; empty if it kept none."""
    found = run.get("items_digest")
    return "" if is_missing(found) else str(found)


def _search(choice: Choice, metric: Metric) -> Search | None:
    """The settings with a validation result; None if they have none of this metric."""
    levels = {own.name: _levels(own, metric) for own in choice.candidates}
    if choice.winner is None or not levels[choice.winner.name]:
        return None
    settings = [
        Setting(own.name, levels[own.name], _octave(own.runs[0].get("lr"), choice))
        for own in choice.candidates
        if levels[own.name]
    ]
    again = [metric.on_scale(value) for value in finite_values(choice.replicas, f"val_{metric.name}")]
    return Search(settings, choice.winner.name, statistics.fmean(again) if again else None)


def _levels(candidate: Candidate, metric: Metric) -> list[float]:
    """The validation results of a setting on the scale of the comparison; none if it can't win."""
    values = finite_values(candidate.runs, f"val_{metric.name}") if candidate.score is not None else []
    return list(map(metric.on_scale, values))


def _octave(rate: float | None, choice: Choice) -> float | None:
    """Of a learning rate, where nothing else was searched."""
    return math.log2(rate) if choice.axes == ["lr"] and rate is not None and rate > 0 else None


def _items(runs: Sequence[Row], metric: Metric, store: Store) -> tuple[Items | None, int]:
    """Losses or right answers by run and item, and how many runs have lost them.

    None unless all runs were scored on the same items.
    """
    records = [store.record(str(run["key"])) for run in runs if _digest(run)]
    if not records or len(records) < len(runs):
        return None, 0
    import numpy as np

    read = [items.read(store.files(own.key), own) if own is not None else None for own in records]
    kept = [own for own in read if isinstance(own, TestItems)]
    lost = len(read) - len(kept)
    if lost or len({own.digest for own in kept}) > 1:
        return None, lost
    if metric.is_share:
        right = [own.correct for own in kept if own.correct is not None]
        scored = Items(np.array(right, float), np.ones(len(right[0])), kept[0].clusters) if right else None
        return scored, lost
    if not metric.is_log:
        return None, lost
    texts = [own.by_document() for own in kept]  # which a compact record has only
    weights, total = texts[0].counts.astype(float), records[0].test_items if records[0] else 0
    return Items(np.array([own.sums for own in texts]), weights, texts[0].clusters, total), lost


def settings_of(choice: Choice, metric: Metric) -> list[float]:
    """The validation results of all settings with a run that has ended, on the scale of the comparison.

    One that diverged, or was pruned, is infinitely bad.
    """
    worst = -math.inf if metric.higher_is_better else math.inf
    found = [(_levels(own, metric), own.state.has_ended) for own in choice.candidates]
    return [statistics.fmean(levels) if levels else worst for levels, ended in found if levels or ended]


def reach(choice: Choice, metric: Metric) -> dict[str, float | None]:
    """How much better a row might get on validation beyond each edge, or in each hole, beside its optimum.

    A parabola over the rates tells it where they span three octaves, with all else as chosen: the distance
    from the chosen setting to the lower end of the interval of the least loss.

    Returns:
        by column, on the scale of the comparison; None: nobody knows. Legal ends of a setting are no edges.
    """
    if choice.winner is None:
        return {}
    found: dict[str, float | None] = {}
    for column, beside in edges(choice, choice.axes).items():
        if all(edge.following is None for edge in beside):
            continue
        sign = -1 if metric.higher_is_better else 1
        near = along(choice, column) if column in _RATES else []
        levels = {
            float(own.value(column)): sign * statistics.fmean(values)
            for own in near
            if own.value(column) and (values := _levels(own, metric))
        }
        fit = parabola.fit(levels)
        found[column] = None if fit is None else max(0.0, levels[beside[0].value] - fit.least)
    return found
