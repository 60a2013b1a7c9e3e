"""The frames of our runs, a panel per workload: quality against settings, cost, seeds, steps to a target."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from htbench.harness.choice.rates import rate_width as width_of
from htbench.harness.show.note import Note, text
from htbench.harness.store import Store
from htbench.harness.store.points import REPLICATE, SEARCH
from htbench.results.compare.contender import list_setting_values
from htbench.results.compare.edges import find_candidates_along
from htbench.results.compare.select import OPTIMIZER, WORKLOAD, Choice, choose, find_searched_columns
from htbench.results.compare.select import Row as Run
from htbench.results.compare.stats import Summary, summarize
from htbench.results.compare.summary import finite_values, metric_summary
from htbench.results.compare.to_target import (
    estimate_seconds,
    find_steps_to,
    find_targets,
    read_evaluations,
    read_seeds,
)
from htbench.results.compare.winners import Winner, format_span, winners, winners_along
from htbench.results.compare.workloads import expected_best
from htbench.results.figures import kinds
from htbench.results.figures.kinds import About, Panel, Row, find_worst_shown, tidy
from htbench.results.figures.style import display_name
from htbench.results.frames.columns import TOTAL_FLOPS
from htbench.results.frames.metrics import Metric, is_missing, published_target, reported, within
from htbench.results.frames.provenance import timings
from htbench.results.frames.rows import Frame, Rows, parts

_REFERENCE = "muon"
_INTERVAL = "interval"
_SECONDS = {"seconds": 1.0, "minutes": 60.0, "hours": 3600.0}
_OPERATIONS = {"GFLOP": 1e9, "TFLOP": 1e12, "PFLOP": 1e15, "EFLOP": 1e18}
_READABLE = 10  # the smallest of all values is at least so many of a unit, unless it is the first one
TIME = "useful_seconds"
# Column of the frame -> what it is, and its units. Others' records lack the second.
COSTS = {TIME: ("training time", _SECONDS), TOTAL_FLOPS: ("operations of model and optimizer", _OPERATIONS)}
TOLERANCES = (0.05, 0.01)  # shares of the best value, the wider range first
_FEWEST = 3  # evaluations of a run; with fewer, a line between two of them says nothing
_ENDED = ("completed", "diverged", "pruned")  # states of runs whose curve does not go on


def describe_workload(part: Rows, split: str = "", reported_winners: Sequence[Winner] = ()) -> About:
    """The workload, what is fixed in it, and how much is still to come.

    Args:
        part: its rows.
        split: of its metric: "test" or "validation"; empty if the panel has another quantity.
        reported_winners: what is reported of it, by seeds and chosen among settings.
    """
    task, model, setting = (str(part[0][name]) for name in WORKLOAD)
    searches = (run for run in part if run["stage"] == SEARCH)
    to_come = len({run["key"] for run in searches if run["state"] in ("waiting", "running")})
    notes = [text(setting)] if setting else []
    notes += [Note("runs_to_come", runs=to_come)] if to_come else []
    return About(
        f"{task} · {model}",
        family=task,
        metric=f"{split} {reported(part)[0].label}" if split else "",
        tried=[winner.choice.tried for winner in reported_winners],
        fresh=all(run["stage"] == REPLICATE for winner in reported_winners for run in winner.runs),
        facts=tuple(notes),
    )


def choose_unit(units: Mapping[str, float], least: float) -> tuple[str, float]:
    """The largest unit in which all values of an axis can be read, and its size.

    Args:
        units: name -> size, ascending.
        least: the smallest value of the axis.
    """
    fitting = [(name, size) for name, size in units.items() if least >= _READABLE * size]
    return fitting[-1] if fitting else next(iter(units.items()))


# --- the validation metric against a setting ---


def lr_curve(frame: Frame, _: Store) -> list[Panel]:
    """The validation metric against lr: per optimizer and lr the best of everything else, p among it."""
    workloads = parts(frame, WORKLOAD)
    with_rates = [part for part in workloads if not all(is_missing(run.get("lr")) for run in part)]
    return [_plot_along(part, "lr", "rates") for part in with_rates]


def p_curve(frame: Frame, _: Store) -> list[Panel]:
    """The validation metric against p at each p's best lr, beside Muon's, where p was searched."""
    with_powers = (
        part for part in parts(frame, WORKLOAD) if "p" in part[0] and find_searched_columns(part, ["p"])
    )
    return [_plot_along(part, "p", "powers") for part in with_powers]


def best_of_k(frame: Frame, _: Store) -> list[Panel]:
    """The best validation metric to expect of k settings, drawn from those that were tried, by optimizer.

    Optimizers with few settings end early. A setting that diverged is one of those drawn, and never the best.
    """
    panels = []
    for part in parts(frame, WORKLOAD):
        metric, rows = reported(part)[0], list[Row]()
        label, better = f"validation {metric.label}", metric.higher_is_better
        for choice in choose(part, OPTIMIZER):
            levels = list_setting_values(choice, metric)
            if len(levels) < 2 or all(map(math.isinf, levels)):
                continue
            name = str(choice.fixed["optimizer"])
            keys = tuple(str(run["key"]) for candidate in choice.candidates for run in candidate.runs)
            blank = Row(label, name, "", None, n=len(levels), optimizer=name, keys=keys)
            for k in range(1, len(levels) + 1):
                best = expected_best(levels, k, higher_is_better=better)
                rows += [replace(blank, x=k, y=metric.printed(best))] if math.isfinite(best) else []
        if rows:
            about = describe_workload(part, "validation")
            panel = Panel("budgets", about, tidy(rows), y_label=label, higher_is_better=better)
            panels.append(replace(panel, y_log=True) if metric.is_log else panel)
    return panels


def _plot_along(part: Rows, axis: str, kind: str) -> Panel:
    """The validation metric of each optimizer against one of its settings, the others at their best."""
    metric, rows = reported(part)[0], list[Row]()
    overall = {str(choice.fixed["optimizer"]): choice for choice in choose(part, OPTIMIZER)}
    on_axis = [run for run in part if not is_missing(run[axis]) and run["optimizer"] in overall]
    for runs in parts(on_axis, ["optimizer"]):
        if axis != "lr" and not find_searched_columns(runs, [axis]):
            continue
        name = str(runs[0]["optimizer"])
        winner = overall[name].winner
        best_x = winner.value(axis) if winner else None
        choices = {float(choice.fixed[axis]): choice for choice in choose(runs, (*OPTIMIZER, axis))}
        for x in sorted(choices):
            if best := _best_row(choices[x], metric):
                rows.append(replace(best, x=x, role=kinds.CHOSEN if x == best_x else kinds.POINT))
        blank = Row(f"validation {metric.label}", name, "", None, optimizer=name, role=kinds.DIVERGED)
        rows += [replace(blank, x=x) for x in sorted(choices) if choices[x].state == "diverged"]
    muon = overall.get(_REFERENCE)
    if axis == "p" and muon and (best := _best_row(muon, metric)):  # it has no such axis: a line
        series = f"{display_name(_REFERENCE)}, best lr"
        rows.append(replace(best, series=series, y_sd=None, n=None, role=kinds.LEVEL))
    about = describe_workload(part, "validation")
    about = replace(about, seeds=[row.n for row in rows if row.n], fresh=False)
    return Panel(kind, about, tidy(rows), y_label=about.metric, higher_is_better=metric.higher_is_better)


def _best_row(choice: Choice, metric: Metric) -> Row | None:
    """The winner's validation metric as printed, over its search seeds."""
    summary = metric_summary(choice.winner.runs, "val", metric) if choice.winner else None
    if choice.winner is None or summary is None:
        return None
    name, keys = str(choice.fixed["optimizer"]), tuple(str(run["key"]) for run in choice.winner.runs)
    label = f"validation {metric.label}"
    return Row(label, name, "", summary.mean, summary.std, n=summary.n, keys=keys, optimizer=name)


