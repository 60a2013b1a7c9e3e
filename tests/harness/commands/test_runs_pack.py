"""Every command says of a packed store what it says of the same store unpacked."""

import json
import shutil
from pathlib import Path

import optuna
import pytest

from harness import cli
from harness.commands import doctor
from harness.errors import EXIT_USAGE
from harness.store import Store, archive
from harness.system.finding import Finding, examine
from sweeps.plan import slots
from sweeps.spec.sweep_file import load
from sweeps.studies import trial
from sweeps.studies.connection import Connection
from tests.helpers.command import Htbench
from tests.helpers.rendering import FORMATS
from tests.helpers.searching import SEARCH
from tests.helpers.stored_runs import leave, put

GRID = """
name: grid
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16, evaluation.every: 2, spectra.every: 4}
blocks:
  - {name: sgdm, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.05, 0.1]}}
  - {name: muon, set: {optimizer.name: muon}, space: {optimizer.lr: [0.01, 0.02]}}
replicate: {seeds: 2}
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A store with a search and a grid, trained once, and their files."""
    folder = tmp_path_factory.mktemp("trained")
    for name, text in (("tiny", SEARCH), ("grid", GRID)):
        (folder / f"{name}.yaml").write_text(text)
        done = Htbench(folder / "store")("sweep", "run", folder / f"{name}.yaml", "--workers", "1")
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def home(trained, tmp_path):
    """A copy of that folder."""
    return Path(shutil.copytree(trained, tmp_path / "home"))


def examined(home):
    """What `doctor` says of the store."""
    found = examine(home / "store", (doctor._store,))
    return [Finding(one.level, one.subject, str(one.finding), str(one.advice)) for one in found]


@pytest.fixture
def ask(home, capsys):
    """Run a command on that store; what it prints."""

    def run(*words, status=0):
        assert cli.main([*map(str, words), "--root", str(home / "store")]) == status
        return capsys.readouterr().out

    return run


def pack(ask, home):
    """Pack the store, so that no run has a folder."""
    said = ask("runs", "pack")
    shutil.rmtree(home / "store" / "cache", ignore_errors=True)  # rows of tables
    assert not list((home / "store" / "runs").glob("*/*"))
    return said


def test_every_screen_and_table_is_the_same(ask, home):
    specs = [home / "tiny.yaml", home / "grid.yaml"]
    words = [
        ("runs", "ls", "--all", "--json"),
        ("runs", "ls", "--sweep", "grid", "--json"),
        ("sweep", "status", *specs, "--json"),
        ("sweep", "status", *specs),
        *(("table", "--format", name) for name in FORMATS),
        ("ledger",),
    ]
    before = [ask(*one) for one in words]
    pack(ask, home)
    assert [ask(*one) for one in words] == before
    rows = json.loads(before[0])
    assert len(rows) == 13 and all(row["status"] == "completed" for row in rows)


@pytest.mark.slow
def test_the_report_is_the_same_page(ask, home):
    def page():
        ask("report", "--out", home / "report.html")
        return (home / "report.html").read_bytes()

    before = page()
    pack(ask, home)
    assert page() == before and b"resnet-nano" in before


@pytest.mark.slow
def test_the_figures_are_the_same(ask, home):
    def drawn(name):
        ask("figure", "--out", home / name)
        return {path.name: path.read_bytes() for path in sorted((home / name).rglob("*")) if path.is_file()}

    before = drawn("before")
    pack(ask, home)
    assert drawn("after") == before and before


def test_frame_curve_and_spectra_of_notebooks_are_the_same(ask, home):
    import results

    root = home / "store"
    frame = results.frame(root)
    keys = sorted(set(frame["key"]))
    own = [key for key in keys if (Store(root).files(key).spectra).exists()]
    before = [results.curve(root, key) for key in keys] + [results.spectra(root, key) for key in own]
    pack(ask, home)
    assert results.frame(root).equals(frame) and own
    after = [results.curve(root, key) for key in keys] + [results.spectra(root, key) for key in own]
    assert all(ours.equals(theirs) for ours, theirs in zip(after, before, strict=True))


def test_the_same_sweeps_train_nothing(ask, home):
    pack(ask, home)
    for name in ("tiny", "grid"):
        done = Htbench(home / "store")("sweep", "run", home / f"{name}.yaml", "--workers", "1")
        assert done.returncode == 0, done.stderr
    assert not list((home / "store" / "runs").glob("*/*"))


