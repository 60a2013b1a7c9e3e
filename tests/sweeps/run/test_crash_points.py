"""Die at every named instant, run the command again: every point once, numbers as of an undisturbed sweep."""

import pytest

from htbench.harness.store import Store
from tests.helpers.crash_points import CRASH_POINTS
from tests.helpers.sweeping import SPEC, carried_out, check_whole, die_at_each, results

# One death each (`ask.before` and `tell` belong to searches, test_search_run.py), then
# some in a row: a run taken over, a second record, a replica planned, a study grown. No run may be at work
# at two of them without a checkpoint in between: that would count as its failure.
DEATHS = [[name] for name in CRASH_POINTS if name not in ("ask.before", "tell")] + [
    ["checkpoint.after", "claimed", "record.before"],
    ["record.after", "record.after", "slot.before", "checkpoint.after", "study.before"],
]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    root, _ = carried_out(tmp_path_factory.mktemp("undisturbed"), SPEC, "--workers", 1)
    check_whole(root)
    return results(root)


@pytest.mark.parametrize("deaths", DEATHS, ids="+".join)
def test_dying_there_and_running_again_gives_the_same_sweep(deaths, htbench, write_spec, undisturbed):
    spec = write_spec(SPEC)
    die_at_each(deaths, htbench, "sweep", "run", spec, "--workers", 1)
    again = htbench("sweep", "run", spec, "--workers", 1)
    assert again.returncode == 0, again.stderr
    check_whole(htbench.root)
    assert results(htbench.root) == undisturbed
    # Checkpoints come after 3 and 6 of 8 steps.
    again = {"checkpoint.before": 3, "checkpoint.after": 0, "record.before": 2}
    if deaths[0] in again and len(deaths) == 1:
        records = Store(htbench.root).records(results(htbench.root)).values()
        assert sum(record.repeated_steps for record in records) == again[deaths[0]]
