"""`htbench doctor` on good, odd and damaged machines: it says what is wrong, mends nothing, never breaks."""

import dataclasses
import errno
import fcntl
import json
import os
import shutil
import tempfile
from pathlib import Path

import psutil
import pytest

from htbench.harness import tasks
from htbench.harness.cli import main
from htbench.harness.commands import doctor
from htbench.harness.config.key import run_key
from htbench.harness.config.settings import resolve_config
from htbench.harness.errors import UsageError
from htbench.harness.store import Store, layout
from htbench.harness.store.check import Survey
from htbench.harness.store.record import RunRecord
from htbench.harness.system import checks, machine, place
from htbench.harness.system.finding import Finding, examine, report
from tests.helpers.json_fields import promised
from tests.helpers.waiting import wait_for

STORE = {"root", "locks", "links", "store", "records", "data"}


def look(root, subject=None):
    """What it found, about one subject if one is named; in words, as it is shown."""
    checks = [CHECK_OF[subject]] if subject in CHECK_OF else doctor.CHECKS
    found = [one for one in examine(Path(root), checks) if subject in (None, one.subject)]
    return [Finding(one.level, one.subject, str(one.finding), str(one.advice)) for one in found]


CHECK_OF = {
    **dict.fromkeys(("root", "disk", "locks", "links"), place.root),
    "slurm": checks._slurm,
    **dict.fromkeys(("gpus", "torch"), checks._torch),
    "memory": checks._cores,
    "store": doctor._store,
    "data": doctor._data,
}


