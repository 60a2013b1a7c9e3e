"""Parts of a schedule as axes of a grid and of a search, and the shipped sweeps that set schedules."""

from collections import Counter
from pathlib import Path

import pytest

from htbench.harness.errors import UsageError
from htbench.harness.store import naming
from htbench.sweeps.plan.planned import search_points
from htbench.sweeps.spec import sweep_file as specs
from tests.helpers.searching import plan

SWEEP = """
name: tiny
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16, optimizer.name: htmuon}
blocks:
  - name: htmuon
    set: {schedule.p: {name: linear, from: 0.25}}
    space: {SPACE}
"""


def sweep(space, more=""):
    return SWEEP.replace("SPACE", space) + more


def test_parts_are_axes_of_a_grid(write_spec):
    planned = search_points(specs.load(write_spec(sweep("schedule.p: {to: [0, 0.125], end: [0.5, 1]}"))))
    found = [one.config.schedule.hyper["p"] for one in planned]
    assert [(one["to"], one["end"]) for one in found] == [(0, 0.5), (0, 1), (0.125, 0.5), (0.125, 1)]
    assert len({one.point.key for one in planned}) == 4


def test_parts_are_axes_of_a_search(write_spec, tmp_path):
    search = "search: {mode: random, trials: 4}\n"
    (study,) = plan(tmp_path, write_spec(sweep("schedule.p.to: {low: 0, high: 0.5}", search)))
    assert study.axes == {"schedule.p.to": {"low": 0, "high": 0.5, "log": False, "whole": False}}
    assert study.fixed["schedule.p.to"] == 0, "in its place until a trial has drawn it"


@pytest.mark.parametrize(
    ("space", "sentence"),
    [
        ("schedule.p.too: [0]", r"Unknown setting 'schedule\.p\.too' in block 'htmuon'; did you mean"),
        ("schedule.p.to: [0, 2]", r"block 'htmuon': schedule\.p\.to must be .*got 2"),
        ("schedule.blend.to: [0]", r"'schedule\.blend' for htmuon"),
    ],
)
def test_a_wrong_axis_is_refused(write_spec, space, sentence):
    with pytest.raises(UsageError, match=sentence):
        search_points(specs.load(write_spec(sweep(space))))


@pytest.mark.parametrize("name", ["p-family-pydocs", "p-family-glyphs"])
def test_the_p_family_is_tuned_alike(name):
    spec = specs.load(naming.files(name, Path("nowhere"))[0])
    planned = search_points(spec)
    assert len(set(Counter(one.point.block for one in planned).values())) == 1
    rates = {tuple(sorted(block.space["optimizer.lr"])) for block in spec.blocks if block.name != "adamw"}
    assert len(rates) == 1, "the same learning rates for every matrix rule"
    hyper = {one.point.block: one.config.schedule.hyper for one in planned}
    assert hyper["dynmuon"]["p"] == {
        "name": "sigmoid",
        "from": 0.25,
        "to": -0.25,
        "centre": 0.04,
        "width": 0.04,
    }
    assert {block for block, schedules in hyper.items() if schedules} == {
        "soft_muon",
        "contra_muon",
        "dynmuon",
    }
