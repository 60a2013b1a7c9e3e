"""How published numbers are arranged, and ours beside them: the one pivot of tables, figures and the ledger.

`layouts.csv` says of each table what its rows and columns are, what divides it into sections, what is chosen
in a cell and what is fixed. Fields are those of `read_field`.
"""

import csv
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from htbench.harness.paper.reported import Reported
from htbench.results.compare.paper_runs import PaperRuns
from htbench.results.compare.quantities import find_metric, find_quantity
from htbench.results.frames.metrics import is_missing

Value = str | float | None
Key = tuple[Value, ...]
STEPS = ("lr", "p", "interval")  # fields that are numbers and ascend
_NOT_PRINTED = ""
_HEAVY_TAILED = {"muon": "htmuon", "normuon": "htmuon_normuon"}  # what tables over p call these, at p = 0


@dataclass(frozen=True)
class Layout:
    """How the published numbers of one table are arranged.

    Attributes:
        title: what it shows.
        rows, columns, sections: the fields that tell its rows, columns and sections apart.
        axis: the field that the columns are steps of, if it is a grid. One over p has a column more: p chosen
            on validation together with the learning rate.
        selects: what is chosen, in words; empty if nothing is.
        fixes: what else is tuned elsewhere and fixed here, in words.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    sections: tuple[str, ...]
    axis: str
    selects: str
    fixes: str


_TUPLES = ("rows", "columns", "sections")  # columns of the file with several words
_FILE = Path(__file__).with_name("layouts.csv")
LAYOUTS = {
    row.pop("name"): Layout(**row | {name: tuple(row[name].split()) for name in _TUPLES})
    for row in csv.DictReader(_FILE.read_text("utf-8").splitlines())
}


def list_lines(lines: Iterable[Reported], our_runs: PaperRuns) -> list[Reported]:
    """The numbers of a table that a scale has runs for, and further cells that are not printed in the paper.

    In miniature a grid has other learning rates: a cell for each of the plan, one without a rate if nothing
    is planned. A column "tuned p" has all values of p at once; deliberate reruns don't compete there.
    """
    available = [line for line in lines if find_quantity(line) is not None]
    axis = LAYOUTS[available[0].table].axis if available else ""
    if axis == "lr" and our_runs.scale != "paper":
        without = dict.fromkeys(replace(line, lr=None, printed=_NOT_PRINTED) for line in available)
        available = []
        for line in without:
            latest = (choice.candidates for choice in our_runs.choices(line.place)[-1:])
            tried = {candidate.value("lr") for candidates in latest for candidate in candidates}
            rates = sorted(float(rate) for rate in tried if not is_missing(rate))
            available += [replace(line, lr=rate) for rate in rates] or [line]
    if axis != "p":
        return available
    tuned = [
        replace(line, p=None, replica="", printed=_NOT_PRINTED) for line in available if line.p is not None
    ]
    return [*available, *dict.fromkeys(tuned)]


def read_field(line: Reported, field: str) -> Value:
    """A field of a published number; None if its optimizer has none."""
    over_p = LAYOUTS[line.table].axis == "p"
    if field == "optimizer":
        return _HEAVY_TAILED.get(line.optimizer, line.row) if over_p else line.row
    if field == "p":
        return 0.0 if over_p and line.optimizer in _HEAVY_TAILED else line.p
    value: Value = getattr(line, field)
    return value


def leaves_p_open(line: Reported) -> bool:
    """Whether the cell is that of the best p (see `list_lines`)."""
    return LAYOUTS[line.table].axis == "p" and read_field(line, "p") is None


def read_fields(line: Reported, fields: Iterable[str]) -> Key:
    """The values of several fields."""
    return tuple(read_field(line, field) for field in fields)


def label_field(line: Reported, field: str) -> Value:
    """A field in the words of a scale: data sets and models are those that stand for the published ones."""
    if field in ("dataset", "model"):
        return line.workload[field == "model"]
    return find_metric(line).words if field == "metric" else read_field(line, field)


def word_fields(line: Reported, fields: Iterable[str]) -> str:
    """Several labels as one: "llama-60m hours", "lr 0.01", "p 0.1"."""
    labels = [(field, label_field(line, field)) for field in fields]
    return " ".join(
        ("tuned p" if field == "p" else f"no {field}")
        if value is None
        else (value if isinstance(value, str) else f"{field} {value:g}")
        for field, value in labels
    )
