"""Operations of an update of each matrix of the paper's models, counted once and kept as `counted.csv`.

The table of FLOPs puts them beside the formulas of the paper. `python -m
htbench.results.tables.counted --write` counts them anew; only that loads torch.
"""

import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from htbench.harness.config.settings import resolve_config
from htbench.harness.paper import scales

OPTIMIZERS = ("muon", "htmuon_ns", "htmuon")
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


def count_updates(task: str, model: str, optimizer: str) -> Iterator[CountedUpdate]:
    """Count the updates of a workload on tensors without memory."""
    from htbench.harness.cost import shapes, update

    settings = {"task": task, "model": model, "optimizer.name": optimizer, "steps": 1}
    config = resolve_config(settings | {"data_fingerprint": "0" * 16})
    for shape, number, products, decompositions in update.matrices(config, shapes.of(config)):
        yield CountedUpdate(task, model, *shape, number, optimizer, products, decompositions)


def make_text() -> str:
    """The file as it has to be: the paper's workloads, then their twins in miniature and on the ladder."""
    import pandas as pd

    workloads = (twin for scale in ("paper", "nano", "ladder") for twin in scales.twins(scale).values())
    updates = [
        update
        for task, model in dict.fromkeys(workloads)
        for optimizer in OPTIMIZERS
        for update in count_updates(task, model, optimizer)
    ]
    return pd.DataFrame(updates).to_csv(index=False, lineterminator="\n")


if __name__ == "__main__":
    if "--write" in sys.argv:
        FILE.write_text(make_text())
    else:
        sys.exit(0 if FILE.read_text() == make_text() else f"{FILE} is not what this code counts: --write")
