"""The figures of our runs, panels of one workload each: quality against settings, cost, seeds, a target."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from typing import Any

from htbench.harness.choice.rates import rate_width as width_of
from htbench.harness.show.note import Note, text
from htbench.harness.show.status import Status
from htbench.harness.store.points import REPLICATE, SEARCH
from htbench.results.compare.contender import list_setting_values
from htbench.results.compare.edges import find_candidates_along
from htbench.results.compare.select import WORKLOAD, Choice
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
from htbench.results.compare.workload import Workload
from htbench.results.compare.workloads import expected_best
from htbench.results.figures import kinds
from htbench.results.figures.kinds import About, Panel, Row, list_keys, tidy
from htbench.results.figures.pictures import format_span
from htbench.results.figures.style import display_name
from htbench.results.frames.columns import TOTAL_FLOPS
from htbench.results.frames.metrics import Metric, describe_task, is_missing, within
from htbench.results.frames.provenance import timing

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


def describe_workload(workload: Workload, split: str = "", choices: Sequence[Choice] = ()) -> About:
    """The workload, what is fixed in it, and how much is still to come.

    Args:
        workload: it.
        split: of its metric: "test" or "validation"; empty if the panel has another quantity.
        choices: whose runs are reported, by seeds and chosen among settings.
    """
    task, model, setting = (str(workload.part[0][name]) for name in WORKLOAD)
    searches = (run for run in workload.part if run["stage"] == SEARCH)
    to_come = len({run["key"] for run in searches if run["state"] in ("waiting", "running")})
    notes = [text(setting)] if setting else []
    notes += [Note("runs_to_come", runs=to_come)] if to_come else []
    return About(
        f"{task} · {model}",
        family=task,
        metric=f"{split} {workload.metric.label}" if split else "",
        tried=[choice.tried for choice in choices],
        fresh=all(run["stage"] == REPLICATE for choice in choices for run in choice.reported),
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


def lr_curve(workload: Workload) -> list[Panel]:
    """The validation metric against lr: per optimizer and lr the best of everything else, p among it."""
    has_rates = any(not is_missing(run.get("lr")) for run in workload.part)
    return [_plot_along(workload, "lr", "rates")] if has_rates else []


def p_curve(workload: Workload) -> list[Panel]:
    """The validation metric against p at each p's best lr, beside Muon's, where p was searched."""
    has_powers = any("p" in choice.axes for choice in workload.choices)
    return [_plot_along(workload, "p", "powers")] if has_powers else []


def best_of_k(workload: Workload) -> list[Panel]:
    """The best validation metric to expect of k settings, drawn from those that were tried, by optimizer.

    Optimizers with few settings end early. A setting that diverged is one of those drawn, and never the best.
    """
    metric, rows = workload.metric, list[Row]()
    better, about = metric.higher_is_better, describe_workload(workload, "validation")
    for choice in workload.choices:
        levels = list_setting_values(choice, metric)
        if len(levels) < 2 or all(map(math.isinf, levels)):
            continue
        blank = Row(about.metric, choice.optimizer, "", None, n=len(levels), keys=list_keys(choice.runs))
        for k in range(1, len(levels) + 1):
            best = expected_best(levels, k, higher_is_better=better)
            rows += [replace(blank, x=k, y=metric.printed(best))] if math.isfinite(best) else []
    is_log = True if metric.is_log else None
    return [Panel("budgets", about, tidy(rows), better, y_log=is_log)] if rows else []


def _plot_along(workload: Workload, axis: str, kind: str) -> Panel:
    """The validation metric of each optimizer against one of its settings, the others at their best."""
    metric, rows = workload.metric, list[Row]()
    about = replace(describe_workload(workload, "validation"), fresh=False)
    overall = {choice.optimizer: choice for choice in workload.choices}
    for name, along in workload.choose_along(axis).items():
        if axis != "lr" and axis not in overall[name].axes:
            continue
        winner = overall[name].winner
        best_x = winner.value(axis) if winner else None
        choices = {float(choice.fixed[axis]): choice for choice in along}
        for x in sorted(choices):
            if best := _best_row(choices[x], metric):
                rows.append(replace(best, x=x, role=kinds.CHOSEN if x == best_x else kinds.POINT))
        blank = Row(about.metric, name, "", None, role=kinds.DIVERGED)
        rows += [replace(blank, x=x) for x in sorted(choices) if choices[x].state == "diverged"]
    muon = overall.get(_REFERENCE)
    if axis == "p" and muon and (best := _best_row(muon, metric)):  # it has no such axis: a line
        series = f"{display_name(_REFERENCE)}, best lr"
        rows.append(replace(best, series=series, y_sd=None, n=None, role=kinds.LEVEL))
    about = replace(about, seeds=[row.n for row in rows if row.n])
    return Panel(kind, about, tidy(rows), metric.higher_is_better)


def _best_row(choice: Choice, metric: Metric) -> Row | None:
    """The winner's validation metric as printed, over its search seeds."""
    summary = metric_summary(choice.winner.runs, "val", metric) if choice.winner else None
    if choice.winner is None or summary is None:
        return None
    name, keys = f"validation {metric.label}", list_keys(choice.winner.runs)
    return Row(name, choice.optimizer, "", summary.mean, summary.std, n=summary.n, keys=keys)


