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
    sbatch_that_kills_its_caller,
    site,
    submit,
    submitted,
    wait_for,
)
from tests.helpers.searching import SEARCH

pytestmark = pytest.mark.slurm
__all__ = ["cluster", "held", "site"]  # fixtures
FEW_TRIALS = SEARCH.replace("replicate: {seeds: 1}\n", "resources: {timeout_min: 20}\n")
SAID = {
    "submit": "in the queue already",
    "reap": "1 array of a killed submitter found in the queue and noted",
}
assert "trials: 4" in FEW_TRIALS and "timeout_min" in FEW_TRIALS


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


@pytest.mark.parametrize(
    ("moment", "action", "text"),
    [
        ("sbatch", "submit", FEW),
        ("sbatch", "reap", FEW),
        ("sbatch", "submit", FEW_TRIALS),
        ("submit.after", "submit", FEW),
    ],
    ids=["submit", "reap", "search", "submit after the answer"],
)
def test_an_older_submitter_killed_halfway_is_recovered(
    site, before, held, write_spec, tmp_path, moment, action, text
):
    """Killed before it has the answer, it leaves jobs without pickles; after that, jobs without a number."""
    spec, points = write_spec(text.replace("name: tiny", "name: few")), 4 if text == FEW_TRIALS else 3
    where = sbatch_that_kills_its_caller(tmp_path) if moment == "sbatch" else {"HTBENCH_CRASH": moment}
    assert submit(before, spec, **where).returncode == -signal.SIGKILL
    pickles = list(site.root.glob("sweeps/few/logs/*/*_submitted.pkl"))
    assert len(pickles) == (0 if moment == "sbatch" else points)
    done = site("sweep", action, spec)
    assert SAID[action] in done.stdout, done.stderr
    partition("UP")
    wait_for(lambda: not queue())
    check_made_by_their_snapshot(site, points)
    assert len(submitted(site.root, "few")) == 2, "an intent and its answer"
