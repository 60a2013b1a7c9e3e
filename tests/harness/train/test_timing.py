"""The time of a step, by a clock that the tests turn: what counts, what does not, and over all attempts."""

import statistics
from datetime import datetime

import pytest

from htbench.harness.config.key import resolved
from htbench.harness.config.settings import resolve_config
from htbench.harness.parallel.group import Group
from htbench.harness.store import Store
from htbench.harness.train import checkpoint, progress, run
from htbench.harness.train.learner import Learner
from htbench.harness.train.loop import Training
from htbench.harness.train.progress import StepTimes
from tests.helpers.interrupting import interrupt

HALF = 0.5  # of the wall time is CPU time: the machine is shared


class Clock:
    """Stands still but for what the tests let take time."""

    def __init__(self):
        self.now = 0.0
        self.steps = []  # the seconds of each step made, in order

    def take(self, seconds):
        self.now += seconds

    def slow(self, monkeypatch, owner, name, seconds):
        """`owner.name` takes `seconds(*its arguments)` longer."""
        proper = getattr(owner, name)

        def slow(*arguments, **options):
            self.take(seconds(*arguments))
            return proper(*arguments, **options)

        monkeypatch.setattr(owner, name, slow)


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(progress, "clock", lambda: made.now)
    monkeypatch.setattr(progress, "cpu_clock", lambda: made.now * HALF)
    made.slow(monkeypatch, Learner, "evaluate", lambda *_: 5000.0)
    made.slow(monkeypatch, checkpoint, "save", lambda *_: 70000.0)
    return made


def periodic(clock, monkeypatch, every, extra, first=0.0):
    """Each step takes 10 s, every `every`-th of them `extra` more; the first of each process `first` more."""

    def seconds(learner, step):
        cold = first * (not hasattr(learner, "warm"))
        learner.warm = True
        clock.steps.append(cold + 10.0 + extra * (step % every == every - 1))
        return clock.steps[-1]

    clock.slow(monkeypatch, Learner, "update", seconds)


@pytest.mark.parametrize(
    ("log_every", "every", "extra", "mean"),
    [(1, 25, 160.0, 16.4), (10, 50, 210.0, 14.2), (7, 25, 160.0, 16.4), (1000, 50, 210.0, 14.2)],
)
def test_periodic_work_is_in_the_mean(tmp_path, tiny, clock, monkeypatch, log_every, every, extra, mean):
    """As HTMuon with interval=25 and GaLore have it."""
    periodic(clock, monkeypatch, every, extra, first=900.0)
    record = run.run(resolved(resolve_config(tiny | {"steps": 110, "log_every": log_every})), Store(tmp_path))
    assert record.seconds_per_step == record.timing["mean"] == pytest.approx(mean)
    assert (record.timing["steps"], record.timing["warmup"]) == (100, 10)
    assert record.timing["cpu"] == pytest.approx(mean * HALF)
    assert record.useful_seconds == pytest.approx(sum(clock.steps)), "of all steps, the warm-up included"


def test_the_spread_is_that_between_windows(tmp_path, tiny, clock, monkeypatch):
    periodic(clock, monkeypatch, 25, 160.0)
    record = run.run(resolved(resolve_config(tiny | {"steps": 60, "log_every": 10})), Store(tmp_path))
    assert record.timing["sd"] == pytest.approx(statistics.stdev([10.0, 26.0, 10.0, 26.0, 10.0]))


def test_evaluations_and_checkpoints_take_no_step_time(tmp_path, tiny, clock, monkeypatch):
    periodic(clock, monkeypatch, 25, 160.0)
    busy = {"evaluation.every": 4, "evaluation.untrained": True, "checkpoint.every_steps": 3, "log_every": 5}
    record = run.run(resolved(resolve_config(tiny | busy | {"steps": 60})), Store(tmp_path))
    assert clock.now > 60000, "they did take time"
    assert record.timing["mean"] == pytest.approx(statistics.fmean(clock.steps[10:]))


def test_a_resumed_run_s_time_covers_each_attempt_but_its_warm_up(tmp_path, tiny, clock, monkeypatch):
    config = resolve_config(tiny | {"steps": 110, "log_every": 1})
    periodic(clock, monkeypatch, 25, 160.0, first=900.0)
    interrupt(config, tmp_path, 33)
    interrupt(config, tmp_path, 37)  # nothing but warm-up
    record = run.run(resolved(config), Store(tmp_path))
    counted = clock.steps[10:33] + clock.steps[47:]
    assert record.timing["steps"] == len(counted) == 86
    assert record.timing["mean"] == pytest.approx(statistics.fmean(counted))
    assert record.timing["sd"] == pytest.approx(statistics.stdev(counted))
    assert record.useful_seconds == pytest.approx(sum(clock.steps))


@pytest.mark.parametrize(("total", "left_out"), [(1, 0), (4, 0), (8, 1), (49, 9), (50, 10), (10**6, 10)])
def test_short_runs_have_a_time(total, left_out):
    assert progress.warm_up(total) == left_out < total


def test_a_run_of_one_step_has_a_time_without_a_spread(tmp_path, tiny, clock, monkeypatch):
    periodic(clock, monkeypatch, 25, 160.0)
    record = run.run(resolved(resolve_config(tiny | {"steps": 1})), Store(tmp_path))
    assert record.timing == {"mean": 10.0, "steps": 1, "warmup": 0, "cpu": 5.0}


def test_nothing_counted_is_no_time():
    assert StepTimes().summary(10) == {}


def test_the_clock_is_read_when_the_device_has_delivered_the_losses(tmp_path, tiny, clock, monkeypatch):
    """Of a GPU nothing but that tells how long its work took."""

    class Late:
        def tolist(self):
            clock.take(40.0)
            return [2.0] * 4

    monkeypatch.setattr("htbench.harness.train.loop.torch.stack", lambda losses: Late())
    monkeypatch.setattr(Training, "_final_metrics", lambda self, metrics: {})
    record = run.run(resolved(resolve_config(tiny | {"steps": 4, "log_every": 4})), Store(tmp_path))
    assert record.timing["mean"] == 10.0


def test_the_cpu_time_is_that_of_all_processes(tmp_path, tiny, clock, monkeypatch):
    periodic(clock, monkeypatch, 25, 160.0)
    proper = Group.all_reduce_sum
    monkeypatch.setattr(
        Group, "all_reduce_sum", lambda group, values: [*proper(group, values[:-1]), 3 * values[-1]]
    )
    record = run.run(resolved(resolve_config(tiny)), Store(tmp_path))
    assert record.timing["cpu"] == pytest.approx(15.0)


def test_a_record_says_when_and_on_what(tmp_path, tiny):
    config = resolve_config(tiny | {"log_every": 1})
    interrupt(config, tmp_path, 3)
    store = Store(tmp_path)
    record = run.run(resolved(config), store)
    began, ended = datetime.fromisoformat(record.began), datetime.fromisoformat(record.ended)
    first, second = (store.attempt(record.key, number)["began"] for number in (1, 2))
    assert int(first) == began.timestamp() and began.utcoffset().total_seconds() == 0
    assert int(second) <= ended.timestamp()
    told = record.environment
    assert (told["threads"], told["compile"], told["device"]) == (1, False, "cpu")
    assert told["cores"] > 0 and {"python", "torch"} <= told.keys()
    assert 0 < record.timing["cpu"] and 0 < record.timing["mean"] == record.seconds_per_step