# --- cost ---


def pareto(workload: Workload) -> list[Panel]:
    """The test metric against time, and against operations if its records have them.

    An optimizer whose interval was searched has a point for each: that is what an interval is for. Times of
    different hardware are never compared: such a workload has a panel of operations only.
    """
    metric, choices = workload.metric, list[Choice]()
    for choice in workload.choices:
        has_several = _INTERVAL in choice.axes
        choices += workload.choose_along(_INTERVAL)[choice.optimizer] if has_several else [choice]
    tested = [[run for run in choice.reported if _test_values(run, metric)] for choice in choices]
    completed = (run for choice in choices for run in choice.reported if run["state"] == "completed")
    hardware, panels = len(set(map(timing, completed))), []
    for column, (quantity, units) in COSTS.items():
        costed = [  # a mean over some of the runs would mislead
            (choice, runs)
            for choice, runs in zip(choices, tested, strict=True)
            if runs and len(finite_values(runs, column)) == len(runs)
        ]
        if not costed or (column == TIME and hardware > 1):
            continue
        unit, size = choose_unit(units, min(float(run[column]) for _, runs in costed for run in runs))
        points = []
        for choice, runs in costed:
            interval = choice.fixed.get(_INTERVAL)
            cost = summarize([float(run[column]) / size for run in runs])
            test = summarize([metric.scale * value for run in runs for value in _test_values(run, metric)])
            point = make_cost_point(choice.optimizer, interval, cost, test)
            points.append(replace(point, n=test.n, keys=list_keys(runs)))
        about = describe_workload(workload, "test", choices)
        about = replace(about, seeds=[point.n or 0 for point in points])
        drawn = {point.optimizer for point in points}
        for kind, has_result in (("without_a_result", False), ("without_a_cost", True)):
            names = [
                display_name(choice.optimizer)
                for choice, runs in zip(choices, tested, strict=True)
                if bool(runs) is has_result and choice.optimizer not in drawn
            ]
            about = about.noted(Note(kind, names=[*dict.fromkeys(names)]) if names else None)
        about = about.noted(_note_hardware(hardware))
        panels.append(make_cost_panel(about, metric.higher_is_better, f"{quantity} ({unit})", points))
    return panels


def _test_values(run: Run, metric: Metric) -> list[float]:
    return finite_values([run], f"test_{metric.name}")


def make_cost_point(optimizer: str, interval: float | None, cost: Summary, test: Summary) -> Row:
    """A point of a panel of costs; its interval tells it from others of the optimizer, if it has one."""
    word = "" if interval is None else f"{interval:g}"
    series = f"{optimizer}, {_INTERVAL} {word}" if word else ""
    return Row("", optimizer, cost.mean, test.mean, test.std, x_sd=cost.std, series=series, text=word)


def make_cost_panel(about: About, higher_is_better: bool, axis: str, rows: list[Row]) -> Panel:
    """The panel of some points in the order of their cost; the front once more, each with its series."""
    quantity = f"{about.metric}{kinds.AGAINST}{axis}"
    rows = sorted((replace(row, quantity=quantity) for row in rows), key=lambda row: row.x)
    best = find_front(rows, higher_is_better)
    rows += [replace(row, series="Pareto front", role=kinds.FRONT, text=row.series) for row in best]
    return Panel("costs", about, tidy(rows), higher_is_better)


