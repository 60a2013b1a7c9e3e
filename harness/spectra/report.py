"""Spectra of several models as text and as files; numbers that are not finite are words or null."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from harness.display import document
from harness.errors import UsageError
from harness.harmless import csv_cell, markdown_cell
from harness.spectra.summary import summarize
from harness.system import atomic

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES: Final = (".csv", ".parquet")

# Heading and column of the layers of one model.
_LAYER = (("alpha", "alpha"), ("random", "alpha_random"), ("D", "D"), ("tail", "n_tail"))
_NORMS = (("sigma_max", "sigma_max"), ("fro", "fro"), ("stable rank", "stable_rank"))
_SUMMARY = (("mean alpha", "alpha_mean"), ("median", "alpha_median"), ("n", "alpha_n"))
_SUMMARY_NORMS = (
    ("excluded", "alpha_n_excluded"),
    ("mean sigma_max", "sigma_max_mean"),
    ("mean fro", "fro_mean"),
)
_EXCLUDED = "excluded: flat tails, nothing to fit, and fewer than 50 eigenvalues (--small counts these)"


def summary(table: pd.DataFrame, small_n: bool) -> pd.DataFrame:
    """By place and kind; and over all kinds, kind "all", where all places have the same shapes."""
    import pandas as pd

    parts = [summarize(table, ("place", "kind"), small_n=small_n)]
    if same_shapes(table):
        parts.append(summarize(table.assign(kind="all"), ("place", "kind"), small_n=small_n))
    return pd.concat(parts, ignore_index=True)


def same_shapes(table: pd.DataFrame) -> bool:
    """Whether all places have the same shapes, so that means over them can be compared."""
    shapes = {
        tuple(sorted(zip(part["rows"], part["cols"], part["kernel"], strict=True)))
        for _, part in table.groupby("place")
    }
    return len(shapes) == 1


def markdown(table: pd.DataFrame, means: pd.DataFrame) -> str:
    """Layers of one place, or alpha of several side by side, then the summary."""
    places = list(table["place"].unique())
    lines = [_one(table) if len(places) == 1 else _beside(table, places), "", _means(means)]
    if means["alpha_n_excluded"].any():
        lines += [
            "",
            _EXCLUDED,
        ]
    if len(places) > 1 and not same_shapes(table):
        lines += ["", "The shapes differ: alpha depends on the shape, so there are no means over all kinds."]
    return "\n".join(lines)


def _one(table: pd.DataFrame) -> str:
    columns = [one for one in (*_LAYER, *_NORMS) if one[1] != "alpha_random" or table[one[1]].notna().any()]
    head = ("layer", "kind", "shape", *(name for name, _ in columns), "flags")
    rows = [
        (_name(row), row["kind"], _shape(row), *(_number(row[name]) for _, name in columns), row["flags"])
        for row in _rows(table)
    ]
    return _pipes([head, *rows], words=("layer", "kind", "shape", "flags"))


def _beside(table: pd.DataFrame, places: Sequence[str]) -> str:
    layers: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in _rows(table):
        mark = "*" if row["flags"] else ""
        cell = f"{_number(row['alpha'])}{mark}"
        layers.setdefault((_name(row), row["kind"], _shape(row)), {})[row["place"]] = cell
    rows = [(*layer, *(cells.get(place, "") for place in places)) for layer, cells in layers.items()]
    known = zip(table["place"], table["optimizer"], strict=True)
    optimizers = {place: name if isinstance(name, str) else "" for place, name in known}
    head = ("layer", "kind", "shape", *(f"alpha {place} {optimizers[place]}".strip() for place in places))
    noted = "\n\n*: with flags, which `--format csv` has" if any(map(bool, table["flags"])) else ""
    return _pipes([head, *rows], words=head[:3]) + noted


def _means(means: pd.DataFrame) -> str:
    columns = (*_SUMMARY, *_SUMMARY_NORMS)
    head = ("place", "kind", *(name for name, _ in columns))
    rows = [(row["place"], row["kind"], *(_number(row[name]) for _, name in columns)) for row in _rows(means)]
    return _pipes([head, *rows], words=("place", "kind"))


def as_json(about: Mapping[str, Any], table: pd.DataFrame, means: pd.DataFrame) -> str:
    """One object with the layers and the summary; null is what is not finite."""
    return document({**about, "layers": _rows(table), "summary": _rows(means)})


def as_csv(table: pd.DataFrame) -> str:
    """The layers as CSV."""
    words = table.select_dtypes(exclude="number").columns
    return table.assign(**{name: table[name].map(_cell) for name in words}).to_csv(index=False)


def _cell(value: Any) -> Any:
    return csv_cell(value) if isinstance(value, str) else value


def write(path: Path, table: pd.DataFrame) -> None:
    """Write the layers of all places.

    Raises:
        UsageError: the file's format is unknown.
    """

    def put(file: IO[bytes]) -> None:
        if path.suffix == ".csv":
            file.write(as_csv(table).encode())
        else:
            table.to_parquet(file, index=False)

    check(path)
    atomic.write_with(path, put)


def check(path: Path) -> None:
    """Raise UsageError if no table can be written there."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"--out must name a file {' or '.join(SUFFIXES)}, not '{path}'.")
    if not path.parent.is_dir():
        raise UsageError(f"The folder '{path.parent}' for '{path.name}' does not exist.")


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def _name(row: Mapping[str, Any]) -> str:
    return " = ".join([row["name"], *row["aliases"].split()])


def _shape(row: Mapping[str, Any]) -> str:
    return f"{row['rows']} x {row['cols']}" + (f" x {row['kernel']}" if row["kernel"] > 1 else "")


def _number(value: Any) -> str:
    if isinstance(value, float):
        return "-" if math.isnan(value) else f"{value:.4g}"
    return str(value)


def _pipes(rows: Iterable[Sequence[object]], words: Sequence[str]) -> str:
    """A Markdown table with columns as wide as they need to be."""
    cells = [[markdown_cell(str(cell)) for cell in row] for row in rows]
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    left = [head in words for head in cells[0]]
    rule = [
        "-" * width if side else "-" * (width - 1) + ":" for width, side in zip(widths, left, strict=True)
    ]
    lines = (
        " | ".join(f"{c:{'<' if side else '>'}{w}}" for c, w, side in zip(row, widths, left, strict=True))
        for row in [cells[0], rule, *cells[1:]]
    )
    return "\n".join(f"| {line} |" for line in lines)