# --- cost ---


def pareto(frame: Frame, _: Store) -> list[Panel]:
    """Per workload the test metric against time, and against operations if its records have them.

    An optimizer whose interval was searched has a point for each: that is what an interval is for. Times of
    different hardware are never compared: such a workload has a panel of operations only.
    """
    panels = (_plot_cost(part, column) for part in parts(frame, WORKLOAD) for column in COSTS)
    return [panel for panel in panels if panel is not None]


def _plot_cost(part: Rows, column: str) -> Panel | None:
    metric, all_winners = reported(part)[0], winners_along(part, _INTERVAL)
    hardware = timings([run for winner in all_winners for run in winner.runs if run["state"] == "completed"])
    if column == TIME and hardware > 1:
        return None
    tested, costed = dict[str, list[Run]](), list[tuple[Winner, list[Run]]]()
    for winner in all_winners:
        runs = [run for run in winner.runs if _test_values(run, metric)]
        tested[winner.optimizer] = runs
        if runs and len(finite_values(runs, column)) == len(runs):  # else a mean would mislead
            costed.append((winner, runs))
    if not costed:
        return None
    quantity, units = COSTS[column]
    unit, size = choose_unit(units, min(float(run[column]) for _, runs in costed for run in runs))
    rows = []
    for winner, runs in costed:
        interval = winner.choice.fixed.get(_INTERVAL)
        word = "" if interval is None else f"{interval:g}"
        cost = summarize([float(run[column]) / size for run in runs])
        test = summarize([metric.scale * value for run in runs for value in _test_values(run, metric)])
        keys = tuple(str(run["key"]) for run in runs)
        rows.append(make_cost_point(winner.optimizer, word, cost, test, kinds.RUNS, keys))
    drawn = {display_name(row.optimizer) for row in rows}
    about = replace(describe_workload(part, "test", all_winners), seeds=[row.n or 0 for row in rows])
    for kind, has_result in (("without_a_result", False), ("without_a_cost", True)):
        names = [display_name(name) for name, runs in tested.items() if bool(runs) is has_result]
        missing = [name for name in dict.fromkeys(names) if name not in drawn]
        about = about.noted(Note(kind, names=missing) if missing else None)
    label, better = f"{quantity} ({unit})", metric.higher_is_better
    return make_cost_panel(about.noted(_note_hardware(hardware)), about.metric, better, label, rows)