def the(findings, words):
    """The one finding with these words."""
    (found,) = [one for one in findings if words in one.finding]
    return found


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A folder first on the PATH; `programs(name, script)` puts a program into it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def add(name, script):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return add


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store with one planned sweep and one finished run of it, nothing trained."""
    root = tmp_path_factory.mktemp("made") / "store"
    assert main(["sweep", "index", "demo-digits", "--root", str(root)]) == 0
    point = json.loads((root / "sweeps/demo-digits/points.jsonl").read_text().splitlines()[0])
    config = resolve_config(point["overrides"])
    record = RunRecord(
        key=run_key(config),
        config=dataclasses.asdict(config),
        status="completed",
        metrics={"val_loss": 0.1, "val_accuracy": 0.9},
        steps=100,
        useful_seconds=1.0,
        seconds_per_step=0.01,
        peak_memory=1,
        cost={},
        attempts=1,
        environment={},
    )
    store = Store(root)
    attempt = store.claim(record.key, "")
    curve = [{"step": 100, "loss": 0.1, "lr": 0.0}, {"step": 100, **record.metrics}]
    (attempt.files.path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in curve))
    attempt.finish(record)
    assert main(["sweep", "index", "demo-digits", "--root", str(root)]) == 0
    return root, record


@pytest.fixture
def store(made, tmp_path):
    """A copy of it, ours to damage."""
    root, record = made
    return Store(shutil.copytree(root, tmp_path / "store")), record


# --- the root ---


def test_a_fresh_root_is_fine_and_stays_as_it_is(tmp_path, capsys):
    root = tmp_path / "not" / "there" / "yet"
    status = main(["doctor", "--json", "--root", str(root)])
    report = json.loads(capsys.readouterr().out)
    promised("doctor", report)
    assert {one["subject"] for one in report} >= {
        "python",
        "code",
        "cores",
        "memory",
        "torch",
        "gpus",
        "slurm",
    }
    assert {one["level"] for one in report if one["subject"] in STORE} == {"ok"}
    assert status == any(one["level"] == "problem" for one in report)
    assert list(tmp_path.iterdir()) == []


def test_a_read_only_root_is_a_problem(capsys):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "store"
        (root / "runs").mkdir(parents=True)
        for place in (root / "runs", root):
            place.chmod(0o555)
        Path(folder).chmod(0o755)
        superuser = os.geteuid() == 0  # whom permissions do not stop
        if superuser:
            os.seteuid(65534)
        try:
            status = main(["doctor", "--json", "--root", str(root)])
        finally:
            if superuser:
                os.seteuid(0)
            root.chmod(0o755)
        report = [Finding(**one) for one in json.loads(capsys.readouterr().out)]
    assert status == 1
    found = the(report, "is not writable")
    assert (found.level, found.subject) == ("problem", "root")
    assert "--root" in found.advice
    assert the(report, "nothing stored yet").level == "ok"


def test_a_file_in_the_place_of_the_root(tmp_path):
    (tmp_path / "file").touch()
    assert the(look(tmp_path / "file" / "store", "root"), "is not writable").level == "problem"


@pytest.mark.parametrize(
    ("number", "words"), [(errno.ENOLCK, "flock fails: No locks"), (None, "flock lets two processes in")]
)
def test_locks_that_do_not_work(tmp_path, monkeypatch, number, words):
    def flock(file, operation):
        if number is not None:
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    found = look(tmp_path, "locks")
    assert the(found, words).level == "problem"
    assert report(found, "here").title == "runs can't start here; wrong: locks"


def test_locks_of_a_file_system_that_wants_to_write_what_it_locks(tmp_path, monkeypatch):
    """As NFS does, which makes byte-range locks of them."""
    proper = fcntl.flock

    def flock(file, operation):
        if fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        proper(file, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    assert the(look(tmp_path, "locks"), "flock works").level == "ok"


@pytest.mark.parametrize(("options", "level"), [("rw,localflock", "note"), ("rw,flock", "ok")])
def test_locks_that_other_machines_do_not_see(tmp_path, monkeypatch, options, level):
    mounted = type("mounted", (), {"mountpoint": "/", "fstype": "lustre", "opts": options})
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: [mounted])
    assert the(look(tmp_path, "locks"), "flock works").level == level


def test_hard_links_that_do_not_work(tmp_path, monkeypatch):
    def link(source, target):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", link)
    assert the(look(tmp_path, "links"), "hard links fail: Operation not permitted").level == "problem"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("free", "level"), [(2**20, "problem"), (2**30, "note"), (2**40, "ok")])
def test_room_on_the_disk(tmp_path, monkeypatch, free, level):
    monkeypatch.setattr(shutil, "disk_usage", lambda place: type("usage", (), {"free": free}))
    assert [one.level for one in look(tmp_path, "disk")] == [level]


# --- the machine ---


def test_a_controller_that_hangs_is_not_waited_for(tmp_path, monkeypatch, programs):
    child = tmp_path / "child"
    hang = f"/bin/sleep 300 & echo $! > {child}.new; /bin/mv {child}.new {child}; wait"
    for name in ("sinfo", "sbatch", "squeue"):
        programs(name, hang if name == "sinfo" else "exit 0")
    monkeypatch.setattr(machine, "PATIENCE", 1.0)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    found = look(tmp_path, "slurm")
    assert the(found, "the controller does not answer: no answer within 1 s").level == "problem"
    assert the(found, "not inside an allocation").level == "note"
    assert report(found, "here").title == "runs can start here; wrong: slurm; to mind: slurm"
    pid = int(child.read_text())
    wait_for(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def test_a_cluster_that_works(tmp_path, monkeypatch, programs):
    for name, script in {"sinfo": "echo debug*; echo long", "sbatch": "", "squeue": ""}.items():
        programs(name, script)
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    assert [(one.level, one.finding) for one in look(tmp_path, "slurm")] == [
        ("ok", "the controller answers; partitions: debug* long")
    ]


def test_a_driver_that_fails(tmp_path, monkeypatch, programs):
    programs("nvidia-smi", "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert the(look(tmp_path, "gpus"), "Driver/library version mismatch").level == "problem"


@pytest.mark.parametrize("name", machine.GPU_VARIABLES)
def test_gpus_that_a_variable_hides_or_names(tmp_path, monkeypatch, programs, name):
    programs("nvidia-smi", "echo 'NVIDIA H200, 550.54'")
    for other in machine.GPU_VARIABLES:
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, "-1")
    assert [one.finding for one in look(tmp_path, "gpus")] == [f"none ({name} hides them)"]
    monkeypatch.setenv(name, "3")
    assert [one.finding for one in look(tmp_path, "gpus")] == [f"NVIDIA H200, 550.54; {name}=3"]


def test_a_gpu_that_torch_cannot_use(tmp_path, monkeypatch, programs):
    import torch

    programs("nvidia-smi", "echo 'NVIDIA H200, 550.54'")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", None)
    assert [one.finding for one in look(tmp_path, "gpus")] == ["NVIDIA H200, 550.54"]
    assert [one.level for one in look(tmp_path, "torch")] == ["note"]
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert the(look(tmp_path, "torch"), "can't reach the GPU").level == "problem"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert [one.level for one in look(tmp_path, "torch")] == ["ok"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert [one.level for one in look(tmp_path, "torch")] == ["ok"], "as on a login node"


def test_the_memory_of_a_container(tmp_path, monkeypatch):
    monkeypatch.setattr("htbench.harness.system.checks.cgroup_limits", lambda name: [[str(2**28)]])
    (found,) = look(tmp_path, "memory")
    assert (found.level, str(found.finding).partition(" of ")[2]) == ("ok", "0.2 GiB free")


def test_cores_of_a_container(monkeypatch):
    monkeypatch.setattr(machine, "cgroup_limits", lambda name: [["50000", "100000"], ["800000", "100000"]])
    assert machine.usable_cores() == 0.5


def test_data_that_is_missing(tmp_path, monkeypatch):
    def fingerprint(name):
        raise UsageError(f"task {name} has no data")

    monkeypatch.setattr(tasks, "fingerprint", fingerprint)
    assert the(look(tmp_path, "data"), "task digits has no data").level == "problem"


def test_a_check_that_breaks_is_a_finding(tmp_path, monkeypatch):
    def _luck(root):
        raise RuntimeError("out of it")
        yield

    monkeypatch.setattr(doctor, "CHECKS", (_luck,))
    (found,) = look(tmp_path)
    assert found == Finding("problem", "luck", "could not be looked at: RuntimeError: out of it")


# --- the store ---


def test_a_sound_store(store):
    found = look(store[0].root)
    assert {one.level for one in found if one.subject in STORE} == {"ok"}
    assert the(found, "1 run, 1 record, 1 sweep").subject == "store"


def test_garbage_is_named_left_alone_and_mended_by_the_command_that_is_named(store, capsys):
    kept, record = store
    folder = kept.run_folder(record.key)
    damaged = {
        "record": folder / "record.json",
        "attempt": folder / "attempts" / "1.json",
        "points": kept.root / "sweeps" / "demo-digits" / "points.jsonl",
        "study": kept.root / "studies" / "demo-digits.muon.journal",
        "submissions": kept.root / "sweeps" / "demo-digits" / "submissions.jsonl",
    }
    damaged["submissions"].write_text('{"word": "w", "points": ["p"]}\n')
    sound = {kind: path.read_bytes() for kind, path in damaged.items()}
    for path in damaged.values():
        path.write_bytes(path.read_bytes()[:-20])
    before = contents(kept.root)

    found = look(kept.root, "store")
    for kind, path in damaged.items():
        one = the(found, f"damaged {kind} files: {path.relative_to(kept.root)}")
        assert one.level == ("note" if kind in ("attempt", "submissions") else "problem")
    assert contents(kept.root) == before
    assert main(["doctor", "--root", str(kept.root)]) == 1

    command = f"htbench sweep run demo-digits --root {kept.root}"
    assert the(found, "damaged record").advice == f"`{command}` trains these runs again"
    damaged["record"].write_bytes(sound["record"])
    command = the(found, "damaged points").advice.split("`")[1]
    assert command == f"htbench sweep index demo-digits --root {kept.root}"
    assert main(command.split()[1:]) == 0
    assert {one.level for one in look(kept.root) if one.subject in STORE} == {"ok", "note"}
    assert {kind for kind, path in damaged.items() if path.read_bytes() != sound[kind]} <= {
        "attempt",
        "study",
        "submissions",
    }
    capsys.readouterr()


def test_a_store_of_garbage_alone(tmp_path):
    layout.begin(tmp_path)
    for name in ("runs/aa/aaaaaaaaaaaa/record.json", "runs/aa/aaaaaaaaaaaa/attempts/x.json", "runs/file",
                 "sweeps/s/points.jsonl", "sweeps/s/slots/s.muon/0.json", "studies/s.journal",
                 "index.jsonl", "cache/c"):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\x00\xff{[")
    found = {one.finding: one.level for one in look(tmp_path, "store")}
    assert found == {
        "1 run, 0 records, 1 sweep": "ok",
        "damaged points files: sweeps/s/points.jsonl": "problem",
        "damaged slot files: sweeps/s/slots/s.muon/0.json": "problem",
        "damaged study files: studies/s.journal": "problem",
        "damaged record files: runs/aa/aaaaaaaaaaaa/record.json": "problem",
        "damaged attempt files: runs/aa/aaaaaaaaaaaa/attempts/x.json": "note",
    }


def test_a_store_too_large_to_be_looked_through(store):
    found = Survey(store[0].root, seconds=-1.0)
    assert not found.complete
    assert (found.runs, found.records) == (1, 0)


def test_unreadable_folders_do_not_break_it(store, monkeypatch):
    def refuse(path, *_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr("htbench.harness.store.check.atomic.read_json", refuse)
    assert the(look(store[0].root, "store"), "PermissionError").level == "problem"
