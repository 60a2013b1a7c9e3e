"""`htbench doctor --sbatch`: what a job finds on its node, how it is waited for, and that nothing is left."""

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness import tasks
from harness.cli import main
from harness.errors import EXIT_INTERRUPTED, EXIT_RUN_FAILED, EXIT_USAGE, UsageError
from harness.store import Store
from harness.store.submissions import WORD, word_of
from harness.system import slurm
from harness.system.finding import Finding, guarded
from sweeps.cluster import job_array, probe, probed, reap, snapshot
from sweeps.cluster.probe import Probe
from sweeps.plan.planned import search_points
from sweeps.spec import sweep_file as specs
from sweeps.spec.resources import Resources
from tests.helpers.fake_slurm import FakeSlurm
from tests.helpers.json_fields import promised
from tests.helpers.waiting import wait_for

SPEC = """
name: tiny
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16}
blocks:
  - {name: sgdm, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.03, 0.1]}}
  - {name: adamw, set: {optimizer.name: adamw}, space: {optimizer.lr: [0.03, 0.1]}}
resources: {timeout_min: 30}
"""
HOST = socket.gethostname()


TAKE = probe.snapshot.take


@pytest.fixture(scope="module")
def taken(tmp_path_factory):
    """All of git's files take a second."""
    return TAKE(tmp_path_factory.mktemp("taken") / "store")


@pytest.fixture
def cluster(tmp_path, monkeypatch, taken):
    monkeypatch.setattr("sweeps.cluster.probe.SEEN_SECONDS", 0.5)
    monkeypatch.setattr(probe.snapshot, "take", lambda root, configs: taken)
    return FakeSlurm(tmp_path / "slurm", monkeypatch)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "store"


def look(capsys, root, *words):
    """The exit status, the findings, and what was printed beside them."""
    status = main(["doctor", "--json", "--root", str(root), "--sbatch", *map(str, words)])
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    promised("doctor", report)
    return status, [Finding(**one) for one in report], printed.err


def is_tidy(root):
    return not [path for path in root.iterdir() if path.name not in (".submit.lock", "code")]


# --- jobs ---


@pytest.mark.slow
def test_all_is_well(cluster, root, write_spec, capsys, monkeypatch):
    monkeypatch.setattr(probe.snapshot, "take", TAKE)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    cluster.with_node()
    status, found, aside = look(capsys, root, write_spec(SPEC))
    subjects = {one.subject for one in found}
    assert subjects == {"job", *probed.CHECKS, "disk", "root", "locks", "links", "memory"}
    wrong = [one for one in found if one.level == "problem"]
    assert (status, wrong) == (0, []) and {one.level for one in found} <= {"ok", "note"}
    told = {one.subject: str(one.finding) for one in found}
    assert told["job"] == "8 on node n1: tiny: sgdm, adamw"
    assert told["code"].endswith(", the snapshot that was submitted")
    assert sys.executable in told["python"] and told["data"] == f"digits: the same as on {HOST}"
    assert told["slurm"] == "scontrol and squeue answer"
    assert aside.startswith("htbench: job 8 looks at what jobs would see: tiny: sgdm, adamw\n")
    assert is_tidy(root) and not cluster.called("scancel")


@pytest.mark.parametrize(
    ("resources", "error", "advice"),
    [
        (
            "setup: ['echo there is no module cuda', 'exit 3']",
            r"setup line 2 exited with 3: exit 3 \(there is no module cuda\)",
            "`setup`",
        ),
        ("python: /no/such/python", "exec: /no/such/python: not found", "`python` must name an interpreter"),
        (
            "container: /no/torch.sif",
            "apptainer: not found|not open image /no/",
            "nodes need apptainer",
        ),
    ],
    ids=["setup", "python", "container"],
)
def test_a_job_that_dies_early_tells_why(cluster, root, write_spec, capsys, resources, error, advice):
    cluster.with_node()
    status, (found,), aside = look(capsys, root, write_spec(SPEC.replace("timeout_min: 30", resources)))
    assert (status, found.level, found.subject) == (EXIT_RUN_FAILED, "problem", "job")
    assert str(found.finding).startswith("job 8 on node n1 (tiny: sgdm, adamw) ended early: ")
    assert re.search(error, str(found.finding)) and advice in str(found.advice)
    assert "htbench: the end of the log of job 8:\n  htbench: job 8 on node n1 starts at" in aside
    assert is_tidy(root)


