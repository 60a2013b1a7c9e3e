"""The frames of the paper's figures: published numbers, our runs that stand beside them, or both."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from string import ascii_lowercase

from htbench.harness.choice.winner import grouped
from htbench.harness.paper import reported
from htbench.harness.paper.reported import Reported
from htbench.harness.paper.scales import Workload
from htbench.harness.show.note import Note
from htbench.results.compare.layouts import list_lines
from htbench.results.compare.measured import Measured, measure_line
from htbench.results.compare.select import Row as Run
from htbench.results.compare.stats import summarize
from htbench.results.compare.view import Side
from htbench.results.figures import kinds, loss_figures, run_figures, spectra_figures
from htbench.results.figures.kinds import About, Panel, Row, tidy
from htbench.results.figures.style import display_name
from htbench.results.frames.metrics import loss_unit
from htbench.results.frames.spectra import read_spectra

_LLAMA = (("c4", "llama-60m"), ("c4", "llama-135m"))
_RESNETS = [(data, net) for net in ("resnet50", "resnet18") for data in ("cifar100", "cifar10")]
_LOSS_RATE, _LOSS_WINDOW = 0.03, 50  # of both optimizers at full scale; steps of the moving average
_SVD_RATES = {"llama-60m": 0.03, "llama-135m": 0.02}  # of figures.csv
_LABELS = {"accuracy": "accuracy (%)", "seconds_per_step": "s/step"}
_STATES = {"completed": "without the figure", "waiting": "not run yet"}  # other states are words already


# --- values ---


def select_lines(view: Side, table: str, workload: Workload, *optimizers: str) -> list[Reported]:
    """The published numbers of some optimizers, in their order, in a table on one workload of the paper."""
    lines = [line for line in reported.of_table(table, view.scale) if (line.dataset, line.model) == workload]
    return [line for name in optimizers for line in lines if line.optimizer == name]


def list_values(view: Side, line: Reported, x: float | str) -> list[Row]:
    """What a view shows of a line, published first; the quantity is its metric with its unit."""
    name, rows = line.optimizer, list[Row]()
    if view.published:
        quantity = _LABELS.get(line.metric, line.metric)
        rows = [Row(quantity, name, x, line.value, source=kinds.PUBLISHED, optimizer=name)]
    return rows if view.ours is None else [*rows, our_row(line, measure_line(view.ours, line), x)]


def our_row(line: Reported, measurement: Measured, x: float | str) -> Row:
    """Our number; without one, why there is none."""
    name, summary = line.optimizer, measurement.summary
    row = Row(measurement.metric.label if measurement.metric else "", name, x, None, optimizer=name)
    if summary is not None:
        return replace(row, y=summary.mean, y_sd=summary.std, n=summary.n, keys=measurement.keys)
    role = kinds.DIVERGED if measurement.state == "diverged" else kinds.MISSING
    return replace(row, role=role, text=_STATES.get(measurement.state, str(measurement.state)))


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


# --- dots ---


def muon_variants(view: Side) -> list[Panel]:
    """Perplexity of Muon and its variants, a panel for each model."""
    return _plot_variants(view, ("muon", "htmuon", "normuon", "htmuon_normuon", "adamuon"))


def optimizer_variants(view: Side) -> list[Panel]:
    """Perplexity of Muon, HTMuon and optimizers of other families, a panel for each model."""
    return _plot_variants(view, ("muon", "htmuon", "mars", "soap", "cautious", "cosmos", "galore", "sophia"))


def _plot_variants(view: Side, optimizers: Sequence[str]) -> list[Panel]:
    panels = []
    for workload in _LLAMA:
        lines = select_lines(view, "optimizer_variants", workload, *optimizers)
        rows = [row for line in lines for row in list_values(view, line, display_name(line.optimizer))]
        panels.append(_plot_dots(_describe_twin(view, lines[0], rows), rows))
    return _add_letters(panels)


def _plot_dots(about: About, rows: Sequence[Row]) -> Panel | None:
    """None if there is no value at all."""
    if all(row.y is None for row in rows):
        return None
    label = _find_label(rows)
    return Panel("values", about, tidy(replace(row, quantity=label) for row in rows), y_label=label)


def alpha_teaser(view: Side) -> list[Panel]:
    """Mean alpha of Muon and COSMOS, and their perplexity."""
    selected = [select_lines(view, "optimizer_variants", workload, "muon", "cosmos") for workload in _LLAMA]
    groups = [(lines[0].workload[1], lines) for lines in selected]
    alphas: list[Row] = []
    notes, counts = list[Note](), list[int]()
    for group, lines in groups:
        spectra = _read_spectra(view, lines)
        if spectra:
            rows, which = spectra_figures.average_alphas(spectra, group)
            blank = Row("mean alpha", "", group, None, role=kinds.MISSING, text="no layer fit")
            alphas += rows or [replace(blank, series=name, optimizer=name) for name in spectra]
            notes.append(which)
            counts += map(len, spectra.values())
    about = replace(_describe(view, "Mean alpha of the layers", (), *notes), seeds=counts)
    first = Panel("alphas", about, tidy(alphas), y_label="mean alpha") if alphas else None
    rows = [row for group, lines in groups for line in lines for row in list_values(view, line, group)]
    return _add_letters([first, _plot_dots(_describe(view, "Perplexity", rows), rows)])


def muon_ns_vs_svd(view: Side) -> list[Panel]:
    """Perplexity of Muon by Newton-Schulz iterations beside Muon by an exact SVD, and their updates.

    Nothing of it is published as data. The updates have a panel for each, with the same matrices and steps,
    and the same limits: alone, an axis of all ones would show its rounding errors only.
    """
    if view.ours is None or view.store is None:
        return []
    pairs, is_full = list[tuple[Reported, Measured]](), view.scale == "paper"
    for workload in _LLAMA:
        (muon,) = select_lines(view, "main_result", workload, "muon")
        # what a table would have of an optimizer that is only in a figure
        svd = replace(muon, row="muon_svd", optimizer="muon_svd", lr=None, table="", printed="nan")
        rate = _SVD_RATES[muon.model] if is_full else None
        pairs += [(line, measure_line(view.ours, line, rate)) for line in (muon, svd)]
    rates = Note("rates_of_paper", rates=[f"{rate:g} ({model})" for model, rate in _SVD_RATES.items()])
    how = rates if is_full else Note("best_rates")
    rows = [our_row(line, measurement, line.workload[1]) for line, measurement in pairs]
    about = _describe(view, "Newton-Schulz or SVD", rows, how)
    model = pairs[0][0].workload[1]
    runs_of = {line.optimizer: _reported_runs(measurement) for line, measurement in pairs[:2]}
    spectra = {name: read_spectra(runs_of[name], view.store) for name in runs_of}
    shape = spectra_figures.find_largest_shape(chain(*spectra.values()))
    curves: list[Panel | None] = []
    for name, runs in spectra.items():
        points = []
        for step in sorted({step for run in runs for step in run.updates}):
            updates = spectra_figures.select_updates(runs, step, shape)
            points += spectra_figures.make_rank_rows(name, updates, runs, f"step {step}")
        which = Note("matrices_of", rows=shape[0], columns=shape[1], model=model)
        of_updates = _describe(view, f"Updates of {display_name(name)}", (), which)
        frame = tidy([*points, spectra_figures.ALL_ONES])
        label = spectra_figures.UPDATE
        panel = Panel("ranks", replace(of_updates, seeds=[len(runs)]), frame, y_label=label, y_log=False)
        curves.append(panel if points else None)
    highest = max((panel.of(kinds.POINT)["y_high"].max() for panel in curves if panel), default=1.0)
    limits = (0.0, 1.05 * max(1.0, highest))
    curves = [replace(panel, y_limits=limits) if panel else None for panel in curves]
    return _add_letters([_plot_dots(about, rows), *curves])


# --- curves ---


def _make_series(
    rows: Iterable[Row], optimizer: str = "", name: str = "", chosen: float | None = None
) -> list[Row]:
    """The values of each source as a series along x: its points, then what diverged; the rest is left out.

    Args:
        rows: those that stand in one series.
        optimizer: whose series it is, if not that of each value.
        name: of the series, if not that of the optimizer.
        chosen: the x that was chosen among ours.
    """
    drawable = [row for row in rows if row.y is not None or row.role == kinds.DIVERGED]
    sources = list(dict.fromkeys(row.source for row in drawable))
    drawable.sort(key=lambda row: (sources.index(row.source), row.y is None, row.x))
    series = []
    for row in drawable:
        whose = optimizer or row.optimizer
        is_chosen = row.x == chosen and row.source == kinds.RUNS and row.role == kinds.POINT
        role = kinds.CHOSEN if is_chosen else row.role
        series.append(replace(row, series=name or whose, optimizer=whose, role=role))
    return series


def _plot_curve(kind: str, about: About, points: list[Row], prefix: str = "") -> Panel | None:
    """The panel of some points; None without any."""
    if not points:
        return None
    label = prefix + about.metric
    frame = tidy(replace(row, quantity=label) for row in points)
    return Panel(kind, replace(about, metric=label), frame, y_label=label)


def p_curve(view: Side) -> list[Panel]:
    """Perplexity against p, a panel for each model. p = 0 is Muon (or NorMuon) at its own best rate."""
    panels = []
    for workload in _LLAMA:
        rows, points = [], []
        for base, name in (("muon", "htmuon"), ("normuon", "htmuon_normuon")):
            lines = select_lines(view, "p_grid_c4", workload, base, name)
            curve = [row for line in lines for row in list_values(view, line, line.p or 0.0)]
            rows += curve
            points += _make_series(curve, name)
        panels.append(_plot_curve("powers", _describe_twin(view, lines[0], rows), points))
    return _add_letters(panels)


def lr_curve(view: Side) -> list[Panel]:
    """The metric against the learning rate, of Muon, NorMuon and both with HTMuon: a panel for each workload.

    At full scale the reported metric, as published. Else the validation metric of the search, which has the
    only runs at all rates.
    """
    places = [("lr_grid_c4", workload) for workload in _LLAMA]
    cifar = ((data, net) for data in ("cifar100", "cifar10") for net in ("resnet18", "resnet50"))
    places += [(f"lr_grid_{workload[0]}", workload) for workload in cifar]
    panels = []
    for table, workload in places:
        rows, points = [], []
        for optimizer in ("muon", "normuon", "htmuon", "htmuon_normuon"):
            lines = select_lines(view, table, workload, optimizer)
            choices = view.ours.choices(lines[0].place) if view.ours is not None else []
            winner = choices[-1].winner if choices else None
            lines = lines if view.ours is None else list_lines(lines, view.ours)
            curve = [row for line in lines if line.lr is not None for row in list_values(view, line, line.lr)]
            rows += curve
            points += _make_series(curve, chosen=None if winner is None else float(winner.value("lr")))
        prefix = "" if view.scale == "paper" else "validation "
        panel = _plot_curve("rates", _describe_twin(view, lines[0], rows, split="validation"), points, prefix)
        panels.append(panel and replace(panel, higher_is_better=workload[0] != "c4"))
    return _add_letters(panels)


def interval(view: Side) -> list[Panel]:
    """Perplexity and time of a step against the interval, of HTMuon and HTMuon_NS on both models."""
    names = ("htmuon", "htmuon_ns")
    return _add_letters(_plot_interval(view, workload, name, "muon") for workload in _LLAMA for name in names)


def normuon_interval(view: Side) -> list[Panel]:
    """The same of HTMuon with NorMuon's normalisation."""
    return _add_letters(_plot_interval(view, workload, "htmuon_normuon", "normuon") for workload in _LLAMA)


