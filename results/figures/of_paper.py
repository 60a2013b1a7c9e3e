"""The frames of the paper's figures: published numbers, our runs that stand beside them, or both."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from string import ascii_lowercase

from htbench.harness.paper import experiments, reported, scales
from htbench.harness.paper.reported import Reported, Setting
from htbench.harness.show.note import Note
from htbench.results.compare.measured import Measured, measure_at_rate, measure_choices, measure_line
from htbench.results.compare.select import Row as Run
from htbench.results.compare.stats import summarize
from htbench.results.compare.view import Side
from htbench.results.figures import kinds, of_losses, of_runs, of_spectra
from htbench.results.figures.kinds import About, Panel, Row, tidy
from htbench.results.figures.style import display_name
from htbench.results.frames.metrics import loss_unit
from htbench.results.frames.spectra import of_runs as spectra_of

_LLAMA = ("llama-60m", "llama-135m")
_RESNETS = [("cifar", data, net) for net in ("resnet50", "resnet18") for data in ("cifar100", "cifar10")]
_LOSS_RATE, _LOSS_WINDOW = 0.03, 50  # of both optimizers at full scale; steps of the moving average
_SVD_RATES = {"llama-60m": 0.03, "llama-135m": 0.02}  # of figures.csv
_LABELS = {"accuracy": "accuracy (%)", "seconds_per_step": "s/step"}
_STATES = {"completed": "without the figure", "waiting": "not run yet"}  # other states are words already
Place = tuple[str, str, str]  # published table, dataset and model


# --- values ---


def published_lines(place: Place, optimizers: Iterable[str] = ()) -> list[Reported]:
    """The published numbers of a table on one workload; of these optimizers in their order, or of all."""
    table, dataset, model = place
    known = [one for one in reported.of_table(table) if (one.dataset, one.model) == (dataset, model)]
    names = list(optimizers) or list(dict.fromkeys(one.setting.optimizer for one in known))
    return [one for name in names for one in known if one.setting.optimizer == name]


def values(view: Side, line: Reported, x: float | str) -> list[Row]:
    """What a view shows of a line, published first; the quantity is its metric with its unit."""
    name, quantity = line.setting.optimizer, _LABELS.get(line.metric, line.metric)
    published = Row(quantity, name, x, line.value, source=kinds.PUBLISHED, optimizer=name)
    found = [published] if view.published else []
    return found if view.ours is None else [*found, ours(line, measure_line(view.ours, line), x)]


def ours(line: Reported, found: Measured, x: float | str) -> Row:
    """Our number; without one, why there is none."""
    name, summary = line.setting.optimizer, found.summary
    row = Row(found.metric.label if found.metric else "", name, x, None, optimizer=name)
    if summary is not None:
        return replace(row, y=summary.mean, y_sd=summary.std, n=summary.n, keys=found.keys)
    role = kinds.DIVERGED if found.state == "diverged" else kinds.MISSING
    return replace(row, role=role, text=_STATES.get(found.state, str(found.state)))


def _label(rows: Iterable[Row]) -> str:
    return next(row.quantity for row in rows if row.quantity)


def _at_rate(view: Side, line: Reported, lr: float) -> Measured:
    """Our number beside a line, at full scale with the learning rate of the figure, else with the best."""
    assert view.ours is not None
    if view.scale != "paper":
        return measure_line(view.ours, line)
    return measure_choices(view.ours, line, view.ours.choices(experiments.place(line, view.scale), lr))


def _completed(found: Measured) -> Sequence[Run]:
    """The runs behind a number; none without it."""
    return found.runs if found.sample else []


def _spectra(view: Side, own: Iterable[Reported]) -> of_spectra.Measured:
    """Of the runs beside some lines that have measured their weights, by optimizer."""
    if view.ours is None or view.store is None:
        return {}
    runs = {line.setting.optimizer: _completed(measure_line(view.ours, line)) for line in own}
    return of_spectra.with_weights({name: spectra_of(found, view.store) for name, found in runs.items()})


# --- words ---


def _workload(view: Side, dataset: str, model: str) -> str:
    """ "c4 · llama-60m"; at other scales the names of the twin: "pydocs · llama-nano-60m"."""
    return " · ".join(scales.workload(view.scale, dataset, model))


def _model(view: Side, model: str) -> str:
    return scales.workload(view.scale, "c4", model)[1]


def _source(view: Side) -> Note:
    """Whose values these are."""
    if view.ours is None:
        return Note("values_published")
    return Note("values_both") if view.published else Note("values_ours", scale=view.scale)


def _about(
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
    own = [row for row in rows if row.source != kinds.PUBLISHED]
    states = Counter(row.text for row in own if row.y is None)
    missing = Note("missing_values", states=[f"{count} {state}" for state, count in states.items()])
    return About(
        title,
        metric=_label(rows) if any(row.y is not None for row in rows) else "",
        seeds=[row.n for row in own if row.n is not None],
        fresh=view.scale != "paper" and split == "test",
        facts=tuple(filter(None, (_source(view), *notes, missing if states else None))),
    )


def _of_twin(
    view: Side, dataset: str, model: str, rows: Sequence[Row] = (), *notes: Note | None, **more: str
) -> About:
    """The same of a workload; at other scales also the published one that a twin stands for."""
    twin = None if view.scale == "paper" else Note("stands_for", model=model, dataset=dataset)
    return _about(view, _workload(view, dataset, model), rows, twin, *notes, **more)


def _lettered(panels: Iterable[Panel | None]) -> list[Panel]:
    """The panels that there are; each keeps the letter that it has in the paper."""
    named = zip(ascii_lowercase, panels, strict=False)
    return [
        replace(panel, about=replace(panel.about, title=f"({letter}) {panel.about.title}"))
        for letter, panel in named
        if panel
    ]


# --- dots ---


def muon_variants(view: Side) -> list[Panel]:
    """Perplexity of Muon and its variants, a panel for each model."""
    return _dots_of(view, ("muon", "htmuon", "normuon", "htmuon_normuon", "adamuon"))


def optimizer_variants(view: Side) -> list[Panel]:
    """Perplexity of Muon, HTMuon and optimizers of other families, a panel for each model."""
    return _dots_of(view, ("muon", "htmuon", "mars", "soap", "cautious", "cosmos", "galore", "sophia"))


def _dots_of(view: Side, optimizers: Sequence[str]) -> list[Panel]:
    panels = []
    for model in _LLAMA:
        own = published_lines(("optimizer_variants", "c4", model), optimizers)
        rows = [row for line in own for row in values(view, line, display_name(line.setting.optimizer))]
        panels.append(_dots(_of_twin(view, "c4", model, rows), rows))
    return _lettered(panels)


def _dots(of: About, rows: Sequence[Row]) -> Panel | None:
    """None if there is no value at all."""
    if all(row.y is None for row in rows):
        return None
    label = _label(rows)
    return Panel("values", of, tidy(replace(row, quantity=label) for row in rows), y_label=label)


def alpha_teaser(view: Side) -> list[Panel]:
    """Mean alpha of Muon and COSMOS, and their perplexity."""
    own = [
        (_model(view, model), published_lines(("optimizer_variants", "c4", model), ("muon", "cosmos")))
        for model in _LLAMA
    ]
    alphas: list[Row] = []
    said, counts = list[Note](), list[int]()
    for group, shown in own:
        found = _spectra(view, shown)
        if found:
            rows, which = of_spectra.mean_alphas(found, group)
            blank = Row("mean alpha", "", group, None, role=kinds.MISSING, text="no layer fit")
            alphas += rows or [replace(blank, series=name, optimizer=name) for name in found]
            said.append(which)
            counts += of_spectra.seeds(found)
    of = replace(_about(view, "Mean alpha of the layers", (), *said), seeds=counts)
    first = Panel("alphas", of, tidy(alphas), y_label="mean alpha") if alphas else None
    rows = [row for group, shown in own for line in shown for row in values(view, line, group)]
    return _lettered([first, _dots(_about(view, "Perplexity", rows), rows)])


def muon_ns_vs_svd(view: Side) -> list[Panel]:
    """Perplexity of Muon by Newton-Schulz iterations beside Muon by an exact SVD, and their updates.

    Nothing of it is published as data. The updates have a panel for each, with the same matrices and steps,
    and the same limits: alone, an axis of all ones would show its rounding errors only.
    """
    if view.ours is None or view.store is None:
        return []
    own: list[tuple[Reported, Measured]] = []
    for model in _LLAMA:
        (muon,) = published_lines(("main_result", "c4", model), ["muon"])
        # what a table would have of an optimizer that is only in a figure
        svd = replace(muon, row="muon_svd", setting=Setting("muon_svd"), lr=None, table="", printed="nan")
        own += [(line, _at_rate(view, line, _SVD_RATES[model])) for line in (muon, svd)]
    rates = Note("rates_of_paper", rates=[f"{rate:g} ({model})" for model, rate in _SVD_RATES.items()])
    how = rates if view.scale == "paper" else Note("best_rates")
    rows = [ours(line, found, _model(view, line.model)) for line, found in own]
    of = _about(view, "Newton-Schulz or SVD", rows, how)
    shown = [(line, spectra_of(_completed(found), view.store)) for line, found in own[:2]]
    shape = of_spectra.largest_shape(one for _, runs in shown for one in runs)
    curves = []
    for line, runs in shown:
        name = line.setting.optimizer
        points = [
            row
            for step in of_spectra.steps(runs)
            for row in of_spectra.ranks(name, of_spectra.matrices(runs, step, shape), runs, f"step {step}")
        ]
        which = Note("matrices_of", rows=shape[0], columns=shape[1], model=_model(view, line.model))
        said = replace(_about(view, f"Updates of {display_name(name)}", (), which), seeds=[len(runs)])
        frame = tidy([*points, of_spectra.ALL_ONES])
        panel = Panel("ranks", said, frame, y_label=of_spectra.UPDATE, y_log=False)
        curves.append(panel if points else None)
    highest = max((panel.of(kinds.POINT)["y_high"].max() for panel in curves if panel), default=1.0)
    limits = (0.0, 1.05 * max(1.0, highest))
    updates = [replace(panel, y_limits=limits) if panel else None for panel in curves]
    return _lettered([_dots(of, rows), *updates])


# --- curves ---


def _series(
    rows: Iterable[Row], optimizer: str = "", name: str = "", chosen: float | None = None
) -> list[Row]:
    """The values of each source as a series along x: its points, then what diverged; the rest is left out.

    Args:
        rows: those that stand in one series.
        optimizer: whose series it is, if not that of each value.
        name: of the series, if not that of the optimizer.
        chosen: the x that was chosen among ours.
    """
    known = [row for row in rows if row.y is not None or row.role == kinds.DIVERGED]
    sources = list(dict.fromkeys(row.source for row in known))
    known.sort(key=lambda row: (sources.index(row.source), row.y is None, row.x))
    found = []
    for row in known:
        whose = optimizer or row.optimizer
        is_chosen = row.x == chosen and row.source == kinds.RUNS and row.role == kinds.POINT
        role = kinds.CHOSEN if is_chosen else row.role
        found.append(replace(row, series=name or whose, optimizer=whose, role=role))
    return found


def _curves(kind: str, of: About, points: list[Row], prefix: str = "") -> Panel | None:
    """The panel of some points; None without any."""
    if not points:
        return None
    label = prefix + of.metric
    frame = tidy(replace(row, quantity=label) for row in points)
    return Panel(kind, replace(of, metric=label), frame, y_label=label)


def p_curve(view: Side) -> list[Panel]:
    """Perplexity against p, a panel for each model. p = 0 is Muon (or NorMuon) at its own best rate."""
    panels = []
    for model in _LLAMA:
        rows, points = [], []
        for base, name in (("muon", "htmuon"), ("normuon", "htmuon_normuon")):
            own = published_lines(("p_grid_c4", "c4", model), (base, name))
            found = [row for line in own for row in values(view, line, line.setting.p or 0.0)]
            rows += found
            points += _series(found, name)
        panels.append(_curves("powers", _of_twin(view, "c4", model, rows), points))
    return _lettered(panels)


def lr_curve(view: Side) -> list[Panel]:
    """The metric against the learning rate, of Muon, NorMuon and both with HTMuon: a panel for each workload.

    At full scale the reported metric, as published. Else the validation metric of the search, which has the
    only runs at all rates.
    """
    places = [("lr_grid_c4", "c4", model) for model in _LLAMA]
    places += [
        (f"lr_grid_{data}", data, net) for data in ("cifar100", "cifar10") for net in ("resnet18", "resnet50")
    ]
    panels = []
    for place in places:
        rows, points = [], []
        for optimizer in ("muon", "normuon", "htmuon", "htmuon_normuon"):
            own = published_lines(place, [optimizer])
            found = _at_rates(view, own)
            rows += found
            choices = view.ours.of(own[0]) if view.ours is not None else []
            winner = choices[-1].winner if choices else None
            points += _series(found, chosen=None if winner is None else float(winner.value("lr")))
        _, dataset, model = place
        prefix = "" if view.scale == "paper" else "validation "
        panel = _curves("rates", _of_twin(view, dataset, model, rows, split="validation"), points, prefix)
        panels.append(panel and replace(panel, higher_is_better=dataset != "c4"))
    return _lettered(panels)


def _at_rates(view: Side, own: Sequence[Reported]) -> list[Row]:
    """The values of one optimizer at all rates of its table, or of our search."""
    if view.ours is None or view.scale == "paper":
        both = [row for line in own if line.lr is not None for row in values(view, line, line.lr)]
        return sorted(both, key=lambda row: row.source != kinds.PUBLISHED)
    choices = view.ours.of(own[0])[-1:]
    rates = sorted({float(one.value("lr")) for choice in choices for one in choice.candidates})
    return [ours(own[0], measure_at_rate(view.ours, own[0], lr), lr) for lr in rates]


def interval(view: Side) -> list[Panel]:
    """Perplexity and time of a step against the interval, of HTMuon and HTMuon_NS on both models."""
    shown = [(model, name) for model in _LLAMA for name in ("htmuon", "htmuon_ns")]
    return _lettered(_interval(view, *one, "muon") for one in shown)


def normuon_interval(view: Side) -> list[Panel]:
    """The same of HTMuon with NorMuon's normalisation."""
    return _lettered(_interval(view, model, "htmuon_normuon", "normuon") for model in _LLAMA)