def test_a_job_whose_store_is_another_folder_is_told(cluster, root, write_spec, capsys):
    cluster.with_node()
    (cluster.place / "node" / "bash").write_text("#!/bin/sh\nrm $HTBENCH_FAKE_LOG\n")  # it writes elsewhere
    (cluster.place / "node" / "bash").chmod(0o755)
    status, (found,), _ = look(capsys, root, write_spec(SPEC))
    assert status == EXIT_RUN_FAILED
    assert str(found.finding) == "job 8 (tiny: sgdm, adamw) ended, and nothing that it wrote can be seen here"
    assert f"not '{root}' of each" in str(found.advice) and "scontrol show job 8" in str(found.advice)


def test_a_job_that_dies_in_a_check_tells_in_which(cluster, root, write_spec, capsys, monkeypatch):
    lines = [
        "import os; from sweeps.cluster import probed",
        "probed.CHECKS = {'clock': probed._clock, 'torch': lambda seen: os._exit(9)}",
        "import pathlib, sys; probed.main(pathlib.Path(sys.argv[1]), sys.argv[2])",
    ]
    (root.parent / "dies.py").write_text("\n".join(lines))
    cluster.with_node(f'for word; do folder=$before; before=$word; done\n{sys.executable} '
                      f'{root.parent}/dies.py "$folder" "$word"')  # fmt: skip
    status, found, _ = look(capsys, root, write_spec(SPEC))
    assert status == EXIT_RUN_FAILED
    assert [(one.level, one.subject) for one in found] == [("ok", "job"), ("ok", "clock"), ("problem", "job")]
    assert "ended early while it looked at torch" in str(found[2].finding)


def test_a_job_that_waits_too_long_is_cancelled(cluster, root, write_spec, capsys):
    status, (found,), _ = look(capsys, root, write_spec(SPEC), "--patience", 2)
    assert status == EXIT_RUN_FAILED and found.level == "problem"
    assert str(found.finding) == "job 8 (tiny: sgdm, adamw) still waits (Priority) after 2 s; it is cancelled"
    assert cluster.jobs() == {} and is_tidy(root)


def test_blocks_that_ask_for_the_same_share_a_job(cluster, root, write_spec, capsys):
    text = SPEC.replace("sgdm}, space", "sgdm}, resources: {mem: 1G, timeout_min: 9}, space")
    more = "  - {name: muon, set: {optimizer.name: muon}, space: {optimizer.lr: [0.1]}}\nresources"
    status, found, aside = look(
        capsys, root, write_spec(text.replace("resources: {timeout_min: 30", f"{more}: {{timeout_min: 30")),
        *("--patience", 1),
    )  # fmt: skip
    assert len(found) == 2 and len(cluster.called("sbatch")) == 2
    assert "job 8 looks at what jobs would see: tiny: sgdm (mem=1G)\n" in aside
    assert "job 9 looks at what jobs would see: tiny: adamw, muon\n" in aside


def test_a_refusal_is_a_finding_and_leaves_nothing(cluster, root, write_spec, capsys):
    (cluster.place / "refuse").write_text("sbatch: error: Invalid account")
    status, (found,), _ = look(capsys, root, write_spec(SPEC))
    assert (status, found.level) == (EXIT_RUN_FAILED, "problem")
    assert str(found.finding) == "tiny: sgdm, adamw: SLURM does not take it: Invalid account" and is_tidy(
        root
    )


def test_ctrl_c_cancels_the_job(cluster, htbench, write_spec):
    htbench.fresh = True
    process = htbench.start("doctor", "--sbatch", write_spec(SPEC))
    wait_for(cluster.jobs)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (EXIT_INTERRUPTED, ""), err
    assert cluster.jobs() == {} and is_tidy(htbench.root)


