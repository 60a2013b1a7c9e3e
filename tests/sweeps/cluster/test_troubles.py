"""Queued jobs whose points or resources the sweep file has changed: named, cancelled by `reap`, exchanged."""

import json
import signal

import pytest

from htbench.harness.errors import EXIT_USAGE
from htbench.sweeps.spec.resources import Resources, differences
from tests.helpers.fake_slurm import FakeSlurm
from tests.helpers.json_fields import promised

SPEC = """
name: tiny
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16}
blocks:
  - {name: sgdm, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.03, 0.1, 0.2]}}
resources: {timeout_min: 240}
"""
FEWER = SPEC.replace("[0.03, 0.1, 0.2]", "[0.03]")
LONGER = SPEC.replace("240", "480")


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    return FakeSlurm(tmp_path / "slurm", monkeypatch)


@pytest.fixture
def sweep(htbench, write_spec, cluster):
    """`htbench sweep ACTION` on a file with that text; the lines that it prints."""

    def sweep(action, text, *words, status=0, **more):
        done = htbench("sweep", action, write_spec(text), *words, **more)
        assert done.returncode == status, done.stderr
        return (done.stdout if status == 0 else done.stderr).splitlines()

    sweep("submit", SPEC)
    assert cluster.jobs() == {"8_0": "PENDING", "8_1": "PENDING", "8_2": "PENDING"}
    return sweep


# --- points that are gone ---


def test_jobs_of_points_that_the_file_has_lost_are_named_and_reaped(sweep, cluster):
    cluster.change("8_1", state="RUNNING")
    for words in (["status"], ["submit", "--replace"]):
        (line,) = [line for line in sweep(words[0], FEWER, *words[1:]) if "no longer plans" in line]
        assert line.startswith(
            "tiny: 2 jobs in the queue are for 2 runs that the sweep no longer plans (8_1 "
        )
        assert line.endswith("; `htbench sweep reap` cancels those that wait")
    (row,) = json.loads("\n".join(sweep("status", FEWER, "--json")))
    promised("sweep status", [row])
    assert [(one["job"], one["state"]) for one in row["jobs"]["removed"]] == [
        ("8_1", "RUNNING"),
        ("8_2", "PENDING"),
    ]
    assert "tiny: 1 job of runs that the sweep no longer plans cancelled" in sweep("reap", FEWER)
    assert cluster.jobs() == {"8_0": "PENDING", "8_1": "RUNNING"}, "a run at work is worth its result"
    assert not any("cancelled" in line for line in sweep("reap", FEWER))


def test_a_job_with_several_runs_is_exchanged_if_only_some_of_them_are_wanted(htbench, sweep, cluster):
    assert sweep("cancel", SPEC) == ["tiny: 3 jobs cancelled"] and cluster.jobs() == {}
    packed = SPEC.replace("240", "240, runs_per_job: 2")
    assert sweep("submit", packed)[0] == "tiny: 3 runs in 2 jobs as job 9 (timeout_min=240 runs_per_job=2)"
    assert sweep("submit", packed) == ["tiny: 3 runs, 3 in the queue already"]
    assert "tiny: 2 jobs wait in the queue (Priority)" in sweep("status", packed), "each job counts once"
    one, two = packed.replace("0.1, ", ""), packed.replace(", 0.1, 0.2", "")
    said = "tiny: 1 queued job had 2 runs each, the file now has 1 of these"
    assert f"{said}; `htbench sweep submit --replace` exchanges them" in sweep("status", one)
    both = "asked for timeout_min=240, the file now says timeout_min=480, and had 2 runs each, the file now"
    assert any(both in line for line in sweep("status", one.replace("240", "480")))
    assert any(line.startswith("tiny: 1 job in the queue is for 1 run") for line in sweep("status", two))
    assert "1 exchanged in the queue" in sweep("submit", one, "--replace")[1]
    assert cluster.jobs() == {"9_1": "PENDING", "10": "PENDING"}
    assert "tiny: 1 job of runs that the sweep no longer plans cancelled" in sweep("reap", two, "--replace")
    assert cluster.jobs() == {"10": "PENDING"}


def test_a_run_that_an_exchanged_job_leaves_to_another_sweep_is_named(htbench, write_spec, cluster):
    packed = SPEC.replace("240", "240, runs_per_job: 3")
    mine, other = write_spec(packed), write_spec(packed.replace("name: tiny", "name: other"), "other.yaml")
    for path in (mine, other):
        assert htbench("sweep", "submit", path).returncode == 0
    assert cluster.jobs() == {"8": "PENDING"}
    mine.write_text(packed.replace("0.1, ", ""))
    said = htbench("sweep", "submit", mine, "--replace").stdout
    assert "of the exchanged jobs, 1 run is of 'other' only; `htbench sweep submit` of that sweep" in said
    assert "1 submitted, 2 in the queue already" in htbench("sweep", "submit", other).stdout
    mine.write_text(packed.replace("0.1, ", "").replace("240", "250"))
    assert "those of" not in htbench("sweep", "submit", mine, "--replace").stdout


def test_nothing_is_said_of_a_file_that_is_as_it_was(sweep):
    (row,) = json.loads("\n".join(sweep("status", SPEC, "--json")))
    assert row["jobs"] == {"removed": [], "outdated": [], "ended_early": []}
    assert sweep("submit", SPEC) == ["tiny: 3 runs, 3 in the queue already"]


