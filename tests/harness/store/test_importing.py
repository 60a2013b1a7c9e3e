"""`htbench runs import`: two stores become one, whatever state their runs are in, whoever dies meanwhile."""

import dataclasses
import json
import os
import signal

import pytest

from htbench import models
from htbench.harness import cli
from htbench.harness.config.key import resolved, run_key
from htbench.harness.config.settings import resolve_config
from htbench.harness.errors import EXIT_USAGE
from htbench.harness.show.status import Status
from htbench.harness.store import Store
from htbench.harness.store.importing import list_contradictions
from htbench.harness.store.integrity import CHANGED
from htbench.harness.store.points import SEARCH, Point, read_points, sweep_folder, write_points
from htbench.harness.store.record import RunRecord
from htbench.harness.train import run as train
from tests.helpers.interrupting import interrupt
from tests.helpers.stored_runs import config, files, leave, put


@pytest.fixture
def roots(tmp_path):
    return tmp_path / "ours", tmp_path / "theirs"


@pytest.fixture
def take(roots, capsys):
    """Import theirs into ours; returns what was said on stdout and stderr. Theirs stays as it is."""

    def run(*words):
        before = files(roots[1])
        assert cli.main(["runs", "import", str(roots[1]), "--root", str(roots[0]), *words]) == 0
        assert files(roots[1]) == before
        return capsys.readouterr()

    return run


def read(root, key, name):
    path = Store(root).run_folder(key) / name
    return path.read_text() if path.exists() else None


def test_finished_runs_come_with_all_their_files_once(take, roots):
    ours, theirs = roots
    keys = [put(theirs, weights=True, seed=1), put(theirs, "diverged", step=5, seed=2), put(theirs, seed=3)]
    put(ours, seed=3)
    for age, key in enumerate(keys):
        os.utime(Store(theirs).run_folder(key) / "record.json", (1e9 + age, 1e9 + age))
    said = take("--dry-run").out
    assert said == "would import 2 runs (1 completed, 1 diverged); 1 are here already\n"
    assert not Store(ours).run_folder(keys[0]).exists()
    assert take().out == said.replace("would import", "imported")
    for key in keys[:2]:
        names = ("record.json", "metrics.jsonl", "spectra.jsonl", "log.txt", "config.yaml", "weights.pt")
        for name in (*names, "test_items.bin"):
            places = (Store(root).run_folder(key) / name for root in roots)
            here, there = (path.read_bytes() if path.exists() else None for path in places)
            assert here == there
    assert Store(ours).run_folder(keys[0]).joinpath("record.json").stat().st_mtime == 1e9
    assert Store(ours).index.rows().keys() == set(keys)
    before = files(ours)
    assert take() == ("imported 0 runs; 3 are here already\n", "")
    assert Store(ours).records(keys).keys() == set(keys)
    assert files(ours) == before, "no line of the index was missing or had another time"
    assert not list(ours.glob("runs/*/.*"))


def test_a_conflict_is_told_with_both_values_and_ours_stays(take, roots):
    ours, theirs = roots
    key = put(ours, accuracy=0.875)
    put(theirs, accuracy=0.75)
    before = files(ours)
    out, err = take()
    assert out == "imported 0 runs; 0 are here already\n"
    assert f"conflict: run {key}" in err and "val_accuracy=0.875 here and 0.75 there" in err
    assert files(ours) == before


@pytest.mark.parametrize("reason", ["stopped", "oom", "pruned"])
def test_an_end_there_is_the_end_of_what_is_unfinished_here(take, roots, reason):
    ours, theirs = roots
    if reason == "pruned":
        key = put(ours, "pruned", step=6, pruned_by=["one", "two"])
    else:
        key = leave(ours, reason, step=6)
    put(theirs, accuracy=0.75)
    assert "1 completed" in take().out
    assert Store(ours).record(key).metrics["val_accuracy"] == 0.75
    assert not list(Store(ours).run_folder(key).parent.glob(".*"))
    assert read(ours, key, "metrics.jsonl") == read(theirs, key, "metrics.jsonl")
    assert read(ours, key, "checkpoint.pt") is None


@pytest.mark.parametrize("here", [None, 0, 2])
def test_an_unfinished_run_comes_where_there_is_none_and_ours_stays(take, roots, here):
    ours, theirs = roots
    key = leave(theirs, step=3)
    if here is not None:
        leave(ours, step=here)
    before = files(ours)
    assert ("(1 unfinished)" in take().out) == (here is None)
    assert Store(ours).state(key).status is Status.WAITING
    if here is None:
        assert read(ours, key, "checkpoint.pt") == "at 3"
        assert len(read(ours, key, "metrics.jsonl").splitlines()) == 3
        before = files(ours)
    assert take().out == "imported 0 runs; 1 are here already\n" and files(ours) == before