def _interval(view: Side, model: str, optimizer: str, base: str) -> Panel | None:
    """Left the perplexity, right the time; `base` is the optimizer between HTMuon's updates."""
    points: list[Row] = []
    levels: list[Row] = []
    quality: list[Row] = []
    labels: list[str] = []
    for table, right in (("interval_perplexity", ""), ("interval_step_time", ", time (right)")):
        place = (table, "c4", model)
        own = published_lines(place, [optimizer])
        found = [row for line in own for row in values(view, line, float(line.setting.interval or 1))]
        series = _series(found, name=f"{display_name(optimizer)}{right}" if right else "")
        if not right and not series:
            return None
        quality = quality or found
        label = _label(found) if series else ""
        points += [replace(row, quantity=label) for row in series]
        labels.append(label)
        for row in (row for line in published_lines(place, [base]) for row in values(view, line, "")):
            level = replace(row, quantity=label, series=f"{display_name(base)}{right}", y_sd=None, n=None)
            levels += [replace(level, role=kinds.LEVEL)] if row.y is not None else []
    of = _of_twin(view, "c4", model, quality)
    of = replace(of, title=f"{display_name(optimizer)} · {of.title}")
    frame = tidy([*points, *levels])
    return Panel("intervals", of, frame, y_label=labels[0], right_label=labels[1])


