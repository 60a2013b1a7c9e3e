"""Operations of an update of each matrix of the paper's models, counted once and kept as `counted.csv`.

The table of FLOPs puts them beside the formulas of the paper. In a clone `python -m docs.counted_updates
--write` counts them anew.
"""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_suffix(".csv")


@dataclass(frozen=True)
class CountedUpdate:
    """The update of the matrices of one shape by one optimizer with its default settings.

    Attributes:
        task, model: the workload.
        rows, columns: the shape (m, n); a kernel (o, i, h, w) is a matrix of o rows.
        number: of such matrices in the model.
        optimizer: its name in the zoo.
        products: floating point operations of matrix products, of one matrix.
        decompositions: those of eigenvalue decompositions, by the formulas of `harness/cost/watch.py`.
    """

    task: str
    model: str
    rows: int
    columns: int
    number: int
    optimizer: str
    products: int
    decompositions: int


def read_counted() -> list[CountedUpdate]:
    """What the file has, in its order."""
    rows: list[dict[str, Any]] = []
    for row in csv.DictReader(FILE.read_text("utf-8").splitlines()):
        rows.append({name: int(word) if word.isdigit() else word for name, word in row.items()})
    return [CountedUpdate(**row) for row in rows]
