"""Files that Weights & Biases exports, as tables with our columns.

A chart: `Step`, then for each run `NAME - METRIC`, `NAME - METRIC__MIN`, `NAME - METRIC__MAX`. The table of
runs: `Name`, `State` ... . The history of a run (`run.history()` or `scan_history()` as CSV): `_step`,
`_runtime`, a column per metric.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.exchange.csv_file import Table

_BETWEEN = " - "
_LEAST, _MOST = "__MIN", "__MAX"


def is_chart(table: Table) -> bool:
    """Whether all columns but the first are of a run and a metric."""
    return len(table.header) > 1 and all(_BETWEEN in name for name in table.header[1:])


def chart(table: Table) -> Table:
    """A line per run, step and metric. The first column keeps its name: it need not be a step.

    Where a chart has grouped runs, or thinned a long one out, a cell is a mean with the least and the most of
    what it is the mean of; the notes say so.
    """
    measured = [i for i, name in enumerate(table.header) if i and not name.endswith((_LEAST, _MOST))]
    names = {i: table.header[i].rpartition(_BETWEEN) for i in measured}
    metrics = list(dict.fromkeys(metric for _, _, metric in names.values() if not metric.startswith("_")))
    lines: list[tuple[int, Sequence[str]]] = []
    averaged = Counter[str]()
    for number, cells in table.lines:
        for i, (run, _, metric) in names.items():
            if metric in metrics and cells[i].strip():
                lines.append((number, [cells[0], run, *(cells[i] if m == metric else "" for m in metrics)]))
                averaged[run] += _is_mean(table.header, cells, i)
    header = [table.header[0], "run", *metrics]
    notes = {run: f"{n} of its values are means, as its chart had them" for run, n in averaged.items() if n}
    return Table(table.name, header, lines, notes=notes)


def _is_mean(header: Sequence[str], cells: Sequence[str], index: int) -> bool:
    ends = [f"{header[index]}{end}" for end in (_LEAST, _MOST)]
    told = [cells[header.index(name)].strip() for name in ends if name in header]
    return len({one for one in told if one} | {cells[index].strip()}) > 1


def is_history(table: Table) -> bool:
    """Whether this is the history of one run."""
    return "_step" in table.header and bool({"_runtime", "_timestamp"} & set(table.header))


def history(table: Table) -> Table:
    """The history of the run that the file is called after."""
    return replace(table, run=Path(table.name).stem)


def runs(table: Table) -> Table:
    """A table of runs; in that of Weights & Biases, `Name` is the run."""
    if "run" in table.header or not {"Name", "State"} <= set(table.header):
        return table
    return replace(table, header=["run" if name == "Name" else name for name in table.header])
