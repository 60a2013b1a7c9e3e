"""Stores that were copied into one another, archives that broke: nothing is lost, contradictions are told."""

import dataclasses
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import cli
from harness.store import Store, check, copies, packing, salvaging
from harness.store.record import RunRecord
from tests.helpers.stored_runs import files, put


@pytest.fixture
def roots(tmp_path):
    return tmp_path / "ours", tmp_path / "theirs"


def pack(root):
    assert cli.main(["runs", "pack", "--root", str(root)]) == 0
    return Store(root)


def copy(source, target):
    """As people do it: `cp -r source/. target/`."""
    subprocess.run(["cp", "-r", f"{source}/.", f"{target}/"], check=True)
    return Store(target)


def add(store, key, **entries):
    store.amend(key, lambda now: dataclasses.replace(now, downstream=now.downstream | entries))


def acc(value, questions=10):
    return {"acc": value, "questions": questions}


def contested(root):
    """By run what `doctor` tells of archives that contradict what readers see."""
    found = check.Survey(root).contested
    return {
        key: [(one.name, one.here, one.there) for one in sum(what.values(), [])]
        for key, what in found.items()
    }


def seen(store):
    """All that a reader finds of all runs."""
    found = {}
    for key in store.keys():
        at = store.files(key)
        found[key] = [path.read_bytes() for path in (at.record, at.metrics, at.spectra, at.log, at.config)]
        assert store.state(key).status.has_ended and store.records([key]) == {key: store.record(key)}
    return found


# --- stores that were copied into one another ---


def test_two_packed_stores_become_one(roots):
    ours, theirs = roots
    for seed, root in enumerate(roots):
        put(root, seed=seed)
        put(root, seed=seed + 2)
    before = seen(pack(ours)) | seen(pack(theirs))
    archives = {path.name for root in roots for path in root.glob("packed/*.zip")}
    assert len(archives) == 2, "named by what is in them"
    store = copy(theirs, ours)
    assert seen(store) == before and len(before) == 4
    assert {path.name for path in ours.glob("packed/*.zip")} == archives
    assert contested(ours) == {} and store.rebuild_index() == 4
    assert seen(pack(ours)) == before and len(list(ours.glob("packed/*.zip"))) == 1


def test_an_archive_of_the_same_runs_has_the_same_name(roots):
    ours, theirs = roots
    put(ours)
    shutil.copytree(ours, theirs)
    pack(ours), pack(theirs)
    assert [path.name for path in ours.glob("packed/*.zip")] == [
        path.name for path in theirs.glob("packed/*.zip")
    ]


@pytest.mark.parametrize("first", [0, 1])
def test_what_only_one_of_two_archives_has_is_merged(roots, first):
    """Whichever of them counts."""
    for number, root in enumerate(roots):
        key = put(root)
        add(Store(root), key, **{f"task{number}": acc(0.5), "both": acc(0.25, questions=10 * (number + 1))})
        put(root, seed=number + 1)
    Store(roots[0]).files(key).spectra.unlink()
    for root in roots:
        pack(root)
    source, target = roots[first], roots[1 - first]
    store = copy(source, target)
    assert len(store.packed.now().archives) == 2 and contested(target) == {}
    record = store.record(key)
    pack(target)
    assert store.record(key).downstream == {"task0": acc(0.5), "task1": acc(0.5), "both": acc(0.25, 20)}
    assert dataclasses.replace(store.record(key), downstream=record.downstream) == record
    assert store.files(key).spectra.exists() and store.records([key])[key] == store.record(key)
    assert len(store.packed.now().archives) == 1 and len(store.keys()) == 3
    before = files(target)
    pack(target)
    assert files(target) == before, "there is nothing more to do"


def test_unpacking_merges_as_well(roots):
    for number, root in enumerate(roots):
        key = put(root)
        add(Store(root), key, **{f"task{number}": acc(0.5)})
        pack(root)
    copy(*roots)
    assert cli.main(["runs", "unpack", "--all", "--root", str(roots[1])]) == 0
    store = Store(roots[1])
    assert store.record(key).downstream.keys() == {"task0", "task1"} and not store.packed.now().archives


def contradicting(roots):
    """Two packed stores, copied into one, with different results of one run and others besides."""
    keys = [put(root, accuracy=0.25 * (number + 1)) for number, root in enumerate(roots)]
    keys += [put(root, seed=number + 1) for number, root in enumerate(roots)]
    for root in roots:
        pack(root)
    return keys[0], copy(roots[1], roots[0])


