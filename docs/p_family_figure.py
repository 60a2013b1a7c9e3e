"""Draws docs/p_family/maps.png: what each map makes of a singular value. `python -m docs.p_family_figure`.

The curves come from the iterations of `optimizers.spectral` themselves, in float64: a singular value is a
matrix of one row and one column.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from htbench.optimizers.spectral.mix_weights import mixture, scalar_iterates
from htbench.optimizers.spectral.newton_schulz import QUINTIC
from htbench.optimizers.spectral.polar import STEPS, iterate
from htbench.optimizers.spectral.soft_muon import WEIGHTS
from htbench.results.figures.style import optimizer_style

PLACE = Path(__file__).with_name("p_family") / "maps.png"
SMALLEST = 1e-4


def iterates(x: Tensor, steps: int) -> list[Tensor]:
    """x, and what so many steps of the converging iteration make of it."""
    out = [x.reshape(-1, 1, 1)]
    for _ in range(steps):
        out.append(iterate(out[-1]))
    return [one.reshape(-1) for one in out]


def mixed(x: Tensor, weights: tuple[float, ...], chain: list[Tensor]) -> Tensor:
    """The sum of the first iterates with their weights."""
    return torch.stack([w * f for w, f in zip(weights, chain, strict=False)]).sum(0)


def polar(x: Tensor) -> Tensor:
    """The polar factor of the four maps: 1, and less for a small x."""
    return iterates(x, STEPS)[-1]


def powers(x: Tensor, p: float) -> Tensor:
    """DynMuon's series for x^p, times the polar factor."""
    d, e = p / 2, x**2 - 1
    return (1 + d * e + d * (d - 1) / 2 * e**2) * polar(x)


def mix_k6(x: Tensor) -> Tensor:
    """Our mixture for p = .125."""
    steps, weights = mixture(0.125, "k6")
    return mixed(x, tuple(weights), scalar_iterates(x, steps))


Curve = tuple[str, str, dict[str, Any], Callable[[Tensor], Tensor]]  # row, label, style beyond the row's, f
LESS: Final[tuple[Curve, ...]] = (
    ("htmuon", "HTMuon: $x^{.125}$", {}, lambda x: x**0.125),
    ("htmuon_mix", "htmuon_mix, k6, $p = .125$", {"linestyle": (0, (6, 2)), "color": "0.1"}, mix_k6),
    ("soft_muon", "Soft-Muon", {}, lambda x: mixed(x, WEIGHTS, iterates(x, STEPS))),
    ("soft_polar", "Soft-polar, $s = .2$", {}, lambda x: 0.8 * polar(x) + 0.2 * x),
    ("dynmuon", "DynMuon, $p = .25$", {"linestyle": "-"}, lambda x: powers(x, 0.25)),
)
MORE: Final[tuple[Curve, ...]] = (
    ("muon", "Muon: 5 Newton-Schulz steps", {}, lambda x: scalar_iterates(x, (QUINTIC,) * 5)[-1]),
    ("contra_muon", "Contra-Muon, $c = .2$", {}, lambda x: polar(x) - 0.2 * x),
    ("dynmuon", "DynMuon, $p = -.25$", {"marker": "o"}, lambda x: powers(x, -0.25)),
)
PANELS: Final = {"Small singular values get less": LESS, "They get as much, or more": MORE}


def draw() -> Any:
    """The figure: f(x) / f(1) over x, the maps in two panels."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), sharey=True, layout="constrained")
    x = torch.logspace(-4, 0, 1201, dtype=torch.float64)
    for axis, (title, curves) in zip(axes, PANELS.items(), strict=True):
        for number, (row, label, more, f) in enumerate(curves):
            style = {**optimizer_style(row), **more}
            y = f(x) / f(torch.ones(1, dtype=x.dtype))
            axis.plot(
                x, y, label=label, linewidth=1.8, markersize=7, markevery=(30 + 30 * number, 170), **style
            )
        axis.set(xscale="log", xlim=(SMALLEST, 1), ylim=(0, 1.8), title=title)
        axis.set_xlabel("singular value $x$, relative to the scale of the map")
        axis.grid(alpha=0.3)
        axis.legend(
            loc="upper left" if curves is LESS else "lower right", frameon=True, fontsize=9, handlelength=3.5
        )
    axes[0].set_ylabel("weight $f(x)\\,/\\,f(1)$")
    return figure


if __name__ == "__main__":
    draw().savefig(PLACE, dpi=150, metadata={"Software": None})
