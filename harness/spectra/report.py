"""Spectra of several models as a report, with means and medians over layers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from htbench.harness.show.note import Note
from htbench.harness.show.report import Cell, Column, Report, Section, table

if TYPE_CHECKING:
    import pandas as pd

VALUES: Final = ("alpha", "sigma_max", "fro")

_LAYER = (Column("layer", kind="text"), Column("kind", kind="text"), Column("shape", kind="text"))
_NUMBERS = (
    Column("alpha", unit="4"),
    Column("alpha_random", "random", unit="4"),
    Column("D", unit="4"),
    Column("n_tail", "tail"),
    Column("sigma_max", unit="4"),
    Column("fro", unit="4"),
    Column("stable_rank", "stable rank", unit="4"),
)
_FLAGS = Column("flags", kind="text")
_MEANS = (
    Column("place", kind="text"),
    Column("kind", kind="text"),
    Column("alpha_mean", "mean alpha", unit="4"),
    Column("alpha_median", "median", unit="4"),
    Column("alpha_n", "n"),
    Column("alpha_n_excluded", "excluded"),
    Column("sigma_max_mean", "mean sigma_max", unit="4"),
    Column("fro_mean", "mean fro", unit="4"),
)


def report(layers: pd.DataFrame, about: Mapping[str, Any], *, small_n: bool) -> Report:
    """Layers of one place, or alpha of several side by side, then their means.

    Args:
        layers: a row for each layer and place.
        about: how they were measured.
        small_n: as in `summarize`.
    """
    import pandas as pd

    shapes = [
        sorted(zip(part["rows"], part["cols"], part["kernel"], strict=True))
        for _, part in layers.groupby("place")
    ]
    comparable = all(shape == shapes[0] for shape in shapes)
    means = summarize(layers, ("place", "kind"), small_n=small_n)
    if comparable:  # over all kinds only where all places have the same shapes
        every = summarize(layers.assign(kind="all"), ("place", "kind"), small_n=small_n)
        means = pd.concat([means, every], ignore_index=True)
    notes = [Note("spectra_excluded")] if means["alpha_n_excluded"].any() else []
    notes += [] if comparable else [Note("spectra_shapes_differ")]
    summary = [[_cell(row[column.name]) for column in _MEANS] for row in _rows(means)]
    sections = [_layers(layers), table(_MEANS, summary, title="means over layers", notes=notes)]
    facts = {**about, "layers": list(_rows(_joined(layers))), "summary": list(_rows(means))}
    return Report("spectra", f"by {about['method']}", sections, data=facts)


def _layers(layers: pd.DataFrame) -> Section:
    places, rows = list(layers["place"].unique()), list(_rows(layers))
    if len(places) == 1:
        has_random = layers["alpha_random"].notna().any()
        columns = [column for column in _NUMBERS if has_random or column.name != "alpha_random"]
        cells = [
            [*_words(row), *(_cell(row[column.name]) for column in columns), " ".join(row["flags"])]
            for row in rows
        ]
        return table([*_LAYER, *columns, _FLAGS], cells, title=places[0])
    optimizers = {row["place"]: row["optimizer"] or "" for row in rows}
    columns = [
        Column("alpha", f"alpha {place} {name}".strip(), unit="4") for place, name in optimizers.items()
    ]
    alphas: dict[tuple[str, ...], dict[str, Cell]] = {}
    for row in rows:
        flags = [Note("spectra_flags", flags=row["flags"])] if row["flags"] else []
        alphas.setdefault(_words(row), {})[row["place"]] = _cell(row["alpha"]).noted(*flags)
    grid = [[*layer, *(cells.get(place, Cell()) for place in places)] for layer, cells in alphas.items()]
    return table([*_LAYER, *columns], grid, title="layers side by side")


def _words(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Name, kind and shape."""
    shape = f"{row['rows']} x {row['cols']}" + (f" x {row['kernel']}" if row["kernel"] > 1 else "")
    return " = ".join([row["name"], *row["aliases"]]), row["kind"], shape


def _cell(value: Any) -> Cell:
    return Cell("-" if value is None else value)


def _rows(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The rows as plain values; None for what is not known or not a number."""
    for row in frame.astype(object).where(frame.notna(), None).to_dict("records"):
        yield {str(name): value for name, value in row.items()}


# --- means ---


def summarize(
    layers: pd.DataFrame, by: Sequence[str] = ("optimizer",), *, small_n: bool = False
) -> pd.DataFrame:
    """Mean, median and number of alpha, sigma_max and fro over the layers of each group.

    A mean of alpha over unlike shapes says nothing by itself: compare groups of the same shapes only. Beside
    a mean of ks read the median, because one layer may decide the mean.

    Args:
        layers: rows of `layer_table`, with the columns of `by`.
        by: columns that make the groups.
        small_n: count alpha of layers with fewer than 50 eigenvalues, too.

    Returns:
        a row per group in the order of their first rows, with the columns of `by` and, for each value v,
        v_mean, v_median, v_n and v_n_excluded. Excluded are nan and inf, and of alpha those with the flag
        "small_n".
    """
    import pandas as pd

    rows = []
    for key, group in layers.groupby(list(by), sort=False, dropna=False):
        row = dict(zip(by, key if isinstance(key, tuple) else (key,), strict=True))
        for value in VALUES:
            numbers = group[value].to_numpy(dtype=float)
            counts = np.isfinite(numbers)
            if value == "alpha" and not small_n:
                counts &= np.array(["small_n" not in flags for flags in group["flags"]], dtype=bool)
            counted = numbers[counts]
            row[f"{value}_mean"] = float(counted.mean()) if len(counted) else math.nan
            row[f"{value}_median"] = float(np.median(counted)) if len(counted) else math.nan
            row |= {f"{value}_n": len(counted), f"{value}_n_excluded": len(numbers) - len(counted)}
        rows.append(row)
    statistics = ("mean", "median", "n", "n_excluded")
    columns = [f"{value}_{statistic}" for value in VALUES for statistic in statistics]
    return pd.DataFrame(rows, columns=[*by, *columns])


def _joined(layers: pd.DataFrame) -> pd.DataFrame:
    """With the aliases of a layer and its flags in a word each."""
    return layers.assign(**{name: layers[name].map(" ".join) for name in ("aliases", "flags")})
