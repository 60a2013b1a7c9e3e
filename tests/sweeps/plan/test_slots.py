"""Slots and studies on disk: sweeps and the store read one file by one function, damaged files included."""

import dataclasses
import json

import pytest

from htbench.harness.errors import UsageError
from htbench.harness.store import points, submissions
from htbench.harness.store.points import Point, filled, read_points
from htbench.harness.store.study import find_study, study_path
from htbench.harness.system import seal
from htbench.sweeps.plan import slots
from tests.helpers.searching import SEARCH, plan

FILLED = '{"study": "s", "trial": 0, "key": "abcabcabcabc", "overrides": {"optimizer.lr": 0.1}}'


@pytest.mark.parametrize("text", [FILLED, FILLED[:-9], "[]", '{"trial": 0}', "null", ""])
def test_a_slot_is_filled_for_all_readers_or_for_none(tmp_path, write_spec, text):
    (study,) = plan(tmp_path, write_spec(SEARCH))
    points.slot_path(tmp_path, "tiny", study.slot(0)).write_text(text)
    point = read_points(tmp_path, "tiny")[0]
    assert bool(slots.read_slots(tmp_path, study)) == bool(point.key) == (text == FILLED)
    assert filled(tmp_path, Point("tiny", "", "", "", {}, study.slot(0))).key == point.key


@pytest.mark.parametrize("damage", [lambda text: text[:-9], lambda text: "[]", lambda text: "{}"])
def test_a_study_is_readable_for_all_readers_or_for_none(tmp_path, write_spec, damage):
    (study,) = plan(tmp_path, write_spec(SEARCH))
    assert find_study(tmp_path, "tiny", study.name) == study and study.mode == "tpe"
    path = study_path(tmp_path, "tiny", study.name)
    path.write_text(damage(path.read_text()))
    assert find_study(tmp_path, "tiny", study.name) is None
    with pytest.raises(UsageError, match="is missing or damaged"):
        slots.read_study(tmp_path, "tiny", study.name)


def changed(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_line_of_a_plan_that_is_lost_or_changed_is_damage(tmp_path, write_spec):
    plan(tmp_path, write_spec(SEARCH))
    path = points.sweep_folder(tmp_path, "tiny") / "points.jsonl"
    before = path.read_text()
    lines = before.splitlines(keepends=True)
    for text in (
        "".join(lines[1:]),
        "".join(lines[:-1]),
        "".join([*lines, lines[0]]),
        before.replace('"block": "sgdm"', '"block": "adam"', 1),
        before.replace("search", "replicate", 1),
    ):
        path.write_text(text)
        with pytest.raises(UsageError, match="is damaged"):
            read_points(tmp_path, "tiny")
    path.write_text(before)
    assert len(read_points(tmp_path, "tiny")) == len(lines)


def test_a_study_and_a_slot_that_were_changed_are_damaged(tmp_path, write_spec):
    (study,) = plan(tmp_path, write_spec(SEARCH))
    path = points.slot_path(tmp_path, "tiny", study.slot(0))
    content = {"trial": 0, "key": "a" * 12, "overrides": {"optimizer.lr": 0.1}}
    path.write_text(json.dumps(seal.sealed(content)))
    assert points.read_slot(tmp_path, "tiny", study.slot(0)) == content
    changed(path, "0.1", "0.2")
    assert points.read_slot(tmp_path, "tiny", study.slot(0)) is None
    changed(study_path(tmp_path, "tiny", study.name), '"trials": 4', '"trials": 8')
    assert find_study(tmp_path, "tiny", study.name) is None


def test_a_study_keeps_what_newer_code_has_written(tmp_path, write_spec):
    (study,) = plan(tmp_path, write_spec(SEARCH))
    path = study_path(tmp_path, "tiny", study.name)
    told = json.loads(path.read_text()) | {"newer": {"a": [1]}}
    path.write_text(json.dumps(seal.sealed(told)))
    (again,) = plan(tmp_path, write_spec(SEARCH.replace("trials: 4", "trials: 5")))
    now = json.loads(path.read_text())
    assert again == dataclasses.replace(study, trials=5) and now == seal.sealed(told | {"trials": 5})


def test_one_reader_knows_what_was_submitted(tmp_path):
    (tmp_path / "sweeps" / "tiny").mkdir(parents=True)
    one = submissions.intend(tmp_path, "tiny", ["abc", "s/0"], {"code": "v1"})
    submissions.answer(tmp_path, one, job="7")
    (found,) = submissions.read_all(tmp_path)
    assert (found.code, found.job, found.jobs()["7_1"]) == ("v1", "7", "s/0")
    assert not submissions.is_damaged(tmp_path)
    with open(tmp_path / "sweeps" / "tiny" / "submissions.jsonl", "a") as file:
        file.write('{"submission": "torn\n')
    assert submissions.is_damaged(tmp_path) and len(submissions.read(tmp_path, "tiny")) == 1
