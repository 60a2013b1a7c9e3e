"""How jobs are handed to `sbatch` and what its answers mean, by a stand-in for it."""

import os

import psutil
import pytest

from htbench.harness.system.slurm import SlurmError
from htbench.sweeps.cluster import sbatch, submit
from htbench.sweeps.cluster.sbatch import RefusedError, UnsureError
from tests.helpers.waiting import wait_for

SCRIPT = """#!/bin/bash

# Parameters
#SBATCH --job-name=few.w
#SBATCH --output='/a b/%A.out'

# setup
#SBATCH --gres=gpu:a100:1  # one will do
module load cuda
#SBATCH --time=1

srun python
"""


@pytest.fixture
def be_sbatch(tmp_path, monkeypatch):
    """Let `sbatch` be a shell script."""
    program = tmp_path / "bin" / "sbatch"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    def be(script):
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    return be


@pytest.fixture
def stand_in(be_sbatch, tmp_path, monkeypatch):
    """Let `sbatch` be a shell script, and the shell have some variables; submits, returns the number."""
    for name in ("SLURM_JOB_ID", "SLURM_CONF"):
        monkeypatch.delenv(name, raising=False)

    def submit(script, **environment):
        be_sbatch(script)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return sbatch.submit(SCRIPT)

    return submit


@pytest.mark.parametrize(
    "says",
    [
        "echo Submitted batch job 12",
        "echo Submitted batch job 12 on cluster b",
        "echo 12",
        "echo '12;b'",
        "echo 'sbatch: this job 7 times too wide' >&2; echo Submitted batch job 12",
        r"printf 'Gr\374sse vom Rechenzentrum\n' >&2; echo Submitted batch job 12",
        "echo '--> Checking your project ... OK'; echo; echo Submitted batch job 12",
        "echo Submitted batch job 12; echo 'sbatch: the accounting is down' >&2; exit 1",
        "echo 12; exit 1",
        "echo Submitted batch job 12; sleep 60",
    ],
)
def test_the_number_is_found_in_whatever_a_site_adds(stand_in, says, monkeypatch):
    monkeypatch.setattr(sbatch, "PATIENCE", 2.0)
    assert stand_in(says) == "12"


@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        ("echo 'sbatch: error: No room.' >&2; echo 'sbatch: error: Failed' >&2; exit 1", "No room; Failed"),
        ("echo '--> Your project ... FAILED'; exit 1", "--> Your project ... FAILED"),
    ],
)
def test_a_refusal_is_told_wherever_it_was_printed(stand_in, says, sentence):
    with pytest.raises(RefusedError) as caught:
        stand_in(says)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        ("echo thanks", "sbatch says 'thanks', which is no job's number"),
        ("true", "sbatch says '', which is no job's number"),
        ("exit 1", "sbatch: exit status 1"),
        ("kill -9 $$", "sbatch: exit status -9"),
        (
            "echo 'sbatch: error: Submission failed: Zero Bytes were transmitted or received'; exit 1",
            "sbatch: Submission failed: Zero Bytes were transmitted or received",
        ),
    ],
)
def test_an_answer_that_leaves_it_open_is_no_refusal(stand_in, says, sentence):
    with pytest.raises(UnsureError) as caught:
        stand_in(says)
    assert str(caught.value) == sentence


# Of version 22.05 on a machine where SLURM's programs are installed and nothing else is.
UNKNOWN_CLUSTER = """echo 'sbatch: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host' >&2
echo 'sbatch: fatal: Could not establish a configuration source' >&2; exit 1"""


@pytest.mark.parametrize(
    ("says", "error"),
    [
        ("echo 'sbatch: error: Invalid partition name specified' >&2; exit 1", RefusedError),
        ("echo 'sbatch: error: Unable to contact slurm controller' >&2; exit 1", SlurmError),
        (UNKNOWN_CLUSTER, SlurmError),
    ],
    ids=["refusal", "dead", "unknown"],
)
def test_a_dry_run_tells_a_refusal_from_no_answer(be_sbatch, says, error):
    be_sbatch(says)
    with pytest.raises(error):
        sbatch.test_only(SCRIPT)


@pytest.mark.parametrize("where", ["", " in partition gpu"])
def test_a_dry_run_tells_no_date(be_sbatch, where):
    """One job that waits makes SLURM say this on an idle node."""
    be_sbatch(f"echo 'sbatch: Job 7 to start at 3047-09-03T00:00:00 using 1 processors on n1{where}' >&2")
    (answer,) = submit.ask_slurm("few", [SCRIPT])
    assert str(answer) == "SLURM would take it" + (where and f",{where}")


def test_a_silence_ends_with_what_was_said_and_with_all_that_was_started(stand_in, monkeypatch, tmp_path):
    monkeypatch.setattr(sbatch, "PATIENCE", 2.0)
    with pytest.raises(UnsureError, match="no answer within 2 s: Slurm job queue full"):
        stand_in(f"echo Slurm job queue full >&2; sleep 60 & echo $! > {tmp_path}/pid; wait")
    pid = int((tmp_path / "pid").read_text())
    wait_for(
        lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE,
        seconds=10,
        told=lambda: "it might submit behind our back",
    )


def test_options_of_the_script_go_before_variables_of_the_shell(stand_in, tmp_path):
    stand_in(f'for word; do echo "$word"; done > {tmp_path}/words; echo 12')
    assert (tmp_path / "words").read_text().splitlines() == [
        *("--job-name=few.w", "--output=/a b/%A.out", "--gres=gpu:a100:1"),
    ]


def test_a_job_hands_on_what_its_owner_has_set_and_not_what_it_is(stand_in, tmp_path):
    own = {"SBATCH_ACCOUNT": "lab", "SLURM_CONF": "/etc/slurm.conf", "SLURM_CLUSTERS": "b", "SLURM_JWT": "x"}
    its = {"SLURM_NTASKS": "4", "SLURM_MEM_PER_CPU": "100", "SUBMITIT_EXECUTOR": "slurm", "WORLD_SIZE": "4"}
    stand_in(f"env > {tmp_path}/env; echo 12", SLURM_JOB_ID="5", **own, **its)
    told = dict(line.partition("=")[::2] for line in (tmp_path / "env").read_text().splitlines())
    assert own.items() <= told.items()
    assert not {"SLURM_JOB_ID", *its} & told.keys()