def test_a_job_that_another_sweep_of_the_store_waits_for_stays(sweep, cluster, htbench, write_spec):
    other = write_spec(SPEC.replace("name: tiny", "name: other"), "other.yaml")
    assert "3 in the queue already" in htbench("sweep", "submit", other).stdout
    assert not any(
        "no longer has" in line for line in sweep("reap", FEWER, "--replace") + sweep("status", FEWER)
    )
    assert len(cluster.jobs()) == 3


# --- resources that have changed ---


def test_jobs_with_old_resources_are_named_and_exchanged(sweep, cluster):
    cluster.change("8_0", state="RUNNING")
    said = "tiny: 2 queued jobs asked for timeout_min=240, the file now says timeout_min=480"
    for action in ("status", "submit"):
        assert f"{said}; `htbench sweep submit --replace` exchanges them" in sweep(action, LONGER)
    (row,) = json.loads("\n".join(sweep("status", LONGER, "--json")))
    promised("sweep status", [row])
    changes = {"asked": {"timeout_min": 240}, "now": {"timeout_min": 480}}
    assert row["jobs"]["outdated"] == [{"jobs": ["8_1", "8_2"], **changes}]
    assert len(cluster.jobs()) == 3, "nothing is exchanged that nobody asked for"
    assert sweep("submit", LONGER, "--replace") == [
        "tiny: 2 runs as job 9 (timeout_min=480)",
        "tiny: 3 runs, 2 submitted, 2 exchanged in the queue, 1 in the queue already",
    ]
    assert cluster.jobs() == {"8_0": "RUNNING", "9_0": "PENDING", "9_1": "PENDING"}
    assert cluster.called("scancel") == ["scancel --quiet --state=PENDING 8"], "one message for an array"
    assert sweep("submit", LONGER, "--replace") == ["tiny: 3 runs, 3 in the queue already"]
    assert not any("queued jobs asked" in line for line in sweep("status", LONGER))


def test_words_for_srun_and_containers_that_have_changed_are_told_whole(sweep):
    old = Resources(srun_args=("--container-image=a", "mem=5G"), python="/a/python")
    new = Resources(srun_args=("--mpi=pmix",), container="docker://b", mem="1G")
    assert differences(old.asked(), new.asked()) == {
        "srun_args": (["--container-image=a", "mem=5G"], ["--mpi=pmix"]),
        "python": ("/a/python", None),
        "container": (None, "docker://b"),
        "mem": (None, "1G"),
    }
    inside = SPEC.replace("240", "240, container: /images/b.sif")
    said = "3 queued jobs asked for container=null, the file now says container=/images/b.sif"
    assert any(said in line for line in sweep("status", inside))
    assert any(
        "3 submitted, 3 exchanged in the queue" in line for line in sweep("submit", inside, "--replace")
    )


def test_a_job_that_begins_meanwhile_goes_on(sweep, cluster):
    (cluster.place / "begins").write_text("8_1")
    said = sweep("submit", LONGER, "--replace")
    assert cluster.jobs() == {"8_1": "RUNNING", "9_0": "PENDING", "9_1": "PENDING"}
    assert said[-1] == "tiny: 1 queued job began meanwhile and stayed unchanged"


def test_after_a_kill_between_cancelling_and_submitting_the_same_command_finishes(sweep, cluster):
    sweep("submit", LONGER, "--replace", status=-signal.SIGKILL, HTBENCH_CRASH="submit.exchange")
    assert cluster.jobs() == {}
    assert "tiny: 3 runs, 3 submitted" in sweep("submit", LONGER, "--replace")
    assert cluster.jobs() == {"9_0": "PENDING", "9_1": "PENDING", "9_2": "PENDING"}


@pytest.mark.parametrize(
    ("says", "stay"),
    [
        ("allocation failure: Invalid account", True),
        ("allocation failure: Required partition not available (inactive or drain)", False),
    ],
)
def test_jobs_stay_if_slurm_would_refuse_those_in_their_place(sweep, cluster, says, stay):
    (cluster.place / "refuse-test").write_text(says)
    if stay:
        (line,) = sweep("submit", LONGER, "--replace", status=EXIT_USAGE)
        assert "SLURM would refuse what 'tiny' asks for now, so its queued jobs stay" in line
    else:
        sweep("submit", LONGER, "--replace")
    assert set(cluster.jobs()) == {f"{8 if stay else 9}_{task}" for task in range(3)}


def test_a_dry_run_shows_what_would_be_exchanged(sweep, cluster):
    assert not any("--array" in line for line in sweep("submit", LONGER, "--dry-run"))
    assert "#SBATCH --array=0-2%3" in sweep("submit", LONGER, "--dry-run", "--replace")
    assert set(cluster.jobs()) == {"8_0", "8_1", "8_2"}


# --- in words ---


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, {}),
        ({"mem": "16G"}, {"mem": (None, "16G")}),
        ({"setup": ("module load cuda", "x=1 y")}, {"setup": ([], ["module load cuda", "x=1 y"])}),
        ({"submit_limit": 5}, {}),
    ],
)
def test_differences_of_resources_are_told_by_name(changes, told):
    old, new = Resources(timeout_min=30), Resources(timeout_min=30, **changes)
    assert differences(old.asked(), new.asked()) == told
    assert differences(new.asked(), old.asked()) == {name: pair[::-1] for name, pair in told.items()}


def test_the_number_of_processes_is_asked_for_too():
    assert differences(Resources().asked(), Resources().asked(2)) == {"processes": (1, 2)}