def _test_values(run: Run, metric: Metric) -> list[float]:
    return finite_values([run], f"test_{metric.name}")


def make_cost_point(
    optimizer: str, interval: str, cost: Summary, test: Summary, source: str, keys: tuple[str, ...] = ()
) -> Row:
    """A point of a panel of costs; `interval` tells it from others of the optimizer, if it has one."""
    series = f"{optimizer}, {_INTERVAL} {interval}" if interval else optimizer
    n = test.n if source == kinds.RUNS else None
    row = Row("", series, cost.mean, test.mean, test.std, n=n, source=source, keys=keys, x_sd=cost.std)
    return replace(row, optimizer=optimizer, text=interval)


def make_cost_panel(about: About, metric: str, higher_is_better: bool, axis: str, rows: list[Row]) -> Panel:
    """The panel of some points in the order of their cost; the front once more, each with its series."""
    rows = sorted((replace(row, quantity=f"{metric} against {axis}") for row in rows), key=lambda row: row.x)
    limit = find_worst_shown([row.y for row in rows if row.y is not None], higher_is_better=higher_is_better)
    best = find_front(rows, higher_is_better)
    rows += [replace(row, series="Pareto front", role=kinds.FRONT, text=row.series) for row in best]
    return Panel("costs", about, tidy(rows), axis, metric, "", higher_is_better, worst_shown=limit)


def find_front(rows: Sequence[Row], higher_is_better: bool) -> list[Row]:
    """The points that no other one beats: cheaper and better, or equal in one of the two.

    Args:
        rows: in any order.
        higher_is_better: of the metric.
    """
    sign = -1 if higher_is_better else 1
    points = [(float(row.x), sign * row.y, row) for row in rows if row.y is not None]
    best: list[Row] = []
    least = math.inf
    for _, value, row in sorted(points, key=lambda point: point[:2]):
        if value < least:
            least = value
            best.append(row)
    return best


def _note_hardware(hardware: int) -> Note | None:
    return Note("no_times", hardware=hardware) if hardware > 1 else None


