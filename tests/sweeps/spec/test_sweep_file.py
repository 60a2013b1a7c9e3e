"""Sweep files: how they expand, and one clear sentence for every mistake."""

import re
from pathlib import Path

import pytest

from htbench.harness.errors import UsageError
from htbench.harness.store import naming
from htbench.harness.store.layout import sweeps_folder
from htbench.sweeps.plan.planned import by_objective, search_points
from htbench.sweeps.spec import sweep_file as specs

BASE = "base: {task: digits, model: resnet-nano, steps: 4, batch_size: 16}\n"


def load(write_spec, text, words=()):
    return specs.load(write_spec(text), list(words))


def values(write_spec, text, *names, words=()):
    return [
        tuple(p.point.overrides.get(n) for n in names) for p in search_points(load(write_spec, text, words))
    ]


def test_blocks_multiply_their_axes_and_override_the_common_ones(write_spec):
    text = (
        BASE
        + """
space: {optimizer.lr: [0.1, 0.2]}
blocks:
  - {name: sgdm, set: {optimizer.name: sgdm}}
  - {name: htmuon, set: {optimizer.name: htmuon}, space: {optimizer: {lr: [1e-2], p: [0.1, 0.2]}}}
seeds: [5, 6]
"""
    )
    assert values(write_spec, text, "optimizer.name", "optimizer.lr", "optimizer.p", "seed") == [
        ("sgdm", 0.1, None, 5),
        ("sgdm", 0.1, None, 6),
        ("sgdm", 0.2, None, 5),
        ("sgdm", 0.2, None, 6),
        ("htmuon", 0.01, 0.1, 5),
        ("htmuon", 0.01, 0.1, 6),
        ("htmuon", 0.01, 0.2, 5),
        ("htmuon", 0.01, 0.2, 6),
    ]


def test_blocks_of_one_optimizer_may_have_rows_of_their_own(write_spec):
    text = BASE + "blocks:\n  - {name: a, set: {optimizer.name: muon}, space: {optimizer.lr: [0.1]}}\n"
    text += "  - {name: b, row: muon hidden, set: {optimizer.name: muon, optimizer.routing: hidden}}\n"
    assert [p.point.row for p in search_points(load(write_spec, text))] == ["", "muon hidden"]
    with pytest.raises(UsageError, match="row of block 'b' can't be 'adamw', another optimizer"):
        search_points(load(write_spec, text.replace("row: muon hidden", "row: adamw")))
    with pytest.raises(UsageError, match="row of block 2 must be a word, not true"):
        load(write_spec, text.replace("row: muon hidden", "row: yes"))


def test_ranges_are_grid_points_that_people_can_type(write_spec):
    log = BASE + "space: {optimizer.lr: {low: 1e-4, high: 1e-1, log: true, num: 7}}"
    assert [v for v, in values(write_spec, log, "optimizer.lr")] == [
        0.0001, 0.0003162, 0.001, 0.003162, 0.01, 0.03162, 0.1,
    ]  # fmt: skip
    linear = BASE + "space: {optimizer.weight_decay: {low: 0, high: 1, num: 5}}"
    assert [v for (v,) in values(write_spec, linear, "optimizer.weight_decay")] == [0, 0.25, 0.5, 0.75, 1]


def test_equal_points_are_one_and_excluded_ones_are_none(write_spec):
    text = (
        BASE
        + """
space: {optimizer.lr: [0.01, 1e-2, "0.010", 0.1], optimizer.eps: [1e-8, 1e-6]}
exclude: [{optimizer.lr: 0.1, optimizer.eps: 1e-6}]
"""
    )
    assert values(write_spec, text, "optimizer.eps") == [(1e-8,), (1e-6,), (1e-8,)]
    text = BASE + "seeds: [0, 1]\nspace: {optimizer.lr: [0.1, 0.2]}\nexclude: [{optimizer.lr: 0.2, seed: 1}]"
    assert values(write_spec, text, "optimizer.lr", "seed") == [(0.1, 0), (0.1, 1), (0.2, 0)]


def test_the_same_points_whatever_the_order_of_keys(write_spec):
    one = search_points(load(write_spec, BASE + "space: {optimizer.lr: [0.1], optimizer.eps: [1e-8, 1e-7]}"))
    two = search_points(
        load(write_spec, "space: {optimizer.eps: [1e-8, 1e-7], optimizer.lr: [0.1]}\n" + BASE)
    )
    assert {p.point.key for p in one} == {p.point.key for p in two}


def test_words_override_the_base(write_spec):
    text = BASE + "space: {optimizer.lr: [0.1]}"
    assert values(write_spec, text, "steps", words=["steps=7"]) == [(7,)]


