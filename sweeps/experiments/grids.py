"""The grids and weight decays that the paper states: `harness/paper/hyperparameters.csv`."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from harness.paper import reported
from harness.paper.experiments import Place


@dataclass(frozen=True)
class Grid:
    """What the paper states of an optimizer on a workload; None and () are what it does not state."""

    rates: tuple[float, ...]
    best: float | None
    weight_decay: float | None


# Whose grid and weight decay stand in where the paper is silent: the rule that it varies.
_STAND_INS = {"muon_svd": "muon", "htmuon_ns": "htmuon", "htmuon_ht_normuon": "htmuon_ht"}
# Of `protocol.csv`. Adam's weight decay is a part of its gradient: with 0.1 in it a ViT learns nothing.
_IMAGENET_DECAY = 0.1
_IMAGENET_DECAY_OF_ADAM = 1e-5  # as on C4


def grid(place: Place) -> Grid:
    """The grid of a place. Weight decay and missing rates are those of the rule that it varies."""
    own = _stated(place.dataset, place.model, place.setting.optimizer)
    stand_in = _STAND_INS.get(place.setting.optimizer)
    other = _stated(place.dataset, place.model, stand_in) if stand_in else own
    usual = _IMAGENET_DECAY_OF_ADAM if place.setting.optimizer == "adam" else _IMAGENET_DECAY
    decay = next((g.weight_decay for g in (own, other) if g.weight_decay is not None), usual)
    return Grid(own.rates or other.rates, own.best or other.best, decay)


def published_rates(place: Place) -> tuple[float, ...]:
    """The rates that the paper's own scale runs a place with.

    The first setting of an optimizer gets its grid. Variations of p and interval, and reruns, get the rate
    that was best there: the paper varies one thing at a time and states no other grid.
    """
    found, setting = grid(place), place.setting
    default_p = 0.03125 if place.dataset == "imagenet-1k" else 0.125
    first = setting.p in (None, default_p) and setting.interval in (None, 1) and not setting.replica
    is_one = first or place.model == "llama-1b"
    is_variation = not is_one or setting.optimizer == "htmuon_ns"
    return (found.best,) if is_variation and found.best is not None else found.rates


@functools.cache
def _stated(dataset: str, model: str, optimizer: str) -> Grid:
    rows = [
        row
        for row in reported.rows("hyperparameters")
        if (row["dataset"], row["model"], row["optimizer"]) == (dataset, model, optimizer)
    ]
    if not rows:
        return Grid((), None, None)
    row, *_ = rows
    rates = tuple(map(float, row["lr_grid"].split()))
    best, decay = row["lr_best"], row["weight_decay"]
    return Grid(rates, float(best) if best else None, float(decay) if decay else None)