# --- a row per optimizer ---


def make_entry(
    kind: str,
    quantity: str,
    optimizer: str,
    value: float | None = None,
    text: str = "",
    keys: tuple[str, ...] = (),
    spans: Mapping[str, tuple[float, float, bool, bool]] | None = None,
    dots: Sequence[tuple[float, Run, bool]] = (),
    source: str = kinds.RUNS,
) -> list[Row]:
    """The values of one optimizer: its mark, its ranges and the single runs, by seed.

    Args:
        kind, quantity: of the panel.
        optimizer: whose values they are.
        value: the mean, or the chosen value; None: there is none.
        text: written at the right end, such as a number or why there is nothing.
        keys: the runs behind the ranges, if there are no single ones.
        spans: by name the ends of ranges, and whether each end is open.
        dots: of a run its value, and whether it has reached it or only ended there.
        source: RUNS or PUBLISHED.
    """
    words = kinds.KINDS[kind].words
    keys = keys or tuple(str(run["key"]) for _, run, _ in dots)
    mark = Row(quantity, optimizer, words[kinds.MARK], value, n=len(dots) or None, source=source, keys=keys)
    mark = replace(mark, optimizer=optimizer, role=kinds.MARK, text=text)
    rows = [mark]
    for name, (low, high, *ends) in (spans or {}).items():
        opened = " and the ".join(
            word for word, is_open in zip(("low", "high"), ends, strict=True) if is_open
        )
        x = f"{name}, open at the {opened} end" if opened else name
        span = replace(mark, x=x, y=None, y_low=low, y_high=high, role=kinds.SPAN, text=name)
        rows.append(replace(span, ends=(ends[0], ends[1])))
    for value, run, reached in dots:
        role = kinds.DOT if reached else kinds.MISSED
        x = f"{words[role]}, seed {run['seed']}"
        rows.append(replace(mark, x=x, y=value, n=1, keys=(str(run["key"]),), role=role, text=""))
    return rows


def seed_spread(frame: Frame, _: Store) -> list[Panel]:
    """Every reported run of each optimizer's best setting, mean and 95 % interval."""
    panels = []
    for part in parts(frame, WORKLOAD):
        metric, all_winners = reported(part)[0], winners(part)
        sign, better = (-1 if metric.higher_is_better else 1), metric.higher_is_better
        entries = [_seed_rows(winner, metric) for winner in all_winners]
        entries.sort(key=lambda rows: (rows[0].y is None, sign * (rows[0].y or 0)))
        seed_counts = [rows[0].n for rows in entries if rows[0].n]
        about = replace(describe_workload(part, "test", all_winners), seeds=seed_counts)
        means = [rows[0].y for rows in entries if rows[0].y is not None]
        limit = find_worst_shown(means, higher_is_better=better)
        values = tidy(chain(*entries))
        panels.append(Panel("seeds", about, values, about.metric, higher_is_better=better, worst_shown=limit))
    return [panel for panel in panels if len(panel.of(kinds.DOT))]


def _seed_rows(winner: Winner, metric: Metric) -> list[Row]:
    dots = [(metric.scale * value, run, True) for run in winner.runs for value in _test_values(run, metric)]
    label = f"test {metric.label}"
    if not dots:
        reason = ", ".join(dict.fromkeys(str(run["state"]) for run in winner.runs)) or str(winner.state)
        return make_entry("seeds", label, winner.optimizer, text=reason)
    summary = summarize([x for x, _, _ in dots])
    text = f"{summary.mean:.{metric.digits}f}"
    text += f" ± {summary.std:.{metric.digits}f}" if summary.std is not None else ""
    text += f" ({len(dots)}/{len(winner.runs)})" if len(dots) < len(winner.runs) else ""
    spans = {}
    if summary.interval:
        spans["95 % interval of the mean"] = (*within(metric.column, summary.interval), False, False)
    return make_entry("seeds", label, winner.optimizer, summary.mean, text, spans=spans, dots=dots)


