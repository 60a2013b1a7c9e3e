"""The plan in the store: it grows without a question, loses nothing unasked, and keeps what it drops."""

import dataclasses

import pytest

from htbench.harness.errors import UsageError
from htbench.harness.store import Store
from htbench.harness.store.gc import garbage
from htbench.harness.store.points import (
    DROPPED,
    POINTS,
    REPLICATE,
    SEARCH,
    ever_planned,
    read_points,
    sweep_folder,
    write_points,
)
from htbench.harness.system import atomic
from htbench.sweeps.plan import stored
from htbench.sweeps.plan.planned import search_points, states
from htbench.sweeps.plan.replicas import courses, everything
from htbench.sweeps.plan.stored import Difference, write_plan
from htbench.sweeps.spec import sweep_file as specs
from tests.helpers.command import TINY
from tests.helpers.stored_runs import files, leave, put

GRID = """
name: one
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16, data_fingerprint: ffffffffffffffff}
blocks:
  - {name: sgdm, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.03, 0.1]}}
replicate: {seeds: 2}
"""
SEARCH_TEXT = """
name: one
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16, data_fingerprint: ffffffffffffffff}
blocks:
  - {name: sgdm, set: {optimizer.name: sgdm}, space: {optimizer.lr: {low: 0.01, high: 1, log: true}}}
search: {mode: random, trials: 4}
"""
MORE = "\n  - {name: adamw, set: {optimizer.name: adamw}, space: {optimizer.lr: [0.001]}}\nreplicate"


@pytest.fixture
def plan(tmp_path, write_spec):
    """Plan a sweep as the commands do; its spec."""

    def write(text, **options):
        spec = specs.load(write_spec(text))
        write_plan(tmp_path / "store", spec, everything(Store(tmp_path / "store"), spec), **options)
        return spec

    return write


@pytest.fixture
def root(tmp_path):
    return tmp_path / "store"


def rates(root, stage=SEARCH):
    return sorted(p.overrides["optimizer.lr"] for p in ever_planned(root, "one") if p.stage == stage)


def finish(root, lr, accuracy, **settings):
    return put(root, accuracy=accuracy, **settings | {"optimizer.lr": lr})


def finish_grid(root, *accuracies):
    for lr, accuracy in zip((0.03, 0.1, 0.3), accuracies, strict=False):
        finish(root, lr, accuracy)


@pytest.mark.parametrize(
    "text",
    [
        GRID,
        GRID.replace("0.1]", "0.1, 0.3]"),
        GRID.replace("[0.03, 0.1]", "[0.3, 0.1, 0.03]"),
        GRID.replace("\nreplicate", MORE),
        GRID.replace("{seeds: 2}", "{seeds: 3}"),
        GRID.replace("blocks", "seeds: [0, 1]\nblocks"),
        GRID.replace("name: sgdm, set", "name: renamed, set"),
        GRID.replace("batch_size: 16", "batch_size: 16, grad_clip: null"),  # as it is anyway
        GRID.replace("batch_size: 16", "batch_size: 16, log_every: 3"),  # in no key
    ],
)
def test_a_plan_with_every_stored_setting_extends_it_without_a_question(plan, root, text):
    plan(GRID)
    finish_grid(root, 0.8, 0.9)
    plan(GRID)
    before = {point.id for point in read_points(root, "one")}
    assert len(before) == 2 + 2
    plan(text)
    assert {point.id for point in read_points(root, "one")} >= before
    assert rates(root, DROPPED) == []


REFUSED = [
    (GRID, GRID.replace("steps: 8", "steps: 5"), "2 runs .* with steps=8"),
    (GRID, GRID.replace("[0.03, 0.1]", "[0.1]"), r"1 run .* with optimizer.lr=0.03"),
    (GRID.replace("\nreplicate", MORE), GRID, "1 run .* with optimizer.name=adamw"),
    (GRID.replace("blocks", "seeds: [0, 1]\nblocks"), GRID, "2 runs .* with seed=1"),
    (GRID, SEARCH_TEXT, "2 runs .* with optimizer.lr=0.03"),
    (SEARCH_TEXT, SEARCH_TEXT.replace("trials: 4", "trials: 3"), "1 run .* such as one sgdm #3"),
    (SEARCH_TEXT, SEARCH_TEXT.replace("steps: 8", "steps: 5"), "4 runs .* with steps=8"),
    (SEARCH_TEXT, SEARCH_TEXT.replace("low: 0.01", "low: 0.1"), "4 runs .* such as one sgdm #0"),
    (SEARCH_TEXT, GRID, "4 runs"),
]


