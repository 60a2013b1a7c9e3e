"""Runs of several lengths share their trunk: bit for bit what each is from scratch, whatever happens."""

import dataclasses
import os

import pytest
import torch

from harness.config.settings import resolve_config
from harness.store import Store
from harness.store.layout import trunks_folder
from harness.train import checkpoint, trunk
from harness.train.progress import warm_up
from results.frames.load import load
from results.page import overview
from tests.helpers.crash_points import TRUNK_CRASH_POINTS
from tests.helpers.interrupting import finish, interrupt
from tests.helpers.sweeping import carried_out, check_whole, die_at_each, results

WSD = {
    "schedule.name": "wsd",
    "schedule.warmup": 3,
    "schedule.decay": 0.5,
    "evaluation.every": 4,
    "evaluation.untrained": True,
    "checkpoint.trunk": True,
    "checkpoint.keep_weights": True,
}
QUICK = {"task": "pydocs", "model": "llama-nano", "batch_size": 4, "seq_len": 32, "held_out_tokens": 512}
DIGITS = {"task": "digits", "model": "resnet-nano", "seq_len": None, "held_out_tokens": None}


@pytest.fixture
def wsd(tiny):
    """The config of a run of some length."""
    return lambda steps, **more: resolve_config(tiny | WSD | QUICK | {"steps": steps} | more)


def left(root, key):
    """What a run has left behind: weights, items of the test split."""
    files = Store(root).files(key)
    weights = torch.load(files.weights, weights_only=True)
    return {name: value.tolist() for name, value in weights.items()}, files.test_items.read_bytes()


def trunks(root):
    return sorted(path.name for path in trunks_folder(root).glob("*"))


def same(config, shared, alone):
    """The record in `shared` of a run that is bit for bit that of `alone`, from scratch."""
    found, curve = finish(config, shared)
    settings = dataclasses.replace(config.checkpoint, trunk=False)
    scratch, its_curve = finish(dataclasses.replace(config, checkpoint=settings), alone)
    assert (found.key, found.metrics, found.steps) == (scratch.key, scratch.metrics, scratch.steps)
    assert curve == its_curve and left(shared, found.key) == left(alone, found.key)
    assert found.cost == scratch.cost and not scratch.trunk
    return found


@pytest.mark.parametrize(
    "more",
    [
        DIGITS,
        {"optimizer.name": "soap"},
        {"optimizer.name": "muon", "schedule.name": "power"},
        DIGITS | {"optimizer.name": "schedule_free", "optimizer.lr": 0.01},
    ],
    ids=["digits", "soap", "power", "schedule_free"],
)
def test_each_length_is_bit_for_bit_the_run_from_scratch(tmp_path, wsd, more):
    shared, alone = tmp_path / "shared", tmp_path / "alone"
    short, middle, long = (same(wsd(steps, **more), shared, alone) for steps in (8, 12, 20))
    assert [record.trunk.get("run") for record in (short, middle, long)] == [None, short.key, middle.key]
    assert [record.trunk.get("steps") for record in (short, middle, long)] == [None, 4, 6]
    assert len(trunks(shared)) == 3 and not trunks_folder(alone).exists()
    attempt = Store(shared).attempt(long.key, 1)
    assert (attempt["start_step"], attempt["repeats"], long.repeated_steps) == (6, 0, 0)
    # The time is that of a run from scratch, of which another run has spent a part.
    assert 0 < long.trunk["seconds"] < long.useful_seconds and long.timing["steps"] > 20 - 6 - warm_up(20)
    assert set(middle.trunk) == {"run", "steps", "seconds"}
    done, kept = overview.finished(load(Store(shared))), [short, middle, long]
    assert sorted(done["trunk_steps"]) == [0, 4, 6]
    twice = middle.trunk["seconds"] + long.trunk["seconds"]
    assert done["useful_seconds"].sum() == pytest.approx(sum(one.useful_seconds for one in kept) - twice)
    work = {one.key: sum(one.cost[f"{of}flops_per_step"] for of in ("", "optimizer_")) for one in kept}
    made = {short.key: 8, middle.key: 12 - 4, long.key: 20 - 6}
    assert done["total_flops"].sum() == pytest.approx(sum(work[key] * made[key] for key in made))


def test_a_shorter_cooldown_goes_on_from_the_longest_trunk_that_is_not_too_long(tmp_path, wsd):
    shared, alone = tmp_path / "shared", tmp_path / "alone"
    kept = same(wsd(20), shared, alone)
    first = same(wsd(8), shared, alone)
    assert not first.trunk  # that of 20 steps begins at step 10
    assert same(wsd(8, **{"schedule.decay": 0.25}), shared, alone).trunk["run"] == first.key
    assert same(wsd(24, **{"schedule.floor": 0.0}), shared, alone).trunk["run"] == kept.key


@pytest.mark.parametrize(
    "other",
    [
        {"optimizer.lr": 0.01},
        {"seed": 1},
        {"data_seed": 1},
        {"schedule.warmup": 2},
        {"schedule.warmup": 0.2},
        {"schedule.name": "cosine"},
        {"schedule.weight_decay.name": "linear", "schedule.weight_decay.to": 0.5},
        {"optimizer.groups.vectors.schedule": "constant"},
        {"replica": "again"},
        {"evaluation.every": 2},
        {"spectra.every": 5},
        {"spectra.updates": [0.1]},
        {"threads": 2},
        {"checkpoint.trunk": False},
    ],
    ids=str,
)
def test_a_run_that_is_another_one_before_the_cooldown_takes_no_trunk(tmp_path, wsd, other):
    finish(wsd(8), tmp_path)
    record, _ = finish(wsd(12, **other), tmp_path)
    assert not record.trunk and Store(tmp_path).attempt(record.key, 1)["start_step"] == 0


