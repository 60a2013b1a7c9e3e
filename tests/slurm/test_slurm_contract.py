"""SLURM does what the code and the stand-in of quick tests take for granted."""

import pytest

from htbench.harness.system import slurm
from tests.helpers.on_cluster import ask, cluster, held, queue, site, wait_for
from tests.helpers.slurm_contract import CHECKS, Site

pytestmark = [pytest.mark.slurm, pytest.mark.short]
__all__ = ["cluster", "held", "site"]  # fixtures


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_real_one(check, site, held, monkeypatch):
    monkeypatch.setattr(slurm, "_remembered", {})
    slurm.config.cache_clear()

    def begin(id):
        waiting = [job for job in queue() if job != id]
        ask("scontrol", "hold", *waiting) if waiting else None
        ask("scontrol", "update", "PartitionName=gpu", "State=UP")
        wait_for(lambda: queue().get(id) == "RUNNING")

    site.root.mkdir(parents=True)
    check(Site(begin, site.root))
    slurm.config.cache_clear()