# --- weights, losses and hours ---


def alpha_layers(view: Side) -> list[Panel]:
    """Alpha of each layer: both LLaMA, then ResNet-50 on both datasets."""
    places = [*(("main_result", "c4", model) for model in _LLAMA), *_RESNETS[:2]]
    return _lettered(_layers(view, place, "htmuon", "alpha") for place in places)


def alpha_layers_more(view: Side) -> list[Panel]:
    """Alpha of each layer: ResNet-18 on both datasets, then both LLaMA with HTMuon_HT."""
    shown = [(place, "htmuon") for place in _RESNETS[2:]]
    shown += [(("htmuon_ht", "c4", model), "htmuon_ht") for model in _LLAMA]
    return _lettered(_layers(view, *one, "alpha") for one in shown)


def norms(view: Side) -> list[Panel]:
    """Spectral norm of each layer of both LLaMA, then the Frobenius norm."""
    shown = [(("main_result", "c4", model), "htmuon", name) for name in of_spectra.NORMS for model in _LLAMA]
    return _lettered(_layers(view, *one) for one in shown)


def _layers(view: Side, place: Place, beside: str, column: str) -> Panel | None:
    """Muon and another optimizer; None without a run that has measured its weights."""
    _, dataset, model = place
    found = _spectra(view, published_lines(place, ("muon", beside)))
    return of_spectra.layers(_of_twin(view, dataset, model), found, column) if found else None