def find_front(rows: Sequence[Row], higher_is_better: bool) -> list[Row]:
    """The points that no other one beats: cheaper and better, or equal in one of the two.

    Args:
        rows: in any order.
        higher_is_better: of the metric.
    """
    sign = -1 if higher_is_better else 1
    ordered = sorted(
        (float(row.x), sign * row.y, place) for place, row in enumerate(rows) if row.y is not None
    )
    least = accumulate((value for _, value, _ in ordered), min, initial=math.inf)
    return [rows[place] for (_, value, place), bound in zip(ordered, least, strict=False) if value < bound]


def _note_hardware(hardware: int) -> Note | None:
    return Note("no_times", hardware=hardware) if hardware > 1 else None


# --- a row per optimizer ---

Ends = tuple[float, float, bool, bool]  # of a range, and whether each of them is open
Dot = tuple[float, Run, bool]  # a run's value, and whether it has reached it or only ended there


def make_entry(
    kind: str, mark: Row, spans: Mapping[str, Ends] | None = None, dots: Sequence[Dot] = ()
) -> list[Row]:
    """The values of one optimizer: its mark, its ranges and the single runs, by seed.

    Args:
        kind: of the panel.
        mark: the mean, or the chosen value, with the text at the right end, such as a number or why there is
            nothing, and the runs behind the ranges, if there are no single ones.
        spans: ranges by name.
        dots: the runs.
    """
    words = kinds.KINDS[kind].words
    keys = mark.keys or list_keys(run for _, run, _ in dots)
    mark = replace(mark, x=words[kinds.MARK], n=len(dots) or None, keys=keys, role=kinds.MARK)
    mark = replace(mark, place=display_name(mark.optimizer))
    rows = [mark]
    for name, (low, high, *ends) in (spans or {}).items():
        sides = [word for word, is_open in zip(("low", "high"), ends, strict=True) if is_open]
        x = f"{name}, open at the {' and the '.join(sides)} end" if sides else name
        span = replace(mark, x=x, y=None, y_low=low, y_high=high, role=kinds.SPAN, text=name)
        rows.append(replace(span, ends=(ends[0], ends[1])))
    for value, run, reached in dots:
        role = kinds.DOT if reached else kinds.MISSED
        x = f"{words[role]}, seed {run['seed']}"
        rows.append(replace(mark, x=x, y=value, n=1, keys=list_keys([run]), role=role, text=""))
    return rows


def plot_values(kind: str, about: About, rows: Sequence[Row]) -> Panel:
    """The panel of a value per optimizer, or of several, which x tells apart."""
    drawn = []
    is_mixed = len({row.source for row in rows}) > 1
    for row in rows:
        name = display_name(row.optimizer)
        place = name if row.x == name else f"{name}, {row.x}"
        place += ", published" if is_mixed and row.source == kinds.PUBLISHED else ""
        words = row.text if row.y is None else word_mean(row.y, row.y_sd)
        role = kinds.MARK if row.role == kinds.MARK else kinds.DOT
        drawn.append(replace(row, place=place, text=words, role=role))
    return Panel(kind, about, tidy(drawn))


def word_mean(mean: float, sd: float | None, digits: int | None = 2) -> str:
    """A mean and its spread in words; without a number of digits three of the mean count."""
    form = f".{digits}f" if digits is not None else ".0f" if mean >= 100 else ".3g"
    return f"{mean:{form}}" + ("" if sd is None else f" ± {sd:{form}}")


