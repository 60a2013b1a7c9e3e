"""Runs that are trained as one stack have the numbers that they have alone, bit for bit, whatever happens."""

import dataclasses

import pytest
import torch

from htbench.harness.config.settings import resolve_config
from htbench.harness.data import text
from htbench.harness.errors import RunFailedError, StoppedError
from htbench.harness.show.status import Status
from htbench.harness.store import Store, curve
from htbench.harness.train import stack as stacks
from htbench.harness.train.checkpoint import load_weights
from htbench.harness.train.monitor import Monitor
from htbench.optimizers import together
from tests.helpers.interrupting import StopAfter, finish
from tests.helpers.stacking import train_together

BASE = {"task": "pydocs", "model": "llama-nano", "batch_size": 2, "seq_len": 16, "steps": 100}
BASE |= {"grad_clip": 0.5, "held_out_tokens": 64, "log_every": 10, "checkpoint.keep_weights": True}
BASE |= {"optimizer.name": "adamw"}


def configs(number=3, rates=(0.01, 0.02, 0.005), **settings):
    """Runs that differ in seed, rate and weight decay."""
    own = [{"optimizer.lr": rates[i], "optimizer.weight_decay": 0.1 * i, "seed": i} for i in range(number)]
    return [resolve_config(BASE | one | settings) for one in own]


def assert_as_alone(records, folder, wanted):
    root, alone_root = folder / "stack", folder / "alone"
    for record, config in zip(records, wanted, strict=True):
        alone, rows = finish(config, alone_root)
        assert (record.key, record.status, record.metrics) == (alone.key, alone.status, alone.metrics)
        assert curve.read(Store(root).files(record.key).metrics) == rows
        if record.status is Status.COMPLETED:
            files = (Store(place).files(record.key) for place in (alone_root, root))
            expected, weights = (load_weights(one)[0] for one in files)
            assert all(torch.equal(weights[name], expected[name]) for name in expected)


@pytest.mark.parametrize("model", ["llama-nano", "llama-s1"])
@pytest.mark.parametrize("optimizer", ["adamw", "muon", "htmuon", "soap", "normuon"])
def test_a_hundred_steps_of_a_stack_are_those_of_its_runs_alone(tmp_path, optimizer, model):
    wanted = configs(2, model=model, **{"optimizer.name": optimizer})
    records = train_together(wanted, tmp_path / "stack")
    assert [record.environment["stack"] for record in records] == [2, 2]
    assert_as_alone(records, tmp_path, wanted)


def test_a_run_that_diverges_leaves_the_stack_and_the_others_do_not_notice(tmp_path):
    wanted = configs(rates=(0.01, 1e9, 0.005), **{"optimizer.name": "sgdm", "grad_clip": None, "steps": 40})
    records = train_together(wanted, tmp_path / "stack")
    assert [record.status for record in records] == [Status.COMPLETED, Status.DIVERGED, Status.COMPLETED]
    assert_as_alone(records, tmp_path, wanted)


def test_runs_go_on_across_stacks_and_alone(tmp_path):
    wanted = configs(**{"optimizer.name": "muon", "steps": 30})
    ends = train_together(wanted, tmp_path / "stack", [StopAfter(10), StopAfter(20), StopAfter(10)])
    assert [type(end) for end in ends] == [StoppedError] * 3
    first, _ = finish(wanted[0], tmp_path / "stack")
    records = [first, *train_together(wanted[1:], tmp_path / "stack")]
    assert [(record.attempts, record.environment["stack"]) for record in records] == [(2, 3)] * 3
    assert_as_alone(records, tmp_path, wanted)


def test_a_checkpoint_of_a_stacked_run_is_no_larger_than_alone(tmp_path):
    wanted = configs(steps=20)
    train_together(wanted, tmp_path / "stack", [StopAfter(10) for _ in wanted])
    with pytest.raises(StoppedError):
        finish(wanted[0], tmp_path / "alone", monitor=StopAfter(10))
    sizes = [path.stat().st_size for path in tmp_path.glob("*/runs/*/*/checkpoint.pt")]
    assert len(sizes) == 4 and max(sizes) - min(sizes) < 1000


def test_a_finished_run_is_not_in_the_stack(tmp_path):
    wanted = configs(steps=20)
    finish(wanted[1], tmp_path / "stack")
    records = train_together(wanted, tmp_path / "stack")
    assert [record.environment.get("stack", 1) for record in records] == [2, 1, 2]


def test_a_run_that_fails_ends_alone(tmp_path, monkeypatch):
    wanted = configs(**{"steps": 20, "optimizer.name": "muon"})
    step = stacks.StackedLearner.follow_schedules

    def fail_once(learner, number):
        if number == 5 and learner.config.seed == 1:
            raise ValueError("of this run alone")
        step(learner, number)

    monkeypatch.setattr(stacks.StackedLearner, "follow_schedules", fail_once)
    ends = train_together(wanted, tmp_path / "stack")
    assert isinstance(ends[1], RunFailedError) and "of this run alone" in str(ends[1])
    assert_as_alone([ends[0], ends[2]], tmp_path, [wanted[0], wanted[2]])


def test_runs_go_on_one_by_one_where_a_stack_rounds_in_another_way(tmp_path, monkeypatch, caplog):
    wanted = configs(steps=20)
    exact = stacks.StackedModel.give_gradients

    def round_otherwise(model):
        for weight, _ in model.weights:
            weight.grad *= 1 + 1e-6
        exact(model)

    monkeypatch.setattr(stacks.StackedModel, "give_gradients", round_otherwise)
    records = train_together(wanted, tmp_path / "stack")
    assert "one by one" in caplog.text and "stack" not in records[0].environment
    assert_as_alone(records, tmp_path, wanted)


