"""Records against their own curves: what was edited, damaged or lost is named, and what is sound is not."""

import json
import re
import shutil

import pytest

from htbench.harness.cli import main
from htbench.harness.commands import doctor
from htbench.harness.config.key import resolved, run_key
from htbench.harness.config.settings import resolve_config
from htbench.harness.errors import EXIT_RUN_FAILED, StoppedError
from htbench.harness.show.note import Note
from htbench.harness.show.status import Status
from htbench.harness.store import Store
from htbench.harness.store.integrity import CHANGED, explain_loss, find_contradiction
from htbench.harness.system import atomic
from htbench.harness.system.finding import examine
from htbench.harness.train import run
from htbench.harness.train.monitor import Monitor
from tests.helpers.frames import load_frame

RATES = (0.05, 0.1, 0.2)
SPEC = """
name: tiny
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16, optimizer.name: sgdm}
seeds: [0]
space: {optimizer.lr: [0.05, 0.1, 0.2]}
"""


@pytest.fixture(scope="session")
def _trained(tmp_path_factory):
    root = tmp_path_factory.mktemp("integrity") / "store"
    for rate in RATES:
        run.run(resolved(config(rate)), Store(root))
    return root


@pytest.fixture
def store(_trained, tmp_path):
    """A store with the three runs of SPEC."""
    return Store(shutil.copytree(_trained, tmp_path / "store"))


def config(rate, **settings):
    base = {"task": "digits", "model": "resnet-nano", "steps": 8, "batch_size": 16}
    return resolve_config(base | {"optimizer.name": "sgdm", "optimizer.lr": rate} | settings)


def folder_of(store, rate=0.1):
    return store.run_folder(run_key(config(rate)))


def edit(path, change):
    value = json.loads(path.read_text())
    change(value)
    atomic.write_json(path, value)


def doctored(root):
    """What `doctor` says of records, by level."""
    found = examine(root, (doctor._store,))
    return [(f.level, str(f.finding), str(f.advice)) for f in found if f.subject == "records"]


def indexed(root, write_spec, capsys):
    """What `sweep index` complains of."""
    assert main(["sweep", "index", str(write_spec(SPEC)), "--root", str(root)]) == 0
    return [line for line in capsys.readouterr().err.splitlines() if line.startswith("htbench: run ")]


# --- what is sound ---


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"steps": 1},
        {"steps": 45, "evaluation.every": 3, "evaluation.untrained": True},
        {"optimizer.lr": 1e30, "schedule.warmup": 0.0},
        {"optimizer.lr": 1e30, "schedule.warmup": 0.0, "steps": 1},
    ],
)
def test_a_run_agrees_with_its_curve(tmp_path, settings):
    store = Store(tmp_path)
    record = run.run(resolved(config(0.1, **settings)), store)
    assert find_contradiction(store.run_folder(record.key), record) is None
    assert explain_loss(store.run_folder(record.key)) is None


def test_a_sound_store_has_nothing_to_be_named(store, write_spec, capsys):
    assert indexed(store.root, write_spec, capsys) == []
    assert doctored(store.root) == []


# --- edited ---


def other_accuracy(record):
    record["metrics"]["test_accuracy"] = round(record["metrics"]["test_accuracy"] + 0.1, 12)


def fewer_steps(record):
    record["steps"] -= 1


def no_figure(record):
    del record["metrics"]["val_loss"]


def another_figure(record):
    record["metrics"]["test_perplexity"] = 1.5


def not_finite(record):
    record["metrics"]["val_loss"] = None


def called_diverged(record):
    record |= {"status": "diverged", "metrics": {}}


def another_time(record):
    record["useful_seconds"] = 1e-3


EDITS = {
    another_time: str(CHANGED),  # of these figures the curve says nothing
    other_accuracy: r"test_accuracy is 0\.\d+ in record.json, 0\.\d+ in metrics.jsonl",
    fewer_steps: r"record.json says 7 steps, metrics.jsonl 8",
    no_figure: r"val_loss is missing in record.json, [\d.]+ in metrics.jsonl",
    another_figure: r"test_perplexity is 1.5 in record.json, missing in metrics.jsonl",
    not_finite: r"val_loss is not finite in record.json, [\d.]+ in metrics.jsonl",
    called_diverged: r"val_\w+ is missing in record.json, [\d.]+ in metrics.jsonl",
}


@pytest.mark.parametrize("change", EDITS)
def test_an_edited_record_is_named_with_the_figure(store, change):
    folder = folder_of(store)
    edit(folder / "record.json", change)
    assert re.fullmatch(EDITS[change], str(find_contradiction(folder, store.record(folder.name))))


def test_every_command_names_an_edited_record_and_mends_one_that_is_deleted(store, write_spec, capsys):
    indexed(store.root, write_spec, capsys)
    folder = folder_of(store)
    true = store.record(folder.name)
    edit(folder / "record.json", other_accuracy)
    (said,) = indexed(store.root, write_spec, capsys)
    assert re.search(f"^htbench: run {folder.name}: {EDITS[other_accuracy]}$", said)
    (problem,) = doctored(store.root)
    assert problem[0] == "problem" and problem[1] in said and f"delete {folder}" in problem[2]
    row = load_frame(store).query(f"key == '{folder.name}'").iloc[0]
    assert (row["state"], row["reason"]) == ("damaged", str(CHANGED)), "tables ask the digest"
    edited, place = (folder / "record.json").read_bytes(), ["tiny", "--root", str(store.root)]
    shown = {"status": "2/3", "plan": "0 to run; 3 runs, 2 finished", "run": "damaged"}
    for action in shown:
        assert main(["sweep", action, *place]) == (EXIT_RUN_FAILED if action == "run" else 0)
        told = "".join(capsys.readouterr())
        assert shown[action] in told and f"run {folder.name} damaged: record.json was changed" in told, told
    assert (folder / "record.json").read_bytes() == edited, "a person decides"
    shutil.rmtree(folder)
    assert run.run(resolved(config(0.1)), store).metrics == true.metrics and doctored(store.root) == []


