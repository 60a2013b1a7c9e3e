"""A row of a table as the judge takes it: values on the scale of the comparison, its search, its test items.

Perplexities are compared by their logarithm, so that differences are ratios; accuracies as shares.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.choice import parabola
from harness.store import Store, items
from harness.store.items import TestItems
from results.compare import judge
from results.compare.edges import edges
from results.compare.items import Items
from results.compare.select import Choice, Row
from results.compare.summary import finite_values
from results.compare.to_target import Seeds
from results.compare.tuning import Search, Setting
from results.frames.metrics import Metric, is_missing

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
    count: int | None = None,
    choice: Choice | None = None,
    store: Store | None = None,
) -> Contender | None:
    """What the judge takes of a row; None without a value.

    Args:
        name: of the row.
        values: by (seed, data_seed), in the printed unit.
        metric: of the values.
        runs: those behind the values.
        count: test items of a share; None: not known.
        choice: what was selected; None: nothing was.
        store: where the test items are; None: they are not known.
    """
    if not values:
        return None
    scored, lost = (None, 0) if store is None else _items(runs, metric, store)
    scale = {seeds: metric.on_scale(value / metric.scale) for seeds, value in values.items()}
    search = None if choice is None else _search(choice, metric)
    scored_on = frozenset(str(run["items_digest"]) for run in runs if not is_missing(run.get("items_digest")))
    return Contender(judge.Row(name, scale, search, scored, count), lost, scored_on - {""})


def _search(choice: Choice, metric: Metric) -> Search | None:
    """The settings with a validation result; None if they have none of this metric."""
    if choice.winner is None:
        return None
    levels = {
        own.name: finite_values(own.runs, f"val_{metric.name}")
        for own in choice.candidates
        if own.score is not None
    }
    settings = [
        Setting(
            own.name, list(map(metric.on_scale, levels[own.name])), _octave(own.runs[0].get("lr"), choice)
        )
        for own in choice.candidates
        if levels.get(own.name)
    ]
    if not levels.get(choice.winner.name):
        return None
    again = [metric.on_scale(value) for value in finite_values(choice.replicas, f"val_{metric.name}")]
    return Search(settings, choice.winner.name, statistics.fmean(again) if again else None)


def _octave(rate: float | None, choice: Choice) -> float | None:
    """Of a learning rate, where nothing else was searched."""
    return math.log2(rate) if choice.axes == ["lr"] and rate is not None and rate > 0 else None


def _items(runs: Sequence[Row], metric: Metric, store: Store) -> tuple[Items | None, int]:
    """Losses or right answers by run and item, and how many runs have lost them.

    None unless all runs were scored on the same items.
    """
    keys = [
        str(run["key"]) for run in runs if not is_missing(run.get("items_digest")) and run["items_digest"]
    ]
    records = [own for key in keys if (own := store.record(key)) is not None]
    if not runs or len(records) < len(runs):
        return None, 0
    import numpy as np

    read = [items.read(store.files(own.key), own) for own in records]
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
    sums = np.array([own.sums for own in kept], float)
    return Items(sums, kept[0].counts.astype(float), kept[0].clusters), lost


def settings_of(choice: Choice, metric: Metric) -> list[float]:
    """The validation results of all settings with a run that has ended, on the scale of the comparison.

    One that diverged, or was pruned, is infinitely bad.
    """
    worst = -math.inf if metric.higher_is_better else math.inf
    levels = []
    for own in choice.candidates:
        values = finite_values(own.runs, f"val_{metric.name}") if own.score is not None else []
        if values:
            levels.append(sum(map(metric.on_scale, values)) / len(values))
        elif own.state.has_ended:
            levels.append(worst)
    return levels


def reach(choice: Choice, metric: Metric) -> dict[str, float | None]:
    """How much better a row might get on validation beyond each edge at which its optimum lies.

    A parabola over the rates tells it where they span three octaves, with all else as chosen: the distance
    from the chosen setting to the lower end of the interval of the least loss.

    Returns:
        by column, on the scale of the comparison; None: nobody knows. Legal ends of a setting are no edges.
    """
    if choice.winner is None:
        return {}
    found: dict[str, float | None] = {}
    for column, edge in edges(choice, choice.axes).items():
        if edge.following is None:
            continue
        levels = _along(choice, column, metric) if column in _RATES else {}
        fit = parabola.fit(levels)
        found[column] = None if fit is None else max(0.0, levels[edge.value] - fit.least)
    return found


def _along(choice: Choice, column: str, metric: Metric) -> dict[float, float]:
    """The validation levels by rate, the lower the better, of the candidates with all else as chosen."""
    assert choice.winner is not None
    chosen, sign = choice.winner, -1 if metric.higher_is_better else 1
    others = [name for name in choice.axes if name != column]
    levels: dict[float, float] = {}
    for own in choice.candidates:
        values = finite_values(own.runs, f"val_{metric.name}")
        alike = all(_same(own.value(name), chosen.value(name)) for name in others)
        if alike and values and own.score is not None and own.value(column):
            mean = sum(map(metric.on_scale, values)) / len(values)
            levels[float(own.value(column))] = sign * mean
    return levels


def _same(a: object, b: object) -> bool:
    return a == b or (is_missing(a) and is_missing(b))