@pytest.mark.parametrize(("first", "then", "said"), REFUSED)
def test_a_plan_that_would_lose_a_setting_is_refused_and_names_two_ways(plan, root, first, then, said):
    plan(first)
    before = files(root)
    with pytest.raises(UsageError, match=said) as refused:
        plan(then)
    assert "name=..." in str(refused.value) and "--replace" in str(refused.value)
    assert files(root) == before
    plan(then, replace=True)
    wanted = {point.id for point in read_points(root, "one")}
    every = {point.id for point in ever_planned(root, "one")}
    assert wanted == {one.point.id for one in search_points(specs.load(root.parent / "tiny.yaml"))}
    plan(first, replace=True)
    assert {point.id for point in ever_planned(root, "one")} == every, "each point is in the plan once"
    assert (sweep_folder(root, "one") / "spec.yaml").read_text() == first


def test_fewer_fresh_seeds_are_refused_and_another_winner_is_not(plan, root):
    plan(GRID)
    finish_grid(root, 0.9, 0.8)
    plan(GRID)
    assert rates(root, REPLICATE) == [0.03, 0.03]
    with pytest.raises(UsageError, match="1 run .* with seed=1001"):
        plan(GRID.replace("{seeds: 2}", "{seeds: 1}"))
    grown = GRID.replace("0.1]", "0.1, 0.3]")
    plan(grown)
    assert rates(root, REPLICATE) == [0.03, 0.03], "until another winner is known"
    finish(root, 0.3, 0.95)
    plan(grown)
    assert rates(root, REPLICATE) == [0.3, 0.3] and rates(root, DROPPED) == [0.03, 0.03]
    plan(grown)
    assert rates(root, DROPPED) == [0.03, 0.03]


def test_more_trials_extend_a_search_and_keep_its_slots(plan, root):
    plan(SEARCH_TEXT)
    before = [point.id for point in read_points(root, "one")]
    plan(SEARCH_TEXT.replace("trials: 4", "trials: 6"))
    points = read_points(root, "one")
    assert len(points) == 6 and [point.id for point in points][:4] == before


@pytest.mark.parametrize("text", [GRID, SEARCH_TEXT])
def test_edited_code_is_no_loss_and_its_older_runs_stay_in_the_plan(plan, root, text):
    """As the plan of other code is in the store: the same settings under other keys and other studies."""
    plan(text)
    folder, points = sweep_folder(root, "one"), read_points(root, "one")
    for study in {point.study for point in points if point.slot}:
        (folder / "slots" / study).rename(folder / "slots" / f"{study}-older")
    older = [
        dataclasses.replace(
            point,
            key=f"f{point.key[1:]}" if point.key else "",
            slot=f"{point.study}-older/{n}" if point.slot else "",
        )
        for n, point in enumerate(points)
    ]
    write_points(root, "one", older)
    plan(text)
    assert [point.id for point in read_points(root, "one")] == [point.id for point in points]
    dropped = [point for point in ever_planned(root, "one") if point.stage == DROPPED]
    assert [point.id for point in dropped] == [point.id for point in older]


def test_an_unfinished_run_that_was_dropped_is_no_orphan(plan, root):
    plan(GRID)
    key = leave(root, **TINY | {"optimizer.lr": 0.03})
    assert key in {point.key for point in read_points(root, "one")}
    for text in (GRID.replace("steps: 8", "steps: 5"), GRID.replace("steps: 8", "steps: 4")):
        plan(text, replace=True)
        assert list(garbage(Store(root), orphans=True)) == []
    assert (Store(root).run_folder(key) / "checkpoint.pt").exists()


