"""Many workers on one study, and workers that die: every trial distinct, none lost, none made twice."""

import os
import random
import signal
import time
import uuid

import pytest

from tests.helpers.searching import (
    SEARCH,
    bring_up_to_date,
    check_search,
    forget,
    join,
    plan,
    state_of,
    trained,
)
from tests.helpers.slot_worker import Worker
from tests.helpers.waiting import wait_for

POSTGRES = os.environ.get("HTBENCH_TEST_POSTGRES")
NEEDS_POSTGRES = pytest.mark.skipif(not POSTGRES, reason="tests/postgres/run starts a server and runs this")


def empty_database():
    """The URL of a new one: in a shared one a study would have the trials of other tests, too."""
    import psycopg

    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(POSTGRES, autocommit=True) as connection:
        connection.execute(f"create database {name}")
    return f"{POSTGRES.rpartition('/')[0]}/{name}"


@pytest.fixture(params=["journal", pytest.param("postgres", marks=[pytest.mark.postgres, NEEDS_POSTGRES])])
def storage(request):
    return empty_database() if request.param == "postgres" else ""


def study_of(root, write_spec, count, storage="", more=""):
    text = SEARCH.replace("steps: 8", "steps: 81").replace("trials: 4", f"trials: {count}{more}")
    if storage:
        text = text.replace("mode: tpe", f"mode: tpe, storage: '{storage}'")
    (study,) = plan(root, write_spec(text))
    return study


def check_once(root, study):
    check_search(root, study)
    keys = [row["key"] for row in trained(root)]
    assert len(keys) == len(set(keys)) == study.trials, "no run was made twice"


def test_workers_that_share_a_study_and_one_that_dies_everywhere(tmp_path, write_spec, storage):
    study = study_of(tmp_path, write_spec, 12, storage)
    for crash in ("ask.before", "claimed", "record.after", "tell"):
        assert Worker(tmp_path, crash=crash).wait() == -signal.SIGKILL
    join(*(Worker(tmp_path) for _ in range(3)))
    bring_up_to_date(tmp_path, study)  # what the dead had not told
    check_once(tmp_path, study)


def test_workers_on_nodes_that_see_the_store_over_nfs(tmp_path, write_spec):
    study = study_of(tmp_path, write_spec, 16)
    join(*(Worker(tmp_path, nfs=True) for _ in range(4)))
    check_once(tmp_path, study)


def test_a_study_that_is_lost_comes_back_from_the_folders_and_a_slot_from_the_study(
    tmp_path, write_spec, storage
):
    study = study_of(tmp_path, write_spec, 9, storage, more=", pruner: {asha: {min_resource: 3}}")
    join(Worker(tmp_path))
    check_once(tmp_path, study)
    before = state_of(study, tmp_path)
    assert {state for _, state, *_ in before} == {"COMPLETE", "PRUNED"}
    forget(tmp_path, study)
    bring_up_to_date(tmp_path, study)
    assert state_of(study, tmp_path) == before

    slot = tmp_path / "sweeps" / "tiny" / "slots" / study.name / "4.json"
    content = slot.read_bytes()
    slot.unlink()
    join(Worker(tmp_path))
    assert slot.read_bytes() == content
    check_once(tmp_path, study)


def run_under_fire(root, study, count, deaths):
    """Workers until all is done; now and then one of them is killed and another takes its place.

    The deaths come at numbers of finished runs, not at times: so a fast machine is not done before them.
    """
    chance = random.Random(1)
    workers = [Worker(root, retry=True) for _ in range(count)]
    killed = 0
    for done in sorted(chance.sample(range(study.trials - 2 * count), deaths)):
        wait_for(lambda done=done: len(trained(root)) >= done, every=0.01)
        time.sleep(chance.uniform(0, 0.1))  # anywhere in a run, not only just after one
        number = chance.randrange(count)
        killed += workers[number].kill()
        workers[number] = Worker(root, retry=True)
    join(*workers)
    bring_up_to_date(root, study)
    check_search(root, study)
    # Killed after the line of `trained.jsonl` and before its record, a run is rightly made again.
    keys = [row["key"] for row in trained(root)]
    assert study.trials <= len(keys) <= study.trials + killed and len(set(keys)) == study.trials
    return killed


def test_three_workers_and_random_deaths(tmp_path, write_spec):
    study = study_of(tmp_path, write_spec, 24)
    assert run_under_fire(tmp_path, study, 3, 6)


@pytest.mark.long
def test_eight_workers_two_hundred_trials_and_random_deaths(tmp_path, write_spec, storage):
    study = study_of(tmp_path, write_spec, 200, storage)
    assert run_under_fire(tmp_path, study, 8, 24) >= 10


@pytest.mark.postgres
@NEEDS_POSTGRES
def test_workers_that_find_an_empty_database_make_its_tables_once(tmp_path, write_spec):
    study = study_of(tmp_path, write_spec, 8, empty_database())
    others = [study_of(tmp_path / str(number), write_spec, 2, study.storage) for number in range(3)]
    join(Worker(tmp_path), *(Worker(tmp_path / str(number)) for number in range(3)))
    check_once(tmp_path, study)
    for number, other in enumerate(others):
        check_once(tmp_path / str(number), other)
