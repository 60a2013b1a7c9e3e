"""Jobs that version 0.1 has submitted, looked after by today's code (`tests/slurm/run`)."""

import json
import signal

import pytest

from harness.store import Store
from tests.helpers import version_0_1
from tests.helpers.command import Htbench
from tests.helpers.on_cluster import (
    FEW,
    accepted,
    attempts,
    cluster,
    held,
    partition,
    queue,
    site,
    submit,
    submitted,
    wait_for,
)

pytestmark = pytest.mark.slurm
__all__ = ["cluster", "held", "site"]  # fixtures


class Before(Htbench):
    """`htbench` of version 0.1 on the same store."""

    def __init__(self, root, home):
        super().__init__(root, cwd=home, fresh=True)  # the code of the working folder, not that of the tests

    def start(self, *words, **environment):
        return super().start(*words, PYTHONPATH=str(self.cwd), **environment)


@pytest.fixture
def before(site, tmp_path):
    return Before(site.root, version_0_1.extract(tmp_path / "version-0.1"))


def check_made_by_their_snapshot(site, points):
    """Each run has one record, one attempt, and the code that its array was submitted with."""
    (code,) = {row["code"] for row in submitted(site.root, "few") if "points" in row}
    assert (site.root / "code" / code / "sweeps" / "launch.py").exists(), "the code of version 0.1"
    assert list(attempts(site.root).values()) == [1] * points
    records = Store(site.root).records(attempts(site.root)).values()
    assert [record.environment["code"] for record in records] == [code] * points


def test_jobs_of_older_code_are_shown_and_finish(site, before, held, write_spec):
    spec = write_spec(FEW)
    assert accepted(before, spec) == 3
    (row,) = json.loads(site("sweep", "status", spec, "--json").stdout)
    assert row["queued"] == 3
    assert accepted(site, spec) == 0, "they are in the queue"
    partition("UP")
    wait_for(lambda: not queue())
    (row,) = json.loads(site("sweep", "status", spec, "--json").stdout)
    assert row["completed"] == 3
    check_made_by_their_snapshot(site, 3)


def test_an_older_submitter_killed_halfway_is_recovered(site, before, held, write_spec):
    """Killed after the answer of `sbatch`, it leaves jobs without a number."""
    spec = write_spec(FEW)
    assert submit(before, spec, HTBENCH_CRASH="submit.after").returncode == -signal.SIGKILL
    done = site("sweep", "submit", spec)
    assert "in the queue already" in done.stdout, done.stderr
    partition("UP")
    wait_for(lambda: not queue())
    check_made_by_their_snapshot(site, 3)
    assert len(submitted(site.root, "few")) == 2, "an intent and its answer"
