"""Draws docs/decides/simulations.png: what the judge does where the truth is known.

`python -m docs.decides_figure` simulates for two minutes.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from tests.helpers.simulate import Share, measure

PLACE = Path(__file__).with_name("decides") / "simulations.png"
TABLES = 1000
_BEFORE_AFTER = ("one optimizer tuned twice", "looks at 3 to 10 seeds")


def main() -> None:
    """Simulate and draw."""
    shares = measure(TABLES)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.4), width_ratios=(5, 4), layout="constrained")
    _sizes(left, shares)
    _bars(right, shares)
    PLACE.parent.mkdir(exist_ok=True)
    figure.savefig(PLACE, dpi=150)


def _sizes(ax: Any, shares: Sequence[Share]) -> None:
    """How often equal rows are called different, by their number."""
    ax.axhspan(0.04, 0.06, color="0.9", label="5 % ± 1")
    kinds = {
        "equal rows: one is worse": "same spread",
        "equal rows, sd 1 to 4: one is worse": "spread 1 to 4",
    }
    for what, label in kinds.items():
        for seeds, style in ((3, "o-"), (16, "s--")):
            own = [one for one in shares if one.what == what and one.seeds == seeds]
            ax.plot(
                [one.rows for one in own], [one.share for one in own], style, label=f"{label}, {seeds} seeds"
            )
    ax.set(
        xlabel="rows, all equal",
        xticks=(2, 5, 10, 20),
        ylabel="tables in which one is called worse",
        ylim=(0, 0.26),
    )
    ax.legend(fontsize=8, frameon=False, loc="upper right")


def _bars(ax: Any, shares: Sequence[Share]) -> None:
    """What was ignored before, and is counted now."""
    own = [one for one in shares if one.what.startswith(_BEFORE_AFTER)]
    labels = [f"{one.what.removesuffix(': one is worse')}, {one.seeds} seeds" for one in own]
    bars = ax.barh(range(len(own)), [one.share for one in own], color=["0.7", "C0"] * (len(own) // 2))
    ax.bar_label(bars, [f"{one.share:.1%}" for one in own], padding=3, fontsize=8)
    ax.axvline(0.05, color="0.4", linewidth=1, linestyle=":")
    ax.set_yticks(range(len(own)), labels, fontsize=8)
    ax.invert_yaxis()
    ax.set(xlabel="tables in which one is called worse", xlim=(0, 0.4))


if __name__ == "__main__":
    main()
