"""The frames of our runs, a panel per workload: quality against settings, cost, seeds, steps to a target."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from htbench.results.figures.kinds import About, Panel, Row, tidy, worst_shown
from htbench.results.figures.style import display_name
from htbench.results.frames.cost import TOTAL_FLOPS
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


def workloads(frame: Frame) -> list[Rows]:
    """The frame in parts, one per workload."""
    return parts(frame, WORKLOAD)


def about(part: Rows, split: str = "", found: Sequence[Winner] = ()) -> About:
    """The workload, what is fixed in it, and how much is still to come.

    Args:
        part: its rows.
        split: of its metric: "test" or "validation"; empty if the panel has another quantity.
        found: what is reported of it, by seeds and chosen among settings.
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
        tried=[one.choice.tried for one in found],
        fresh=all(run["stage"] == REPLICATE for one in found for run in one.runs),
        facts=tuple(notes),
    )


def unit(units: Mapping[str, float], least: float) -> tuple[str, float]:
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
    own = (part for part in workloads(frame) if any(not is_missing(run.get("lr")) for run in part))
    return [_against(part, "lr", "rates") for part in own]


def p_curve(frame: Frame, _: Store) -> list[Panel]:
    """The validation metric against p at each p's best lr, beside Muon's, where p was searched."""
    own = (part for part in workloads(frame) if "p" in part[0] and find_searched_columns(part, ["p"]))
    return [_against(part, "p", "powers") for part in own]


def best_of_k(frame: Frame, _: Store) -> list[Panel]:
    """The best validation metric to expect of k settings, drawn from those that were tried, by optimizer.

    Optimizers with few settings end early. A setting that diverged is one of those drawn, and never the best.
    """
    panels = []
    for part in workloads(frame):
        metric = reported(part)[0]
        rows = [row for choice in choose(part, OPTIMIZER) for row in _of_budgets(choice, metric)]
        if rows:
            label, better = f"validation {metric.label}", metric.higher_is_better
            of = about(part, "validation")
            panel = Panel("budgets", of, tidy(rows), y_label=label, higher_is_better=better)
            panels.append(replace(panel, y_log=True) if metric.is_log else panel)
    return panels


def _of_budgets(choice: Choice, metric: Metric) -> list[Row]:
    levels = list_setting_values(choice, metric)
    if len(levels) < 2 or all(map(math.isinf, levels)):
        return []
    name = str(choice.fixed["optimizer"])
    keys = tuple(str(run["key"]) for own in choice.candidates for run in own.runs)
    found = [
        expected_best(levels, k, higher_is_better=metric.higher_is_better) for k in range(1, len(levels) + 1)
    ]
    blank = Row(f"validation {metric.label}", name, "", None, optimizer=name, keys=keys)
    return [
        replace(blank, x=k, y=metric.printed(best.mean), n=len(levels))
        for k, best in enumerate(found, 1)
        if math.isfinite(best.mean)
    ]


def _against(part: Rows, axis: str, kind: str) -> Panel:
    metric = reported(part)[0]
    overall = {str(choice.fixed["optimizer"]): choice for choice in choose(part, OPTIMIZER)}
    rows = []
    known = [run for run in part if not is_missing(run[axis]) and run["optimizer"] in overall]
    for own in parts(known, ["optimizer"]):
        if axis == "lr" or find_searched_columns(own, [axis]):
            name = str(own[0]["optimizer"])
            winner = overall[name].winner
            rows += _along(own, name, axis, metric, winner.value(axis) if winner else None)
    muon = overall.get(_REFERENCE)
    if axis == "p" and muon and (best := _best(muon, metric)):  # it has no such axis: a line
        rows.append(
            replace(best, series=f"{display_name(_REFERENCE)}, best lr", y_sd=None, n=None, role=kinds.LEVEL)
        )
    of = about(part, "validation")
    of = replace(of, seeds=[row.n for row in rows if row.n], fresh=False)
    return Panel(kind, of, tidy(rows), y_label=of.metric, higher_is_better=metric.higher_is_better)


def _along(own: Rows, optimizer: str, axis: str, metric: Metric, chosen: Any) -> list[Row]:
    choices = {float(choice.fixed[axis]): choice for choice in choose(own, (*OPTIMIZER, axis))}
    found = [(x, _best(choices[x], metric)) for x in sorted(choices)]
    points = [replace(row, x=x, role=kinds.CHOSEN if x == chosen else kinds.POINT) for x, row in found if row]
    diverged = [x for x in sorted(choices) if choices[x].state == "diverged"]
    blank = Row(f"validation {metric.label}", optimizer, "", None, optimizer=optimizer, role=kinds.DIVERGED)
    return [*points, *(replace(blank, x=x) for x in diverged)]


