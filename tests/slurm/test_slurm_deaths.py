"""How jobs die on a cluster, one way at a time: each goes on from its last checkpoint, or is given up."""

import json
import re
import signal

import pytest

from tests.helpers.on_cluster import (
    FEW,
    NODES,
    accepted,
    ask,
    attempt,
    attempts,
    cluster,
    ended_as,
    hold,
    owner,
    queue,
    send,
    site,
    submit,
    submitted,
    wait_for,
)

pytestmark = pytest.mark.slurm
__all__ = ["cluster", "site"]  # fixtures

EVERY = 5  # steps between two checkpoints
ENDLESS = FEW.replace(
    "steps: 20",
    f"steps: 1000000, divergence.patience: 1000000, checkpoint.every_steps: {EVERY}, log_every: 1",
).replace("[0.03, 0.1, 0.2]", "[0.1]")


def start(site, spec):
    """Submit the one run; its folder and job once there are checkpoints."""
    assert accepted(site, spec) == 1
    (job,) = queue()
    wait_for(lambda: list(site.root.glob("runs/*/*/checkpoint.pt")))
    (folder,) = site.root.glob("runs/*/*")
    return folder, job


def last_step(folder):
    rows = (folder / "metrics.jsonl").read_text().splitlines()
    return json.loads(rows[-2])["step"]  # the last line may be under way


def goes_on(folder):
    """Wait for a second attempt; the step at which it went on."""
    wait_for(lambda: (folder / "attempts" / "2.json").exists())
    pattern = r"going on from step (\d+)"
    wait_for(lambda: re.search(pattern, (folder / "log.txt").read_text()))
    (step,) = re.findall(pattern, (folder / "log.txt").read_text())
    return int(step)


def preempt(site):
    """An urgent job that needs all nodes; ends by itself at once."""
    ask("sbatch", "-p", "urgent", "-N", str(len(NODES)), "--exclusive", "-o", "/dev/null", "--wrap", "true")


@pytest.mark.parametrize(
    "warning",
    [pytest.param(True, id="with a warning", marks=pytest.mark.short), pytest.param(False, id="without")],
)
def test_a_preempted_run_goes_on_after_the_urgent_one(site, cluster, write_spec, warning):
    cluster("warn-before-preemption" if warning else "preempt-at-once")
    spec = write_spec(ENDLESS.replace("timeout_min: 20", "timeout_min: 20, partition: low"))
    folder, job = start(site, spec)
    before = last_step(folder)
    preempt(site)
    step = goes_on(folder)
    assert step >= before - EVERY
    assert attempt(folder)["outcome"]["reason"] == "stopped", "it was saved at the next step"
    assert [owner(folder, n)["job"] for n in (1, 2)] == [job, job]
    assert accepted(site, spec) == 0


@pytest.mark.parametrize("grace", [True, False], ids=["with a grace time", "without"])
def test_where_preempted_jobs_are_cancelled_a_run_saves_and_goes_on(site, cluster, write_spec, grace):
    """With PreemptMode=CANCEL SLURM queues nothing again by itself."""
    cluster("preempt-at-once")
    partition = "fleeting" if grace else "brief"
    spec = write_spec(ENDLESS.replace("timeout_min: 20", f"timeout_min: 20, partition: {partition}"))
    folder, job = start(site, spec)
    before = last_step(folder)
    preempt(site)
    if not grace:
        wait_for(lambda: job not in queue())
        assert accepted(site, spec) == 1, "there was no time to ask SLURM"
    assert goes_on(folder) >= before - EVERY
    assert attempt(folder)["outcome"]["reason"] == "stopped", "it was saved at the next step"
    assert (owner(folder, 1)["job"] == owner(folder, 2)["job"]) == grace
    assert accepted(site, spec) == 0


def test_a_run_that_is_cancelled_after_a_warning_saves_and_does_not_come_back(site, write_spec):
    spec = write_spec(ENDLESS)
    folder, job = start(site, spec)
    hold(folder)
    ask("scancel", "--signal=USR2", job)  # as SLURM does before the time limit
    ask("scancel", job)  # before the run could save; it lets the process go on, too
    wait_for(lambda: queue().get(job) not in ("RUNNING", "COMPLETING"))
    assert job not in queue(), "it does not wait for another start"
    assert attempt(folder)["outcome"]["reason"] == "stopped" and set(attempts(site.root).values()) == {1}
    assert ended_as(job).startswith("CANCELLED")


def test_a_run_on_a_lost_node_goes_on_from_its_last_checkpoint(site, cluster, write_spec):
    spec = write_spec(ENDLESS)
    folder, job = start(site, spec)
    before = last_step(folder)
    (node,) = ask("squeue", "-h", "-j", job, "-o", "%N").split()
    cluster("lose-node", node)
    cluster("start-daemons")
    step = goes_on(folder)
    assert step >= before - EVERY and step % EVERY == 0
    assert attempt(folder)["outcome"] is None, "it had no time to say anything"


def test_a_run_killed_for_its_memory_goes_on_by_the_next_submit(site, write_spec):
    spec = write_spec(ENDLESS)
    folder, _ = start(site, spec)
    before = last_step(folder)
    send(folder, signal.SIGKILL)  # as the kernel does
    wait_for(lambda: not queue())
    assert accepted(site, spec) == 1
    step = goes_on(folder)
    assert step >= before - EVERY and step % EVERY == 0


def test_a_run_that_only_dies_is_given_up_in_spite_of_requeues(site, write_spec):
    text = FEW.replace("[0.03, 0.1, 0.2]", "[0.1]")
    spec = write_spec(
        text.replace("timeout_min: 20", "timeout_min: 20, setup: [export HTBENCH_CRASH=claimed]")
    )
    assert accepted(site, spec) == 1
    wait_for(lambda: not queue())
    (job,) = (row["job"] for row in submitted(site.root, "few") if row.get("job"))
    for _ in range(3):
        ask("scontrol", "requeue", job)
        wait_for(lambda: queue())
        wait_for(lambda: not queue())
    (folder,) = site.root.glob("runs/*/*")
    assert sorted(path.name for path in (folder / "attempts").iterdir()) == ["1.json", "2.json"]
    (log,) = site.root.glob("sweeps/few/logs/*/*_log.out")
    assert (
        "failed (killed): two processes in a row were killed before their first checkpoint" in log.read_text()
    )
    (row,) = json.loads(site("sweep", "status", spec, "--json").stdout)
    (failure,) = row["failures"]
    assert [failure[name] for name in ("job", "log")] == [job, str(log)] and failure["host"] in NODES
    assert f"on {failure['host']}, job {job}, log {log}" in site("sweep", "status", spec).stdout
    told = submit(site, spec)
    assert "1 failed" in told.stdout and "(killed); `htbench sweep submit --retry`" in told.stdout
    assert not queue()
    spec.write_text(text)
    assert accepted(site, spec, "--retry") == 1
    wait_for(lambda: not queue())
    assert (folder / "record.json").exists()