def plot_runs(
    kind: str,
    about: About,
    label: str,
    dots: Mapping[str, Sequence[Dot]],
    choices: Sequence[Choice],
    metric: Metric | None = None,
) -> Panel:
    """The runs of each best setting with their mean, the best on top.

    Who misses a target comes later: a mean of its other runs would be too good. Rows without runs are last.

    Args:
        kind, about: of the panel.
        label: of its values.
        dots: the runs by optimizer.
        choices: of the optimizers.
        metric: that of the values; None: they are times or steps.
    """
    entries, better = [], metric is not None and metric.higher_is_better
    for choice in choices:
        runs, spans = dots[choice.optimizer], dict[str, Ends]()
        values = [value for value, _, is_reached in runs if is_reached]
        states = dict.fromkeys(str(run["state"]) for run in choice.reported)
        without = str(Status.WAITING if choice.winner else choice.state)
        words, mean = [] if runs else [", ".join(states) or without], None
        if values and len(values) == len(runs):
            summary = summarize(values)
            mean = summary.mean
            words = [word_mean(mean, summary.std, metric.digits if metric else None)]
            if metric and summary.interval:
                interval = within(metric.column, summary.interval)
                spans["95 % interval of the mean"] = (*interval, False, False)
        if runs and len(values) < len(choice.reported):
            words.append(f"({len(values)}/{len(choice.reported)})")
        mark = Row(label, choice.optimizer, "", mean, text=" ".join(words))
        missed = len(runs) - len(values) if runs else math.inf
        order = missed, mean is None, -(mean or 0.0) if better else mean or 0.0
        entries.append((order, make_entry(kind, mark, spans, runs)))
    entries.sort(key=lambda entry: entry[0])
    return Panel(kind, about, tidy(chain(*(rows for _, rows in entries))), better)


def seed_spread(workload: Workload) -> list[Panel]:
    """Every reported run of each optimizer's best setting, mean and 95 % interval."""
    metric, choices, dots = workload.metric, workload.choices, dict[str, list[Dot]]()
    for choice in choices:
        values = ((value, run) for run in choice.reported for value in _test_values(run, metric))
        dots[choice.optimizer] = [(metric.scale * value, run, True) for value, run in values]
    about = describe_workload(workload, "test", choices)
    about = replace(about, seeds=[len(runs) for runs in dots.values() if runs])
    return [plot_runs("seeds", about, about.metric, dots, choices, metric)] if any(dots.values()) else []


def lr_width(workload: Workload) -> list[Panel]:
    """In which range of learning rates each optimizer stays close to its best, where it has two or more.

    All other settings are as chosen: an optimizer whose p was searched as well must not look wider for that.
    """
    metric, entries = workload.metric, []
    for choice in workload.choices if "lr" in workload.part[0] else ():
        mark = Row(kinds.AXES["lr"], choice.optimizer, "", None, text=str(choice.state))
        if choice.winner is None:
            entries.append(make_entry("widths", mark))
            continue
        tried = {float(rate.value("lr")): rate for rate in find_candidates_along(choice, "lr")}
        means = {lr: metric_summary(rate.runs, "val", metric) for lr, rate in tried.items()}
        levels = {lr: mean.mean for lr, mean in means.items() if mean is not None}
        diverged = [lr for lr, rate in tried.items() if rate.state == "diverged"]
        keys = list_keys(run for rate in tried.values() for run in rate.runs)
        mark = replace(mark, y=float(choice.winner.value("lr")), keys=keys)
        entries.append(_width_rows(mark, levels, diverged))
    return _plot_widths(describe_workload(workload, "validation"), entries)


def published_widths(curves: Iterable[Panel]) -> list[Panel]:
    """The same of published numbers, from panels of kind "rates"."""
    panels = []
    for curve in curves:
        entries = []
        points = curve.of(kinds.POINT, kinds.CHOSEN)
        points = points[points["source"] == kinds.PUBLISHED]
        for name, series in points.groupby("optimizer", sort=False):
            levels = {float(x): float(y) for x, y in zip(series["x"], series["y"], strict=True)}
            best = (max if curve.higher_is_better else min)(levels, key=lambda lr: levels[lr])
            mark = Row(kinds.AXES["lr"], str(name), "", best, source=kinds.PUBLISHED)
            entries.append(_width_rows(mark, levels))
        panels += _plot_widths(curve.about, entries)
    return panels


def _plot_widths(about: About, entries: Iterable[list[Row]]) -> list[Panel]:
    """The widest of the narrower ranges on top; optimizers without any come last."""

    def width(rows: list[Row]) -> tuple[float, ...]:
        spans = [(row.y_low, row.y_high) for row in reversed(rows) if row.role == kinds.SPAN]
        return tuple(high / low for low, high in spans if low and high)

    rows = [*chain(*sorted(entries, key=width, reverse=True))]
    return [Panel("widths", about, tidy(rows))] if any(row.role == kinds.SPAN for row in rows) else []


