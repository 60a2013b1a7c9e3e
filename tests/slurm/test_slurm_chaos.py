"""Sweeps under fire: whatever dies, submitting until done gives each point once, with the same numbers.

A minute in the tests; `make soak` goes on for HTBENCH_SOAK_MINUTES and prints what docs/cluster.md keeps.
"""

import pytest

from tests.helpers.command import Htbench
from tests.helpers.fire import MINUTES, SECONDS, Fire, tell
from tests.helpers.on_cluster import LONG, attempts, cluster, finish, finish_search, site
from tests.helpers.searching import SEARCH
from tests.helpers.sweeping import results

pytestmark = pytest.mark.slurm
__all__ = ["cluster", "site"]  # fixtures

LONG_SEARCH = (
    SEARCH.replace("steps: 8", "steps: 300")
    .replace("checkpoint.every_steps: 3, log_every: 2", "checkpoint.every_steps: 5, log_every: 5")
    .replace("evaluation.every: 2", "evaluation.every: 30")
    .replace("trials: 4", "trials: 8")
    + "resources: {timeout_min: 20}\n"
)
assert "steps: 300" in LONG_SEARCH and "trials: 8" in LONG_SEARCH and "every: 30" in LONG_SEARCH


def test_a_grid_under_fire_ends_as_an_undisturbed_one(site, cluster, write_spec, tmp_path):
    values = ", ".join(f"{0.001 * n:g}" for n in range(1, 1 + int(max(4, 4 * MINUTES))))
    spec = write_spec(LONG.replace("[0.03, 0.1, 0.2, 0.3]", f"[{values}]"))
    fire = Fire(site, cluster, spec, seed=0)
    fire.burn(SECONDS)
    finish(site, spec, "few", "--retry", failures=True)
    tell("grid", fire, site)
    calm = Htbench(tmp_path / "calm")
    assert calm("sweep", "run", spec, timeout=3600).returncode == 0
    assert results(site.root, "few") == results(calm.root, "few")
    assert len(fire.happened) >= 4 and sum(attempts(site.root).values()) > len(attempts(site.root))


def test_a_search_under_fire_has_each_trial_once(site, cluster, write_spec):
    spec = write_spec(LONG_SEARCH.replace("trials: 8", f"trials: {int(max(8, 8 * MINUTES))}"))
    fire = Fire(site, cluster, spec, seed=1)
    fire.burn(SECONDS)
    finish_search(site, spec, "--retry")
    tell("search", fire, site)
    assert len(fire.happened) >= 4 and sum(attempts(site.root).values()) > len(attempts(site.root))
