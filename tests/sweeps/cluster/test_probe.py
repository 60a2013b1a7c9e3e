"""`htbench doctor --sbatch`: a job runs `htbench doctor`; how it is waited for, and how its end is told."""

import json
import re
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from htbench.harness.cli import main
from htbench.harness.errors import EXIT_INTERRUPTED, EXIT_RUN_FAILED, EXIT_USAGE
from htbench.harness.store.submissions import WORD, word_of
from htbench.harness.system.finding import Finding
from htbench.sweeps.cluster import probe
from htbench.sweeps.spec.resources import Resources
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
TAKE = probe.snapshot.take


@pytest.fixture(scope="module")
def taken(tmp_path_factory):
    """All of git's files take a second."""
    return TAKE(tmp_path_factory.mktemp("taken") / "store")


@pytest.fixture
def cluster(tmp_path, monkeypatch, taken):
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


@pytest.mark.slow
def test_the_log_of_doctor_on_the_node_is_shown_and_stays(cluster, root, write_spec, capsys, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    cluster.with_node()
    (cluster.place / "node" / "sinfo").write_text("#!/bin/sh\necho gpu\n")
    (cluster.place / "node" / "sinfo").chmod(0o755)
    status, (found,), aside = look(capsys, root, write_spec(SPEC))
    assert (status, found.level, found.subject) == (0, "ok", "job"), aside
    (log,) = (root / probe.NAME).iterdir()
    assert found.finding == f"job 8 on node n1 (tiny sgdm, tiny adamw) found no problem; its log is {log}"
    assert aside.startswith("htbench: job 8 runs `htbench doctor`: tiny sgdm, tiny adamw\n")
    assert re.search(r"^ok +torch ", aside, re.MULTILINE) and aside.endswith(log.read_text())
    assert not cluster.called("scancel")


@pytest.mark.parametrize(
    ("resources", "error"),
    [
        (
            "setup: ['echo there is no module cuda', 'exit 3']",
            r"setup line 2 exited with 3: exit 3 \(there is no module cuda\)",
        ),
        ("python: /no/such/python", "exec: /no/such/python: not found"),
        ("container: /no/torch.sif", "apptainer: not found|not open image /no/"),
    ],
    ids=["setup", "python", "container"],
)
def test_a_job_that_fails_tells_why(cluster, root, write_spec, capsys, resources, error):
    cluster.with_node()
    status, (found,), aside = look(capsys, root, write_spec(SPEC.replace("timeout_min: 30", resources)))
    assert (status, found.level, found.subject) == (EXIT_RUN_FAILED, "problem", "job")
    assert found.finding.startswith("job 8 on node n1 (tiny sgdm, tiny adamw) ended as FAILED: ")
    assert re.search(error, found.finding) and "\nhtbench: job 8 on node n1 starts at" in aside


def test_a_job_whose_store_is_another_folder_is_told(cluster, root, write_spec, capsys):
    cluster.with_node()
    (cluster.place / "node" / "bash").write_text("#!/bin/sh\nrm $HTBENCH_FAKE_LOG\n")  # it writes elsewhere
    (cluster.place / "node" / "bash").chmod(0o755)
    status, (found,), _ = look(capsys, root, write_spec(SPEC))
    assert status == EXIT_RUN_FAILED
    assert found.finding == "job 8 (tiny sgdm, tiny adamw) ended, and no log of it can be seen here"
    assert f"not '{root}' of each" in found.advice and "scontrol show job 8" in found.advice


def test_each_kind_of_job_is_one_and_is_like_those_of_the_sweep(cluster, root, write_spec, capsys):
    text = SPEC.replace("adamw}, space", "adamw}, resources: {mem: 4G, partition: big}, space")
    status, found, aside = look(capsys, root, write_spec(text), "--patience", 0.1)
    assert status == EXIT_RUN_FAILED and len(found) == 2 and cluster.jobs() == {}
    assert "htbench: job 9 runs `htbench doctor`: tiny adamw (mem=4G partition=big)\n" in aside
    assert found[0].finding.endswith(" (tiny sgdm) still PENDING after 0 s; it is cancelled")


def test_what_slurm_does_not_take_is_a_problem(cluster, root, write_spec, capsys):
    text = SPEC.replace("timeout_min: 30", "partition: nowhere")
    status, (found,), _ = look(capsys, root, write_spec(text))
    assert status == EXIT_RUN_FAILED and found.level == "problem"
    assert "SLURM does not take it: invalid partition specified: nowhere" in found.finding


@pytest.mark.slow
def test_ctrl_c_cancels_the_job(cluster, htbench, write_spec):
    htbench.fresh = True
    process = htbench.start("doctor", "--sbatch", write_spec(SPEC))
    wait_for(cluster.jobs)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (EXIT_INTERRUPTED, ""), err
    assert cluster.jobs() == {}


def test_its_job_is_none_of_the_sweep(cluster, root, write_spec):
    name = f"{probe.NAME}-0123abcd"
    assert not re.fullmatch(WORD, word_of(name))
    assert main(["sweep", "submit", str(write_spec(SPEC)), "--root", str(root)]) == 0
    cluster._write(cluster._read() | {"99": ["PENDING", name]})
    assert main(["sweep", "submit", str(write_spec(SPEC)), "--root", str(root)]) == 0
    assert main(["sweep", "cancel", str(write_spec(SPEC)), "--root", str(root)]) == 0
    assert list(cluster.jobs()) == ["99"]


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


def test_without_a_file_the_job_has_default_resources():
    kinds, configs = probe._name_kinds(Path(), [])
    (wanted,) = kinds
    assert wanted == replace(Resources(), timeout_min=probe.MINUTES, signal_delay_s=1) and configs == []
