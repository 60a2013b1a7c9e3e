"""The figures: where the panels of each come from. `results.figures.kinds` has what is on their axes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from htbench.harness.store import Store
from htbench.results.compare.view import Side
from htbench.results.figures import of_ladder, of_losses, of_paper, of_runs, of_spectra
from htbench.results.figures.kinds import Panel
from htbench.results.frames.rows import Frame

Panels = Sequence[Panel]


@dataclass(frozen=True)
class Figure:
    """How a figure is made; found quickly and without matplotlib. At least one of the two is given.

    Attributes:
        paper: the panels of the paper's experiments in a view, one row of the figure.
        sweeps: those of any other sweeps, usually one per workload.
    """

    paper: Callable[[Side], Panels] | None = None
    sweeps: Callable[[Frame, Store], Panels] | None = None


def _of_any(
    panels: Callable[[Frame, Store], list[Panel]], published: Callable[[Side], list[Panel]] = lambda view: []
) -> Figure:
    """A figure that shows our runs of the paper's experiments, after what is published, like any sweep."""

    def of_view(view: Side) -> list[Panel]:
        found = published(Side(published=True)) if view.published else []
        if view.ours is None or view.store is None or view.scale == "ladder":  # it is among other sweeps
            return found
        once = [run for run in view.ours.frame if run["replica"] == ""]  # a rerun is no second chance
        return [*found, *panels(once, view.store)]

    return Figure(of_view, panels)


FIGURES = {
    "muon_ns_vs_svd": Figure(of_paper.muon_ns_vs_svd),
    "alpha_teaser": Figure(of_paper.alpha_teaser),
    "muon_variants": Figure(of_paper.muon_variants),
    "optimizer_variants": Figure(of_paper.optimizer_variants),
    "interval": Figure(of_paper.interval),
    "normuon_interval": Figure(of_paper.normuon_interval),
    "alpha_layers": Figure(of_paper.alpha_layers, of_spectra.alpha_layers),
    "alpha_layers_more": Figure(of_paper.alpha_layers_more),
    "norms": Figure(of_paper.norms, of_spectra.norms),
    "p_curve": Figure(of_paper.p_curve, of_runs.p_curve),
    "lr_curve": Figure(of_paper.lr_curve, of_runs.lr_curve),
    "loss": Figure(of_paper.loss, of_losses.loss),
    "alpha_bars": Figure(sweeps=of_spectra.alpha_bars),
    "update_spectra": Figure(sweeps=of_spectra.update_spectra),
    "pareto": _of_any(of_runs.pareto, of_paper.hours),
    "to_target": _of_any(of_runs.to_target),
    "best_of_k": _of_any(of_runs.best_of_k),
    "lr_width": _of_any(of_runs.lr_width, lambda view: of_runs.published_widths(of_paper.lr_curve(view))),
    "seed_spread": _of_any(of_runs.seed_spread),
    "multiplier": Figure(of_ladder.published, of_ladder.multiplier),
    "horizon": Figure(sweeps=of_ladder.horizon),
}
