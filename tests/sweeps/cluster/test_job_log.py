"""The node and the error in the logs of jobs, as SLURM 22.05 and Python write them."""

import pytest

from htbench.sweeps.cluster import job_log

START = "htbench: job 12_3 on node n2 starts at 1764000000"
EXIT = "srun: error: n2: task 0: Exited with exit code 1\n"


@pytest.fixture
def log(tmp_path):
    """Write a log and read it."""

    def log(text):
        path = tmp_path / "12_3_0_log.out"
        path.write_text(text)
        return job_log.read(path)

    return log


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (
            "slurmstepd: error: execve(): /opt/python: No such file or directory\n" + EXIT,
            "execve(): /opt/python: No such file or directory",
        ),
        (
            "loading\nhtbench: job 12_3 on node n2: setup line 2 exited with 3: exit 3\n",
            "setup line 2 exited with 3: exit 3 (loading)",
        ),
        (
            "/var/spool/slurmd/job00012/slurm_script: line 12: conda: command not found\n"
            "htbench: job 12_3 on node n2: setup line 1 exited with 127: conda activate x\n",
            "setup line 1 exited with 127: conda activate x (conda: command not found)",
        ),
        (
            "Traceback (most recent call last):\n  File 'x.py', line 1, in f\n    import torch\n"
            + "ModuleNotFoundError: No module named 'torch'\n"
            + EXIT,
            "ModuleNotFoundError: No module named 'torch'",
        ),
        (
            "htbench: this job imports from /a instead of its snapshot /b.\n" + EXIT,
            "this job imports from /a instead of its snapshot /b.",
        ),
        ("hello\nmodule: command not found\n\n", "module: command not found"),
        ("hello\nworld\n" + EXIT, "world"),
        (EXIT, "Exited with exit code 1"),
        ("", ""),
    ],
)
def test_the_error_is_told_without_what_follows_from_it(log, said, error):
    assert log(f"{START}\n{said}").error == error


def test_the_last_start_of_a_job_that_was_queued_again_counts(log):
    found = log(f"{START.replace('n2', 'n1')}\nOSError: of the first\n{START}\nKeyError: of the second\n")
    assert (found.node, found.error) == ("n2", "KeyError: of the second")


def test_the_node_of_the_task_that_failed_counts_not_the_first_of_the_job(log):
    assert log(f"{START}\n{EXIT.replace('n2', 'n5')}").node == "n5"


def test_a_log_of_older_code_and_a_missing_one(log, tmp_path):
    assert log("OSError: x\n").node == ""
    assert job_log.read(tmp_path / "nowhere") is None
