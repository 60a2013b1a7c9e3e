"""The paper's training losses: Muon beside HTMuon."""

from __future__ import annotations

from harness.paper.experiments import place
from results.figures import paper_words as words
from results.figures.loss_panels import LossPanel, curves_of, loss_panel
from results.figures.paper_values import at_published_rate, completed, lines
from results.figures.view import View
from results.frames.metrics import loss_unit

_MODELS = ("llama-60m", "llama-135m")
_OPTIMIZERS = ("muon", "htmuon")
_RATE = 0.03  # of both optimizers at full scale
_WINDOW = 50  # steps of the moving average at full scale


def loss(view: View) -> list[LossPanel]:
    """A panel for each model."""
    if view.ours is None:
        return []
    found = [_panel(view, letter, model) for letter, model in zip("ab", _MODELS, strict=True)]
    return [panel for panel in found if panel is not None]


def _panel(view: View, letter: str, model: str) -> LossPanel | None:
    """None without a completed run."""
    assert view.store is not None and view.ours is not None
    full = view.scale == "paper"
    own = lines("main_result", "c4", model, _OPTIMIZERS)
    chosen = {line.setting.optimizer: completed(at_published_rate(view, line, _RATE)) for line in own}
    runs = {name: kept for name, rows in chosen.items() if (kept := curves_of(rows, view.store))}
    if not runs:
        return None
    title = words.title(letter, words.workload(view, "c4", model))
    below = words.below(view, "c4", model, f"lr {_RATE}" if full else "each at its best lr")
    unit = loss_unit(view.ours.runs(place(own[0], view.scale)))
    return loss_panel(title, below, unit, runs, _WINDOW if full else None)
