"""Two copies of one run: what one has besides the other, and what contradicts."""

import dataclasses
import shutil

import pytest

from harness.store import Store, copies
from harness.store.record import RunRecord
from tests.helpers.stored_runs import put


@pytest.fixture
def roots(tmp_path):
    return tmp_path / "ours", tmp_path / "theirs"


def acc(value, questions=10):
    return {"acc": value, "questions": questions}


def test_an_index_that_was_copied_over_ours_changes_nothing(roots):
    ours, theirs = roots
    key = put(ours, accuracy=0.25)
    put(theirs, accuracy=0.75)
    known, other = (Store(root).record(key) for root in roots)
    assert known.metrics != other.metrics
    assert len({Store(root).files(key).record.stat().st_size for root in roots}) == 1, "else it is no case"
    shutil.copy(theirs / "index.jsonl", ours / "index.jsonl")
    assert Store(ours).records([key]) == {key: known}
    assert dict(Store(ours).each_record([key])) == {key: known}


RECORD = RunRecord("0" * 12, {}, "completed", {"val_loss": 1.0}, 8, 1.0, 0.1, 1, {}, 1, {})


def test_what_only_one_has_is_no_difference_but_completes():
    ours = dataclasses.replace(
        RECORD, downstream={"a": acc(0.5, 5), "b": acc(0.5)}, rest={"mine": 1, "both": 1}
    )
    theirs = dataclasses.replace(
        RECORD, downstream={"a": acc(0.1, 9), "c": acc(1.0)}, rest={"new": 2, "both": 2}
    )
    assert copies.differences(ours, theirs) == [] and copies.same_result(ours, theirs)
    whole = copies.completed(ours, theirs)
    assert whole.downstream == {"a": acc(0.1, 9), "b": acc(0.5), "c": acc(1.0)}
    assert whole.rest == {"mine": 1, "both": 1, "new": 2} and copies.completed(whole, ours) == whole


def test_differences_have_names_and_values():
    ours = dataclasses.replace(RECORD, downstream={"a": acc(0.5)})
    theirs = dataclasses.replace(RECORD, status="diverged", metrics={}, downstream={"a": acc(0.25)})
    assert copies.differences(ours, theirs) == [
        copies.Difference("status", "completed", "diverged"),
        copies.Difference("val_loss", 1.0, None),
        copies.Difference("a.acc", 0.5, 0.25),
    ]
    assert copies.completed(ours, theirs) == ours