def _width_rows(mark: Row, levels: Mapping[float, float], diverged: Sequence[float] = ()) -> list[Row]:
    """The ranges around the best rate, which is the mark; none if only one rate was tried."""
    assert mark.y is not None
    spans, octaves, best = dict[str, Ends](), list[str](), mark.y
    for share in TOLERANCES if best in levels and len({*levels, *diverged}) > 1 else ():
        width = width_of(levels, best, share, diverged)
        spans[f"within {share:.0%} of its best"] = (width.low, width.high, width.open_low, width.open_high)
        octaves.append(f"{'>' if width.open_low or width.open_high else ''}{width.octaves:.1f}")
    return make_entry("widths", replace(mark, text=" / ".join(reversed(octaves)) or "one rate only"), spans)


def to_target(workload: Workload) -> list[Panel]:
    """How many steps, and how much time, each optimizer needs to be as good as Muon.

    The target is that of `results.compare.to_target`: where Muon's run of the same seeds ends. Without Muon
    it is the worst end of all reported runs; a task with a published target has that one. A run of fixed
    length lowers its learning rate towards its end, so that a shorter run might reach the target earlier. Two
    panels, steps and time; no times if the runs are from several kinds of hardware.
    """
    metric, choices, store = workload.metric, workload.choices, workload.store
    assert store is not None
    goals, target = _find_goals(choices, metric, describe_task(workload.part).target)
    runs = [run for choice in choices for run in choice.reported if run["state"] in _ENDED]
    name, better = f"val_{metric.name}", metric.higher_is_better
    curves = {run["key"]: read_evaluations(store.files(run["key"]).metrics, name) for run in runs}
    if not goals or max(map(len, curves.values()), default=0) < _FEWEST:
        return []
    ends: dict[str, list[Dot]] = {}  # by optimizer the steps to the target, or to the end of a run
    for choice in choices:
        ends[choice.optimizer] = []
        for run in choice.reported:
            goal = goals.get(read_seeds(run), goals.get(None))
            if run["key"] in curves and goal is not None:
                steps = find_steps_to(curves[run["key"]], goal, higher_is_better=better)
                end = float(run["steps"]) if steps is None else steps
                ends[choice.optimizer].append((end, run, steps is not None))
    hardware = len(set(map(timing, runs)))
    counts = [len(curve) for curve in curves.values() if curve]
    about = describe_workload(workload, "validation", choices)
    about = replace(about, seeds=[len(dots) for dots in ends.values() if dots])
    about = about.noted(target, Note("evaluations", count=format_span(counts)), _note_hardware(hardware))
    panels = [plot_runs("targets", about, "steps to target", ends, choices)]
    seconds = [estimate_seconds(run, steps) for dots in ends.values() for steps, run, _ in dots]
    if hardware <= 1 and any(seconds):  # other programs need not have recorded them
        unit, size = choose_unit(_SECONDS, min(filter(None, seconds)))
        times: dict[str, list[Dot]] = {
            optimizer: [
                (time / size, run, reached)
                for steps, run, reached in dots
                if (time := estimate_seconds(run, steps)) is not None
            ]
            for optimizer, dots in ends.items()
        }
        label = f"training time to target ({unit})"
        panels.append(plot_runs("targets", about, label, times, choices))
    return panels


def _find_goals(
    choices: Sequence[Choice], metric: Metric, published: float | None
) -> tuple[dict[Any, float], Note]:
    """The targets by seeds in the record's unit, and whose they are; by None one for all."""
    if published is not None:
        return {None: published}, Note("target_published", metric=metric.words, value=published)
    better = metric.higher_is_better

    def end(run: Run) -> float | None:
        return next(iter(finite_values([run], f"val_{metric.name}")), None)

    for choice in choices:
        if choice.winner is not None and choice.winner.value("rule") == _REFERENCE:
            if goals := find_targets(choice.reported, end, higher_is_better=better):
                return dict(goals), Note("target_of", whose=display_name(choice.optimizer))
    ends = [value for choice in choices for run in choice.reported if (value := end(run)) is not None]
    worst = min if better else max
    return ({None: worst(ends)} if ends else {}), Note("target_worst")