@pytest.mark.parametrize("dies_at", ["studies", POINTS, "spec.yaml"])
def test_a_writer_that_dies_halfway_leaves_a_plan_that_the_same_command_completes(
    plan, root, monkeypatch, dies_at
):
    plan(SEARCH_TEXT)
    key = leave(root)
    then = SEARCH_TEXT.replace("steps: 8", "steps: 5").replace("name: sgdm, set", "name: other, set")
    write = atomic.write_with

    def die(path, content):
        if dies_at in (path.name, path.name.replace("study.json", "studies")):
            raise KeyboardInterrupt
        write(path, content)

    monkeypatch.setattr(atomic, "write_with", die)
    with pytest.raises(KeyboardInterrupt):
        plan(then, replace=True)
    monkeypatch.undo()
    old = specs.load(sweep_folder(root, "one") / "spec.yaml")
    assert old.text == SEARCH_TEXT, "the file comes last: it stands for what is there"
    for point in stored.read_plan(root, old):
        assert point.block == "sgdm"
    assert stored.read_plan(root, specs.load(root.parent / "tiny.yaml")) is None
    plan(then, replace=True)
    assert len(read_points(root, "one")) == 4 and len(ever_planned(root, "one")) == 8
    assert Store(root).run_folder(key).exists()


def test_a_damaged_plan_keeps_the_points_that_can_be_read(plan, root):
    plan(GRID)
    path = sweep_folder(root, "one") / POINTS
    first, second = path.read_text().splitlines()
    path.write_text(f"{first}\n{second[:40]}\n")
    with pytest.raises(UsageError, match="with optimizer.lr=0.03"):
        plan(GRID.replace("[0.03, 0.1]", "[0.1]"))
    plan(GRID)
    assert rates(root) == [0.03, 0.1]


def test_what_is_stored_answers_for_its_own_file_only(plan, root, write_spec):
    plan(GRID)
    spec = specs.load(write_spec(GRID))
    assert [point.key for point in stored.read_plan(root, spec)] == [p.key for p in read_points(root, "one")]
    other = specs.load(write_spec(GRID.replace("[0.03, 0.1]", "[0.1, 0.3]")))
    assert stored.read_plan(root, other) is None
    points = [one.point for one in search_points(other)]
    assert stored.difference(root, other, points) == Difference(new=1, gone=1)
    assert stored.difference(root, spec, read_points(root, "one")) == Difference()
    assert stored.read_plan(root, specs.load(write_spec(GRID), ["steps=5"])) is None


def test_replicas_are_due_from_the_beginning_and_of_the_winner_once_it_is_known(plan, root):
    spec = plan(GRID)

    def count():
        points = read_points(root, "one")
        (way,) = courses(spec, points, states(Store(root), points))
        return way.settled, [point.overrides["optimizer.lr"] for point in way.to_come]

    assert count() == (False, [0.03, 0.03]), "of any setting"
    finish(root, 0.03, 0.9)
    assert count() == (False, [0.03, 0.03])
    finish(root, 0.1, 0.8)
    assert count() == (True, [0.03, 0.03])
    plan(GRID)
    assert count() == (True, []), "they are planned"


def test_the_stored_file_has_the_words_of_the_command_line_in_it(plan, root, write_spec):
    path = write_spec("# why\n" + GRID.replace("steps: 8", "steps: 8, log_every: '${base.steps}'"))
    words = ["steps=5", "name=other", "optimizer.momentum=0.5"]
    spec = specs.load(path, words)
    write_plan(root, spec, search_points(spec))
    copy = sweep_folder(root, "other") / "spec.yaml"
    assert specs.load(copy) == spec and spec.name == "other"
    assert spec.base["steps"] == spec.base["log_every"] == 5
    assert "${base.steps}" in copy.read_text()
    assert specs.load(copy, words) == spec
    assert specs.load(path).text == path.read_text()
    assert {point.sweep for point in read_points(root, "other")} == {"other"}


def test_a_stored_file_without_a_name_has_that_of_its_folder(root, write_spec):
    spec = specs.load(write_spec(GRID.replace("name: one\n", ""), "mine.yaml"))
    write_plan(root, spec, search_points(spec))
    assert specs.load(sweep_folder(root, "mine") / "spec.yaml").name == "mine"