def test_nothing_is_taken_where_nobody_could_go_on_from(take, roots):
    leave(roots[1], "error", step=0)
    assert take() == ("imported 0 runs; 0 are here already\n", "")
    assert not list(roots[0].glob("runs/*"))


def test_runs_at_work_and_failed_ones_are_left_out_with_a_reason(take, roots):
    ours, theirs = roots
    live_there = leave(theirs, "", step=3, seed=1)
    live_here, failed = leave(ours, "", step=3, seed=2), leave(ours, "error", step=1, seed=3)
    put(theirs, seed=2)
    leave(theirs, step=3, seed=3)
    before = files(ours)
    out, err = take()
    assert out == "imported 0 runs; 1 are here already\n", "it has failed here, and is to be retried"
    assert f"{live_there}: somebody is at work on it there" in err
    assert f"run {live_here}: " in err and "is at work on it here" in err
    assert failed not in err
    assert files(ours) == before


def test_a_pruned_run_comes_with_its_checkpoint_and_ours_stays(take, roots):
    ours, theirs = roots
    key = put(ours, "pruned", step=4, pruned_by=["one"])
    put(theirs, "pruned", step=6, pruned_by=["two"])
    fresh = put(theirs, "pruned", step=4, pruned_by=["two"], seed=1)
    assert "imported 1 run (1 pruned); 1 are here already" in take().out
    records = Store(ours).records([key, fresh])
    assert (records[key].pruned_by, records[key].steps) == (["one"], 4)
    assert records[fresh].pruned_by == ["two"] and read(ours, fresh, "checkpoint.pt") == "at 4"


def test_what_is_damaged_or_not_what_it_says_is_refused(take, roots):
    ours, theirs = roots
    damaged, foreign, odd = put(theirs, seed=1), put(theirs, seed=2), put(theirs, seed=3)
    sound, edited = put(theirs, seed=4), put(theirs, seed=5)
    (Store(theirs).run_folder(damaged) / "record.json").write_text('{"key"')
    for key, change in ((foreign, {"seed": 7}), (odd, {"task": "unheard-of"})):
        path = Store(theirs).run_folder(key) / "record.json"
        row = json.loads(path.read_text())
        path.write_text(json.dumps(row | {"config": row["config"] | change}))
    path = Store(theirs).run_folder(edited) / "record.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"useful_seconds": 0.5}))
    out, err = take()
    assert "1 completed" in out
    assert f"refused: {edited}: {CHANGED}" in err
    assert f"refused: {damaged}: its record.json is damaged" in err
    assert f"refused: {foreign}: its config is that of another key" in err
    assert f"refused: {odd}: its config is that of another key" in err, "names are not looked up"
    assert {path.name for path in ours.glob("runs/*/*")} == {sound}


def test_a_record_of_an_earlier_revision_keeps_its_key(take, roots, monkeypatch):
    ours, theirs = roots
    key = put(theirs, **{"optimizer.name": "htmuon"})
    raised = dataclasses.replace(models.spec("resnet-nano"), revision=3)
    monkeypatch.setitem(models.SIZES, "resnet-nano", raised)
    assert run_key(config(**{"optimizer.name": "htmuon"})) != key
    assert "1 completed" in take().out and Store(ours).record(key).key == key


@pytest.mark.parametrize("other", ["nowhere", "ours"])
def test_mistakes_are_one_sentence(roots, capsys, other):
    put(roots[0])
    words = ["runs", "import", str(roots[0].parent / other), "--root", str(roots[0])]
    assert cli.main(words) == EXIT_USAGE
    assert ("no store" if other == "nowhere" else "this store itself") in capsys.readouterr().err
    assert cli.main([*words[:-1], str(roots[0].parent / "new")]) == EXIT_USAGE or other == "ours"
    assert (roots[0].parent / "new").exists() is (other == "ours"), "a refusal makes no folder"


@pytest.mark.parametrize("crash", ["claim.before", "claimed", "record.before", "record.after"])
def test_an_import_that_is_killed_is_simply_run_again(htbench, roots, crash):
    theirs = roots[1]
    done, pruned = put(theirs, seed=1), put(theirs, "pruned", step=4, pruned_by=["one"], seed=2)
    waiting = leave(theirs, step=5, seed=3)
    leave(htbench.root, step=2, seed=1)
    process = htbench.start("runs", "import", theirs, crash=crash)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    again = htbench("runs", "import", theirs)
    assert again.returncode == 0 and again.stderr == ""
    store = Store(htbench.root)
    found = store.records([done, pruned, waiting])
    assert {key: record.status for key, record in found.items()} == {done: "completed", pruned: "pruned"}
    for key, step in ((done, None), (pruned, 4), (waiting, 5)):
        assert read(htbench.root, key, "checkpoint.pt") == (f"at {step}" if step else None)
        assert read(htbench.root, key, "metrics.jsonl") == read(theirs, key, "metrics.jsonl")
    assert store.state(waiting).status is Status.WAITING
    assert htbench("runs", "import", theirs).stdout.startswith("imported 0 runs")


