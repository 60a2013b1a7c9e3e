"""Operations of an update of each matrix of the paper's models, counted once and kept as `counted.csv`.

The table of FLOPs puts them beside the formulas of the paper. `python -m harness.cost.counted --write` counts
them anew; only that loads torch.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from harness.config.settings import resolve_config
from harness.paper import scales
from harness.system import atomic

OPTIMIZERS = ("muon", "htmuon_ns", "htmuon")
FILE = Path(__file__).with_suffix(".csv")


@dataclass(frozen=True)
class Counted:
    """The update of the matrices of one shape by one optimizer with its default settings.

    Attributes:
        task, model: the workload.
        rows, columns: the shape (m, n); a kernel (o, i, h, w) is a matrix of o rows.
        number: of such matrices in the model.
        optimizer: its name in the zoo.
        products: floating point operations of matrix products, of one matrix.
        decompositions: those of eigenvalue decompositions, by the formulas of `harness/cost/ledger.py`.
    """

    task: str
    model: str
    rows: int
    columns: int
    number: int
    optimizer: str
    products: int
    decompositions: int


_WORDS = ("task", "model", "optimizer")


def kept() -> list[Counted]:
    """What the file has, in its order."""
    with FILE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        Counted(**{name: value if name in _WORDS else int(value) for name, value in row.items()})  # type: ignore[arg-type]
        for row in rows
    ]


def count(task: str, model: str, optimizer: str) -> Iterator[Counted]:
    """Count the updates of a workload on tensors without memory."""
    from harness.cost import shapes, steps

    settings = {"task": task, "model": model, "optimizer.name": optimizer, "steps": 1}
    config = resolve_config(settings | {"data_fingerprint": "0" * 16})
    for shape, number, flops in steps.matrices(config, shapes.of(config)):
        decompositions = sum(flops[name] for name in steps.DECOMPOSED)
        products = flops.total() - decompositions
        yield Counted(task, model, *shape, number, optimizer, products, decompositions)


def text() -> str:
    """The file as it has to be: every workload of the paper, then their twins in miniature."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(field.name for field in fields(Counted))
    workloads = (scales.workload(scale, *pair) for scale in ("paper", "nano") for pair in scales.WORKLOADS)
    for task, model in dict.fromkeys(workloads):
        for optimizer in OPTIMIZERS:
            writer.writerows(map(astuple, count(task, model, optimizer)))
    return out.getvalue()


if __name__ == "__main__":
    if "--write" in sys.argv:
        atomic.write_text(FILE, text())
    else:
        sys.exit(0 if FILE.read_text() == text() else f"{FILE} is not what this code counts: --write")
