"""What SLURM says of its queue, by a stand-in for `squeue`, and what that means for the owner of a run."""

import dataclasses
import os

import pytest

from harness.store.owner import Owner, current_user, is_alive
from harness.system import slurm
from harness.system.slurm import Job

RUNNING = ("8_1", "RUNNING", 2, "anna", "None", "tiny.w")
PENDING = ("9", "PENDING", 0, "bert", "Nodes required | down", "x y")


@pytest.fixture
def squeue(tmp_path, monkeypatch):
    """Let `squeue` print jobs, or be a script."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(slurm, "_remembered", (float("-inf"), None))
    widths = [width for _, width in slurm._COLUMNS]

    def says(*jobs, script=None):
        rows = [zip(job, widths, strict=True) for job in jobs]
        lines = ["".join(str(word).ljust(width) for word, width in row) + "\n" for row in rows]
        (tmp_path / "answer").write_text("".join(lines))
        (folder / "squeue").write_text(f"#!/bin/sh\n{script or f'cat {tmp_path}/answer'}\n")
        (folder / "squeue").chmod(0o755)

    return says


def test_the_queue_is_read_by_columns(squeue):
    squeue(RUNNING, PENDING)
    assert slurm.queue() == {"8_1": Job(*RUNNING), "9": Job(*PENDING)}
    squeue()
    assert slurm.queue() == {}, "an empty queue prints nothing"
    squeue(RUNNING)
    assert slurm.recent_queue() == {}, "a fresh answer serves again"


@pytest.mark.parametrize(
    ("script", "words"),
    [("echo no controller; exit 1", "no controller"), ("sleep 60", "no answer within 0.3 s")],
)
def test_a_queue_that_does_not_answer_is_one_sentence_and_no_wait(squeue, monkeypatch, script, words):
    monkeypatch.setattr(slurm, "PATIENCE", 0.3)
    squeue(script=script)
    with pytest.raises(slurm.SlurmError, match=words):
        slurm.queue()
    assert slurm.recent_queue() is None
    squeue(RUNNING)
    assert slurm.recent_queue() is None, "a silent controller is not asked again at once"


def test_jobs_are_seen_whatever_the_partition_and_the_filters_of_a_person(squeue, monkeypatch, tmp_path):
    monkeypatch.setenv("SQUEUE_STATES", "RUNNING")
    answer = f'[ -z "$SQUEUE_STATES" ] && case "$*" in *--all*) cat {tmp_path}/answer;; esac'
    squeue(RUNNING, script=answer)
    assert slurm.queue() == {"8_1": Job(*RUNNING)}, "a job that is hidden would be taken for dead"


def test_what_a_federation_runs_elsewhere_is_not_here(squeue):
    squeue(("8_1", "REVOKED", 0, "anna", "None", "tiny.w"), PENDING)
    assert slurm.queue() == {"9": Job(*PENDING)}


@pytest.mark.parametrize("state", ["PENDING", "REQUEUE_HOLD", "SPECIAL_EXIT"])
def test_a_job_that_is_held_after_a_requeue_waits(squeue, state):
    squeue(("8_1", state, 1, "anna", "job_requeued_in_held_state", "tiny.w"))
    assert slurm.queue()["8_1"].pending


# --- owners on other nodes ---


@pytest.fixture
def owner(monkeypatch):
    """Of job 8_1, in its third start, on another node of this cluster."""
    for name in ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SLURM_CLUSTER_NAME", "here")
    here = Owner.current()
    return dataclasses.replace(here, host="elsewhere", user="anna", job="8_1", restart="2")


@pytest.fixture
def heartbeat(tmp_path):
    """Of now, or of long ago."""

    def beat(fresh):
        path = tmp_path / "1.json"
        path.touch()
        if not fresh:
            os.utime(path, (1, 1))
        return path

    return beat


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize(
    ("job", "alive"),
    [
        (RUNNING, True),
        (("8_1", "COMPLETING", 2, "anna", "None", "tiny.w"), True),
        (("8_1", "RUNNING", 3, "anna", "None", "tiny.w"), False),  # started again: that process is gone
        (("8_1", "PENDING", 3, "anna", "BeginTime", "tiny.w"), False),
        (("8_1", "REQUEUE_HOLD", 2, "anna", "job_requeued_in_held_state", "tiny.w"), False),
    ],
)
def test_a_job_in_the_queue_decides_whatever_the_heartbeat(squeue, owner, heartbeat, job, alive, fresh):
    squeue(job, PENDING)
    assert is_alive(owner, heartbeat(fresh)) is alive


def test_our_own_job_that_is_gone_is_dead_at_once_anothers_may_only_be_hidden(squeue, owner, heartbeat):
    squeue(PENDING)
    ours = dataclasses.replace(owner, user=current_user())
    assert not is_alive(ours, heartbeat(fresh=True))
    assert is_alive(owner, heartbeat(fresh=True))
    assert not is_alive(owner, heartbeat(fresh=False))


@pytest.mark.parametrize("fresh", [True, False])
def test_without_an_answer_or_on_another_cluster_the_heartbeat_decides(squeue, owner, heartbeat, fresh):
    squeue()
    elsewhere = dataclasses.replace(owner, cluster="there", user=current_user())
    assert is_alive(elsewhere, heartbeat(fresh)) is fresh
    squeue(script="exit 1")
    slurm._remembered = (float("-inf"), None)
    assert is_alive(owner, heartbeat(fresh)) is fresh


def test_a_job_knows_its_earlier_self_is_dead_and_asks_the_heartbeat_of_its_other_nodes(
    monkeypatch, owner, heartbeat
):
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "8")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "1")
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "3")
    assert Owner.current().job == "8_1"
    assert not is_alive(owner, heartbeat(fresh=True))
    for fresh in (True, False):  # an allocation goes on after one of its steps was killed
        assert is_alive(dataclasses.replace(owner, restart="3"), heartbeat(fresh)) is fresh
