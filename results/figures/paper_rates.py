"""The paper's metric against the learning rate, of Muon, NorMuon and both with HTMuon."""

from __future__ import annotations

from collections import Counter

from harness.paper.reported import Reported
from results.compare.measured import Measured, measured, of_choices
from results.compare.ours import Ours
from results.compare.select import Choice
from results.figures import paper_words as words
from results.figures.kinds import CurvePanel
from results.figures.panels import AXES
from results.figures.paper_curves import Found, label_of, series_of
from results.figures.paper_values import lines, ours, published
from results.figures.view import View

_OPTIMIZERS = ("muon", "normuon", "htmuon", "htmuon_normuon")
_PANELS = (  # table, dataset and model
    ("lr_grid_c4", "c4", "llama-60m"),
    ("lr_grid_c4", "c4", "llama-135m"),
    ("lr_grid_cifar100", "cifar100", "resnet18"),
    ("lr_grid_cifar100", "cifar100", "resnet50"),
    ("lr_grid_cifar10", "cifar10", "resnet18"),
    ("lr_grid_cifar10", "cifar10", "resnet50"),
)


def lr_curve(view: View) -> list[CurvePanel]:
    """A panel for each workload.

    At full scale the reported metric, as published. Else the validation metric of the search, which has the
    only runs at all rates.
    """
    found = [_panel(view, letter, *one) for letter, one in zip("abcdef", _PANELS, strict=True)]
    return [panel for panel in found if panel is not None]


def _panel(view: View, letter: str, table: str, dataset: str, model: str) -> CurvePanel | None:
    series, shown = [], []
    for optimizer in _OPTIMIZERS:
        own = lines(table, dataset, model, [optimizer])
        found = _values(view, own)
        shown += [value for _, value in found]
        series += series_of(optimizer, found, chosen=_chosen(view, own[0]))
    if not series:
        return None
    searched = "" if view.scale == "paper" else "search runs"
    return CurvePanel(
        words.title(letter, words.workload(view, dataset, model)),
        words.below(view, dataset, model, words.seeds(shown, searched)),
        AXES["lr"],
        f"{'' if view.scale == 'paper' else 'validation '}{label_of(shown)}",
        series,
        higher_is_better=table != "lr_grid_c4",
        x_scale="tried",
    )


def _values(view: View, own: list[Reported]) -> Found:
    found: Found = []
    if view.published:
        found += [(line.lr, published(line)) for line in own if line.lr is not None]
    if view.ours is None:
        return found
    if view.scale == "paper":
        return found + [(line.lr, ours(measured(view.ours, line))) for line in own if line.lr is not None]
    return found + [(lr, ours(one)) for lr, one in sorted(_searched(view.ours, own[0]).items())]


def _searched(runs: Ours, line: Reported) -> dict[float, Measured]:
    """The search runs at each rate that is planned at the place of a line, as `at_rate` has them.

    All but the rate is fixed there, so each candidate is the choice at its rate.
    """
    found = {}
    for choice in runs.of(line)[-1:]:
        for one in choice.candidates:
            alone = Choice(choice.fixed, [one], one if one.score is not None else None, [], [], Counter())
            found[float(one.value("lr"))] = of_choices(runs, line, [alone], of_search=True)
    return found


def _chosen(view: View, line: Reported) -> float | None:
    """The rate that was chosen among ours."""
    choices = view.ours.of(line) if view.ours is not None else []
    winner = choices[-1].winner if choices else None
    return float(winner.value("lr")) if winner is not None else None
