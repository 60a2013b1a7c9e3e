"""The paper's bars: Muon's variants, other optimizers, and mean alpha beside perplexity."""

from __future__ import annotations

from collections.abc import Sequence

from harness.paper.reported import Reported
from results.compare.measured import measured
from results.compare.winners import span
from results.figures import paper_words as words
from results.figures.kinds import Bar, BarPanel
from results.figures.layers import Found, mean_bars, method, seeds, with_weights
from results.figures.paper_values import Value, completed, lines, values
from results.figures.style import display_name
from results.figures.view import View
from results.frames.spectra import of_runs

MODELS = ("llama-60m", "llama-135m")
_VARIANTS = ("muon", "htmuon", "normuon", "htmuon_normuon", "adamuon")
_OTHERS = ("muon", "htmuon", "mars", "soap", "cautious", "cosmos", "galore", "sophia")
_TEASER = ("muon", "cosmos")


Grouped = tuple[str, Reported, Value]  # a value with the label of its group and its line


def muon_variants(view: View) -> list[BarPanel]:
    """Perplexity of Muon and its variants, a panel for each model."""
    return _of_models(view, _VARIANTS)


def optimizer_variants(view: View) -> list[BarPanel]:
    """Perplexity of Muon, HTMuon and optimizers of other families, a panel for each model."""
    return _of_models(view, _OTHERS)


def _of_models(view: View, optimizers: Sequence[str]) -> list[BarPanel]:
    panels = []
    for letter, model in zip("ab", MODELS, strict=True):
        own = lines("optimizer_variants", "c4", model, optimizers)
        names = [display_name(one.setting.optimizer) for one in own]
        found = [(name, one, v) for name, one in zip(names, own, strict=True) for v in values(view, one)]
        panels += bar_panel(letter, words.workload(view, "c4", model), view, found, model)
    return panels


def bar_panel(
    letter: str,
    title: str,
    view: View,
    found: Sequence[Grouped],
    model: str = "",
    how: str = "",
) -> list[BarPanel]:
    """The panel of some values; none if there is no value at all.

    Args:
        letter, title: above the panel.
        view: whose values these are.
        found: the bars in their order.
        model: whose workload it is; empty if there are several.
        how: what else is said of the values.
    """
    every = [value for _, _, value in found]
    if all(value.y is None for value in every):
        return []
    said = ", ".join(filter(None, [how, words.seeds(every, _split(view))]))
    lines_below = [words.twin(view, "c4", model)] if model else []
    subtitle = "\n".join(filter(None, [words.source(view), *lines_below, said]))
    label = next(value.label for value in every if value.label)
    bars = [
        Bar(group, line.setting.optimizer, v.y, v.sd, v.n, v.source, v.keys, state=v.state)
        for group, line, v in found
    ]
    return [BarPanel(words.title(letter, title), subtitle, label, bars, cut=True)]


def _split(view: View) -> str:
    return "" if view.scale == "paper" else "test"


# --- alpha beside perplexity ---


def alpha_teaser(view: View) -> list[BarPanel]:
    """Mean alpha of Muon and COSMOS, and their perplexity."""
    found = [
        (words.model_word(view, "c4", model), one, value)
        for model in MODELS
        for one in lines("optimizer_variants", "c4", model, _TEASER)
        for value in values(view, one)
    ]
    return [*_alpha(view), *bar_panel("b", "Perplexity", view, found)]


def _alpha(view: View) -> list[BarPanel]:
    bars: list[Bar] = []
    said: list[str] = []
    for model in MODELS if view.ours is not None else ():
        found = _weights(view, model)
        if found:
            group = words.model_word(view, "c4", model)
            own, counted = mean_bars(found, group)
            bars += own or [Bar(group, name, None, state="no layer fit") for name in found]
            said.append(f"{group}: {counted}, {words.n_of(span(seeds(found)))}, {method(found)}")
    if not bars:
        return []
    subtitle = "\n".join([words.source(view), *said])
    return [BarPanel(words.title("a", "Mean alpha of the layers"), subtitle, "mean alpha", bars)]


def _weights(view: View, model: str) -> Found:
    assert view.ours is not None and view.store is not None
    own = lines("optimizer_variants", "c4", model, _TEASER)
    runs = {one.setting.optimizer: completed(measured(view.ours, one)) for one in own}
    return with_weights({name: of_runs(found, view.store) for name, found in runs.items()})