def test_what_a_killed_submitter_left_is_cleared_and_what_another_holds_is_not(
    cluster, root, write_spec, capsys
):
    dead, live = (root / f".{probe.NAME}-{word}.tmp" for word in ("dead", "live"))
    for folder in (dead, live):
        folder.mkdir(parents=True)
    cluster._write({str(n): ["PENDING", folder.name[1:-4]] for n, folder in ((1, dead), (2, live))})
    with open(live / probed.HELD, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        look(capsys, root, write_spec(SPEC), "--patience", 0.1)
    assert not dead.exists() and live.exists() and list(cluster.jobs()) == ["2"]


def test_its_job_is_none_of_the_sweep(cluster, root, write_spec, monkeypatch):
    spec = specs.load(write_spec(SPEC))
    planned = search_points(spec)
    name = f"{probe.NAME}-0123abcd"
    assert not re.fullmatch(WORD, word_of(name))
    assert main(["sweep", "submit", str(write_spec(SPEC)), "--root", str(root)]) == 0
    cluster._write(cluster._read() | {"99": ["PENDING", name]})
    reap.reap(Store(root), spec, planned)
    assert main(["sweep", "cancel", str(write_spec(SPEC)), "--root", str(root)]) == 0
    assert list(cluster.jobs()) == ["99"]
    wants, code = Resources(timeout_min=3, signal_delay_s=1), snapshot.Snapshot(root, "")
    text = job_array.script(root, code, name, root, wants, 1, requeue=False)
    assert "#SBATCH --no-requeue" in text and "--array" not in text and "#SBATCH --requeue" not in text
    assert "#SBATCH --time=3" in text and f"#SBATCH --job-name={name}" in text


# --- the command ---


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--sbatch", "steps=3"], "'steps=3' is a setting of a sweep; name the sweep file, too."),
        (["--sbatch", "--patience", "0"], "--patience must be above 0 seconds, not 0."),
        (["--patience", "9"], "--patience is for the job of --sbatch."),
        (["--sbatch", "--data"], "--data is about this machine; leave it out with --sbatch."),
        (["--sbatch", "no-such.yaml"], "no-such.yaml"),
    ],
)
def test_mistakes_are_told_in_a_sentence(cluster, root, capsys, words, sentence):
    assert main(["doctor", "--root", str(root), *words]) == EXIT_USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert sentence in line and not root.exists()


def test_without_sbatch_there_is_one_sentence(root, capsys, monkeypatch):
    monkeypatch.setenv("PATH", "/no/such/folder")
    assert main(["doctor", "--sbatch", "--root", str(root)]) == EXIT_USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert "There is no 'sbatch' on the PATH" in line and not root.exists()


def test_without_a_file_the_job_has_default_resources_and_all_data_that_is_here(monkeypatch):
    (one,), configs = probe._probes(Path(), [])
    assert one.resources == replace(Resources(), timeout_min=probe.MINUTES, signal_delay_s=1)
    assert {"digits", "pydocs"} <= one.data.keys() and configs == [] and str(one) == "default resources"


# --- checks on the node ---


@pytest.fixture
def seen(tmp_path):
    """A folder as the submitter leaves it, and what it asks for."""
    folder = tmp_path / "store" / ".htbench-doctor-1.tmp" / "job-1"
    folder.mkdir(parents=True)
    home = probed.environment.HOME
    return folder, probed.Asked("w", str(tmp_path / "store"), str(home), "login", 0.0, 1, False, False, {})


def check(name, seen, **more):
    return guarded((seen[0], replace(seen[1], **more)), probed.CHECKS[name])


def test_other_data_and_data_that_cannot_be_read(seen, monkeypatch):
    def fingerprint(name):
        if name == "gone":
            raise UsageError("task gone has no data")
        return "abc"

    monkeypatch.setattr(tasks, "fingerprint", fingerprint)
    other, gone, same = check("data", seen, data={"digits": "abd", "gone": "x", "pydocs": "abc"})
    assert str(other.finding) == "digits: fingerprint abc, but abd on login" and other.level == "problem"
    assert (gone.level, str(gone.finding)) == ("problem", "task gone has no data")
    assert (same.level, str(same.finding)) == ("ok", "pydocs: the same as on login")