def test_a_run_that_is_claimed_meanwhile_is_left_to_its_owner(take, roots, monkeypatch):
    ours, theirs = roots
    put(theirs)
    rename = os.rename

    def claimed_before(source, target):
        if "/runs/" in str(target) and not str(target).endswith(".tmp"):
            leave(ours, "", step=1)
        rename(source, target)

    monkeypatch.setattr(os, "rename", claimed_before)
    assert "somebody was quicker; import again" in take().err
    (key,) = Store(ours).keys()
    assert Store(ours).state(key).status is Status.RUNNING and read(ours, key, "record.json") is None


def test_differences_have_names_and_values():
    ours = RunRecord("0" * 12, {}, "completed", {"val_loss": 1.0}, 8, 1.0, 0.1, 1, {}, 1, {})
    theirs = dataclasses.replace(ours, status="diverged", metrics={})
    told = [(one["name"], one["here"], one["there"]) for one in list_contradictions(ours, theirs)]
    assert told == [("status", "completed", "diverged"), ("val_loss", 1.0, None)]
    assert list_contradictions(ours, dataclasses.replace(ours, useful_seconds=9.0)) == []


@pytest.mark.parametrize("setgid", ["ours", "theirs"])
def test_who_may_read_it_is_up_to_the_store_that_gets_it(htbench, roots, setgid):
    for root, name in ((htbench.root, "ours"), (roots[1], "theirs")):
        root.mkdir(exist_ok=True)
        root.chmod(0o2770 if setgid == name else 0o700)
    mask = os.umask(0o022)
    try:
        key = put(roots[1])  # sets the umask of this process, and that of the command is its own
        Store(roots[1]).run_folder(key).joinpath("log.txt").chmod(0o666)
    finally:
        os.umask(mask)
    assert htbench("runs", "import", roots[1]).returncode == 0
    made = [path for path in htbench.root.rglob("*") if path.is_file()]
    wanted = "0o664" if setgid == "ours" else "0o644"
    assert len(made) > 5 and {oct(path.stat().st_mode & 0o777) for path in made} == {wanted}


# --- sweeps ---


def plan(root, name, text, *points):
    folder = sweep_folder(root, name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spec.yaml").write_text(text)
    write_points(root, name, list(points))
    return folder


def test_sweeps_that_are_not_here_come_whole_and_others_stay(take, roots):
    ours, theirs = roots
    slot = Point("search", "b", SEARCH, "", {"steps": 8}, "study/0")
    folder = plan(theirs, "search", "text", slot)
    (folder / "slots" / "study").mkdir(parents=True)
    (folder / "slots" / "study" / "study.json").write_text("{}")
    (folder / "slots" / "study" / "0.json").write_text('{"trial": 0, "key": "cccccccccccc", "overrides": {}}')
    (folder / "submissions.jsonl").write_text('{"submission": "w"}\n')
    plain = Point("same", "b", SEARCH, "a" * 12, {"steps": 8})
    for root in roots:
        plan(root, "same", "text", plain)
    plan(ours, "grown", "text", plain, dataclasses.replace(plain, key="b" * 12))
    plan(theirs, "grown", "text", plain)
    (sweep_folder(theirs, "damaged")).mkdir()
    (sweep_folder(theirs, "damaged") / "points.jsonl").write_text("{")
    before = files(ours)
    out, err = take()
    assert "imported the sweeps search;" in out
    assert "sweep grown plans other runs here" in err and "same" not in err
    assert "refused: damaged: " in err
    new = {name for name in files(ours) if name not in before}
    assert new == {f"sweeps/search/{name}" for name in _SEARCH} and before.items() <= files(ours).items()
    assert read_points(ours, "search")[0].key == "c" * 12
    before = files(ours)
    assert "sweeps" not in take().out and files(ours) == before


_SEARCH = ("spec.yaml", "points.jsonl", "slots/study/study.json", "slots/study/0.json")


# --- true runs ---


def test_an_interrupted_run_goes_on_here_with_the_numbers_of_an_undisturbed_one(tmp_path, tiny, capsys):
    settings = resolve_config(tiny | {"log_every": 1})
    calm = train.run(resolved(settings), Store(tmp_path / "calm"))
    interrupt(settings, tmp_path / "theirs", 5)
    assert cli.main(["runs", "import", str(tmp_path / "theirs"), "--root", str(tmp_path / "ours")]) == 0
    ours = Store(tmp_path / "ours")
    record = train.run(resolved(settings), ours)
    assert record.metrics == calm.metrics
    assert "going on from step" in (ours.run_folder(record.key) / "log.txt").read_text()
