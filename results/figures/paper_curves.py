"""The paper's curves: perplexity against p and against the interval between HTMuon's updates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.paper.reported import Reported
from results.figures import paper_words as words
from results.figures.kinds import PUBLISHED, CurvePanel, Level, Point, Series
from results.figures.panels import AXES
from results.figures.paper_values import Value, lines, values
from results.figures.style import display_name
from results.figures.view import View

_MODELS = ("llama-60m", "llama-135m")
_P = ("htmuon", "htmuon_normuon")
_ZERO = " p=0"  # how the row ends that is Muon itself

Found = list[tuple[float, Value]]  # with its place on the axis


def p_curve(view: View) -> list[CurvePanel]:
    """Perplexity against p, a panel for each model. p = 0 is Muon (or NorMuon) at its own best rate."""
    found = [_p_panel(view, letter, model) for letter, model in zip("ab", _MODELS, strict=True)]
    return [panel for panel in found if panel is not None]


def _p_panel(view: View, letter: str, model: str) -> CurvePanel | None:
    every = lines("p_grid_c4", "c4", model)
    rows = {name: [line for line in every if line.row.removesuffix(_ZERO) == name] for name in _P}
    found = {name: _along(view, own, [line.setting.p or 0.0 for line in own]) for name, own in rows.items()}
    text = words.title(letter, words.workload(view, "c4", model))
    series = [one for name, own in found.items() for one in series_of(name, own)]
    if not series:
        return None
    own = [value for points in found.values() for _, value in points]
    subtitle = words.below(view, "c4", model, words.seeds(own, "" if view.scale == "paper" else "test"))
    return CurvePanel(text, subtitle, AXES["p"], label_of(own), series, x_scale="values")


def _along(view: View, own: Sequence[Reported], places: Sequence[float]) -> Found:
    return [(x, value) for x, line in zip(places, own, strict=True) for value in values(view, line)]


def series_of(
    optimizer: str, found: Found, *, label: str = "", right: bool = False, chosen: float | None = None
) -> list[Series]:
    """The values of each source as a series; those without any point or divergence are left out."""
    made = []
    for source in dict.fromkeys(value.source for _, value in found):
        own = sorted(((x, value) for x, value in found if value.source == source), key=lambda one: one[0])
        points = [Point(x, v.y, v.sd, v.n, v.keys) for x, v in own if v.y is not None]
        diverged = [x for x, value in own if value.state == "diverged"]
        ring = chosen if source != PUBLISHED else None
        if points or diverged:
            made.append(Series(optimizer, points, source, label, ring, diverged, right=right))
    return made


def label_of(found: Iterable[Value]) -> str:
    """The label of the axis of some values."""
    return next(value.label for value in found if value.label)


# --- intervals ---


def interval(view: View) -> list[CurvePanel]:
    """Perplexity and time of a step against the interval, of HTMuon and HTMuon_NS on both models."""
    shown = [(model, name) for model in _MODELS for name in ("htmuon", "htmuon_ns")]
    return _intervals(view, shown, "muon")


def normuon_interval(view: View) -> list[CurvePanel]:
    """The same of HTMuon with NorMuon's normalisation."""
    return _intervals(view, [(model, "htmuon_normuon") for model in _MODELS], "normuon")


def _intervals(view: View, shown: Sequence[tuple[str, str]], base: str) -> list[CurvePanel]:
    found = [
        _interval_panel(view, letter, model, optimizer, base)
        for letter, (model, optimizer) in zip("abcd", shown, strict=False)
    ]
    return [panel for panel in found if panel is not None]


def _interval_panel(view: View, letter: str, model: str, optimizer: str, base: str) -> CurvePanel | None:
    """Left the perplexity, right the time; `base` is the optimizer between HTMuon's updates."""
    found, levels = {}, {}
    for table in ("interval_perplexity", "interval_step_time"):
        own = lines(table, "c4", model, [optimizer])
        found[table] = _along(view, own, [float(line.setting.interval or 1) for line in own])
        levels[table] = [value for line in lines(table, "c4", model, [base]) for value in values(view, line)]
    quality, times = ([value for _, value in own] for own in found.values())
    left, right = (series_of(optimizer, own) for own in found.values())
    if not left:
        return None
    name = display_name(optimizer)
    left = [
        *left,
        *series_of(optimizer, found["interval_step_time"], label=f"{name}, time (right)", right=True),
    ]
    return CurvePanel(
        words.title(letter, f"{name}, {words.workload(view, 'c4', model)}"),
        words.below(view, "c4", model, words.seeds(quality, "" if view.scale == "paper" else "test")),
        "interval (steps)",
        label_of(quality),
        left,
        [
            *_levels(base, levels["interval_perplexity"]),
            *_levels(base, levels["interval_step_time"], right=True),
        ],
        label_of(times) if right else "",
        x_scale="tried",
    )


def _levels(base: str, found: Sequence[Value], *, right: bool = False) -> list[Level]:
    label = f"{display_name(base)}{', time (right)' if right else ''}"
    return [Level(base, label, v.y, v.source, v.keys, right) for v in found if v.y is not None]
