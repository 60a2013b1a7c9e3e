"""The figures: where the panels of each come from. `results.figures.kinds` has what is on their axes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from htbench.harness.store import Store
from htbench.results.compare.view import Side
from htbench.results.figures import ladder_figures, loss_figures, paper_figures, run_figures, spectra_figures
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
        panels_published = published(Side(published=True)) if view.published else []
        if view.ours is None or view.store is None or view.scale == "ladder":  # it is among other sweeps
            return panels_published
        once = [run for run in view.ours.frame if run["replica"] == ""]  # a rerun is no second chance
        return [*panels_published, *panels(once, view.store)]

    return Figure(of_view, panels)


FIGURES = {
    "muon_ns_vs_svd": Figure(paper_figures.muon_ns_vs_svd),
    "alpha_teaser": Figure(paper_figures.alpha_teaser),
    "muon_variants": Figure(paper_figures.muon_variants),
    "optimizer_variants": Figure(paper_figures.optimizer_variants),
    "interval": Figure(paper_figures.interval),
    "normuon_interval": Figure(paper_figures.normuon_interval),
    "alpha_layers": Figure(paper_figures.alpha_layers, spectra_figures.alpha_layers),
    "alpha_layers_more": Figure(paper_figures.alpha_layers_more),
    "norms": Figure(paper_figures.norms, spectra_figures.norms),
    "p_curve": Figure(paper_figures.p_curve, run_figures.p_curve),
    "lr_curve": Figure(paper_figures.lr_curve, run_figures.lr_curve),
    "loss": Figure(paper_figures.loss, loss_figures.loss),
    "alpha_bars": Figure(sweeps=spectra_figures.alpha_bars),
    "update_spectra": Figure(sweeps=spectra_figures.update_spectra),
    "pareto": _of_any(run_figures.pareto, paper_figures.hours),
    "to_target": _of_any(run_figures.to_target),
    "best_of_k": _of_any(run_figures.best_of_k),
    "lr_width": _of_any(
        run_figures.lr_width, lambda view: run_figures.published_widths(paper_figures.lr_curve(view))
    ),
    "seed_spread": _of_any(run_figures.seed_spread),
    "multiplier": Figure(ladder_figures.published, ladder_figures.multiplier),
    "horizon": Figure(sweeps=ladder_figures.horizon),
}
