"""A row of a table as the judge takes it: values on the scale of the comparison, its search, its test items.

Perplexities are compared by their logarithm, so that differences are ratios; accuracies as shares.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from htbench.harness.choice import parabola
from htbench.harness.show.status import Status
from htbench.harness.store import Store, items
from htbench.harness.store.items import TestItems
from htbench.results.compare import judge
from htbench.results.compare.edges import find_candidates_along, find_edges
from htbench.results.compare.items import Items
from htbench.results.compare.select import Candidate, Choice, Row
from htbench.results.compare.summary import finite_values
from htbench.results.compare.to_target import Seeds, read_seeds
from htbench.results.compare.tuning import Search, Setting
from htbench.results.frames.metrics import Metric, is_missing

_RATES = ("lr", "aux_lr")  # settings along which losses are fitted


def make_judge_row(
    name: str,
    values: Mapping[Seeds, float],
    metric: Metric,
    runs: Sequence[Row],
    choice: Choice | None,
    store: Store | None,
) -> judge.Row | None:
    """What the judge takes of a row; None without a value.

    Args:
        name: of the row.
        values: by (seed, data_seed), in the printed unit.
        metric: of the values.
        runs: of the row. Those without a value, such as one that diverged, say nothing of the test items.
        choice: what was selected; None: nothing was.
        store: where the test items are; None: they are not known.
    """
    if not values:
        return None
    behind = [run for run in runs if run["state"] == Status.COMPLETED and read_seeds(run) in values]
    scored, missing = (None, 0) if store is None else _read_items(behind, metric, store)
    counts = finite_values(behind, "test_samples") if metric.is_share else []
    return judge.Row(
        name,
        {seed: metric.on_scale(value / metric.scale) for seed, value in values.items()},
        None if choice is None else _find_search(choice, metric),
        scored,
        int(min(counts)) if counts and len(counts) == len(behind) else None,
        missing,
        frozenset(filter(None, map(_read_digest, behind))),
    )


def _read_digest(run: Row) -> str:
    """Which items of the test split a run was scored on; empty if it kept none."""
    digest = run.get("items_digest")
    return "" if is_missing(digest) else str(digest)


def _find_search(choice: Choice, metric: Metric) -> Search | None:
    """The settings with a validation result; None if they have none of this metric."""
    settings = []
    for candidate in choice.candidates:
        rate: Any = candidate.runs[0].get("lr")
        has_octave = choice.axes == ["lr"] and rate is not None and rate > 0  # nothing else was searched
        if values := _list_levels(candidate, metric):
            settings.append(Setting(candidate.name, values, math.log2(rate) if has_octave else None))
    if choice.winner is None or all(setting.name != choice.winner.name for setting in settings):
        return None
    again = [metric.on_scale(value) for value in finite_values(choice.replicas, f"val_{metric.name}")]
    return Search(settings, choice.winner.name, statistics.fmean(again) if again else None)


def _list_levels(candidate: Candidate, metric: Metric) -> list[float]:
    """The validation results of a setting on the scale of the comparison; none if it can't win."""
    values = finite_values(candidate.runs, f"val_{metric.name}") if candidate.score is not None else []
    return list(map(metric.on_scale, values))


def _read_items(runs: Sequence[Row], metric: Metric, store: Store) -> tuple[Items | None, int]:
    """Losses or right answers by run and item, and how many runs have lost them.

    None unless all runs were scored on the same items.
    """
    records = [store.record(str(run["key"])) for run in runs if _read_digest(run)]
    if not records or len(records) < len(runs):
        return None, 0
    import numpy as np

    results = [record and items.read(store.files(record.key), record) for record in records]
    sound = [result for result in results if isinstance(result, TestItems)]
    missing = len(results) - len(sound)
    if missing or len({scored.digest for scored in sound}) > 1:
        return None, missing
    if metric.is_share:
        right = [scored.correct for scored in sound if scored.correct is not None]
        scored = Items(np.array(right, float), np.ones(len(right[0])), sound[0].clusters) if right else None
        return scored, missing
    if not metric.is_log:
        return None, missing
    texts = [scored.by_document() for scored in sound]  # which a compact record has only
    weights, total = texts[0].counts.astype(float), records[0].test_items if records[0] else 0
    return Items(np.array([text.sums for text in texts]), weights, texts[0].clusters, total), missing


def list_setting_values(choice: Choice, metric: Metric) -> list[float]:
    """The validation results of all settings with a run that has ended, on the scale of the comparison.

    One that diverged, or was pruned, is infinitely bad.
    """
    worst = -math.inf if metric.higher_is_better else math.inf
    results = [(_list_levels(setting, metric), setting.state.has_ended) for setting in choice.candidates]
    return [statistics.fmean(levels) if levels else worst for levels, ended in results if levels or ended]


def estimate_gains(choice: Choice, metric: Metric) -> dict[str, float | None]:
    """How much better a row might get on validation beyond each edge, or in each hole, beside its optimum.

    A parabola over the rates tells it where they span three octaves, with all else as chosen: the distance
    from the chosen setting to the lower end of the interval of the least loss.

    Returns:
        by column, on the scale of the comparison; None: nobody knows. Legal ends of a setting are no edges.
    """
    if choice.winner is None:
        return {}
    gains: dict[str, float | None] = {}
    for column, beside in find_edges(choice, choice.axes).items():
        if all(edge.following is None for edge in beside):
            continue
        sign = -1 if metric.higher_is_better else 1
        near = find_candidates_along(choice, column) if column in _RATES else []
        levels = {
            float(candidate.value(column)): sign * statistics.fmean(values)
            for candidate in near
            if candidate.value(column) and (values := _list_levels(candidate, metric))
        }
        fit = parabola.fit(levels)
        gains[column] = None if fit is None else max(0.0, levels[beside[0].value] - fit.least)
    return gains