def _plot_interval(view: Side, workload: Workload, optimizer: str, base: str) -> Panel | None:
    """Left the perplexity, right the time; `base` is the optimizer between HTMuon's updates."""
    points: list[Row] = []
    levels: list[Row] = []
    quality: list[Row] = []
    labels: list[str] = []
    for table, right in (("interval_perplexity", ""), ("interval_step_time", ", time (right)")):
        lines = select_lines(view, table, workload, optimizer)
        curve = [row for line in lines for row in list_values(view, line, float(line.interval or 1))]
        series = _make_series(curve, name=f"{display_name(optimizer)}{right}" if right else "")
        if not right and not series:
            return None
        quality = quality or curve
        label = _find_label(curve) if series else ""
        points += [replace(row, quantity=label) for row in series]
        labels.append(label)
        base_lines = select_lines(view, table, workload, base)
        for row in (row for line in base_lines for row in list_values(view, line, "")):
            level = replace(row, quantity=label, series=f"{display_name(base)}{right}", y_sd=None, n=None)
            levels += [replace(level, role=kinds.LEVEL)] if row.y is not None else []
    about = _describe_twin(view, lines[0], quality)
    about = replace(about, title=f"{display_name(optimizer)} · {about.title}")
    frame = tidy([*points, *levels])
    return Panel("intervals", about, frame, y_label=labels[0], right_label=labels[1])


