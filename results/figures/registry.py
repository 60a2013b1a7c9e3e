"""The figures by name: where the panels of each come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from harness.store import Store
from results.figures import paper_bars as bars
from results.figures import paper_curves as curves
from results.figures import paper_hours as hours
from results.figures import paper_layers as layers
from results.figures import paper_losses as losses
from results.figures import paper_rates as rates
from results.figures import paper_svd as svd
from results.figures.kinds import AnyPanel, StoredPanel
from results.figures.loss_panels import loss
from results.figures.lr_width_panels import lr_width, published_widths
from results.figures.panels import lr_curve, p_curve
from results.figures.pareto_panels import pareto
from results.figures.seed_spread_panels import seed_spread
from results.figures.spectral_panels import alpha_bars, alpha_kinds, alpha_layers, norms, update_spectra
from results.figures.to_target_panels import to_target
from results.figures.track3_panels import track3
from results.figures.view import View

Panels = Sequence[AnyPanel | StoredPanel]


@dataclass(frozen=True)
class Figure:
    """How a figure is made; found quickly and without matplotlib. At least one of the two is given.

    Attributes:
        paper: the panels of the paper's experiments in a view, one row of the figure.
        sweeps: those of any other sweeps, usually one per workload.
        hint: what to ask for if nothing is shown; empty if there is nothing special to say.
    """

    paper: Callable[[View], Panels] | None = None
    sweeps: Callable[[pd.DataFrame, Store], Panels] | None = None
    hint: str = ""


def _of_any(
    panels: Callable[[pd.DataFrame, Store], Panels], published: Callable[[View], Panels] | None = None
) -> Figure:
    """A figure that shows our runs of the paper's experiments as it shows any other sweep.

    Args:
        panels: of a frame.
        published: what there is of published numbers.
    """

    def paper(view: View) -> Panels:
        found = [*published(View(published=True))] if published and view.published else []
        if view.ours is None or view.store is None:
            return found
        runs = view.ours.frame
        runs = runs[runs["replica"] == ""]  # a deliberate rerun is no second chance
        return [*found, *panels(runs, view.store)]

    return Figure(paper, panels)


FIGURES = {
    "muon_ns_vs_svd": Figure(svd.muon_ns_vs_svd),
    "alpha_teaser": Figure(bars.alpha_teaser),
    "muon_variants": Figure(bars.muon_variants),
    "optimizer_variants": Figure(bars.optimizer_variants),
    "interval": Figure(curves.interval),
    "normuon_interval": Figure(curves.normuon_interval),
    "alpha_layers": Figure(layers.alpha_layers, alpha_layers),
    "alpha_layers_more": Figure(layers.alpha_layers_more),
    "norms": Figure(layers.norms, norms),
    "p_curve": Figure(curves.p_curve, p_curve),
    "lr_curve": Figure(rates.lr_curve, lr_curve),
    "loss": Figure(losses.loss, loss),
    "alpha_kinds": Figure(sweeps=alpha_kinds),
    "alpha_bars": Figure(sweeps=alpha_bars),
    "update_spectra": Figure(sweeps=update_spectra),
    "pareto": _of_any(pareto, hours.hours),
    "to_target": _of_any(to_target),
    "lr_width": _of_any(lr_width, lambda view: published_widths(rates.lr_curve(view))),
    "seed_spread": _of_any(seed_spread),
    "track3": Figure(track3, hint="no run of ours is in it, ask with --source published"),
}
