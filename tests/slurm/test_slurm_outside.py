"""A user's own optimizer on the cluster: jobs run the code as it was when they were submitted."""

import pytest

from htbench.harness.store import Store
from htbench.harness.store.points import read_points
from tests.helpers.command import Htbench
from tests.helpers.on_cluster import attempts, cluster, held, partition, queue, site, submit, wait_for
from tests.helpers.own_parts import lay_out, optimizer

pytestmark = pytest.mark.slurm
__all__ = ["cluster", "held", "site"]  # fixtures

FEW = """
name: own
base: {task: digits, model: resnet-nano, steps: 20, batch_size: 16}
resources: {timeout_min: 20}
blocks:
"""


def test_jobs_run_an_own_optimizer_as_it_was_when_they_were_submitted(site, held, tmp_path):
    part, spec = lay_out(tmp_path / "user", FEW)
    user = Htbench(site.root, cwd=part.parent)
    done = submit(user, spec)
    assert "4 submitted" in done.stdout, done.stderr
    keys = {point.key for point in read_points(site.root, "own")}
    part.write_text("raise SystemExit('edited')")
    partition("UP")
    wait_for(lambda: not queue())

    records = Store(site.root).records(attempts(site.root))
    assert records.keys() == keys, "what was planned, nothing else"
    (code,) = (site.root / "code").iterdir()
    assert (code / "outside" / "my_opt.py").read_text() == optimizer()
    assert {record.environment["code"] for record in records.values()} == {code.name}
    assert {record.status for record in records.values()} == {"completed"}

    # What the queue computed is what the same code computes here.
    part.write_text(optimizer())
    here = Htbench(tmp_path / "store", cwd=part.parent)
    assert here("sweep", "run", spec).returncode == 0
    found = Store(here.root).records(keys)
    assert {key: found[key].metrics for key in keys} == {key: records[key].metrics for key in keys}