def lr_width(frame: Frame, _: Store) -> list[Panel]:
    """In which range of learning rates each optimizer stays close to its best, where it has two or more.

    All other settings are as chosen: an optimizer whose p was searched as well must not look wider for that.
    """
    panels = []
    for part in parts(frame, WORKLOAD):
        metric, entries = reported(part)[0], []
        for winner in winners(part) if "lr" in part[0] else ():
            if winner.choice.winner is None:
                text = str(winner.choice.state)
                entries.append(make_entry("widths", kinds.AXES["lr"], winner.optimizer, text=text))
                continue
            candidates = {
                float(rate.value("lr")): rate for rate in find_candidates_along(winner.choice, "lr")
            }
            means = {lr: metric_summary(rate.runs, "val", metric) for lr, rate in candidates.items()}
            levels = {lr: mean.mean for lr, mean in means.items() if mean is not None}
            diverged = [lr for lr, rate in candidates.items() if rate.state == "diverged"]
            keys = tuple(str(run["key"]) for rate in candidates.values() for run in rate.runs)
            best = float(winner.choice.winner.value("lr"))
            entries.append(_width_rows(winner.optimizer, best, levels, diverged, keys, kinds.RUNS))
        panels.append(_plot_widths(describe_workload(part, "validation"), entries))
    return [panel for panel in panels if len(panel.of(kinds.SPAN))]


def published_widths(curves: Sequence[Panel]) -> list[Panel]:
    """The same of published numbers, from panels of kind "rates"."""
    panels = []
    for curve in curves:
        entries = []
        points = curve.of(kinds.POINT, kinds.CHOSEN)
        points = points[points["source"] == kinds.PUBLISHED]
        for name, series in points.groupby("optimizer", sort=False):
            levels = {float(x): float(y) for x, y in zip(series["x"], series["y"], strict=True)}
            best = (max if curve.higher_is_better else min)(levels, key=lambda lr: levels[lr])
            entries.append(_width_rows(str(name), best, levels, [], (), kinds.PUBLISHED))
        panels.append(_plot_widths(curve.about, entries))
    return [panel for panel in panels if len(panel.of(kinds.SPAN))]


def _plot_widths(about: About, entries: list[list[Row]]) -> Panel:
    """The widest of the narrower ranges on top; optimizers without any come last."""

    def width(rows: list[Row]) -> tuple[float, ...]:
        spans = [(row.y_low, row.y_high) for row in reversed(rows) if row.role == kinds.SPAN]
        return tuple(high / low for low, high in spans if low and high)

    rows = chain(*sorted(entries, key=width, reverse=True))
    return Panel("widths", about, tidy(rows), kinds.AXES["lr"])


def _width_rows(
    optimizer: str,
    best: float,
    levels: Mapping[float, float],
    diverged: Sequence[float],
    keys: tuple[str, ...],
    source: str,
) -> list[Row]:
    """The ranges around the best rate; none if only one rate was tried."""
    spans, octaves = {}, []
    for share in TOLERANCES if best in levels and len({*levels, *diverged}) > 1 else ():
        width = width_of(levels, best, share, diverged)
        spans[f"within {share:.0%} of its best"] = (width.low, width.high, width.open_low, width.open_high)
        octaves.append(f"{'>' if width.open_low or width.open_high else ''}{width.octaves:.1f}")
    text = " / ".join(reversed(octaves)) or "one rate only"
    return make_entry("widths", kinds.AXES["lr"], optimizer, best, text, keys, spans, source=source)


