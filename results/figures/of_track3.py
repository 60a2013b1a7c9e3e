"""The frame of the figure `track3`: what results of the nanoGPT benchmark reach, against seed spread."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from harness.show.note import Note
from results.compare.stats import MIN_SEEDS, Summary, summarize
from results.compare.view import Side
from results.figures.kinds import BAND, KINDS, POINT, PUBLISHED, SHOWN, About, Panel, Row, tidy, worst_shown
from results.track3 import verdicts
from results.track3.recomputed import Result, Spread, committed, pooled


def track3(view: Side) -> list[Panel]:
    """Two panels, of results with three runs or more; none unless published numbers alone are asked for."""
    return panels(committed()) if view.asked else []


def panels(results: Sequence[Result]) -> list[Panel]:
    """Loss at the last step that most results have, and published steps to 3.28.

    Args:
        results: the benchmark's.
    """
    found = zip(results, verdicts.below_target(results), strict=True)
    shown = {one.published.number: verdict.ours == "below" for one, verdict in found}
    several = [result for result in results if len(result.runs) >= MIN_SEEDS]
    step = common_step(several)
    losses = [[float(run.losses[step]) for run in one.runs if step in run.losses] for one in several]
    pairs = zip(several, losses, strict=True)
    at_step = [(one, summarize(own), None) for one, own in pairs if len(own) >= MIN_SEEDS]
    judged = [one for one in several if one.is_judged]
    to_target = [(one, one.summary, float(one.published.steps)) for one in judged if one.summary is not None]
    return [
        _panel(f"(a) Loss at step {step}", f"validation loss at step {step}", at_step, shown),
        _panel("(b) Steps to 3.28", "published steps to 3.28", to_target, shown),
    ]


def common_step(results: Sequence[Result]) -> int:
    """The step at which most results have a loss of every run, the last one if there are several."""
    counts = Counter(
        step for one in results for step in set.intersection(*(set(run.losses) for run in one.runs))
    )
    most = max(counts.values())
    return max(step for step, count in counts.items() if count == most)


def _panel(
    title: str, y_label: str, points: Sequence[tuple[Result, Summary, float | None]], shown: dict[int, bool]
) -> Panel:
    """A result is placed by the losses of its runs; y is their mean if it is not given."""
    x_label = KINDS["spreads"].x
    rows, heights = [], []
    for result, losses, y in points:
        number, own = result.published.number, pooled([losses])
        place = (losses.mean, losses.std) if y is None else (y, None)
        heights.append(place[0])
        role, interval = SHOWN if shown[number] else POINT, (own.low, own.high)
        row = Row(y_label, str(number), own.sd, *place, n=losses.n, source=PUBLISHED, role=role)
        rows.append(replace(row, text=str(number), x_range=interval))
        rows.append(_spread(x_label, str(number), own, losses.n, role=""))
    shared = pooled([Summary(0.0, losses.std, losses.n) for _, losses, _ in points])
    rows.append(_spread(x_label, "pooled", shared, sum(losses.n for _, losses, _ in points), role=BAND))
    limit = worst_shown(heights, higher_is_better=False)
    of = About(title, facts=(Note("several_runs", results=len(points), runs=MIN_SEEDS),))
    level = verdicts.ASSUMED_SD
    return Panel("spreads", of, tidy(rows), x_label, y_label, worst_shown=limit, level=level)


def _spread(quantity: str, series: str, one: Spread, n: int, role: str) -> Row:
    return Row(quantity, series, "", one.sd, None, one.low, one.high, n, PUBLISHED, role=role)