def test_results_that_contradict_each_other_both_stay_and_are_told(roots, capsys):
    key, store = contradicting(roots)
    shown = store.record(key)
    here, there = shown.metrics["val_accuracy"], 0.75 - shown.metrics["val_accuracy"]
    assert {here, there} == {0.25, 0.5}
    told = {key: [("val_accuracy", here, there), ("val_loss", 1 - here, 1 - there)]}
    assert contested(store.root) == told
    before = seen(store)
    for _ in range(2):
        pack(store.root)
        (kept,) = check.Survey(store.root).contested[key]
        assert seen(store) == before and contested(store.root) == told
    unchanged = files(store.root)
    pack(store.root)
    assert files(store.root) == unchanged and len(store.packed.now().archives) == 2
    capsys.readouterr()
    cli.main(["doctor", "--root", str(store.root)])
    assert f"run {key}: val_accuracy is {here}, and {there} in '{kept}'" in capsys.readouterr().out
    assert cli.main(["runs", "unpack", "--all", "--root", str(store.root)]) == 0
    assert seen(store) == before and kept.exists() and contested(store.root) == told
    kept.unlink()
    assert seen(store) == before and contested(store.root) == {}


def test_the_one_that_is_not_shown_can_be_chosen(roots):
    key, store = contradicting(roots)
    shown = store.record(key).metrics
    cli.main(["runs", "unpack", key, "--root", str(store.root)])
    shutil.rmtree(store.run_folder(key))
    assert store.record(key).metrics != shown and contested(store.root) == {}


def test_a_folder_that_was_copied_over_an_archive_takes_nothing_away(roots):
    ours, theirs = roots
    key = put(ours, accuracy=0.25)
    put(ours, seed=1)
    pack(ours)
    put(theirs, accuracy=0.5)
    store = copy(theirs, ours)
    assert contested(ours)[key][0] == ("val_accuracy", 0.5, 0.25), "as everywhere the folder counts"
    before = seen(store)
    pack(ours)
    assert seen(store) == before and contested(ours)[key][0] == ("val_accuracy", 0.5, 0.25)


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


def test_a_killed_packer_leaves_no_contradiction(roots):
    """What its archive replaces is the same run before it was amended."""
    key = put(roots[0])
    store = pack(roots[0])
    (old,) = store.packed.now().archives
    data = old.read_bytes()
    add(store, key, piqa=acc(0.5))
    pack(roots[0])
    old.write_bytes(data)
    assert store.record(key).downstream == {"piqa": acc(0.5)} and contested(store.root) == {}
    pack(roots[0])
    assert not old.exists() and store.record(key).downstream == {"piqa": acc(0.5)}


def test_an_archive_without_a_digest_in_its_name_is_read_and_replaced(roots):
    """As the first versions wrote them."""
    key = put(roots[0])
    store = pack(roots[0])
    before = seen(store)
    (path,) = store.packed.now().archives
    path.rename(path.with_name("0001.zip"))
    assert seen(store) == before
    put(roots[0], seed=1)
    pack(roots[0])
    assert seen(store)[key] == before[key] and len(list(store.root.glob("packed/*.zip"))) == 1


# --- two records ---


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


# --- damaged archives ---


def salvage(store):
    with packing.packing(store):
        return salvaging.salvage(store)


def damaged(root):
    return {path.name: path.read_bytes() for path in Path(root, "packed").glob("*.damaged")}


def test_evidence_is_never_overwritten(roots):
    """Two archives of one name break one after the other."""
    put(roots[0])
    store = pack(roots[0])
    (path,) = store.packed.now().archives
    whole = path.read_bytes()
    for size in (-10, -20, -10):
        path.write_bytes(whole[:size])
        (saved,) = salvage(store)
        assert saved.path.exists() and not path.exists()
    assert sorted(map(len, damaged(store.root).values())) == [len(whole) - 20, len(whole) - 10]


@pytest.mark.parametrize("broken", [(0, 1), (1,)])
def test_after_two_faults_the_newer_record_wins(roots, broken):
    """An older archive is there again; the newer one is damaged, or both are."""
    key = put(roots[0])
    store = pack(roots[0])
    (old,) = store.packed.now().archives
    data = old.read_bytes()
    add(store, key, piqa=acc(0.5))
    pack(roots[0])
    (new,) = store.packed.now().archives
    old.write_bytes(data)
    for number in broken:
        path = (old, new)[number]
        path.write_bytes(path.read_bytes()[:-10])
    store.index.path.unlink()
    assert {one.runs for one in salvage(store)} == {1}
    assert store.record(key).downstream == {"piqa": acc(0.5)} and len(damaged(store.root)) == len(broken)


def test_the_index_comes_after_every_archive(roots):
    """It may be that of another store."""
    key = put(roots[0], accuracy=0.25)
    put(roots[1], accuracy=0.75)
    store = pack(roots[0])
    (path,) = store.packed.now().archives
    data = path.read_bytes()
    newer = path.with_name("0002-" + "0" * 12 + ".zip")
    member = store.packed.now().archives[path].member(key, "record.json")
    newer.write_bytes(data[: member.offset] + bytes(member.stored) + data[member.offset + member.stored :])
    shutil.copy(roots[1] / "index.jsonl", store.index.path)
    salvage(store)
    assert store.record(key).metrics["val_accuracy"] == 0.25
