"""Whether the demo's runs learned what they must: called by .ci/run after the README's demo.

Every optimizer's best grid cell ends at 0.65 of its untrained validation loss or less, and on digits it
reaches a validation accuracy of 0.90 or more. A cell that diverged has no loss and is not the best.
"""

import math
import sys

from htbench.harness.store import Store
from htbench.harness.store.points import SEARCH, read_points

store = Store("store")
bad = 0
for name in ("demo-pydocs", "demo-digits"):
    points = [point for point in read_points(store.root, name) if point.stage == SEARCH]
    records = store.records([point.key for point in points])
    for block in dict.fromkeys(point.block for point in points):
        runs = [records[point.key] for point in points if point.block == block]
        figures = [run.metrics for run in runs if run.status == "completed"]
        ratio = min((own["val_loss"] / own["untrained_val_loss"] for own in figures), default=math.inf)
        accuracy = max((own.get("val_accuracy", 1.0) for own in figures), default=0.0)
        bad += ratio > 0.65 or accuracy < 0.90
        print(f"{name} {block}: best validation loss / untrained {ratio:.3f}, accuracy {accuracy:.3f}")
sys.exit(bool(bad))