def _best(choice: Choice, metric: Metric) -> Row | None:
    """The winner's validation metric as printed, over its search seeds."""
    found = metric_summary(choice.winner.runs, "val", metric) if choice.winner else None
    if choice.winner is None or found is None:
        return None
    name, keys = str(choice.fixed["optimizer"]), tuple(str(run["key"]) for run in choice.winner.runs)
    label = f"validation {metric.label}"
    return Row(label, name, "", found.mean, found.std, n=found.n, keys=keys, optimizer=name)


# --- cost ---


def pareto(frame: Frame, _: Store) -> list[Panel]:
    """Per workload the test metric against time, and against operations if its records have them.

    An optimizer whose interval was searched has a point for each: that is what an interval is for. Times of
    different hardware are never compared: such a workload has a panel of operations only.
    """
    panels = (_costs(part, column) for part in workloads(frame) for column in COSTS)
    return [panel for panel in panels if panel is not None]


def _costs(part: Rows, column: str) -> Panel | None:
    metric, found = reported(part)[0], winners_along(part, _INTERVAL)
    hardware = timings([run for one in found for run in one.runs if run["state"] == "completed"])
    if column == TIME and hardware > 1:
        return None
    tested = {one.optimizer: [run for run in one.runs if _tested(run, metric)] for one in found}
    known = [(one, runs) for one in found if (runs := _with_cost(one, column, metric))]
    if not known:
        return None
    what, units = COSTS[column]
    name, size = unit(units, min(float(run[column]) for _, runs in known for run in runs))
    rows = [_cost(one, runs, column, size, metric) for one, runs in known]
    shown = {display_name(row.optimizer) for row in rows}
    names = dict.fromkeys(one.optimizer for one in found if display_name(one.optimizer) not in shown)
    of = replace(about(part, "test", found), seeds=[row.n or 0 for row in rows])
    of = of.noted(
        _named("without_a_result", [one for one in names if not tested[one]]),
        _named("without_a_cost", [one for one in names if tested[one]]),
        _mixed(hardware),
    )
    return cost_panel(of, of.metric, metric.higher_is_better, f"{what} ({name})", rows)


def _tested(run: Run, metric: Metric) -> list[float]:
    return finite_values([run], f"test_{metric.name}")


def _with_cost(one: Winner, column: str, metric: Metric) -> list[Run]:
    """The reported runs with the test metric; none if one of them lacks the cost: a mean would mislead."""
    runs = [run for run in one.runs if _tested(run, metric)]
    return runs if len(finite_values(runs, column)) == len(runs) else []


def _cost(one: Winner, runs: Sequence[Run], column: str, size: float, metric: Metric) -> Row:
    """The quantity is set by `cost_panel`."""
    interval = one.choice.fixed.get(_INTERVAL)
    more = f"{interval:g}" if interval is not None else ""
    cost = summarize([float(run[column]) / size for run in runs])
    test = summarize([metric.scale * value for run in runs for value in _tested(run, metric)])
    return cost_point(one.optimizer, more, cost, test, kinds.RUNS, tuple(str(run["key"]) for run in runs))


def cost_point(
    optimizer: str, interval: str, cost: Summary, test: Summary, source: str, keys: tuple[str, ...] = ()
) -> Row:
    """A point of a panel of costs; `interval` tells it from others of the optimizer, if it has one."""
    series = f"{optimizer}, {_INTERVAL} {interval}" if interval else optimizer
    n = test.n if source == kinds.RUNS else None
    row = Row("", series, cost.mean, test.mean, test.std, n=n, source=source, keys=keys, x_sd=cost.std)
    return replace(row, optimizer=optimizer, text=interval)


def cost_panel(of: About, metric: str, higher_is_better: bool, axis: str, rows: Sequence[Row]) -> Panel:
    """The panel of some points in the order of their cost; the front once more, each with its series."""
    rows = sorted((replace(row, quantity=f"{metric} against {axis}") for row in rows), key=lambda row: row.x)
    values = [row.y for row in rows if row.y is not None]
    best = [
        replace(row, series="Pareto front", role=kinds.FRONT, text=row.series)
        for row in front(rows, higher_is_better)
    ]
    limit = worst_shown(values, higher_is_better=higher_is_better)
    frame = tidy([*rows, *best])
    return Panel("costs", of, frame, axis, metric, "", higher_is_better, worst_shown=limit)


def front(rows: Sequence[Row], higher_is_better: bool) -> list[Row]:
    """The points that no other one beats: cheaper and better, or equal in one of the two.

    Args:
        rows: in any order.
        higher_is_better: of the metric.
    """
    values = [(float(row.x), -row.y if higher_is_better else row.y, row) for row in rows if row.y is not None]
    found: list[Row] = []
    least = float("inf")
    for _, value, row in sorted(values, key=lambda one: one[:2]):
        if value < least:
            least = value
            found.append(row)
    return found


