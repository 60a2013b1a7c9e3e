"""What the `setup` of a job does when a line fails, by running the script as a node would."""

import re
import shutil
import subprocess

import pytest

from htbench.harness.store.submissions import Submission
from htbench.sweeps.cluster import job_array, job_log
from htbench.sweeps.cluster.snapshot import Snapshot
from htbench.sweeps.spec.resources import Resources

NODE = {"SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "3", "SLURM_JOB_ID": "15", "SLURMD_NODENAME": "n2"}


@pytest.fixture
def run(tmp_path):
    """Run the script of a job with that `setup`; its status and the lines of its log."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "code").mkdir()
    (tmp_path / "bin" / "srun").write_text("#!/bin/sh\necho training\nexit 7\n")
    (tmp_path / "bin" / "srun").chmod(0o755)
    (tmp_path / "env.sh").write_text('false\n[ -n "$NOBODY" ]\nexport FROM_ENV=1\n')
    (tmp_path / "broken.sh").write_text("echo at the site\nreturn 4\n")
    (tmp_path / "leaves.sh").write_text("exit 6\n")

    def run(*setup):
        one = Submission("s", "w", ("a", "b"))
        text = job_array.write_array_script(
            tmp_path, Snapshot(tmp_path / "code", ""), one, Resources(setup=setup)
        )
        (tmp_path / "script").write_text(text)
        environment = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", **NODE}
        done = subprocess.run(
            ["/bin/bash", tmp_path / "script"],
            env=environment,
            cwd=tmp_path,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        first, *rest = done.stdout.splitlines()
        assert job_log.STARTS.fullmatch(first).groups()[:2] == ("12_3", "n2")
        return done.returncode, rest

    return run


@pytest.mark.parametrize(
    ("setup", "line"),
    [
        (["export A=b", "ls /nowhere"], "setup line 2 exited with 2: ls /nowhere"),
        (["echo there is no module torch", "exit 3"], "setup line 2 exited with 3: exit 3"),
        (["module() { return 5; }", "module load a/99"], "setup line 2 exited with 5: module load a/99"),
        (["source ./broken.sh"], "setup line 1 exited with 4: source ./broken.sh"),
        (["source ./leaves.sh"], "setup line 1 exited with 6: source ./leaves.sh"),
        (["#SBATCH --gres=gpu:1", "conda activate x"], "setup line 2 exited with 127: conda activate x"),
        (["set -eu", "echo $NOBODY"], "setup line 2 exited with 1: echo $NOBODY"),
        (["if true; then\n  echo in", "  ls /nowhere", "fi"], "setup line 3 exited with 2:   ls /nowhere"),
        (["echo a \\", "  b", "false # why"], "setup line 3 exited with 1: false # why"),
    ],
)
def test_a_line_that_fails_ends_the_job_with_its_number_and_status(run, setup, line):
    status, log = run(*setup)
    assert status == int(re.search(r"exited with (\d+)", line)[1])
    assert log[-1] == f"htbench: job 12_3 on node n2: {line}" and "training" not in log
    assert job_log.SETUP_FAILED.fullmatch(log[-1]).groups() == ("12_3", "n2", line)


@pytest.mark.parametrize(
    "setup",
    [
        [],
        ["#SBATCH --gres=gpu:1"],
        ["export A=b  # of theirs", "source ./env.sh", '[ "$A$FROM_ENV" = b1 ]'],
        ["false || true", "[ -f nowhere ] && echo it", "! true || echo never"],
        ["if false; then", "  echo never", "else", "  echo else", "fi"],
        ["cat <<END >/dev/null", "false", "END", "case x in", "  x) true;;", "esac"],
        ["set -Eeu", "f() { false || true; }", "f"],
        ["trap 'rm -f scratch' EXIT", "trap 'echo theirs' ERR"],
    ],
)
def test_what_worked_goes_on_working_and_training_is_not_watched(run, setup):
    status, log = run(*setup)
    assert status == 7 and "training" in log
    assert not any("setup line" in line for line in log)


def test_options_of_sbatch_stay_at_the_top():
    lines = job_log.watch_setup(["#SBATCH --gres=gpu:1\nmodule load cuda", "export A=b"])
    assert lines[0] == "#SBATCH --gres=gpu:1" and lines[-3:-1] == ["module load cuda", "export A=b"]


# --- afterwards ---


@pytest.mark.parametrize(
    ("status", "shown", "called", "says"),
    [
        (job_log.EXIT_AGAIN, None, "", "scontrol is missing; the next `htbench sweep submit` does it"),
        (200, "JobState=RUNNING Reason=None", "requeue 12_3", ""),
        (200, "JobState=COMPLETING Reason=None", "", ""),
        (200, "JobState=RUNNING Reason=refused", "requeue 12_3", "scontrol requeue exited with 1; the next"),
        (1, "JobState=RUNNING Reason=None", "", ""),
        (1, None, "", ""),
    ],
    ids=["no scontrol", "told to make room", "cancelled", "refused", "failed", "failed without scontrol"],
)  # fmt: skip
def test_a_job_that_can_not_be_queued_again_says_so(tmp_path, status, shown, called, says):
    (tmp_path / "grep").symlink_to(shutil.which("grep"))
    if shown is not None:
        end = "exit 1" if "refused" in shown else "exit 0"
        text = f'#!/bin/sh\n[ $1 = show ] && echo "{shown}" || {{ echo "$@" >> {tmp_path}/called; {end}; }}\n'
        (tmp_path / "scontrol").write_text(text)
        (tmp_path / "scontrol").chmod(0o755)
    lines = [*job_log.watch_setup([]), f"(exit {status})", *job_log.AFTERWARDS]
    environment = {**NODE, "PATH": str(tmp_path)}
    done = subprocess.run(
        ["/bin/bash", "-c", "\n".join(lines)], env=environment, text=True, capture_output=True
    )
    assert done.returncode == status
    assert ((tmp_path / "called").read_text() if called else "") == (f"{called}\n" if called else "")
    told = [line for line in done.stdout.splitlines() if "queued again" in line]
    begins = f"htbench: job 12_3 on node n2: could not be queued again: {says}"
    assert [line.startswith(begins) for line in told] == [True] * bool(says)
    if told:
        assert job_log.find_error(told).startswith("could not be queued again"), "so `status` shows it"
