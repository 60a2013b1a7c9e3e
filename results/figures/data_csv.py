"""The CSV file behind a figure: tidy, one row per value."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from harness.harmless import csv_cell
from results.figures.kinds import AnyPanel

COLUMNS = (
    *("panel", "quantity", "series", "x", "x_sd", "y", "y_sd", "y_low", "y_high"),
    *("n", "source", "keys"),
)


def write(panels: Iterable[AnyPanel]) -> str:
    """The text of the file. Several keys are separated by spaces; an empty cell has no value."""
    file = io.StringIO()
    rows = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    rows.writeheader()
    for panel in panels:
        for row in panel.rows():
            cells = {name: _cell(getattr(row, name)) for name in COLUMNS if name not in ("panel", "keys")}
            rows.writerow({"panel": csv_cell(panel.title), **cells, "keys": " ".join(row.keys)})
    return file.getvalue()


def _cell(value: float | str | None) -> str:
    """Nine digits are more than any seed decides, and the same on every machine."""
    if isinstance(value, float):
        return f"{value:.9g}"
    return csv_cell(value) if isinstance(value, str) else "" if value is None else str(value)
