"""The frames of the paper's figures: published numbers, our runs that stand beside them, or both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from string import ascii_lowercase
from typing import TypeVar

from harness.paper import experiments, reported, scales
from harness.paper.reported import Reported, Setting
from results.compare.measured import Measured, measured, of_choices
from results.compare.select import Choice
from results.compare.select import Row as Run
from results.compare.stats import summarize
from results.compare.view import Side
from results.compare.winners import span
from results.figures import kinds, of_losses, of_runs, of_spectra
from results.figures.kinds import Panel, Row, lines, tidy
from results.figures.style import display_name
from results.frames.metrics import loss_unit
from results.frames.spectra import of_runs as spectra_of

_LLAMA = ("llama-60m", "llama-135m")
_RESNETS = [("cifar", data, net) for net in ("resnet50", "resnet18") for data in ("cifar100", "cifar10")]
_LOSS_RATE, _LOSS_WINDOW = 0.03, 50  # of both optimizers at full scale; steps of the moving average
_SVD_RATES = {"llama-60m": 0.03, "llama-135m": 0.02}  # of figures.csv
_LABELS = {"accuracy": "accuracy (%)", "seconds_per_step": "s/step"}
_STATES = {"completed": "without the figure", "waiting": "not run yet"}  # other states are words already
_WORDS = {
    **{
        "llama-60m": "LLaMA-60M",
        "llama-135m": "LLaMA-135M",
        "llama-350m": "LLaMA-350M",
        "llama-1b": "LLaMA-1B",
    },
    **{"gpt2-small": "GPT-2 small", "resnet18": "ResNet-18", "resnet50": "ResNet-50", "vit-tiny": "ViT-Tiny"},
    **{"c4": "C4", "openwebtext": "OpenWebText", "imagenet-1k": "ImageNet-1K"},
    **{"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"},
}
Place = tuple[str, str, str]  # published table, dataset and model
AnyPanel = TypeVar("AnyPanel", Panel, of_losses.Losses)


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
    return found if view.ours is None else [*found, ours(line, measured(view.ours, line), x)]


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
        return measured(view.ours, line)
    return of_choices(view.ours, line, view.ours.choices(experiments.place(line, view.scale), lr))


def _completed(found: Measured) -> Sequence[Run]:
    """The runs behind a number; none without it."""
    return found.runs if found.sample else []


def _spectra(view: Side, own: Iterable[Reported]) -> of_spectra.Measured:
    """Of the runs beside some lines that have measured their weights, by optimizer."""
    if view.ours is None or view.store is None:
        return {}
    runs = {line.setting.optimizer: _completed(measured(view.ours, line)) for line in own}
    return of_spectra.with_weights({name: spectra_of(found, view.store) for name, found in runs.items()})


# --- words ---


def word(name: str) -> str:
    """A dataset or model as the paper writes it."""
    return _WORDS.get(name, name)


def _workload(view: Side, dataset: str, model: str) -> str:
    """ "LLaMA-60M on C4"; at other scales the names of the twin: "llama-nano-60m on pydocs"."""
    data, net = scales.workload(view.scale, dataset, model)
    return f"{word(net)} on {word(data)}"


def _model(view: Side, model: str) -> str:
    return word(scales.workload(view.scale, "c4", model)[1])


def _source(view: Side) -> str:
    """The first line below a title: whose values these are."""
    if view.ours is None:
        return "published"
    if view.published:
        return "ours beside the published"
    return "ours at full scale" if view.scale == "paper" else f"{view.scale} scale, ours"


def _below(view: Side, dataset: str, model: str, *more: str) -> str:
    """The text below a title; at other scales also the published workload that a twin stands for."""
    twin = "" if view.scale == "paper" else f"stands for {word(model)} on {word(dataset)}"
    return lines(_source(view), twin, *more)


def _seeds(view: Side, rows: Iterable[Row], what: str = "test") -> str:
    """How many seeds our values have: "test, mean ± sd, n = 3"; and how many values are missing, and why."""
    own = [row for row in rows if row.source != kinds.PUBLISHED]
    counts = sorted({row.n for row in own if row.n is not None})
    states = Counter(row.text for row in own if row.y is None)
    named = [what if view.scale != "paper" else "", "mean ± sd" if counts and counts[-1] > 1 else ""]
    named += [_n("-".join(map(str, counts)))]
    missing = [f"{count} {state}" for state, count in states.items()]
    return ", ".join(filter(None, [*(named if counts else []), *missing]))


def _n(counts: str) -> str:
    return f"n\u00a0=\u00a0{counts}"  # on one line


def _lettered(panels: Iterable[AnyPanel | None]) -> list[AnyPanel]:
    """The panels that there are; each keeps the letter that it has in the paper."""
    named = zip(ascii_lowercase, panels, strict=False)
    return [replace(panel, title=f"({letter}) {panel.title}") for letter, panel in named if panel]


# --- bars ---


def muon_variants(view: Side) -> list[Panel]:
    """Perplexity of Muon and its variants, a panel for each model."""
    return _bars_of(view, ("muon", "htmuon", "normuon", "htmuon_normuon", "adamuon"))


def optimizer_variants(view: Side) -> list[Panel]:
    """Perplexity of Muon, HTMuon and optimizers of other families, a panel for each model."""
    return _bars_of(view, ("muon", "htmuon", "mars", "soap", "cautious", "cosmos", "galore", "sophia"))


def _bars_of(view: Side, optimizers: Sequence[str]) -> list[Panel]:
    panels = []
    for model in _LLAMA:
        own = published_lines(("optimizer_variants", "c4", model), optimizers)
        rows = [row for line in own for row in values(view, line, display_name(line.setting.optimizer))]
        panels.append(
            _bars(_workload(view, "c4", model), _below(view, "c4", model, _seeds(view, rows)), rows)
        )
    return _lettered(panels)


def _bars(title: str, subtitle: str, rows: Sequence[Row]) -> Panel | None:
    """None if there is no value at all."""
    if all(row.y is None for row in rows):
        return None
    label = _label(rows)
    return Panel("values", title, subtitle, tidy(replace(row, quantity=label) for row in rows), y_label=label)


def alpha_teaser(view: Side) -> list[Panel]:
    """Mean alpha of Muon and COSMOS, and their perplexity."""
    own = [
        (_model(view, model), published_lines(("optimizer_variants", "c4", model), ("muon", "cosmos")))
        for model in _LLAMA
    ]
    alphas: list[Row] = []
    said = []
    for group, shown in own:
        found = _spectra(view, shown)
        if found:
            rows, which = of_spectra.mean_bars(found, group)
            blank = Row("mean alpha", "", group, None, role=kinds.MISSING, text="no layer fit")
            alphas += rows or [replace(blank, series=name, optimizer=name) for name in found]
            n = _n(span(of_spectra.seeds(found)))
            said.append(f"{group}: {which}, {n}, {of_spectra.method(found)}")
    title, below = "Mean alpha of the layers", lines(_source(view), *said)
    first = Panel("alphas", title, below, tidy(alphas), y_label="mean alpha") if alphas else None
    rows = [row for group, shown in own for line in shown for row in values(view, line, group)]
    return _lettered([first, _bars("Perplexity", lines(_source(view), _seeds(view, rows)), rows)])


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
    rates = ", ".join(f"{rate:g} ({word(model)})" for model, rate in _SVD_RATES.items())
    how = f"lr {rates}" if view.scale == "paper" else "each at its best lr"
    rows = [ours(line, found, _model(view, line.model)) for line, found in own]
    below = lines(_source(view), ", ".join(filter(None, [how, _seeds(view, rows)])))
    shown = [(line, spectra_of(_completed(found), view.store)) for line, found in own[:2]]
    shape = of_spectra.largest_shape(one for _, runs in shown for one in runs)
    curves = []
    for line, runs in shown:
        name, several = line.setting.optimizer, f" and {len(runs)} seeds" if len(runs) > 1 else ""
        points = [
            row
            for step in of_spectra.steps(runs)
            for row in of_spectra.ranks(name, of_spectra.matrices(runs, step, shape), runs, f"step {step}")
        ]
        which = f"matrices {shape[0]} x {shape[1]} of {_workload(view, 'c4', line.model)}"
        said = lines(_source(view), which, f"mean and range over matrices{several}")
        frame = tidy([*points, of_spectra.ALL_ONES])
        label = of_spectra.UPDATE
        panel = Panel("ranks", f"{display_name(name)} updates", said, frame, y_label=label, y_log=False)
        curves.append(panel if points else None)
    highest = max((panel.of(kinds.POINT)["y_high"].max() for panel in curves if panel), default=1.0)
    limits = (0.0, 1.05 * max(1.0, highest))
    updates = [replace(panel, y_limits=limits) if panel else None for panel in curves]
    return _lettered([_bars("Newton-Schulz or SVD", below, rows), *updates])


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


def _curves(
    kind: str, title: str, subtitle: str, points: list[Row], rows: Sequence[Row], prefix: str = ""
) -> Panel | None:
    """The panel of the points among some values; None without any."""
    if not points:
        return None
    label = prefix + _label(rows)
    frame = tidy(replace(row, quantity=label) for row in points)
    return Panel(kind, title, subtitle, frame, y_label=label)


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
        below = _below(view, "c4", model, _seeds(view, rows))
        panels.append(_curves("powers", _workload(view, "c4", model), below, points, rows))
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
        below = _below(view, dataset, model, _seeds(view, rows, "search runs"))
        prefix = "" if view.scale == "paper" else "validation "
        panel = _curves("rates", _workload(view, dataset, model), below, points, rows, prefix)
        panels.append(panel and replace(panel, higher_is_better=dataset != "c4"))
    return _lettered(panels)


def _at_rates(view: Side, own: Sequence[Reported]) -> list[Row]:
    """The values of one optimizer at all rates of its table, or of our search."""
    if view.ours is None or view.scale == "paper":
        both = [row for line in own if line.lr is not None for row in values(view, line, line.lr)]
        return sorted(both, key=lambda row: row.source != kinds.PUBLISHED)
    found = {}
    for choice in view.ours.of(own[0])[-1:]:
        for one in choice.candidates:  # all but the rate is fixed there, so each is the choice at its rate
            alone = Choice(choice.fixed, [one], one if one.score is not None else None, [], [], Counter())
            found[float(one.value("lr"))] = of_choices(view.ours, own[0], [alone], of_search=True)
    return [ours(own[0], found[lr], lr) for lr in sorted(found)]


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
    title = f"{display_name(optimizer)}, {_workload(view, 'c4', model)}"
    below, frame = _below(view, "c4", model, _seeds(view, quality)), tidy([*points, *levels])
    return Panel("intervals", title, below, frame, y_label=labels[0], right_label=labels[1])


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
    title, below = _workload(view, dataset, model), _below(view, dataset, model)
    return of_spectra.layers(title, below, found, column) if found else None


def loss(view: Side) -> list[of_losses.Losses]:
    """Training losses of Muon beside HTMuon, a panel for each model with a completed run."""
    if view.ours is None or view.store is None:
        return []
    full, panels = view.scale == "paper", list[of_losses.Losses | None]()
    for model in _LLAMA:
        own = published_lines(("main_result", "c4", model), ("muon", "htmuon"))
        runs = {line.setting.optimizer: _completed(_at_rate(view, line, _LOSS_RATE)) for line in own}
        curves = {
            name: kept for name, found in runs.items() if (kept := of_losses.curves_of(found, view.store))
        }
        if not curves:
            panels.append(None)
            continue
        below = _below(view, "c4", model, f"lr {_LOSS_RATE}" if full else "each at its best lr")
        unit = loss_unit(view.ours.runs(experiments.place(own[0], view.scale)))
        window, title = _LOSS_WINDOW if full else None, _workload(view, "c4", model)
        panels.append(of_losses.losses(title, below, unit, curves, window))
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
            more = f"interval {line.setting.interval}" if line.setting.interval is not None else ""
            cost, test = summarize([hours_of[line.setting]]), summarize([line.value])
            points.append(of_runs.cost_point(line.setting.optimizer, more, cost, test, kinds.PUBLISHED))
        title, below = _workload(view, dataset, model), f"published, {own[0].hardware}"
        axis = "training time (hours)"
        panels.append(of_runs.cost_panel(title, below, "perplexity", False, axis, points))
    return panels
