"""The points of a grid: configs and keys as `resolve_config` alone would make them, whatever the axes are."""

import json

import pytest

from htbench.harness.config.key import run_key
from htbench.harness.config.settings import resolve_config
from htbench.harness.errors import UsageError
from htbench.harness.store.points import sweep_folder
from htbench.harness.system import seal
from htbench.sweeps.plan import planned as planning
from htbench.sweeps.plan.planned import search_points
from htbench.sweeps.plan.stored import write_plan
from htbench.sweeps.spec import sweep_file as specs

BASE = "base: {task: digits, model: resnet-nano, steps: 4, batch_size: 16}\nseeds: [0, 3]\n"
# Axes of every kind: independent numbers, conditions of others, what conditions make inert, lists, words,
# empty values, numbers as text, another optimizer and its own hyperparameters.
BLOCKS = {
    "numbers": "optimizer.lr: {low: 0.001, high: 1, log: true, num: 4}, optimizer.weight_decay: [0, 1.0e-2]",
    "text": "optimizer.lr: ['1e-3', 0.01], grad_clip: [null, 1, 2.5]",
    "empty": "optimizer.lr: [null, 0.01], optimizer.weight_decay: [null, 0.5]",
    "lists": "optimizer.betas: [[0.9, 0.99], [0.8, 0.95]], optimizer.eps: [1.0e-8, 1.0e-6]",
    "schedule": "schedule.name: [cosine, wsd, constant], schedule.floor: [0, 0.2], schedule.decay: [0, 0.3]",
    "optimizers": "optimizer.name: [adamw, sgdm], optimizer.lr: [0.01, 1], optimizer.weight_decay: [0, 1]",
    "workload": "batch_size: [16, 32], optimizer.lr: [0.01, 0.02], micro_batch: [null, 8]",
    "p": "optimizer.name: [htmuon], optimizer.p: [0, 0.125, 1], optimizer.interval: [1, 2], "
    "optimizer.momentum: [0.9, 0.95], optimizer.lr: [0.01, 0.02], optimizer.aux_lr: [null, 0, 0.001]",
    "schedules": "optimizer.name: [htmuon], optimizer.p: [0.25, 0.5], schedule.p.name: [linear, cosine], "
    "schedule.p: {to: [0, 0.125]}, optimizer.lr: [0.01, 0.02]",
    "groups": "optimizer.name: [muon], optimizer.lr: [0.01, 0.02], optimizer.aux_eps: [1.0e-8, 1.0e-6], "
    "optimizer.groups: {matrices: {momentum: [0.8, 0.9]}, head: {lr: [null, 0.01]}}, "
    "schedule.floor: [0, 0.2], optimizer.groups.vectors.schedule: [wsd, constant]",
    "signs": "optimizer.name: [sophia], optimizer.rho: [0.03, 0.05], optimizer.lr: [0.01, 0.02]",
}


def spec_of(write_spec, space):
    return specs.load(write_spec(f"name: one\n{BASE}space: {{{space}}}\n"))


@pytest.mark.parametrize("space", BLOCKS.values(), ids=BLOCKS)
def test_every_point_has_the_config_and_the_key_of_its_settings(write_spec, tmp_path, space):
    spec = spec_of(write_spec, space)
    planned = search_points(spec)
    assert len(planned) > 2
    for one in planned:
        config = resolve_config(one.point.overrides)
        assert repr(one.config) == repr(config), "types and order included"
        assert one.config == config and one.point.key == run_key(config)
    write_plan(tmp_path, spec, planned)
    rows = [
        {"sweep": "one", "block": "one", "stage": "search", "key": key, "overrides": one.point.overrides}
        for one in planned
        for key in [run_key(resolve_config(one.point.overrides))]
    ]
    plan = (sweep_folder(tmp_path, "one") / "points.jsonl").read_text()
    digest = {"plan": seal.digest(rows)}
    assert plan == "".join(json.dumps(row | digest) + "\n" for row in rows)


def test_a_value_that_no_run_can_have_is_refused_wherever_it_stands_in_the_axis(write_spec):
    for values in ("[0.1, -1]", "[-1, 0.1]", "[0.1, 0.2, much]"):
        with pytest.raises(UsageError, match=r"Sweep 'one', block 'one': optimizer\.lr must be .*got"):
            search_points(spec_of(write_spec, f"optimizer.lr: {values}"))


def test_configs_are_resolved_once_for_points_that_differ_in_numbers_only(write_spec, monkeypatch):
    resolved = []

    def count(settings):
        resolved.append(settings)
        return resolve_config(settings)

    monkeypatch.setattr(planning, "resolve_config", count)
    space = "optimizer.lr: {low: 0.001, high: 1, log: true, num: 50}, batch_size: [16, 32]"
    assert len(search_points(spec_of(write_spec, space))) == 200 and len(resolved) == 2
