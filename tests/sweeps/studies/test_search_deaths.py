"""One worker that dies at every named instant, and damaged files: the search is that of an undisturbed one.

Without training, to be quick; test_search_run.py does the same through the command with true runs.
"""

import signal

import pytest

from htbench.sweeps.plan import slots
from tests.helpers.crash_points import CRASH_POINTS
from tests.helpers.searching import (
    SEARCH,
    bring_up_to_date,
    check_search,
    forget,
    join,
    plan,
    state_of,
    studies,
    trained,
)
from tests.helpers.slot_worker import Worker

PRUNED = SEARCH.replace("steps: 8", "steps: 81")
PRUNED = PRUNED.replace("trials: 4", "trials: 8, pruner: {asha: {min_resource: 3}}")
# `slot.before` is the death of whoever plans; checkpoints are those of true runs.
INSTANTS = [name for name in CRASH_POINTS if name != "slot.before" and not name.startswith("checkpoint")]


def outcome(root, study):
    """What must not depend on deaths: what fills the slots, and all that the study knows."""
    return slots.read_slots(root, study), state_of(study, root)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    root = tmp_path_factory.mktemp("undisturbed")
    (root / "tiny.yaml").write_text(PRUNED)
    (study,) = plan(root, root / "tiny.yaml")
    join(Worker(root, in_order=True))
    check_search(root, study)
    assert {state for _, state, *_ in state_of(study, root)} == {"COMPLETE", "PRUNED"}
    return outcome(root, study)


def begun(root, path):
    """A search whose worker was killed in the middle of its fourth trial."""
    (study,) = plan(root, path)
    worker = Worker(root, in_order=True)
    while len(slots.read_slots(root, study)) < 4:
        pass
    worker.kill()
    return study


@pytest.mark.parametrize("instant", INSTANTS)
def test_dying_there_leaves_the_same_search(tmp_path, write_spec, undisturbed, instant):
    path = write_spec(PRUNED)
    if instant == "study.before":  # reached when a study is written anew
        forget(tmp_path, begun(tmp_path, path))
    (study,) = plan(tmp_path, path)
    assert Worker(tmp_path, in_order=True, crash=instant).wait() == -signal.SIGKILL
    join(Worker(tmp_path, in_order=True))
    bring_up_to_date(tmp_path, study)
    check_search(tmp_path, study)
    assert outcome(tmp_path, study) == undisturbed
    assert not [path for path in tmp_path.rglob("*.tmp")]


@pytest.mark.parametrize(
    ("damage", "index"),
    [
        (lambda data: data[:-9], False),
        (lambda data: data[:-9], True),
        (lambda data: b"\x00garbage\n" + data, False),
        (lambda data: b"", False),
        (None, False),
    ],
    ids=["torn", "torn, index", "garbage", "empty", "lost"],
)
@pytest.mark.parametrize(
    "pattern", ["studies/*.journal", "sweeps/tiny/slots/*/2.json", "sweeps/tiny/slots/*/study.json"]
)
def test_a_damaged_or_lost_file_is_mended(tmp_path, write_spec, undisturbed, pattern, damage, index):
    path = write_spec(PRUNED)
    begun(tmp_path, path)
    (broken,) = tmp_path.glob(pattern)
    broken.write_bytes(damage(broken.read_bytes())) if damage else broken.unlink()
    (study,) = plan(tmp_path, path)  # as `sweep run` does
    if index:
        bring_up_to_date(tmp_path, study, rebuild=True)
    join(Worker(tmp_path, in_order=True))
    bring_up_to_date(tmp_path, study)
    check_search(tmp_path, study)
    assert outcome(tmp_path, study) == undisturbed


def test_more_trials_go_on_with_the_study_and_ask_for_the_new_ones_only(tmp_path, write_spec, undisturbed):
    path = write_spec(PRUNED)
    (study,) = plan(tmp_path, path)
    join(Worker(tmp_path, in_order=True))
    made = len(trained(tmp_path))
    more = write_spec(PRUNED.replace("trials: 8", "trials: 11"))
    (grown,) = plan(tmp_path, more)
    assert grown.name == study.name
    join(Worker(tmp_path, in_order=True))
    check_search(tmp_path, grown)
    assert len(trained(tmp_path)) == made + 3
    known = outcome(tmp_path, grown)
    assert (known[1][:8], {k: v for k, v in known[0].items() if k < 8}) == (undisturbed[1], undisturbed[0])
    assert studies(tmp_path, more) == [grown]