def opened(path):
    """The only study in a journal."""
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    return optuna.load_study(study_name=None, storage=storage)


@pytest.mark.parametrize("action", ["retry", "reap", "replicate"])
def test_what_looks_after_sweeps_finds_nothing_to_do(ask, home, action):
    before = ask("sweep", action, home / "tiny.yaml", home / "grid.yaml")
    pack(ask, home)
    assert ask("sweep", action, home / "tiny.yaml", home / "grid.yaml") == before
    assert not list((home / "store" / "runs").glob("*/*"))


def test_weights_are_read_from_their_folder(ask, home, tiny):
    ask(
        "run", *(f"{name}={value}" for name, value in tiny.items()), "checkpoint.keep_weights=true", "seed=77"
    )
    (weights,) = (home / "store" / "runs").glob("*/*/weights.pt")
    before = [ask("spectra", word) for word in (weights.parent.name, weights.parent)]
    ask("runs", "pack")
    assert [path.name for path in (home / "store" / "runs").glob("*/*/*")] == ["weights.pt"]
    assert [ask("spectra", word) for word in (weights.parent.name, weights.parent)] == before


def test_studies_are_made_again_from_a_packed_store(ask, home):
    root = home / "store"
    (study,) = slots.studies(load(home / "tiny.yaml"))

    def trials():
        trial.reconcile(Store(root), "tiny", study.name, rebuild=True)
        found = Connection(root, study).trials()
        return [(one.number, one.state, one.value, one.params, one.intermediate_values) for one in found]

    def grids():
        return [
            [
                (one.state, one.value, one.params, one.intermediate_values, one.user_attrs)
                for one in own.trials
            ]
            for own in map(opened, sorted((root / "studies").glob("grid*.journal")))
        ]

    ask("sweep", "index", home / "grid.yaml")
    before = trials(), grids()
    assert len(before[0]) == 4 and len(before[1]) == 2 * 2, (
        "two objectives, and the replicas of their winners"
    )
    pack(ask, home)
    shutil.rmtree(root / "studies")
    (root / "index.jsonl").unlink()
    ask("sweep", "index", home / "tiny.yaml", home / "grid.yaml")
    assert (trials(), grids()) == before


def test_gc_and_doctor_find_nothing_wrong(ask, home):
    before = ask("runs", "gc", "--orphans", "--pruned", "--dry-run")
    pack(ask, home)
    assert ask("runs", "gc", "--orphans", "--pruned") == before.replace("would go", "removed")
    found = examined(home)
    assert [one.level for one in found] == ["ok", "ok"], found
    assert found[0].finding == "13 runs (13 in archives), 13 records, 2 sweeps"


def test_doctor_names_a_damaged_archive(ask, home, capsys):
    pack(ask, home)
    (path,) = (home / "store" / "packed").glob("0001-*.zip")
    data = path.read_bytes()
    offset, stored, *_ = next(iter(archive.read(path).runs.values()))["log.txt"]
    for damaged in (data[:offset] + bytes(stored) + data[offset + stored :], data[:-50]):
        path.write_bytes(damaged)
        found = [one for one in examined(home) if one.level == "problem"]
        assert [one.finding for one in found] == [f"damaged archive files: packed/{path.name}"], found
        assert "htbench runs unpack --all" in found[0].advice
    assert cli.main(["table", "--root", str(home / "store")]) == EXIT_USAGE
    assert capsys.readouterr().err.count("\n") == 1
    assert "brought back 13 runs from the damaged archive" in ask("runs", "unpack", "--all")
    assert all(one.level == "ok" for one in examined(home))


def test_doctor_says_how_to_train_a_packed_run_again(ask, home):
    key = Store(home / "store").keys()[0]
    path = home / "store" / "runs" / key[:2] / key / "record.json"
    text = path.read_text()
    path.write_text(text.replace('"steps": 8', '"steps": 9'))
    pack(ask, home)
    (found,) = [one for one in examined(home) if one.subject == "records"]
    assert found.advice.startswith(f"`htbench runs unpack {key}`, then delete ")