@pytest.mark.parametrize("damage", ["torn", "of another run"])
def test_items_that_are_not_those_of_the_record_are_named(store, write_spec, capsys, damage):
    indexed(store.root, write_spec, capsys)
    path, other = (folder_of(store, rate) / "test_items.bin" for rate in (0.1, 0.2))
    path.write_bytes(path.read_bytes()[:-30] if damage == "torn" else other.read_bytes())
    (said,) = indexed(store.root, write_spec, capsys)
    what = "test_items.bin is damaged, or is not that of the record"
    assert said == f"htbench: run {path.parent.name}: {what}"
    (problem,) = doctored(store.root)
    assert problem[0] == "problem" and problem[1] in said
    path.unlink()
    assert indexed(store.root, write_spec, capsys) == [], "they may be missing"


def test_without_a_curve_nothing_is_contradicted(store):
    folder = folder_of(store)
    (folder / "metrics.jsonl").unlink()
    assert find_contradiction(folder, store.record(folder.name)) is None


def test_a_curve_that_was_cut_is_named(store):
    folder = folder_of(store)
    rows = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(rows[:-1]))
    wrong = find_contradiction(folder, store.record(folder.name))
    assert wrong.kind == "metric_differs" and wrong["name"].startswith("test_")
    (folder / "metrics.jsonl").write_text("garbage")
    assert find_contradiction(folder, store.record(folder.name)) == Note(
        "steps_differ", record=8, other=0, file="metrics.jsonl"
    )


# --- lost ---


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        ("missing", "record.json is missing, though the run had come to its end"),
        ("torn", "record.json is damaged"),
    ],
)
def test_a_lost_record_is_named_and_the_same_command_mends_it(store, write_spec, capsys, damage, what):
    indexed(store.root, write_spec, capsys)
    folder = folder_of(store)
    path, true = folder / "record.json", store.record(folder.name)
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-30])
    (said,) = indexed(store.root, write_spec, capsys)
    assert said == f"htbench: run {folder.name}: {what}; the same command trains the run again"
    found = doctored(store.root)
    assert ("problem", said.removeprefix("htbench: "), "") in found
    state = store.state(folder.name)
    assert state.status is Status.WAITING and state.lost_record == explain_loss(folder)
    assert str(state.lost_record) in said
    assert main(["sweep", "status", str(write_spec(SPEC)), "--root", str(store.root)]) == 0
    assert what in capsys.readouterr().out
    again = run.run(resolved(config(0.1)), store)
    assert again.metrics == true.metrics and again.attempts == 2
    assert indexed(store.root, write_spec, capsys) == [] and explain_loss(folder) is None
    assert doctored(store.root) == []


@pytest.mark.parametrize(("field", "number"), [("val_loss", "NaN"), ("lr", "1e999")])
def test_a_number_that_json_has_not_is_one_damaged_run(store, write_spec, capsys, field, number):
    indexed(store.root, write_spec, capsys)
    folder = folder_of(store)
    text, replaced = re.subn(
        rf'("{field}": )[^,\n]+', rf"\g<1>{number}", (folder / "record.json").read_text()
    )
    assert replaced == 1
    (folder / "record.json").write_text(text)
    for command in (["table"], ["runs", "ls"], ["sweep", "status", str(write_spec(SPEC))]):
        assert main([*command, "--root", str(store.root)]) == 0
        assert capsys.readouterr().out.count("damaged") >= 1, command
    frame = load_frame(store)
    assert sorted(frame["state"]) == ["completed", "completed", "damaged"]


def test_the_record_of_a_run_that_diverged_is_missed_too(tmp_path):
    store = Store(tmp_path)
    record = run.run(resolved(config(1e30, **{"schedule.warmup": 0.0})), store)
    assert record.status == "diverged"
    (store.run_folder(record.key) / "record.json").unlink()
    assert "had come to its end" in store.state(record.key).message


class Stop(Monitor):
    def __init__(self):
        super().__init__(progress=lambda step: setattr(self, "stop_requested", True))


def test_a_run_that_has_not_come_to_its_end_has_lost_nothing(tmp_path):
    store = Store(tmp_path)
    with pytest.raises(StoppedError):
        run.run(resolved(config(0.1, log_every=1)), store, Stop())
    key = run_key(config(0.1))
    assert explain_loss(store.run_folder(key)) is None and not store.state(key).message
    assert doctored(store.root) == []


def test_a_live_run_that_is_about_to_write_its_record_has_not_lost_it(tmp_path, monkeypatch):
    store, seen, proper = Store(tmp_path), [], run._finish

    def look_first(made, attempt, *arguments):
        seen.append((explain_loss(attempt.files.path), doctored(store.root)))
        return proper(made, attempt, *arguments)

    monkeypatch.setattr(run, "_finish", look_first)
    run.run(resolved(config(0.1)), store)
    assert seen[0][0].kind == "record_missing", "as the folder alone tells it"
    assert seen[0][1] == []