@pytest.mark.parametrize("optimizer", ["sophia", "schedule_free", "prodigy", "cosmos", "mars", "htmuon_mix"])
def test_other_rules_step_as_alone(tmp_path, optimizer):
    wanted = configs(2, **{"optimizer.name": optimizer, "steps": 25, "optimizer.lr": 0.004})
    records = train_together(wanted, tmp_path / "stack")
    assert_as_alone(records, tmp_path, wanted)


def test_where_stacked_directions_differ_each_steps_with_its_own_lists(tmp_path, monkeypatch):
    monkeypatch.setattr(together, "_is_alone", lambda *arguments: False)
    wanted = configs(2, **{"optimizer.name": "muon", "steps": 20})
    assert_as_alone(train_together(wanted, tmp_path / "stack"), tmp_path, wanted)


def test_each_log_has_the_words_of_its_run(tmp_path, monkeypatch):
    wanted = configs(2, rates=(0.01, 1e9), **{"optimizer.name": "sgdm", "grad_clip": None, "steps": 30})
    records = train_together(wanted, tmp_path)
    log = Store(tmp_path).files(records[1].key).log
    assert records[1].key in log.read_text() and records[0].key not in log.read_text()


def test_a_run_that_can_not_clip_fails_alone(tmp_path, monkeypatch):
    wanted = configs(**{"steps": 20, "optimizer.name": "muon"})
    clip, calls = stacks.StackedLearner.clip_gradients, []

    def lack_memory(learner):
        calls.append(learner.config.seed)
        if learner.config.seed == 1 and len(calls) > 12:
            raise torch.OutOfMemoryError("of this run alone")
        clip(learner)

    monkeypatch.setattr(stacks.StackedLearner, "clip_gradients", lack_memory)
    ends = train_together(wanted, tmp_path / "stack")
    assert isinstance(ends[1], RunFailedError) and "of this run alone" in str(ends[1])
    assert_as_alone([ends[0], ends[2]], tmp_path, [wanted[0], wanted[2]])


@pytest.fixture
def nothing_compiled(monkeypatch):
    """A stack that need not be exact, as compiled ones and those on a GPU are, without compiling."""
    monkeypatch.setattr(torch, "compile", lambda work: work)


def assert_close_to_alone(records, tmp_path, wanted):
    for record, config in zip(records, wanted, strict=True):
        alone, rows = finish(dataclasses.replace(config, compile=False), tmp_path / "alone")
        assert (record.key, record.status) == (alone.key, alone.status)
        assert record.metrics == pytest.approx(alone.metrics, rel=1e-3)
        losses = curve.read(Store(tmp_path / "stack").files(record.key).metrics)
        assert [row["step"] for row in losses] == [row["step"] for row in rows]


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_compiled_stack_has_one_loss_and_close_numbers(tmp_path, optimizer, nothing_compiled):
    wanted = configs(**{"optimizer.name": optimizer, "compile": True, "steps": 30})
    records = train_together(wanted, tmp_path / "stack")
    assert [record.environment["stack"] for record in records] == [3, 3, 3]
    assert_close_to_alone(records, tmp_path, wanted)


def test_a_compiled_stack_keeps_its_size_until_half_have_left(tmp_path, monkeypatch, nothing_compiled):
    sizes, make = [], stacks.StackedModel
    monkeypatch.setattr(stacks, "StackedModel", lambda x, **k: sizes.append(len(x)) or make(x, **k))
    rates = (0.01, 1e9, 0.005, 0.02, 0.01)
    wanted = configs(5, rates, **{"optimizer.name": "sgdm", "compile": True, "steps": 30, "grad_clip": None})
    stops = [StopAfter(9), Monitor(), Monitor(), StopAfter(19), Monitor()]
    ends = train_together(wanted, tmp_path / "stack", stops)
    assert [getattr(end, "status", None) for end in ends][:3] == [None, Status.DIVERGED, Status.COMPLETED]
    assert sizes == [5, 2]
    assert_close_to_alone([ends[2], ends[4]], tmp_path, [wanted[2], wanted[4]])


_LOSS = text.TextTask.loss
DOUBLED = type("Doubled", (text.TextTask,), {"loss": lambda task, *words: 2 * _LOSS(task, *words)})


@pytest.mark.parametrize(("name", "value"), [("TextTask", DOUBLED), ("CHUNK_ABOVE", 100)])
def test_runs_with_another_loss_are_compiled_alone(tmp_path, monkeypatch, nothing_compiled, name, value):
    monkeypatch.setattr(text, name, value)
    wanted = configs(2, compile=True, steps=20)
    records = train_together(wanted, tmp_path / "stack")
    assert ["stack" in record.environment for record in records] == [False, False]
    assert_as_alone(records, tmp_path, wanted)


@pytest.mark.slow
def test_a_stack_is_compiled_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "kernels"))
    wanted = configs(2, **{"compile": True, "steps": 30})
    records = train_together(wanted, tmp_path / "stack")
    assert [record.environment["stack"] for record in records] == [2, 2]
    assert all(record.timing["compile"] > 20 * record.timing["mean"] for record in records)
    assert_close_to_alone(records, tmp_path, wanted)
