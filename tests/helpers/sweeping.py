"""Shared by the tests that carry out whole sweeps: a tiny one, and what must hold after it in any case."""

import json
import signal

from htbench.harness.store import Store, curve
from htbench.harness.store.points import read_points
from tests.helpers.command import Htbench

SPEC = """
name: tiny
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16, checkpoint.every_steps: 3, log_every: 2}
blocks:
  - {name: sgdm, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.03, 0.1]}}
replicate: {seeds: 1}
"""


def results(root, name="tiny"):
    """What must not depend on how often a sweep was killed: figures and curve of every point."""
    store = Store(root)
    points = read_points(root, name)
    assert points, f"there is no sweep '{name}' to compare"
    records = store.records([point.key for point in points])
    return {
        point.key: (
            point.stage,
            records[point.key].status,
            records[point.key].metrics,
            curve.read(store.run_folder(point.key) / "metrics.jsonl"),
        )
        for point in points
    }


def check_whole(root, name="tiny", failures=False):
    """Every point exactly once everywhere, and nothing left lying about.

    `failures`: runs may have failed before they were tried again, which leaves a failed trial each.
    """
    points = read_points(root, name)
    keys = [point.key for point in points]
    assert len(set(keys)) == len(keys)
    folders = sorted(path.parent.name for path in root.glob("runs/*/*/record.json"))
    assert folders == sorted(keys), "one record per point and none besides"
    noted = {json.loads(line)["record"]["key"] for line in (root / "index.jsonl").read_text().splitlines()}
    assert noted == set(keys)
    # A snapshot of the code holds the tests, and these have a store of their own.
    found = (path for path in root.rglob("*") if root / "code" not in path.parents[1:])
    leftovers = [path for path in found if ".tmp" in path.name or path.name == "checkpoint.pt"]
    assert not leftovers
    trials = trials_by_state(root)
    assert sorted(trials.pop("COMPLETE")) == sorted(keys)
    assert trials.keys() <= ({"FAIL"} if failures else set())


def carried_out(folder, text, *words):
    """The store of a sweep that nobody has disturbed, and its file."""
    spec = folder / "tiny.yaml"
    spec.write_text(text)
    done = Htbench(folder / "store")("sweep", "run", spec, *words)
    assert done.returncode == 0, done.stderr
    return folder / "store", spec


def die_at_each(deaths, htbench, *words):
    """Give a command again and again, until it has died at each of these crash points in turn."""
    for death in deaths:
        process = htbench.start(*words, crash=death)
        _, errors = process.communicate(timeout=300)
        assert process.returncode == -signal.SIGKILL, f"{death} was never reached: {errors}"


def trials_by_state(root):
    """The keys of all trials in the studies by state, as Optuna itself reads them."""
    import optuna
    from optuna.storages.journal import JournalFileBackend, JournalStorage

    found = {}
    for path in root.glob("studies/*.journal"):
        storage = JournalStorage(JournalFileBackend(str(path)))
        for summary in optuna.get_all_study_summaries(storage):
            for trial in optuna.load_study(study_name=summary.study_name, storage=storage).trials:
                found.setdefault(trial.state.name, []).append(trial.user_attrs["key"])
    return found