def test_the_rule_of_divergence_is_that_of_the_own_length(tmp_path, wsd):
    """Its memory depends on the length, so the state of the shorter run would be another one."""
    states = []
    for where in ("shared", "alone"):
        if where == "shared":
            finish(wsd(8, log_every=1), tmp_path / where)
        config = wsd(1500, log_every=1)
        interrupt(config, tmp_path / where, 6)
        key = next(path.parent.name for path in (tmp_path / where).glob("runs/*/*/checkpoint.pt"))
        states.append(checkpoint.load(Store(tmp_path / where).files(key).checkpoint)["loop"])
    assert states[0]["trunk"]["steps"] == 4 and not states[1]["trunk"]
    assert states[0]["divergence"] == states[1]["divergence"]


def test_a_run_that_diverges_by_its_own_rule_takes_no_trunk(tmp_path, wsd):
    finish(wsd(8), tmp_path)
    strict = wsd(12, **{"divergence.patience": 1})
    (name,) = trunks(tmp_path)
    rows = checkpoint.load(trunks_folder(tmp_path) / name)["loop"]["kept"]["rows"]
    rows += [{"step": 5, "loss": float("inf"), "lr": 0.1}]
    with pytest.raises(ValueError, match="has diverged"):
        trunk._judged(rows, strict, 12)


@pytest.mark.parametrize("harm", ["truncated", "of another run", "lacks rows", "gone", "link"])
def test_a_trunk_that_can_not_be_used_costs_time_only(tmp_path, wsd, harm, monkeypatch):
    shared = tmp_path / "shared"
    finish(wsd(8), shared)
    (path,) = trunks_folder(shared).glob("*")
    if harm == "truncated":
        path.write_bytes(path.read_bytes()[:1000])
    elif harm == "link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    elif harm == "gone":  # `runs gc` removes it after it has been found
        load = checkpoint.load
        monkeypatch.setattr(checkpoint, "load", lambda place: (path.unlink(missing_ok=True), load(place))[1])
    else:
        state = torch.load(path, weights_only=True)
        kept = state["loop"]["kept"]
        state["loop"]["kept"] = {"of another run": kept | {"name": "0" * 12}}.get(harm, kept | {"rows": []})
        torch.save(state, path)
    assert not same(wsd(12), shared, tmp_path / "alone").trunk


def test_after_it_is_adopted_a_trunk_may_go(tmp_path, wsd):
    shared = tmp_path / "shared"
    finish(wsd(8), shared)
    config = wsd(20, log_every=1)
    interrupt(config, shared, 6)
    for path in trunks_folder(shared).glob("*"):
        path.unlink()
    record = same(config, shared, tmp_path / "alone")
    assert record.trunk["steps"] == 4 and record.attempts == 2 and record.repeated_steps == 0


def test_two_that_keep_the_same_trunk_do_no_harm(tmp_path, wsd, monkeypatch):
    """Both look before either has written; the files have names of their own, and equal content."""
    shared = tmp_path / "shared"
    with monkeypatch.context() as blind:
        blind.setattr(trunk, "_found", lambda root, name: iter(()))
        keys = {finish(wsd(8, **{"schedule.floor": floor}), shared)[0].key for floor in (0.0, 0.1)}
    assert len(trunks(shared)) == 2
    assert same(wsd(12), shared, tmp_path / "alone").trunk["run"] in keys


def test_a_full_disk_keeps_no_trunk_and_the_run_goes_on(tmp_path, wsd, monkeypatch):
    def full(path, *rest):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(trunk.checkpoint, "save", full)
    record, _ = finish(wsd(8), tmp_path)
    assert record.status == "completed" and not trunks(tmp_path)


SPEC = """
name: tiny
base: {task: digits, model: resnet-nano, batch_size: 16, checkpoint.every_steps: 3, log_every: 2,
       optimizer.name: sgdm, optimizer.lr: 0.03, checkpoint.trunk: true,
       schedule: {name: wsd, warmup: 2, decay: 0.5}}
blocks: [{name: sgdm, space: {steps: [8, 12]}}]
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    text = SPEC.replace("checkpoint.trunk: true", "checkpoint.trunk: false")
    root, _ = carried_out(tmp_path_factory.mktemp("undisturbed"), text, "--workers", 1)
    return results(root)


@pytest.mark.parametrize(
    "deaths", [*([name] for name in TRUNK_CRASH_POINTS), list(TRUNK_CRASH_POINTS)], ids="+".join
)
def test_dying_there_gives_the_same_sweep(deaths, htbench, write_spec, undisturbed):
    spec = write_spec(SPEC)
    die_at_each(deaths, htbench, "sweep", "run", spec, "--workers", 1)
    again = htbench("sweep", "run", spec, "--workers", 1)
    assert again.returncode == 0, again.stderr
    check_whole(htbench.root)
    assert results(htbench.root) == undisturbed
    records = Store(htbench.root).records(results(htbench.root)).values()
    assert sorted(record.trunk.get("steps", 0) for record in records) == [0, 4]
    assert len(list(htbench.root.glob("trunks/*.pt"))) == 2
    gone = htbench("runs", "gc")
    assert gone.returncode == 0 and not list(htbench.root.glob("trunks/*.pt"))