def test_a_packed_store_is_imported(ask, home, capsys):
    before = ask("table")
    pack(ask, home)
    other = home / "other"
    assert cli.main(["runs", "import", str(home / "store"), "--root", str(other)]) == 0
    assert "imported 13 runs (13 completed)" in capsys.readouterr().out
    assert cli.main(["table", "--root", str(other)]) == 0
    assert capsys.readouterr().out == before
    assert cli.main(["runs", "import", str(other), "--root", str(home / "store")]) == 0
    assert "imported 0 runs; 13 are here already" in capsys.readouterr().out
    assert cli.main(["runs", "import", str(home / "store"), "--root", str(other)]) == 0
    assert "13 are here already" in capsys.readouterr().out


def test_a_packed_store_is_exported(ask, home):
    pytest.importorskip("tensorboard")
    pack(ask, home)
    assert "exported 13 runs" in ask("runs", "export", "--to", "tensorboard")


# --- words ---


@pytest.fixture
def runs(tmp_path, capsys):
    """Run `htbench runs WORDS` on an own store; status, output and error."""

    def run(*words):
        status = cli.main(["runs", *words, "--root", str(tmp_path)])
        return status, *capsys.readouterr()

    return run


def test_what_it_says(runs, tmp_path):
    keys = [put(tmp_path, lr=lr / 10) for lr in (1, 2, 3)]
    put(tmp_path, "pruned", lr=0.4), leave(tmp_path, lr=0.5)
    left = "2 stay in their folders (1 pruned, 1 unfinished)"
    before = sorted((tmp_path / "runs").rglob("*"))
    assert runs("pack", "--dry-run")[:2] == (0, f"would pack 3 runs into 1 archive; {left}\n")
    assert sorted((tmp_path / "runs").rglob("*")) == before and not (tmp_path / "packed").exists()
    assert runs("pack") == (0, f"packed 3 runs into 1 archive; {left}\n", "[1/1] packed/0001\n")
    assert runs("pack")[1] == f"packed 0 runs; {left}\n"
    key = put(tmp_path, lr=0.6)
    assert runs("pack")[1] == f"packed 1 run into 1 archive, with 3 that were packed before; {left}\n"
    (path,) = (tmp_path / "packed").glob("0002-*.zip")
    parts = f"[1/2] packed/{path.name}\n[2/2] packed/0003\n"  # the second one has those that stay
    assert runs("unpack", keys[0][:6], keys[1]) == (0, "unpacked 2 runs\n", parts)
    assert runs("unpack", "--all")[1] == "unpacked 2 runs\n"
    assert runs("unpack", "--all")[1] == "unpacked 0 runs: none is packed\n"
    assert (tmp_path / "runs" / key[:2] / key / "record.json").exists()


def test_only_the_runs_of_some_sweeps(ask, home):
    assert ask("runs", "pack", "--sweep", "tiny").startswith("packed 5 runs into 1 archive")
    assert ask("runs", "pack", "--older-than", "1").endswith("stay in their folders (8 too young)\n")
    assert ask("runs", "pack", "tiny", "--sweep", "grid").startswith("packed 8 runs")


@pytest.mark.parametrize(
    "words, said",
    [
        (["pack", "--older-than", "-1"], "--older-than takes a number of days from 0, not -1."),
        (["pack", "--sweep", "no"], "Unknown sweep 'no' in the store '"),
        (["unpack"], "Say which runs: their keys, or --all."),
        (["unpack", "ab", "--all"], "Say which runs: their keys, or --all."),
        (["unpack", "zz"], "has the key 'zz'"),
        (["unpack", "HERE"], "is not packed; its files are in"),
    ],
)
def test_wrong_words_are_told(runs, tmp_path, words, said):
    put(tmp_path, lr=0.1)
    assert runs("pack")[0] == 0
    here = put(tmp_path, lr=0.2)
    status, _, error = runs(*(here if word == "HERE" else word for word in words))
    assert status == EXIT_USAGE and said in error


def test_a_key_that_no_run_has_is_told_where_nothing_is_packed(runs, tmp_path):
    put(tmp_path, lr=0.1)
    status, _, error = runs("unpack", "zz")
    assert status == EXIT_USAGE and "has the key 'zz'" in error


def test_an_empty_store_has_nothing_to_pack(tmp_path, capsys):
    assert cli.main(["runs", "pack", "--root", str(tmp_path / "none")]) == EXIT_USAGE
    assert "There are no runs in" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
