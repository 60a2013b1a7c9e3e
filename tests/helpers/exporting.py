"""A tiny store with every kind of run that an export meets, and what trackers must have of it."""

import json
import math

from htbench.harness.store import Store
from htbench.harness.store.points import REPLICATE, SEARCH, Point, sweep_folder, write_points
from tests.helpers import records

ADAMW, MUON, DIVERGED, SEED1 = "0" * 12, "1" * 12, "2" * 12, "3" * 12
ALONE, PRUNED, EDITED, WAITING = "4" * 12, "6" * 12, "7" * 12, "8" * 12
LEAVING = (ADAMW, MUON, DIVERGED, SEED1, ALONE)
SWEEPS = {  # name -> (key, block, stage); alpha and beta want one run both
    "alpha": [(MUON, "m", SEARCH), (SEED1, "m", REPLICATE)],
    "beta": [(MUON, "m2", SEARCH), (ADAMW, "a", SEARCH), (DIVERGED, "a", SEARCH), (WAITING, "a", SEARCH)],
    "gamma": [(PRUNED, "a", SEARCH), (EDITED, "a", SEARCH)],
}
ENVIRONMENT = {"code": "abc", "torch": "2.13.0", "python": "3.11.7", "host": "node7", "cpu": "Testium 1"}


class Source:
    """A store that is written run by run."""

    def __init__(self, root):
        self.store = Store(root)

    def put(self, key, optimizer, *, status="completed", steps=4, lr=0.1, seed=0, metrics=None, **changes):
        """A finished run with a loss at every step and one evaluation in the middle and in the end."""
        final = {"val_loss": 0.25, "test_loss": 0.5} if metrics is None else metrics
        rows = [{"step": step, "loss": 2 / step, "lr": lr} for step in range(1, steps + 1)]
        rows.insert(steps // 2, {"step": steps // 2, "val_loss": 0.75})
        if status == "diverged":
            rows[-1]["loss"] = None
        self.curve(key, rows + ([{"step": steps, **final}] if final else []))
        config = {"optimizer": {"name": optimizer, "lr": lr, "hyper": {"p": 0.5, "betas": [0.9, 0.95]}}}
        config |= {"task": "digits", "seed": seed, "grad_clip": None, "compile": False, "replica": ""}
        record = {
            "config": config,
            "metrics": final | ({"train_loss": 0.5} if final else {}),
            "environment": ENVIRONMENT,
            "divergence": {"kind": "loss_not_finite"} if status == "diverged" else {},
            "cost": {"parameters": 8.0},
            "began": "2026-01-31T12:00:00+00:00",
        }
        return self.record(key, status, steps, **(record | changes))

    def record(self, key, status, steps, **fields):
        common = {"useful_seconds": 2.0, "seconds_per_step": 0.5, "metrics": {}}
        record = records.record(key, status=status, steps=steps, **(common | fields))
        path = self.store.files(key).record
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self.store.write_record(record)
        return record

    def curve(self, key, rows):
        folder = self.store.run_folder(key)
        folder.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "metrics.jsonl").write_text('{"step": 1, "loss"\n' + text + text)  # torn and doubled

    def plan(self, name, rows):
        sweep_folder(self.store.root, name).mkdir(parents=True, exist_ok=True)
        points = [Point(name, block, stage, key, {}) for key, block, stage in rows]
        write_points(self.store.root, name, points)


def fill(root):
    source = Source(root)
    source.put(ADAMW, "adamw")
    source.put(MUON, "muon", lr=0.02)
    source.put(SEED1, "muon", lr=0.02, seed=1)
    source.put(DIVERGED, "adamw", lr=3.0, status="diverged", metrics={})
    source.put(ALONE, "my.module:Opt", metrics={"val_loss": None})
    source.put(EDITED, "adamw", lr=0.3)
    edited = source.store.files(EDITED).record
    edited.write_text(edited.read_text().replace('"steps": 4', '"steps": 5'))  # by hand
    source.record(PRUNED, "pruned", 2, config={"task": "digits"})
    for name, rows in SWEEPS.items():
        source.plan(name, rows)
    return source


def expected(store):
    """Key -> metric -> (step, value) of the curve: the rows of the file as they were meant."""
    found = {}
    for key in LEAVING:
        series = found[key] = {}
        for line in dict.fromkeys(store.files(key).metrics.read_text().splitlines()[1:]):
            row = json.loads(line)
            for name in row.keys() - {"step"}:
                series.setdefault(name, []).append((row["step"], row[name]))
        series.update({name: sorted(points) for name, points in series.items()})
    return found


def same(ours, theirs, tolerance=0.0):
    """Whether a tracker has exactly the curves: no point is lost, none doubled; None has become NaN."""
    assert ours.keys() == theirs.keys()
    for key, curves in ours.items():
        for name, points in curves.items():
            assert [step for step, _ in theirs[key][name]] == [step for step, _ in points], (key, name)
            for (_, value), (_, there) in zip(points, theirs[key][name], strict=True):
                assert math.isnan(there) if value is None else math.isclose(value, there, rel_tol=tolerance)
    return True
