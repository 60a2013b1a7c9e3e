"""The figures: where the panels of each come from. `results.figures.kinds` has what is on their axes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from htbench.results.compare.view import Side, View
from htbench.results.compare.workload import Workload
from htbench.results.figures import ladder_figures, loss_figures, paper_figures, run_figures, spectra_figures
from htbench.results.figures.kinds import Panel
from htbench.results.figures.paper_figures import (
    LLAMA,
    plot_curves,
    plot_intervals,
    plot_layers,
    plot_variants,
    select,
)
from htbench.results.figures.spectra_figures import NORMS, plot_quantities

Panels = Sequence[Panel]
OfWorkload = Callable[[Workload], Panels]


@dataclass(frozen=True)
class Figure:
    """How a figure is made; found quickly and without matplotlib. At least one of the two is given.

    Attributes:
        paper: the panels of a side of the paper's experiments, one row of the figure.
        sweeps: those of any other sweeps, usually one per workload.
    """

    paper: Callable[[Side], Panels] | None = None
    sweeps: Callable[[View], Panels] | None = None


def _each(plot: OfWorkload) -> Callable[[View], Panels]:
    """The panels of each workload, one after another."""
    return lambda view: [panel for workload in view.other_workloads for panel in plot(workload)]


def _of_any(plot: OfWorkload, published: Callable[[Side], Panels] = lambda side: ()) -> Figure:
    """A figure that shows our runs of the paper's experiments, after what is published, like any sweep."""

    def of_side(side: Side) -> Panels:
        panels = published(Side(published=True)) if side.published else ()
        if side.ours is None or side.scale == "ladder":  # it is among other sweeps
            return panels
        return [*panels, *(panel for workload in side.ours.workloads for panel in plot(workload))]

    return Figure(of_side, _each(plot))


_PAIR, _GRID = "muon htmuon", "muon normuon htmuon htmuon_normuon"
_GRIDS = [
    *select("lr_grid_c4", _GRID, *LLAMA),
    *select("lr_grid_cifar100", _GRID, ("cifar100", "resnet18"), ("cifar100", "resnet50")),
    *select("lr_grid_cifar10", _GRID, ("cifar10", "resnet18"), ("cifar10", "resnet50")),
]
_MAIN = select("main_result", _PAIR, *LLAMA)
_RESNET18 = select("cifar", _PAIR, ("cifar100", "resnet18"), ("cifar10", "resnet18"))
_RESNET50 = select("cifar", _PAIR, ("cifar100", "resnet50"), ("cifar10", "resnet50"))
_HT = select("htmuon_ht", "muon htmuon_ht", *LLAMA)
_VARIANTS = select("optimizer_variants", "muon htmuon normuon htmuon_normuon adamuon", *LLAMA)
_OTHERS = select("optimizer_variants", "muon htmuon mars soap cautious cosmos galore sophia", *LLAMA)
_RATES = partial(plot_curves, "rates", "lr", _GRIDS)

FIGURES = {
    "muon_ns_vs_svd": Figure(paper_figures.muon_ns_vs_svd),
    "alpha_teaser": Figure(paper_figures.alpha_teaser),
    "muon_variants": Figure(partial(plot_variants, _VARIANTS)),
    "optimizer_variants": Figure(partial(plot_variants, _OTHERS)),
    "interval": Figure(partial(plot_intervals, "muon", "htmuon htmuon_ns")),
    "normuon_interval": Figure(partial(plot_intervals, "normuon", "htmuon_normuon")),
    "alpha_layers": Figure(
        partial(plot_layers, ["alpha"], [*_MAIN, *_RESNET50]), _each(partial(plot_quantities, ["alpha"]))
    ),
    "alpha_layers_more": Figure(partial(plot_layers, ["alpha"], [*_RESNET18, *_HT])),
    "norms": Figure(partial(plot_layers, [*NORMS], _MAIN), _each(partial(plot_quantities, [*NORMS]))),
    "p_curve": Figure(
        partial(
            plot_curves, "powers", "p", select("p_grid_c4", "muon htmuon normuon htmuon_normuon", *LLAMA)
        ),
        _each(run_figures.p_curve),
    ),
    "lr_curve": Figure(_RATES, _each(run_figures.lr_curve)),
    "loss": Figure(paper_figures.loss, _each(loss_figures.loss)),
    "alpha_bars": Figure(sweeps=_each(spectra_figures.alpha_bars)),
    "update_spectra": Figure(sweeps=_each(spectra_figures.update_spectra)),
    "pareto": _of_any(run_figures.pareto, paper_figures.hours),
    "to_target": _of_any(run_figures.to_target),
    "best_of_k": _of_any(run_figures.best_of_k),
    "lr_width": _of_any(run_figures.lr_width, lambda view: run_figures.published_widths(_RATES(view))),
    "seed_spread": _of_any(run_figures.seed_spread),
    "multiplier": Figure(sweeps=ladder_figures.multiplier),
    "horizon": Figure(sweeps=ladder_figures.horizon),
}
