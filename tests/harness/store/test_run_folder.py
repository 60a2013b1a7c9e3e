"""The files of a run and the folders of a store have these names."""

from pathlib import Path

from htbench.harness.store import Store, layout
from htbench.harness.store.run_folder import RunFolder

KEY = "0123456789ab"


def test_the_names_on_disk():
    folder = RunFolder(Path("run"))
    named = [folder.config, folder.metrics, folder.log, folder.checkpoint, folder.weights, folder.record]
    names = "config.yaml metrics.jsonl log.txt checkpoint.pt weights.pt record.json".split()
    assert named == [Path("run", name) for name in names]
    assert folder.spectra == Path("run/spectra.jsonl")
    assert folder.attempt(3) == Path("run/attempts/3.json")
    assert Store("root").files(KEY).path == Path(f"root/runs/01/{KEY}") == Store("root").run_folder(KEY)


def test_the_highest_attempt_counts(tmp_path):
    folder = RunFolder(tmp_path)
    assert folder.last_attempt() == 0 and folder.read_attempt(0) == {}
    folder.attempts.mkdir()
    for name in ("2.json", "10.json", ".11.json.5-ab.tmp", "notes.txt"):
        (folder.attempts / name).write_text("{}" if name == "2.json" else "{")
    assert folder.last_attempt() == 10
    assert folder.read_attempt(2) == {} == folder.read_attempt(10), "damaged"


def test_the_keys_of_all_runs(tmp_path):
    layout.begin(tmp_path)
    first, second = "aa" + "1" * 10, "bb" + "2" * 10
    for name in (f"bb/{second}", f"aa/{first}", f"aa/.{first}.1-x.tmp", f"bb/{first}", "aa/aa1", "mine/mine"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    (tmp_path / "runs" / "README").touch()
    (tmp_path / "runs" / "aa" / f"{first[:-1]}0").touch()
    (tmp_path / "runs" / "aa" / f"{first[:-1]}9").symlink_to(tmp_path / "runs" / "aa" / first)
    assert Store(tmp_path).keys() == [first, second]
