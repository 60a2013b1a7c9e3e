"""Counts the operations of an update of each matrix of the paper's models, for the table of FLOPs.

`python -m docs.counted_updates --write` writes them to `results/tables/counted.csv`. On a GPU: on a CPU large
symmetric products are made by halves, depending on the CPU.
"""

import sys
from collections import Counter
from collections.abc import Iterator

import pandas as pd

from htbench.harness.config.settings import resolve_config
from htbench.harness.cost import shapes
from htbench.harness.cost.update import as_on_a_gpu, make_model, step_lots
from htbench.harness.cost.watch import Watch, decomposing
from htbench.harness.paper import scales
from htbench.harness.train.building import build_optimizer
from htbench.optimizers.reach import treatments
from htbench.results.tables.counted import FILE, CountedUpdate

OPTIMIZERS = ("muon", "htmuon_ns", "htmuon")


def count_updates(task: str, model: str, optimizer: str) -> Iterator[CountedUpdate]:
    """The updates of the matrices of a workload that a rule for matrices updates, the largest first.

    A kernel (o, i, h, w) is a matrix of o rows.
    """
    settings = {"task": task, "model": model, "optimizer.name": optimizer, "steps": 1}
    config = resolve_config(settings | {"data_fingerprint": "0" * 16})
    made, mode = make_model(config, shapes.of(config), config.batch_size)
    with mode, Watch() as watch, as_on_a_gpu():
        rule = build_optimizer(config, made)
        lots = list(step_lots(rule, 1, 1, watch, "cuda"))
    ruled = {p for p, how in treatments(rule).items() if how.rule != "AdamW" and not how.fallback}
    numbers: Counter[tuple[int, int]] = Counter()
    flops: dict[tuple[int, int], tuple[int, int]] = {}
    for lot in lots:
        p = lot.params[0]
        if p in ruled and p.ndim > 1:
            shape = (p.shape[0], p.numel() // p.shape[0])
            numbers[shape] += round(len(lot.params) * lot.times)
            dense = decomposing(lot.dear)
            flops[shape] = ((lot.dear.total() - dense) // len(lot.params), dense // len(lot.params))
    for shape in sorted(numbers, key=lambda shape: (-shape[0] * shape[1], shape)):
        yield CountedUpdate(task, model, *shape, numbers[shape], optimizer, *flops[shape])


def make_text() -> str:
    """The file as it has to be: the paper's workloads, then their twins in miniature and on the ladder."""
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
