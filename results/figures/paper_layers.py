"""The paper's figures of the weights, layer by layer: alpha and norms of Muon beside HTMuon."""

from __future__ import annotations

from collections.abc import Sequence

from results.compare.measured import measured
from results.figures import paper_words as words
from results.figures.kinds import LayerPanel
from results.figures.layers import NORMS, layer_panel, with_weights
from results.figures.paper_values import completed, lines
from results.figures.view import View
from results.frames.spectra import of_runs

_PAIR = ("muon", "htmuon")
_HEAVY = ("muon", "htmuon_ht")
# The published tables in which the runs of a panel are, and their workloads.
_LLAMA = [("main_result", "c4", "llama-60m"), ("main_result", "c4", "llama-135m")]
_RESNET50 = [("cifar", "cifar100", "resnet50"), ("cifar", "cifar10", "resnet50")]
_RESNET18 = [("cifar", "cifar100", "resnet18"), ("cifar", "cifar10", "resnet18")]
_LLAMA_HT = [("htmuon_ht", "c4", "llama-60m"), ("htmuon_ht", "c4", "llama-135m")]

Workload = tuple[str, str, str]  # table, dataset and model


def alpha_layers(view: View) -> list[LayerPanel]:
    """Alpha of each layer: both LLaMA, then ResNet-50 on both datasets."""
    return _of_letters(view, "abcd", [(one, _PAIR, "alpha") for one in (*_LLAMA, *_RESNET50)])


def alpha_layers_more(view: View) -> list[LayerPanel]:
    """Alpha of each layer: ResNet-18 on both datasets, then both LLaMA with HTMuon_HT."""
    resnet = [(one, _PAIR, "alpha") for one in _RESNET18]
    return _of_letters(view, "abcd", [*resnet, *((one, _HEAVY, "alpha") for one in _LLAMA_HT)])


def norms(view: View) -> list[LayerPanel]:
    """Spectral norm of each layer of both LLaMA, then the Frobenius norm."""
    return _of_letters(view, "abcd", [(one, _PAIR, column) for column in NORMS for one in _LLAMA])


def _of_letters(
    view: View, letters: str, shown: Sequence[tuple[Workload, Sequence[str], str]]
) -> list[LayerPanel]:
    if view.ours is None:
        return []
    found = [_panel(view, letter, *one) for letter, one in zip(letters, shown, strict=True)]
    return [panel for panel in found if panel is not None]


def _panel(
    view: View, letter: str, workload: Workload, optimizers: Sequence[str], column: str
) -> LayerPanel | None:
    """None without a run that has measured its weights."""
    assert view.ours is not None and view.store is not None
    _, dataset, model = workload
    runs = {
        line.setting.optimizer: completed(measured(view.ours, line)) for line in lines(*workload, optimizers)
    }
    found = with_weights({name: of_runs(own, view.store) for name, own in runs.items()})
    if not found:
        return None
    title = words.title(letter, words.workload(view, dataset, model))
    return layer_panel(title, words.below(view, dataset, model).splitlines(), found, column)
