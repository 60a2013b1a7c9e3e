"""One store on a network file system, used by two nodes: `tests/network/run` mounts it twice."""

import multiprocessing
import os
import shutil
import signal
import uuid
from pathlib import Path

import pytest

from htbench.harness.store.index import Index, Mark
from htbench.harness.system import atomic
from tests.helpers.command import Htbench
from tests.helpers.records import record
from tests.helpers.searching import SEARCH, bring_up_to_date, check_search, join, plan, trained
from tests.helpers.slot_worker import Worker
from tests.helpers.sweeping import SPEC, carried_out, check_whole, results
from tests.helpers.waiting import wait_for

FORK = multiprocessing.get_context("fork")

pytestmark = pytest.mark.network


@pytest.fixture
def nodes():
    """The store as each of two nodes sees it."""
    name = uuid.uuid4().hex[:8]
    roots = [Path(mount) / name for mount in os.environ["HTBENCH_TEST_MOUNTS"].split(":")]
    roots[0].mkdir()
    yield roots
    shutil.rmtree(roots[0])


def test_workers_of_two_nodes_share_a_study(nodes, write_spec):
    here, there = nodes
    (study,) = plan(
        here, write_spec(SEARCH.replace("steps: 8", "steps: 81").replace("trials: 4", "trials: 40"))
    )
    join(*(Worker(root) for root in (here, there) * 3))
    for root in nodes:
        bring_up_to_date(root, study)
        check_search(root, study)
    keys = [row["key"] for row in trained(here)]
    assert len(keys) == len(set(keys)) == 40, "no run was made twice"


def test_two_nodes_note_records_at_once(nodes):
    def note(root, first):
        index = Index(root / "index.jsonl")
        for number in range(first, first + 100):
            with index.locked():
                index.append([(Mark(1, 1), record(f"{number:012}", 1))])

    processes = [FORK.Process(target=note, args=(root, 1000 * i)) for i, root in enumerate(nodes * 2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    for root in nodes:
        atomic.refresh_file_cache(root / "index.jsonl")
        assert len(atomic.read_lines(root / "index.jsonl")) == len(Index(root / "index.jsonl").rows()) == 400


def test_two_nodes_run_a_sweep_and_one_goes_down(nodes, write_spec, tmp_path):
    text = SPEC.replace("steps: 8", "steps: 60").replace("[0.03, 0.1]", "[0.01, 0.03, 0.1, 0.3]")
    calm, spec = carried_out(tmp_path, text)
    here, there = nodes
    first, second = (Htbench(root).start("sweep", "run", spec) for root in (here, there))
    wait_for(lambda: list(here.glob("runs/*/*/record.json")))
    os.killpg(second.pid, signal.SIGKILL)
    second.communicate()
    _, errors = first.communicate(timeout=300)
    assert first.returncode == 0, errors
    done = Htbench(there)("sweep", "run", spec)
    assert done.returncode == 0, done.stderr
    for root in nodes:
        check_whole(root)
        assert results(root) == results(calm)