# --- weights, losses and hours ---


def alpha_layers(view: Side) -> list[Panel]:
    """Alpha of each layer: both LLaMA, then ResNet-50 on both datasets."""
    places = [*(("main_result", workload) for workload in _LLAMA), *(("cifar", net) for net in _RESNETS[:2])]
    return _add_letters(_plot_layers(view, *place, "htmuon", "alpha") for place in places)


def alpha_layers_more(view: Side) -> list[Panel]:
    """Alpha of each layer: ResNet-18 on both datasets, then both LLaMA with HTMuon_HT."""
    places = [("cifar", workload, "htmuon") for workload in _RESNETS[2:]]
    places += [("htmuon_ht", workload, "htmuon_ht") for workload in _LLAMA]
    return _add_letters(_plot_layers(view, *place, "alpha") for place in places)


def norms(view: Side) -> list[Panel]:
    """Spectral norm of each layer of both LLaMA, then the Frobenius norm."""
    return _add_letters(
        _plot_layers(view, "main_result", workload, "htmuon", name)
        for name in spectra_figures.NORMS
        for workload in _LLAMA
    )


def _plot_layers(view: Side, table: str, workload: Workload, beside: str, column: str) -> Panel | None:
    """Muon and another optimizer; None without a run that has measured its weights."""
    lines = select_lines(view, table, workload, "muon", beside)
    spectra = _read_spectra(view, lines)
    return spectra_figures.plot_layers(_describe_twin(view, lines[0]), spectra, column) if spectra else None


def loss(view: Side) -> list[Panel]:
    """Training losses of Muon beside HTMuon, a panel for each model with a completed run."""
    if view.ours is None or view.store is None:
        return []
    full, panels = view.scale == "paper", list[Panel | None]()
    rates = Note("rates_of_paper", rates=[_LOSS_RATE]) if full else Note("best_rates")
    for workload in _LLAMA:
        lines = select_lines(view, "main_result", workload, "muon", "htmuon")
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
            interval = "" if line.interval is None else str(line.interval)
            cost, test = summarize([hours_of[line.place]]), summarize([line.value])
            points.append(run_figures.make_cost_point(line.optimizer, interval, cost, test, kinds.PUBLISHED))
        about = _describe(view, " · ".join(workload), (), Note("hardware", name=lines[0].hardware))
        about = replace(about, metric="perplexity")
        panels.append(
            run_figures.make_cost_panel(about, "perplexity", False, "training time (hours)", points)
        )
    return panels