def loss(view: Side) -> list[Panel]:
    """Training losses of Muon beside HTMuon, a panel for each model with a completed run."""
    if view.ours is None or view.store is None:
        return []
    full, panels = view.scale == "paper", list[Panel | None]()
    for model in _LLAMA:
        own = published_lines(("main_result", "c4", model), ("muon", "htmuon"))
        runs = {line.setting.optimizer: _completed(_at_rate(view, line, _LOSS_RATE)) for line in own}
        curves = {name: done for name, found in runs.items() if (done := of_losses.completed(found))}
        if not curves:
            panels.append(None)
            continue
        of = _of_twin(
            view, "c4", model, (), Note("rates_of_paper", rates=[_LOSS_RATE]) if full else Note("best_rates")
        )
        unit = loss_unit(view.ours.runs(experiments.place(own[0], view.scale)))
        panels.append(of_losses.losses(of, unit, curves, view.store, _LOSS_WINDOW if full else None))
    return _lettered(panels)


def hours(view: Side) -> list[Panel]:
    """The published perplexity against the published hours; all times of a panel are from one machine."""
    panels = []
    every = reported.of_table("wall_clock")
    for dataset, model in dict.fromkeys((line.dataset, line.model) for line in every):
        own = [line for line in every if (line.dataset, line.model) == (dataset, model)]
        hours_of = {line.setting: line.value for line in own if line.metric == "hours"}
        points = []
        for line in (line for line in own if line.metric == "perplexity"):
            more = str(line.setting.interval) if line.setting.interval is not None else ""
            cost, test = summarize([hours_of[line.setting]]), summarize([line.value])
            points.append(of_runs.cost_point(line.setting.optimizer, more, cost, test, kinds.PUBLISHED))
        of = _about(view, _workload(view, dataset, model), (), Note("hardware", name=own[0].hardware))
        of = replace(of, metric="perplexity")
        panels.append(of_runs.cost_panel(of, "perplexity", False, "training time (hours)", points))
    return panels
