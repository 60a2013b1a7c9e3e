"""A section of docs/ladder.md: how many settings, on how many seeds, a search needs until a ranking stands.

Every setting of three rows ran on eight seeds. From these runs searches are drawn: so many settings of each
row on so many of the seeds, each row chooses by the mean validation loss, and the rows are ordered by the
test loss that their choices reach on all eight seeds. The right order is that of the search which has
everything. What a choice gives away is how much worse it is than the choice of that search.
"""

import csv
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from docs.config_page import table
from htbench.sweeps.plan.search_size import Chance

SEARCHES = 4000  # drawn for each number of settings and seeds
SETTINGS = (2, 4, 8, 12, 20)
SEEDS = (1, 2, 3, 4, 6)
_ROW, _SETTING = ["optimizer"], ["lr", "aux_lr", "betas"]

Losses = NDArray[np.float64]


@dataclass(frozen=True)
class Searched:
    """The losses of a row, settings by seeds."""

    validation: Losses
    test: Losses

    def choose(self, settings: NDArray[np.intp], seeds: NDArray[np.intp]) -> Losses:
        """The test losses on all seeds of the setting that is best on some."""
        best = settings[self.validation[np.ix_(settings, seeds)].mean(axis=1).argmin()]
        return self.test[best]


def chances(
    rows: Sequence[Searched],
    settings: Sequence[int] = SETTINGS,
    seeds: Sequence[int] = SEEDS,
    searches: int = SEARCHES,
) -> list[Chance]:
    """Draw searches from those of some rows.

    Args:
        rows: all on the same seeds.
        settings, seeds: numbers of each that are drawn, without replacement.
        searches: how many of each size.
    """
    source = np.random.default_rng(0)
    every = rows[0].test.shape[1]
    whole = np.array([row.choose(np.arange(len(row.test)), np.arange(every)).mean() for row in rows])
    found = []
    for k, s in itertools.product(settings, seeds):
        worths = np.empty((searches, len(rows)))
        for search in worths:
            drawn = source.permutation(every)[:s]
            search[:] = [row.choose(source.permutation(len(row.test))[:k], drawn).mean() for row in rows]
        right = (worths.argsort(axis=1) == whole.argsort()).all(axis=1).mean()
        found.append(Chance(k, s, float(right), float((worths - whole).mean())))
    return found


def searched(frame: pd.DataFrame) -> Mapping[str, Searched]:
    """The rows of a sweep whose every setting ran on every seed; empty if a run is missing."""
    rows: dict[str, Searched] = {}
    if frame.empty:
        return rows
    frame = frame.assign(**{name: frame[name].astype(str) for name in _SETTING})
    for (name,), part in frame.groupby(_ROW):
        losses = [
            part.pivot(index=_SETTING, columns="seed", values=f"{split}_loss") for split in ("val", "test")
        ]
        if any(one.isna().any(axis=None) for one in losses):
            return {}
        rows[str(name)] = Searched(*(one.to_numpy(float) for one in losses))
    return rows


def section(frame: pd.DataFrame, picture: Path, measured: Path) -> str:
    """The section, its picture and its numbers for `sweep plan`; empty without all runs.

    Args:
        frame: search runs of one sweep.
        picture: where to draw.
        measured: where to write the chances, as CSV.
    """
    rows = searched(frame)
    if not rows:
        return ""
    found = chances(list(rows.values()))
    draw(found, picture)
    most = max(len(row.test) for row in rows.values())
    write_chances([one for one in found if one.settings < most], measured)  # others are too few to count
    counts = ", ".join(f"{name} {len(row.test)}" for name, row in rows.items())
    seeds = next(iter(rows.values())).test.shape[1]
    losses = {name: row.choose(np.arange(len(row.test)), np.arange(seeds)) for name, row in rows.items()}
    first, *rest = sorted(losses, key=lambda name: losses[name].mean())
    order = [f"{first} {losses[first].mean():.4f}"]
    for name in rest:
        behind = losses[name] - losses[first]  # in pairs by seed
        error = behind.std(ddof=1) / math.sqrt(seeds)
        order.append(f"{name} {losses[name].mean():.4f} ({behind.mean():+.4f}, standard error {error:.4f})")
    told = (
        f"Settings that ran on {seeds} seeds: {counts}. The search that has all of them, in test loss in "
        f"nats per token: {', '.join(order)}. {SEARCHES:,} searches of each size are drawn from these runs: "
        "each row chooses among so many of its settings by validation loss on so many seeds, and the rows "
        "are ordered by what their choices reach on all seeds. The second number is the test loss that a "
        "row's choice gives away, in nats. With all settings searches differ in their seeds only: "
        f"{seeds} of them on one seed, {math.comb(seeds, 2)} on two."
    )
    lines = [
        (f"{k}", *(f"{one.right:.0%}, {one.given_away:.3f}" for one in found if one.settings == k))
        for k in SETTINGS
    ]
    head = ("settings of a row", *(f"{s} seed{'s' * (s > 1)}" for s in SEEDS))
    shown = f"![How often a search finds the order of three rows]({picture.parent.name}/{picture.name})"
    return "\n\n".join(["## How many settings and seeds?", told, table(head, lines), shown])


def write_chances(found: Sequence[Chance], measured: Path) -> None:
    """The chances as a table of CSV, for `sweeps/plan/search_size.py`."""
    with measured.open("w", encoding="utf-8", newline="") as file:
        lines = csv.DictWriter(file, [one.name for one in fields(Chance)], lineterminator="\n")
        lines.writeheader()
        for one in found:
            rounded = {"right": f"{one.right:.2f}", "given_away": f"{one.given_away:.3f}"}
            lines.writerow(asdict(one) | rounded)


def draw(found: Sequence[Chance], picture: Path) -> None:
    """Both numbers over the seeds, a line for each number of settings."""
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.2), layout="constrained")
    for ax, name, label in (
        (axes[0], "right", "searches with the right order"),
        (axes[1], "given_away", "test loss given away [nats per token]"),
    ):
        for k in sorted({one.settings for one in found}):
            line = [one for one in found if one.settings == k]
            ax.plot(
                [one.seeds for one in line], [getattr(one, name) for one in line], "o-", label=f"{k} settings"
            )
        ax.set(xlabel="search seeds", ylabel=label, ylim=(0, None), xticks=[one.seeds for one in line])
    axes[0].set_ylim(0, 1.03)
    axes[1].legend(fontsize=8, frameon=False)
    figure.savefig(picture, dpi=150)
    plt.close(figure)