def to_target(frame: Frame, store: Store) -> list[Panel]:
    """How many steps, and how much time, each optimizer needs to be as good as Muon.

    The target is that of `results.compare.to_target`: where Muon's run of the same seeds ends. Without Muon
    it is the worst end of all reported runs; a task with a published target has that one. A run of fixed
    length lowers its learning rate towards its end, so that a shorter run might reach the target earlier. Two
    panels per workload, steps and time; no times if the runs are from several kinds of hardware.
    """
    panels = []
    for part in parts(frame, WORKLOAD):
        metric, all_winners = reported(part)[0], winners(part)
        goals, target = _find_goals(all_winners, metric, published_target(part))
        runs = [run for winner in all_winners for run in winner.runs if run["state"] in _ENDED]
        name, better = f"val_{metric.name}", metric.higher_is_better
        curves = {run["key"]: read_evaluations(store.files(run["key"]).metrics, name) for run in runs}
        if not goals or max(map(len, curves.values()), default=0) < _FEWEST:
            continue
        steps: dict[str, list[tuple[Run, float | None]]] = {}  # to the target by optimizer and run
        for winner in all_winners:
            steps[winner.optimizer] = []
            for run in winner.runs:
                goal = goals.get(read_seeds(run), goals.get(None))
                if run["key"] in curves and goal is not None:
                    count = find_steps_to(curves[run["key"]], goal, higher_is_better=better)
                    steps[winner.optimizer].append((run, count))
        hardware = timings(runs)
        counts = [len(curve) for curve in curves.values() if curve]
        seed_counts = [len(pairs) for pairs in steps.values() if pairs]
        about = replace(describe_workload(part, "validation", all_winners), seeds=seed_counts)
        about = about.noted(target, Note("evaluations", count=format_span(counts)), _note_hardware(hardware))
        panels.append(_plot_targets(about, all_winners, steps, "steps to target"))
        times = [_seconds(run, count) for run, count in chain(*steps.values())]
        if hardware <= 1 and any(times):  # other programs need not have recorded them
            unit, size = choose_unit(_SECONDS, min(filter(None, times)))
            panels.append(_plot_targets(about, all_winners, steps, f"training time to target ({unit})", size))
    return panels


def _find_goals(
    all_winners: Sequence[Winner], metric: Metric, published: float | None
) -> tuple[dict[Any, float], Note]:
    """The targets by seeds in the record's unit, and whose they are; by None one for all."""
    if published is not None:
        return {None: published}, Note("target_published", metric=metric.words, value=published)
    better = metric.higher_is_better

    def end(run: Run) -> float | None:
        return next(iter(finite_values([run], f"val_{metric.name}")), None)

    for row_winner in all_winners:
        winner = row_winner.choice.winner
        if winner is not None and winner.value("rule") == _REFERENCE:
            if goals := find_targets(row_winner.runs, end, higher_is_better=better):
                return dict(goals), Note("target_of", whose=display_name(row_winner.optimizer))
    ends = [value for row_winner in all_winners for run in row_winner.runs if (value := end(run)) is not None]
    worst = min if better else max
    return ({None: worst(ends)} if ends else {}), Note("target_worst")


def _seconds(run: Run, steps: float | None) -> float | None:
    """To the target, or to the end of a run that misses it."""
    return estimate_seconds(run, float(run["steps"]) if steps is None else steps)


def _plot_targets(
    about: About,
    all_winners: Sequence[Winner],
    steps: Mapping[str, Sequence[tuple[Run, float | None]]],
    label: str,
    size: float | None = None,
) -> Panel:
    """A panel of steps, or of times in a unit of `size` seconds."""
    entries = []
    for winner in all_winners:
        dots = []
        for run, count in steps[winner.optimizer]:
            end = float(run["steps"]) if count is None else count
            value = end if size is None else _seconds(run, count)
            if value is not None:
                dots.append((value / (size or 1.0), run, count is not None))
        values = [x for x, _, is_reached in dots if is_reached]
        # Where a run never reaches it, the mean of the others would be too good.
        mean = statistics.fmean(values) if values and len(values) == len(dots) else None
        text = "" if mean is None else f"{mean:.0f}" if mean >= 100 else f"{mean:.3g}"
        text += f" ({len(values)}/{len(winner.runs)})" if len(values) < len(winner.runs) else ""
        text = text.strip() if dots else str(winner.state)
        entries.append(make_entry("targets", label, winner.optimizer, mean, text, dots=dots))

    def order(rows: list[Row]) -> tuple[int, bool, float]:
        """By the number of runs that miss the target, then by the mean; rows without any run come last."""
        missed = sum(row.role == kinds.MISSED for row in rows)
        return (missed if len(rows) > 1 else 10**6, rows[0].y is None, rows[0].y or 0.0)

    return Panel("targets", about, tidy(chain(*sorted(entries, key=order))), label)
