"""Plans: winners by validation, replicas on fresh seeds, and only once a whole objective is settled."""

import pytest

from htbench.harness.store import Store
from htbench.harness.store.points import REPLICATE, read_points
from htbench.sweeps.plan.planned import by_objective, search_points
from htbench.sweeps.plan.replicas import replicas
from htbench.sweeps.run.pool import Pool
from htbench.sweeps.run.runner import Runner
from htbench.sweeps.run.sweep import Sweep
from htbench.sweeps.spec import sweep_file as specs
from tests.helpers.records import scored

TEXT = """
name: two
base: {task: digits, model: resnet-nano, steps: 2, batch_size: 16, data_seed: 7}
seeds: [0, 3]
blocks:
  - {name: sgdm, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.1, 0.2], batch_size: [16, 32]}}
replicate: {seeds: 2}
"""
SMALL = TEXT.replace(", 3]", "]").replace(", batch_size: [16, 32]", "")


@pytest.fixture
def spec(write_spec):
    return specs.load(write_spec(TEXT))


def fake_record(accuracy):
    if accuracy is None:
        return scored("digits", "diverged")
    return scored("digits", val_accuracy=accuracy, val_loss=1.0)


def fresh(spec, first, second):
    """The replicas of the first objective, by the accuracies of its two rates on each seed."""
    group = by_objective(spec, search_points(spec))[0]
    table = {0.1: dict(zip(spec.seeds, first, strict=True)), 0.2: dict(zip(spec.seeds, second, strict=True))}
    records = {p.point.key: fake_record(table[p.config.optimizer.lr][p.config.seed]) for p in group}
    found = replicas(spec, group, records)
    assert all((p.point.stage, p.config.batch_size) == (REPLICATE, 16) for p in found)
    return [(p.config.optimizer.lr, p.config.seed, p.config.data_seed) for p in found]


def test_the_winner_is_the_best_mean_over_the_seeds(spec):
    assert fresh(spec, (0.9, 0.5), (0.8, 0.8)) == [(0.2, 1000, 1000), (0.2, 1001, 1001)]


def test_the_order_of_the_data_that_the_winner_was_chosen_by_is_not_fresh(write_spec):
    spec = specs.load(write_spec(TEXT.replace("data_seed: 7", "data_seed: 1000")))
    assert fresh(spec, (0.9, 0.5), (0.8, 0.8)) == [(0.2, 1001, 1001), (0.2, 1002, 1002)]


def test_fresh_seeds_lie_above_all_that_a_search_uses(write_spec):
    spec = specs.load(write_spec(TEXT.replace("[0, 3]", "[0, 2000]")))
    assert fresh(spec, (0.9, 0.5), (0.8, 0.8)) == [(0.2, 2001, 2001), (0.2, 2002, 2002)]


def test_a_candidate_that_diverged_on_one_seed_cannot_win(spec):
    assert {lr for lr, *_ in fresh(spec, (0.3, 0.3), (0.9, None))} == {0.1}
    assert fresh(spec, (None, None), (None, None)) == []


def test_replicas_are_due_when_their_objective_is_settled_and_not_before(spec, tmp_path):
    sweep = Sweep(spec, Store(tmp_path))
    first, second = sweep.groups
    for one in first[:-1]:
        assert sweep.settle(one.point.key, fake_record(0.5)) == []
    due = sweep.settle(first[-1].point.key, None)
    assert len(due) == 2 and sweep.planned == sweep.search + due
    assert sweep.steps_left() == (len(second) + 2 + 2) * 2


def test_a_finished_sweep_is_settled_without_a_pool(spec, tmp_path, monkeypatch):
    monkeypatch.setattr("htbench.sweeps.run.runner.Pool", None)
    monkeypatch.setattr("htbench.sweeps.run.sweep.refresh.refresh", lambda *_: [])
    store = Store(tmp_path)
    monkeypatch.setattr(store, "records", lambda keys: {key: fake_record(0.5) for key in keys})
    runner = Runner(store, [spec], None, quiet=True)
    runner.run()
    assert runner.unfinished == {} and len(runner.sweeps[0].planned) == 8 + 2 * 2


def test_replicas_are_in_the_plan_before_the_first_of_them_starts(write_spec, tmp_path, monkeypatch):
    root, planned = tmp_path / "store", []

    class Recorder(Pool):
        def start(self, points):
            fresh = [point for point in points if point.stage == REPLICATE]
            planned.extend(point in read_points(root, "two") for point in fresh)
            super().start(points)

    monkeypatch.setattr("htbench.sweeps.run.runner.Pool", Recorder)
    Runner(Store(root), [specs.load(write_spec(SMALL))], 1, quiet=True).run()
    assert planned == [True, True]


def test_a_run_that_two_blocks_want_is_started_once(write_spec, tmp_path, monkeypatch):
    text = SMALL.replace("replicate: {seeds: 2}", "")
    twin = "  - {name: twin, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.2, 0.3]}}\n"
    started = []

    class Recorder(Pool):
        def start(self, points):
            started.extend(point.overrides["optimizer.lr"] for point in points)
            super().start(points)

    monkeypatch.setattr("htbench.sweeps.run.runner.Pool", Recorder)
    runner = Runner(Store(tmp_path / "store"), [specs.load(write_spec(text + twin))], 3, quiet=True)
    assert len(runner.sweeps[0].planned) == 4 and runner.sweeps[0].steps_left() == 3 * 2
    runner.run()
    assert sorted(started) == [0.1, 0.2, 0.3] and not runner.unfinished
