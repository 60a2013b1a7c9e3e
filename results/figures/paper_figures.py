"""The frames of the paper's figures: published numbers, our runs that stand beside them, or both."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain, product
from string import ascii_lowercase

from htbench.harness.choice.winner import grouped
from htbench.harness.paper import reported
from htbench.harness.paper.reported import Reported
from htbench.harness.paper.scales import Workload
from htbench.harness.show.note import Note
from htbench.results.compare.layouts import list_lines, read_field
from htbench.results.compare.measured import Measured, measure_line
from htbench.results.compare.select import Row as Run
from htbench.results.compare.stats import summarize
from htbench.results.compare.view import Side
from htbench.results.figures import kinds, loss_figures, run_figures, spectra_figures
from htbench.results.figures.kinds import About, Panel, Row, tidy
from htbench.results.figures.style import display_name
from htbench.results.frames.metrics import loss_unit
from htbench.results.frames.spectra import read_spectra

Selection = tuple[str, str, Workload]  # published numbers: a table, optimizers, a workload of the paper

LLAMA = (("c4", "llama-60m"), ("c4", "llama-135m"))
_LOSS_RATE, _LOSS_WINDOW = 0.03, 50  # of both optimizers at full scale; steps of the moving average
_SVD_RATES = {"llama-60m": 0.03, "llama-135m": 0.02}  # of figures.csv
_LABELS = {"accuracy": "accuracy (%)", "seconds_per_step": "s/step"}
_STATES = {"completed": "without the figure", "waiting": "not run yet"}  # other states are words already


# --- values ---


def select(table: str, optimizers: str, *workloads: Workload) -> list[Selection]:
    """The published numbers of some optimizers, one word each, in a table: a selection for each workload."""
    return [(table, optimizers, workload) for workload in workloads]


def read_lines(view: Side, selection: Selection) -> list[Reported]:
    """The published numbers of a selection, optimizer by optimizer."""
    table, optimizers, workload = selection
    lines = [line for line in reported.of_table(table, view.scale) if (line.dataset, line.model) == workload]
    return [line for name in optimizers.split() for line in lines if line.optimizer == name]


def list_values(view: Side, line: Reported, x: float | str) -> list[Row]:
    """What a view shows of a line, published first; the quantity is its metric with its unit."""
    name, rows = line.optimizer, list[Row]()
    if view.published:
        quantity = _LABELS.get(line.metric, line.metric)
        rows = [Row(quantity, name, x, line.value, source=kinds.PUBLISHED)]
    return rows if view.ours is None else [*rows, our_row(line, measure_line(view.ours, line), x)]


def our_row(line: Reported, measurement: Measured, x: float | str) -> Row:
    """Our number; without one, why there is none."""
    label, summary = measurement.metric.label if measurement.metric else "", measurement.summary
    if summary is not None:
        keys = measurement.keys
        return Row(label, line.optimizer, x, summary.mean, summary.std, n=summary.n, keys=keys)
    role = kinds.DIVERGED if measurement.state == "diverged" else kinds.POINT
    reason = _STATES.get(measurement.state, str(measurement.state))
    return Row(label, line.optimizer, x, None, role=role, text=reason)


def _find_label(rows: Iterable[Row]) -> str:
    return next(row.quantity for row in rows if row.quantity)


def _reported_runs(measurement: Measured) -> Sequence[Run]:
    """The runs behind a number; none without it."""
    return measurement.runs if measurement.sample else []


def _read_spectra(view: Side, lines: Iterable[Reported]) -> spectra_figures.Measured:
    """Of the runs beside some lines that have measured their weights, by optimizer."""
    if view.ours is None or view.store is None:
        return {}
    runs = {line.optimizer: _reported_runs(measure_line(view.ours, line)) for line in lines}
    return spectra_figures.drop_unmeasured({name: read_spectra(runs[name], view.store) for name in runs})


# --- words ---


def _describe(
    view: Side, title: str, rows: Sequence[Row] = (), *notes: Note | None, split: str = "test"
) -> About:
    """What is said of a panel of the paper.

    Args:
        view: what it shows.
        title: of the panel.
        rows: all values that it should have: how many seeds ours have, and how many are missing, and why.
        notes: more of them.
        split: of our values.
    """
    source = Note("values_both") if view.published else Note("values_ours", scale=view.scale)
    source = Note("values_published") if view.ours is None else source
    our_rows = [row for row in rows if row.source != kinds.PUBLISHED]
    states = Counter(row.text for row in our_rows if row.y is None)
    missing = Note("missing_values", states=[f"{count} {state}" for state, count in states.items()])
    return About(
        title,
        metric=_find_label(rows) if any(row.y is not None for row in rows) else "",
        seeds=[row.n for row in our_rows if row.n is not None],
        fresh=view.scale != "paper" and split == "test",
        facts=tuple(filter(None, (source, *notes, missing if states else None))),
    )


def _describe_twin(
    view: Side, line: Reported, rows: Sequence[Row] = (), *notes: Note | None, **more: str
) -> About:
    """The same of the workload of a line; at other scales also the published one that a twin stands for."""
    twin = None if view.scale == "paper" else Note("stands_for", model=line.model, dataset=line.dataset)
    return _describe(view, " · ".join(line.workload), rows, twin, *notes, **more)


def _add_letters(panels: Iterable[Panel | None]) -> list[Panel]:
    """The panels that there are; each keeps the letter that it has in the paper."""
    lettered = zip(ascii_lowercase, panels, strict=False)
    titles = [(panel, f"({letter}) {panel.about.title}") for letter, panel in lettered if panel]
    return [replace(panel, about=replace(panel.about, title=title)) for panel, title in titles]


# --- a value per optimizer ---


def plot_variants(selections: Iterable[Selection], view: Side) -> list[Panel]:
    """The metric of each optimizer, a panel for each selection."""
    panels = []
    for selection in selections:
        lines = read_lines(view, selection)
        rows = [row for line in lines for row in list_values(view, line, display_name(line.optimizer))]
        panels.append(_plot_values(_describe_twin(view, lines[0], rows), rows))
    return _add_letters(panels)


def _plot_values(about: About, rows: Sequence[Row]) -> Panel | None:
    """All of one quantity; None if there is no value at all."""
    if all(row.y is None for row in rows):
        return None
    label = _find_label(rows)
    return run_figures.plot_values("values", about, [replace(row, quantity=label) for row in rows])


def alpha_teaser(view: Side) -> list[Panel]:
    """Mean alpha of Muon and COSMOS, and their perplexity."""
    alphas, values = list[Row](), list[Row]()
    notes, counts = list[Note](), list[int]()
    for selection in select("optimizer_variants", "muon cosmos", *LLAMA):
        lines = read_lines(view, selection)
        group, spectra = lines[0].workload[1], _read_spectra(view, lines)
        values += [row for line in lines for row in list_values(view, line, group)]
        if spectra:
            rows, which = spectra_figures.average_alphas(spectra, group)
            alphas += rows or [Row("mean alpha", name, group, None, text="no layer fit") for name in spectra]
            notes.append(which)
            counts += map(len, spectra.values())
    about = replace(_describe(view, "Mean alpha of the layers", (), *notes), seeds=counts)
    first = run_figures.plot_values("alphas", about, alphas) if alphas else None
    return _add_letters([first, _plot_values(_describe(view, "Perplexity", values), values)])


def muon_ns_vs_svd(view: Side) -> list[Panel]:
    """Perplexity of Muon by Newton-Schulz iterations beside Muon by an exact SVD, and their updates.

    Nothing of it is published as data. The updates have a panel for each, with the same matrices and steps,
    and the same limits: alone, an axis of all ones would show its rounding errors only.
    """
    if view.ours is None or view.store is None:
        return []
    pairs, is_full = list[tuple[Reported, Measured]](), view.scale == "paper"
    for selection in select("main_result", "muon", *LLAMA):
        (muon,) = read_lines(view, selection)
        # what a table would have of an optimizer that is only in a figure
        svd = replace(muon, row="muon_svd", optimizer="muon_svd", lr=None, table="", printed="nan")
        rate = _SVD_RATES[muon.model] if is_full else None
        pairs += [(line, measure_line(view.ours, line, rate)) for line in (muon, svd)]
    rates = Note("rates_of_paper", rates=[f"{rate:g} ({model})" for model, rate in _SVD_RATES.items()])
    rows = [our_row(line, measurement, line.workload[1]) for line, measurement in pairs]
    about = _describe(view, "Newton-Schulz or SVD", rows, rates if is_full else Note("best_rates"))
    runs_of = {line.optimizer: _reported_runs(measurement) for line, measurement in pairs[:2]}
    spectra = {name: read_spectra(runs_of[name], view.store) for name in runs_of}
    shape = spectra_figures.find_largest_shape(chain(*spectra.values()))
    which = Note("matrices_of", rows=shape[0], columns=shape[1], model=pairs[0][0].workload[1])
    points: dict[str, list[Row]] = {name: [] for name in spectra}
    for name, runs in spectra.items():
        for step in sorted({step for run in runs for step in run.updates}):
            updates = spectra_figures.select_updates(runs, step, shape)
            points[name] += spectra_figures.make_rank_rows(name, updates, runs, f"step {step}")
    limits = (0.0, 1.05 * max([1.0, *(row.y_high or 0.0 for row in chain(*points.values()))]))
    panels = [_plot_values(about, rows)]
    for name, curves in points.items():
        about = replace(
            _describe(view, f"Updates of {display_name(name)}", (), which), seeds=[len(spectra[name])]
        )
        frame = tidy([*curves, spectra_figures.ALL_ONES])
        panels.append(Panel("ranks", about, frame, y_limits=limits, y_log=False) if curves else None)
    return _add_letters(panels)


# --- curves ---


def _make_series(
    rows: Iterable[Row], optimizer: str, name: str = "", chosen: float | None = None
) -> list[Row]:
    """The values of each source as a series along x: its points, then what diverged; the rest is left out.

    Args:
        rows: those that stand in one series.
        optimizer: whose series it is.
        name: of the series, if not that of the optimizer.
        chosen: the x that was chosen among ours.
    """
    drawable = [row for row in rows if row.y is not None or row.role == kinds.DIVERGED]
    sources = list(dict.fromkeys(row.source for row in drawable))
    drawable.sort(key=lambda row: (sources.index(row.source), row.y is None, row.x))
    series = []
    for row in drawable:
        is_chosen = row.x == chosen and row.source == kinds.RUNS and row.role == kinds.POINT
        role = kinds.CHOSEN if is_chosen else row.role
        series.append(replace(row, series=name or optimizer, optimizer=optimizer, role=role))
    return series


def plot_curves(kind: str, axis: str, selections: Iterable[Selection], view: Side) -> list[Panel]:
    """The metric against a field of the published numbers, a panel for each selection.

    p = 0 is Muon (or NorMuon) at its own best rate. Against the learning rate it is at full scale the
    reported metric, as published. Else it is the validation metric of the search, which has the only runs at
    all rates.
    """
    panels, is_grid = list[Panel | None](), axis == "lr"
    for selection in selections:
        rows, points, lines = list[Row](), list[Row](), read_lines(view, selection)
        for name, of_series in grouped(lines, lambda line: str(read_field(line, "optimizer"))).items():
            chosen = None
            if is_grid and view.ours is not None:
                choices = view.ours.choices(of_series[0].place)
                chosen = choices[-1].winner if choices else None
                of_series = list_lines(of_series, view.ours)
            known = [(line, x) for line in of_series if (x := read_field(line, axis)) is not None]
            curve = [row for line, x in known for row in list_values(view, line, x)]
            rows += curve
            points += _make_series(curve, name, "", None if chosen is None else float(chosen.value("lr")))
        about = _describe_twin(view, lines[0], rows, split="validation" if is_grid else "test")
        label = about.metric if view.scale == "paper" or not is_grid else f"validation {about.metric}"
        frame = tidy(replace(row, quantity=label) for row in points)
        panel = Panel(kind, replace(about, metric=label), frame, lines[0].dataset != "c4")
        panels.append(panel if points else None)
    return _add_letters(panels)


def plot_intervals(base: str, optimizers: str, view: Side) -> list[Panel]:
    """Left the metric, right the time of a step, against the interval: a panel for each model and optimizer.

    `base` is the optimizer between HTMuon's updates.
    """
    panels = [_plot_interval(base, name, workload, view) for workload in LLAMA for name in optimizers.split()]
    return _add_letters(panels)


def _plot_interval(base: str, optimizer: str, workload: Workload, view: Side) -> Panel | None:
    points, levels, abouts = list[Row](), list[Row](), list[About]()
    for table, right in (("interval_perplexity", ""), ("interval_step_time", ", time (right)")):
        lines = read_lines(view, (table, optimizer, workload))
        curve = [row for line in lines for row in list_values(view, line, float(line.interval or 1))]
        series = _make_series(curve, optimizer, f"{display_name(optimizer)}{right}" if right else "")
        if not right and not series:
            return None
        label = _find_label(curve) if series else ""
        points += [replace(row, quantity=label) for row in series]
        of_base = [
            row for line in read_lines(view, (table, base, workload)) for row in list_values(view, line, "")
        ]
        for row in of_base:
            level = replace(row, quantity=label, series=f"{display_name(base)}{right}", y_sd=None, n=None)
            levels += [replace(level, role=kinds.LEVEL)] if row.y is not None else []
        abouts.append(_describe_twin(view, lines[0], curve))
    about = replace(abouts[0], title=f"{display_name(optimizer)} · {abouts[0].title}")
    return Panel("intervals", about, tidy([*points, *levels]))


# --- weights, losses and hours ---


def plot_layers(columns: Iterable[str], selections: Sequence[Selection], view: Side) -> list[Panel]:
    """Quantities of each layer of some optimizers, a panel for each quantity and selection."""
    panels = list[Panel | None]()
    for column, selection in product(columns, selections):
        lines = read_lines(view, selection)
        spectra, about = _read_spectra(view, lines), _describe_twin(view, lines[0])
        panels.append(spectra_figures.plot_layers(about, spectra, column) if spectra else None)
    return _add_letters(panels)


def loss(view: Side) -> list[Panel]:
    """Training losses of Muon beside HTMuon, a panel for each model with a completed run."""
    if view.ours is None or view.store is None:
        return []
    full, panels = view.scale == "paper", list[Panel | None]()
    rates = Note("rates_of_paper", rates=[_LOSS_RATE]) if full else Note("best_rates")
    for selection in select("main_result", "muon htmuon", *LLAMA):
        lines = read_lines(view, selection)
        measured = {line: measure_line(view.ours, line, _LOSS_RATE if full else None) for line in lines}
        completed = {line: loss_figures.select_completed(_reported_runs(measured[line])) for line in lines}
        runs = {line.optimizer: completed[line] for line in lines if completed[line]}
        if not runs:
            panels.append(None)
            continue
        about = _describe_twin(view, lines[0], (), rates)
        unit = loss_unit(view.ours.runs(lines[0].place))
        panels.append(loss_figures.plot_losses(about, unit, runs, view.store, _LOSS_WINDOW if full else None))
    return _add_letters(panels)


def hours(view: Side) -> list[Panel]:
    """The published perplexity against the published hours; all times of a panel are from one machine."""
    panels = []
    for workload, lines in grouped(reported.of_table("wall_clock"), lambda line: line.workload).items():
        hours_of = {line.place: line.value for line in lines if line.metric == "hours"}
        points = []
        for line in (line for line in lines if line.metric == "perplexity"):
            cost, test = summarize([hours_of[line.place]]), summarize([line.value])
            point = run_figures.make_cost_point(line.optimizer, line.interval, cost, test)
            points.append(replace(point, source=kinds.PUBLISHED))
        about = _describe(view, " · ".join(workload), (), Note("hardware", name=lines[0].hardware))
        about = replace(about, metric="perplexity")
        panels.append(run_figures.make_cost_panel(about, False, "training time (hours)", points))
    return panels