def test_only_hyperparameters_compete(write_spec):
    text = BASE + "space: {optimizer.name: [sgdm, adamw], optimizer.lr: [0.1, 0.2], batch_size: [16, 32]}"
    spec = load(write_spec, text)
    groups = by_objective(spec, search_points(spec))
    assert [len(group) for group in groups] == [2, 2, 2, 2]
    for group in groups:
        assert len({(p.config.optimizer.name, p.config.batch_size) for p in group}) == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (BASE + "space: {optimizer.lr: []}", "optimizer.lr in space has no values"),
        (BASE + "space: {optimizer.lr: 0.1}", "must be a list or a range"),
        (BASE + "space: {optimizer.lr: {low: 1, high: 0.1, num: 3}}", "low < high"),
        (BASE + "space: {optimizer.lr: {low: 0, high: 1, num: 3, log: true}}", "above 0 if log"),
        (BASE + "space: {optimizer.lr: {low: a, high: 1, num: 3}}", "must hold numbers"),
        (BASE + "space: {optimizer.lr: {low: 0.1, high: 1}}", "lacks 'num'"),
        (BASE + "space: {optimizer.lr: {low: 0.1, high: .inf, num: 3}}", "both finite"),
        (BASE + "space: {optimizer.lr: {low: 0.1, high: 1, num: 2.7}}", "whole number .*2.7"),
        (BASE + "space: {optimizer.lr: {low: 0.1, high: 1, num: 3, log: 'false'}}", "true or false.*'false'"),
        (BASE + "exclude: 3", "'exclude' must be a list.*3"),
        (
            BASE + "space: {optimizer.lr: [0.1]}\nexclude: [{optimizer.lr: 0.11}]",
            "'optimizer.lr': 0.11.*no run",
        ),
        (BASE + "search: {mode: [tpe], trials: 3}", "mode.*not available"),
        (BASE + "blocks: [{name: [a]}]", "name of block 1 must be a word"),
        ("base: false", "'base' must be a mapping, not False"),
        ("", "is empty"),
        ("name: ..\n" + BASE, "name '..' must"),
        ("name: --root\n" + BASE, "name '--root' must"),
        (f"name: {'x' * 101}\n" + BASE, "at most 100"),
        (BASE + "space: {optimizer.lrr: [1]}", "'optimizer.lrr'.*'optimizer.lr'"),
        (BASE + "space: {seed: [1, 2]}", "list seeds under 'seeds'"),
        (BASE + "seeds: 3", "'seeds' must be a list"),
        (BASE + "blocks: {name: a}", "'blocks' must be a list"),
        (BASE + "blocks: [{name: a}, {name: a}]", "same name 'a'"),
        (BASE + "blocks: [{name: a, set: {optimizer.name: sgd}}]", "block 'a'.*'?sgd'?.*sgdm"),
        (BASE + "space: {optimizer.lr: [0.1]}\nexclude: [{optimizer.lr: 0.1}]", "no runs"),
        (BASE + "name: a/b", "name 'a/b'"),
        (BASE + "space: {optimizer.lr: [abc]}", "optimizer.lr.*'abc'"),
        (BASE + "space: {optimizer.lr: [-1e-3]}", r"optimizer.lr.*-0\.001"),
        (
            BASE + "blocks: [{name: h, set: {optimizer.name: htmuon}, space: {optimizer.p: [2]}}]",
            r"p .*\b2\b",
        ),
        (
            BASE + "blocks: [{name: s, set: {optimizer.name: sgdm}, space: {optimizer.p: [0.1]}}]",
            "'optimizer.p' for sgdm",
        ),
    ],
    ids=str,
)
def test_a_mistake_is_one_sentence(write_spec, text, sentence):
    with pytest.raises(UsageError) as error:
        search_points(load(write_spec, text))
    assert re.search(sentence, str(error.value)) and "\n" not in str(error.value)


@pytest.mark.parametrize("where", ["resources: {{{}}}\n", "blocks: [{{name: a, resources: {{{}}}}}]\n"])
def test_memory_without_a_unit_is_asked_for_one(tmp_path, write_spec, where):
    path = write_spec(BASE + where.format("mem: '4000'"))
    with pytest.raises(UsageError, match="'mem: 4000' is 4000 megabytes to SLURM; .* 4000G or 4000M"):
        specs.load_all([str(path)], [], tmp_path)
    # What was planned before can still be looked at.
    folder = sweeps_folder(tmp_path) / "tiny"
    folder.mkdir(parents=True)
    (folder / "spec.yaml").write_text(path.read_text())
    assert specs.load_all([str(folder)], [], tmp_path)


@pytest.mark.parametrize("memory", ["32G", "0"])
def test_memory_with_a_unit_or_all_of_it_is_taken(tmp_path, write_spec, memory):
    assert specs.load_all([str(write_spec(BASE + f"resources: {{mem: {memory}}}\n"))], [], tmp_path)


def test_a_sweep_is_found_by_file_folder_and_name(tmp_path, write_spec):
    path = write_spec(BASE, name="spec.yaml")
    assert naming.files(str(path), tmp_path) == [path]
    assert naming.files(str(tmp_path), tmp_path) == [path]
    assert naming.files("demo-digits", tmp_path)[0].name == "demo-digits.yaml"
    with pytest.raises(UsageError, match=r"'demo-digit'.*demo-digits"):
        naming.files("demo-digit", tmp_path)


@pytest.mark.parametrize(
    ("word", "end"),
    [
        ("lionn.yaml", "did you mean 'lion.yaml'?"),
        ("lion", "did you mean 'lion.yaml'?"),
        ("sub/lionn.yaml", "is like it."),
        ("sub/adma", "did you mean 'sub/adam.yaml'?"),
        ("mine-digit", "did you mean 'mine-digits'?"),
        ("nano-cifr", "did you mean 'nano-cifar'?"),
        ("zzz.yaml", "is like it."),
    ],
)
def test_a_mistyped_file_is_answered_with_what_is_called_almost_so(tmp_path, monkeypatch, word, end):
    monkeypatch.chdir(tmp_path)
    for name in ("lion.yaml", "sub/adam.yaml", "store/sweeps/mine-digits/points.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    with pytest.raises(UsageError) as error:
        naming.files(word, Path("store"))
    told = str(error.value)
    assert told.startswith(f"There is no sweep file or folder '{word}', nor such a sweep ") and end in told
    assert len(told) < 200
