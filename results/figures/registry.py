"""The figures by name: the data of each, and how one of its panels is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pandas as pd

from harness.store import Store
from results.figures.cost_panels import CostPanel, cost
from results.figures.draw import draw_loss, draw_lr, draw_p
from results.figures.draw_cost import draw_cost
from results.figures.loss_panels import LossPanel, loss
from results.figures.panels import Panel, lr_curve, p_curve
from results.figures.spectral_draw import draw_bars, draw_layers, draw_updates
from results.figures.spectral_panels import (
    BarPanel,
    LayerPanel,
    UpdatePanel,
    alpha_bars,
    alpha_kinds,
    alpha_layers,
    norms,
    update_spectra,
)

AnyPanel: TypeAlias = Panel | LossPanel | CostPanel | LayerPanel | BarPanel | UpdatePanel


@dataclass(frozen=True)
class Figure:
    """How a figure is made.

    Attributes:
        panels: its data, one entry per workload: plain values, found quickly and without matplotlib.
        draw: draws one panel into axes; returns what was wrong with the files it read.
    """

    panels: Callable[[pd.DataFrame, Store], Sequence[AnyPanel]]
    draw: Callable[[Any, Any, Store], list[str]]


FIGURES = {
    "lr_curve": Figure(lr_curve, draw_lr),
    "p_curve": Figure(p_curve, draw_p),
    "loss": Figure(loss, draw_loss),
    "alpha_layers": Figure(alpha_layers, draw_layers),
    "alpha_kinds": Figure(alpha_kinds, draw_layers),
    "alpha_bars": Figure(alpha_bars, draw_bars),
    "norms": Figure(norms, draw_layers),
    "update_spectra": Figure(update_spectra, draw_updates),
    "cost": Figure(cost, draw_cost),
}
