"""What SLURM says of its queue, by a stand-in for `squeue`, and what that means for the owner of a run."""

import dataclasses
import os

import pytest

from htbench.harness.store.owner import Owner, current_user, is_alive
from htbench.harness.system import slurm
from htbench.harness.system.squeue import Job
from tests.helpers import squeue as stand_in

RUNNING = ("8_1", "RUNNING", 2, "anna", "None", "tiny.w")
PENDING = ("9", "PENDING", 0, "bert", "Nodes required | down", "x y")
ENDED, REQUEUED = (stand_in.BEGAN, stand_in.BEGAN, "0:00"), ("N/A", "N/A", "0:00")


@pytest.fixture
def squeue(tmp_path, monkeypatch):
    """Let `squeue` print jobs, or be a script; with `--states`, print those that have ended, too."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    def says(*jobs, script="", ended=()):
        monkeypatch.setattr(slurm, "_remembered", {})
        rows = [stand_in.row(*job) for job in jobs]
        (tmp_path / "all").write_text(stand_in.table(*rows, *(stand_in.row(*job) for job in ended)))
        script = script or f'case "$*" in *--states*) exec cat {tmp_path}/all;; esac'
        return stand_in.install(tmp_path / "bin", *rows, first=script) / "answer"

    return says


def test_the_queue_is_read_by_columns(squeue):
    squeue(RUNNING, PENDING)
    assert slurm.queue() == {"8_1": Job(*RUNNING), "9": Job(*PENDING)}
    answer = squeue()
    assert slurm.queue() == {}, "an empty queue prints its head only"
    answer.write_text(stand_in.table(stand_in.row(*RUNNING)))
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
    kept = dict(slurm._remembered)
    squeue(RUNNING)
    slurm._remembered.update(kept)
    assert slurm.recent_queue() is None, "a silent controller is not asked again at once"


def test_where_no_cluster_is_known_it_is_not_said_to_answer_later(squeue):
    squeue(script="echo 'squeue: error: fetch_config: DNS SRV lookup failed' >&2; exit 1")
    with pytest.raises(slurm.SlurmError, match="no SLURM cluster here .*`htbench sweep run`") as error:
        slurm.queue()
    assert "later" not in str(error.value)


def test_a_command_that_the_signal_to_our_job_has_hit_is_asked_once_more(squeue, tmp_path):
    squeue(RUNNING, script=f"[ -e {tmp_path}/hit ] || {{ touch {tmp_path}/hit; kill -TERM $$; }}")
    assert list(slurm.queue()) == ["8_1"] and (tmp_path / "hit").exists()
    squeue(script="kill -TERM $$")
    with pytest.raises(slurm.SlurmError, match="exit status -15"):
        slurm.queue()


HTML = "<!DOCTYPE html>\n<html><body>Please sign in</body></html>\n"
WHOLE = stand_in.table(stand_in.row(*RUNNING), stand_in.row(*PENDING))


@pytest.mark.parametrize(
    ("answer", "first"),
    [
        (HTML, "<!DOCTYPE html>"),
        ("", ""),
        (WHOLE[:-100], "9 PENDING "),
        (WHOLE.replace(stand_in.row(*RUNNING), stand_in.row(*RUNNING)[:300]), "8_1 RUNNING "),
        (WHOLE.replace("8_1 ", "", 1), "RUNNING "),
        (stand_in.row(*RUNNING), "8_1 RUNNING "),
        (WHOLE + "squeue: try again\n", "squeue: try again"),
    ],
    ids=["a page", "nothing", "cut", "cut in the middle", "bitten", "no head", "more"],
)
def test_what_is_no_answer_of_squeue_is_an_error_and_no_empty_queue(squeue, answer, first):
    squeue().write_text(answer)
    with pytest.raises(slurm.SlurmError) as caught:
        slurm.queue()
    assert f"SLURM's answer can't be read (squeue: '{first}" in str(caught.value)
    assert str(caught.value).count("\n") == 0 and slurm.recent_queue() is None


def test_names_of_others_and_remarks_of_a_site_do_not_matter(squeue):
    other = ("9", "PENDING", 0, "bert", "None", "Stra\u00dfe\nnach Süden")
    remarks = (
        "bash: warning: setlocale >&2",
        "Maintenance on Monday",
        "",
        "squeue: it may be slow",
        "CLUSTER: here",
    )
    squeue(other, RUNNING, script="; ".join(f"echo {remark}" for remark in remarks))
    assert slurm.queue() == {"9": Job(*other), "8_1": Job(*RUNNING)}


def test_a_job_that_is_ending_is_no_longer_in_the_queue_unless_it_comes_back(squeue):
    ends = [
        (id, "COMPLETING", 1, "anna", "None", "tiny.w", times)
        for id, times in enumerate(
            (
                (stand_in.BEGAN, stand_in.LIMIT, "0:03"),
                ENDED,  # it was cancelled within its first second
                (stand_in.BEGAN, stand_in.LIMIT, "0:00"),
                REQUEUED,  # without a time limit
            )
        )
    ]
    squeue(*ends)
    assert list(slurm.queue()) == ["2", "3"] and list(slurm.ending(slurm.FRESH)) == ["0", "1"]


def test_jobs_are_seen_whatever_the_partition_and_the_filters_of_a_person(squeue, monkeypatch):
    monkeypatch.setenv("SQUEUE_STATES", "RUNNING")
    squeue(RUNNING, script='[ -z "$SQUEUE_STATES" ] || exit 1; case "$*" in *--all*) ;; *) exit 1;; esac')
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
        (("8_1", "RUNNING", 3, "anna", "None", "tiny.w"), False),  # started again: that process is gone
        (("8_1", "PENDING", 3, "anna", "BeginTime", "tiny.w"), False),
        (("8_1", "REQUEUE_HOLD", 2, "anna", "job_requeued_in_held_state", "tiny.w"), False),
    ],
)
def test_a_job_in_the_queue_decides_whatever_the_heartbeat(squeue, owner, heartbeat, job, alive, fresh):
    squeue(job, PENDING)
    assert is_alive(owner, heartbeat(fresh)) is alive


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize(
    "answer", ["hidden", "lost", "completing", "requeued", "a lost node", "an older start"]
)
def test_a_job_that_the_queue_does_not_know_lives_as_long_as_its_heartbeat(
    squeue, owner, heartbeat, answer, fresh
):
    ours = dataclasses.replace(owner, user=current_user())
    times = {"completing": (stand_in.BEGAN, stand_in.LIMIT, "0:03"), "requeued": REQUEUED}.get(answer)
    rows = [("8_1", "COMPLETING", 2, "anna", "None", "tiny.w", times)] if times else []
    ended = {"a lost node": [("8_1", "NODE_FAIL", 2)], "an older start": [("8_1", "TIMEOUT", 1)]}
    squeue(*rows, PENDING, ended=ended.get(answer, []), script="echo '<html>'" if answer == "lost" else "")
    assert is_alive(ours, heartbeat(fresh)) is fresh


@pytest.mark.parametrize(
    "state", ["COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "PREEMPTED", "OUT_OF_MEMORY"]
)
def test_a_job_that_has_ended_by_the_word_of_slurm_is_dead_at_once(squeue, owner, heartbeat, state):
    squeue(PENDING, ended=[("8_1", state, 2)])
    assert not is_alive(owner, heartbeat(fresh=True))


def test_an_old_heartbeat_costs_no_question(owner, heartbeat, monkeypatch):
    """A store may hold thousands of runs that dead jobs have left."""
    asked = []
    monkeypatch.setattr(slurm, "call", lambda *words: asked.append(words) or stand_in.table())
    monkeypatch.setattr(slurm, "_remembered", {})
    monkeypatch.setattr("htbench.harness.store.owner.seconds_since_touched", None)
    assert not any(is_alive(owner, heartbeat(fresh=False)) for _ in range(3))
    assert len(asked) == 1


@pytest.mark.parametrize("fresh", [True, False])
def test_without_an_answer_or_on_another_cluster_the_heartbeat_decides(squeue, owner, heartbeat, fresh):
    squeue()
    elsewhere = dataclasses.replace(owner, cluster="there", user=current_user())
    assert is_alive(elsewhere, heartbeat(fresh)) is fresh
    squeue(script="exit 1")
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