def _named(kind: str, names: Sequence[str]) -> Note | None:
    shown = list(dict.fromkeys(map(display_name, names)))
    return Note(kind, names=shown) if shown else None


def _mixed(hardware: int) -> Note | None:
    return Note("no_times", hardware=hardware) if hardware > 1 else None


# --- a row per optimizer ---


def entry(
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
    panels = [_seeds(part) for part in workloads(frame)]
    return [panel for panel in panels if len(panel.of(kinds.DOT))]


def _seeds(part: Rows) -> Panel:
    metric, found = reported(part)[0], winners(part)
    sign = -1 if metric.higher_is_better else 1
    entries = [_seeds_of(one, metric) for one in found]
    entries.sort(key=lambda rows: (rows[0].y is None, sign * (rows[0].y or 0)))
    of = replace(about(part, "test", found), seeds=[rows[0].n for rows in entries if rows[0].n])
    better, means = metric.higher_is_better, [rows[0].y for rows in entries if rows[0].y is not None]
    limit = worst_shown(means, higher_is_better=better)
    frame = tidy(sum(entries, []))
    return Panel("seeds", of, frame, of.metric, higher_is_better=better, worst_shown=limit)


def _seeds_of(one: Winner, metric: Metric) -> list[Row]:
    dots = [(metric.scale * value, run, True) for run in one.runs for value in _tested(run, metric)]
    label = f"test {metric.label}"
    if not dots:
        reason = ", ".join(dict.fromkeys(str(run["state"]) for run in one.runs)) or str(one.state)
        return entry("seeds", label, one.optimizer, text=reason)
    found = summarize([x for x, _, _ in dots])
    text = f"{found.mean:.{metric.digits}f}"
    text += f" ± {found.std:.{metric.digits}f}" if found.std is not None else ""
    text += f" ({len(dots)}/{len(one.runs)})" if len(dots) < len(one.runs) else ""
    spans = {}
    if found.interval:
        spans["95 % interval of the mean"] = (*within(metric.column, found.interval), False, False)
    return entry("seeds", label, one.optimizer, found.mean, text, spans=spans, dots=dots)


def lr_width(frame: Frame, _: Store) -> list[Panel]:
    """In which range of learning rates each optimizer stays close to its best, where it has two or more.

    All other settings are as chosen: an optimizer whose p was searched as well must not look wider for that.
    """
    panels = []
    for part in workloads(frame):
        found = winners(part) if "lr" in part[0] else []
        panels.append(_widths(about(part, "validation"), [_width_of(part, one) for one in found]))
    return [panel for panel in panels if len(panel.of(kinds.SPAN))]


def published_widths(curves: Sequence[Panel]) -> list[Panel]:
    """The same of published numbers, from panels of kind "rates"."""
    panels = []
    for curve in curves:
        entries = []
        points = curve.of(kinds.POINT, kinds.CHOSEN)
        for name, own in points[points["source"] == kinds.PUBLISHED].groupby("optimizer", sort=False):
            levels = {float(x): float(y) for x, y in zip(own["x"], own["y"], strict=True)}
            best = (max if curve.higher_is_better else min)(levels, key=lambda lr: levels[lr])
            entries.append(_ranges(str(name), best, levels, [], (), kinds.PUBLISHED))
        panels.append(_widths(curve.about, entries))
    return [panel for panel in panels if len(panel.of(kinds.SPAN))]


def _widths(of: About, entries: list[list[Row]]) -> Panel:
    """The widest of the narrower ranges on top; optimizers without any come last."""

    def width(rows: list[Row]) -> tuple[float, ...]:
        spans = [(row.y_low, row.y_high) for row in reversed(rows) if row.role == kinds.SPAN]
        return tuple(high / low for low, high in spans if low and high)

    rows = sum(sorted(entries, key=width, reverse=True), [])
    return Panel("widths", of, tidy(rows), kinds.AXES["lr"])


def _width_of(part: Rows, one: Winner) -> list[Row]:
    if one.choice.winner is None:
        return entry("widths", kinds.AXES["lr"], one.optimizer, text=str(one.choice.state))
    found = find_candidates_along(one.choice, "lr")
    metric = reported(part)[0]
    means = {float(own.value("lr")): metric_summary(own.runs, "val", metric) for own in found}
    levels = {lr: mean.mean for lr, mean in means.items() if mean is not None}
    diverged = [float(own.value("lr")) for own in found if own.state == "diverged"]
    keys = tuple(str(run["key"]) for own in found for run in own.runs)
    return _ranges(one.optimizer, float(one.choice.winner.value("lr")), levels, diverged, keys, kinds.RUNS)


def _ranges(
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
    return entry("widths", kinds.AXES["lr"], optimizer, best, text, keys, spans, source=source)


def to_target(frame: Frame, store: Store) -> list[Panel]:
    """How many steps, and how much time, each optimizer needs to be as good as Muon.

    The target is that of `results.compare.to_target`: where Muon's run of the same seeds ends. Without Muon
    it is the worst end of all reported runs; a task with a published target has that one. A run of fixed
    length lowers its learning rate towards its end, so that a shorter run might reach the target earlier. Two
    panels per workload, steps and time; no times if the runs are from several kinds of hardware.
    """
    return [panel for part in workloads(frame) for panel in _targets(part, store)]


def _targets(part: Rows, store: Store) -> list[Panel]:
    metric, found = reported(part)[0], winners(part)
    goals, target = _goals(found, metric, published_target(part))
    runs = [run for one in found for run in one.runs if run["state"] in _ENDED]
    curves = {
        run["key"]: read_evaluations(store.files(run["key"]).metrics, f"val_{metric.name}") for run in runs
    }
    if not goals or max(map(len, curves.values()), default=0) < _FEWEST:
        return []
    reached: dict[str, list[tuple[Run, float | None]]] = {}  # steps to the target by optimizer and run
    for one in found:
        own = [(run, goals.get(read_seeds(run), goals.get(None))) for run in one.runs if run["key"] in curves]
        better = metric.higher_is_better
        reached[one.optimizer] = [
            (run, find_steps_to(curves[run["key"]], goal, higher_is_better=better))
            for run, goal in own
            if goal is not None
        ]
    hardware = timings(runs)
    counts = [len(curve) for curve in curves.values() if curve]
    of = replace(about(part, "validation", found), seeds=[len(own) for own in reached.values() if own])
    of = of.noted(target, Note("evaluations", count=format_span(counts)), _mixed(hardware))
    panels = [_reached(of, found, reached, "steps to target")]
    times = [_seconds(run, steps) for own in reached.values() for run, steps in own]
    if hardware <= 1 and any(times):  # others need not have told them
        name, size = unit(_SECONDS, min(one for one in times if one))
        panels.append(_reached(of, found, reached, f"training time to target ({name})", size))
    return panels


def _goals(found: Sequence[Winner], metric: Metric, published: float | None) -> tuple[dict[Any, float], Note]:
    """The targets by seeds in the record's unit, and whose they are; by None one for all."""
    if published is not None:
        return {None: published}, Note("target_published", metric=metric.words, value=published)
    better = metric.higher_is_better

    def end(run: Run) -> float | None:
        return next(iter(finite_values([run], f"val_{metric.name}")), None)

    for one in found:
        winner = one.choice.winner
        if winner is not None and winner.value("rule") == _REFERENCE:
            if goals := find_targets(one.runs, end, higher_is_better=better):
                return dict(goals), Note("target_of", whose=display_name(one.optimizer))
    ends = [value for one in found for run in one.runs if (value := end(run)) is not None]
    worst = min if better else max
    return ({None: worst(ends)} if ends else {}), Note("target_worst")


def _seconds(run: Run, steps: float | None) -> float | None:
    """To the target, or to the end of a run that misses it."""
    return estimate_seconds(run, float(run["steps"]) if steps is None else steps)


def _reached(
    of: About,
    found: Sequence[Winner],
    reached: Mapping[str, Sequence[tuple[Run, float | None]]],
    label: str,
    size: float | None = None,
) -> Panel:
    """A panel of steps, or of times in a unit of `size` seconds."""
    entries = []
    for one in found:
        dots = []
        for run, steps in reached[one.optimizer]:
            end = float(run["steps"]) if steps is None else steps
            value = end if size is None else _seconds(run, steps)
            if value is not None:
                dots.append((value / (size or 1.0), run, steps is not None))
        values = [x for x, _, is_reached in dots if is_reached]
        # Where a run never reaches it, the mean of the others would be too good.
        mean = statistics.fmean(values) if values and len(values) == len(dots) else None
        text = "" if mean is None else f"{mean:.0f}" if mean >= 100 else f"{mean:.3g}"
        text += f" ({len(values)}/{len(one.runs)})" if len(values) < len(one.runs) else ""
        text = text.strip() if dots else str(one.state)
        entries.append(entry("targets", label, one.optimizer, mean, text, dots=dots))

    def order(rows: list[Row]) -> tuple[int, bool, float]:
        """By the number of runs that miss the target, then by the mean; rows without any run come last."""
        missed = sum(row.role == kinds.MISSED for row in rows)
        return (missed if len(rows) > 1 else 10**6, rows[0].y is None, rows[0].y or 0.0)

    return Panel("targets", of, tidy(sum(sorted(entries, key=order), [])), label)