def test_a_lock_of_the_submitter_keeps_the_job_out_or_does_not(seen):
    def locks():
        return [one for one in check("store", seen) if "login" in str(one.finding) and one.subject == "locks"]

    with open(seen[0].parent / probed.HELD, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        (held,) = locks()
    (free,) = locks()
    assert held.level == "ok" and "a lock that login holds keeps" in str(held.finding)
    assert free.level == "problem" and "works on one machine only" in str(free.finding)


def test_other_code_than_the_snapshot(seen, monkeypatch):
    (found,) = check("code", seen, code="/other")
    assert found.level == "problem" and "instead of the snapshot /other" in str(found.finding)
    (found,) = check("code", seen)
    assert found.level == "problem" and "but the snapshot is" in str(found.finding)
    monkeypatch.setattr(probed.environment, "code_version", lambda: Path(seen[1].code).name)
    assert [one.level for one in check("code", seen)] == ["ok"]


@pytest.mark.parametrize(
    ("node", "login", "level", "words"),
    [
        (0, 0, "ok", "within 0.1 s of the store's, within 0.1 s of login's"),
        (100, 0, "note", "+100 s against the store's, +100 s against login's"),
        (0, 50, "note", "within 0.1 s of the store's, -50 s against login's"),
        (-4000, 0, "problem", "-4000 s against the store's"),
    ],
)
def test_clocks(seen, monkeypatch, node, login, level, words):
    proper = time.time
    monkeypatch.setattr(probed.time, "time", lambda: proper() + node)
    (found,) = check("clock", seen, ahead=float(login))
    assert found.level == level and re.sub(r"(\d)\.\d s of", "0.1 s of", str(found.finding)).startswith(words)


@pytest.mark.parametrize(
    ("promised", "names", "more", "level", "words"),
    [
        (0, [], {}, "ok", "none, none asked for"),
        (0, ["A"], {}, "note", "none asked for, but 1 A can be used"),
        (2, ["A"], {}, "problem", "shows torch 1 of 2 GPUs that were asked for, though SLURM gave the job 2"),
        (2, ["A"], {"processes": 2}, "ok", "1 A: a product on each is right"),
        (2, ["A", "B"], {}, "ok", "1 A and 1 B: a product on each is right"),
        (1, ["A", "A"], {}, "note", "2 A: a product on each is right, 1 asked for"),
        (2, [], {"on_cpu": True}, "ok", "2 asked for, and runs have `device: cpu`"),
    ],
)
def test_gpus_against_what_was_asked_for(seen, monkeypatch, promised, names, more, level, words):
    monkeypatch.setenv(slurm.GPUS_VARIABLE, str(promised))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setattr(probed, "_names", lambda: names)
    monkeypatch.setattr(probed, "_multiplied", lambda number: "")
    (found,) = check("gpus", seen, **more)
    assert found.level == level and words in str(found.finding)


def test_a_gpu_that_cannot_multiply(seen, monkeypatch):
    monkeypatch.setenv(slurm.GPUS_VARIABLE, "1")
    monkeypatch.setattr(probed, "_names", lambda: ["A"])
    monkeypatch.setattr(probed, "_multiplied", lambda number: "can't multiply: ECC error")
    (found,) = check("gpus", seen)
    assert (found.level, str(found.finding)) == ("problem", "1 A; GPU 0 can't multiply: ECC error")


def test_cores_and_memory_against_what_was_granted(seen, monkeypatch):
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "4")
    monkeypatch.setenv("SLURM_MEM_PER_NODE", str(4 * 2**10))
    monkeypatch.setattr(probed, "usable_cores", lambda: 2)
    monkeypatch.setattr(probed.machine, "free_memory", lambda: (2**30, 2 * 2**30))
    cores, memory = check("cores", seen)
    assert (cores.level, str(cores.finding)) == ("problem", "2 usable, 4 asked for")
    assert (memory.level, str(memory.finding)) == ("problem", "1.0 of 2.0 GiB free; 4.0 GiB granted")


@pytest.mark.parametrize(("contained", "level"), [(False, "note"), (True, "ok")])
def test_a_node_without_the_commands_of_slurm(seen, monkeypatch, contained, level):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    (found,) = check("slurm", seen, contained=contained)
    assert found.level == level and "no scontrol and no squeue here" in str(found.finding)


def test_a_package_that_jobs_lack(seen, monkeypatch):
    monkeypatch.setattr(probed, "IMPORTS", ("json", "no_such_package"))
    (found,) = check("imports", seen)
    assert found.level == "problem" and "No module named 'no_such_package'" in str(found.finding)


def test_a_folder_that_the_submitter_did_not_write_ends_the_job(tmp_path):
    with pytest.raises(SystemExit, match="is not what the submitter wrote"):
        probed.main(tmp_path, "w")


def test_a_process_that_is_not_the_first_of_its_node_does_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_LOCALID", "1")
    probed.main(tmp_path, "w")
    assert os.listdir(tmp_path) == []


def test_each_node_of_a_job_must_report(tmp_path):
    two = Probe(Resources(nodes=2), folder=tmp_path)
    probed._write(tmp_path, [], "")
    assert not two.is_done()
    (tmp_path / "node-1.json").write_text('{"node": "n2", "at": "torch", "findings": []}')
    assert not two.is_done()
    (tmp_path / "node-1.json").write_text('{"node": "n2", "at": "", "findings": []}')
    assert two.is_done()
