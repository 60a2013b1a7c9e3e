"""Two nodes on one store over NFS, which answers from memory what names a folder has."""

import os

import pytest

from htbench.harness.errors import LostOwnershipError
from htbench.harness.show.status import Status
from htbench.harness.store import Store, submissions
from htbench.harness.store.points import submitting
from htbench.harness.system import atomic
from tests.helpers.nfs_client import Client, Server
from tests.helpers.records import record

KEY = "a" * 12


@pytest.fixture
def nodes(tmp_path):
    (tmp_path / "store").mkdir()
    server = Server(tmp_path / "store")
    return Client(server), Client(server)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store", alive=lambda owner, heartbeat: False)


def test_the_client_of_these_tests_answers_from_memory_until_it_changes_something(nodes, store):
    here, there = nodes
    seen, unseen = store.root / "seen", store.root / "unseen"
    with here:
        assert os.listdir(store.root) == [] and not unseen.exists()
    with there:
        seen.touch()
        unseen.touch()
    with here:
        assert os.listdir(store.root) == [] and not unseen.exists()
        atomic.refresh_file_cache(store.root)
        assert sorted(os.listdir(store.root)) == ["seen", "unseen"] and unseen.exists()
        with open(unseen, "a") as file:
            file.write("more")
    with there:
        assert unseen.read_text() == "more"


def test_what_another_node_has_finished_is_not_begun_again(nodes, store):
    here, there = nodes
    with here:
        assert store.state(KEY).status is Status.WAITING
        atomic.refresh_file_cache(store.root)
        (store.run_folder(KEY) / "attempts").mkdir(parents=True)
        assert store.record(KEY) is None and store.last_attempt(KEY) == 0
    with there:
        store.claim(KEY, "").finish(record(KEY, 1))
    with here:
        assert store.claim(KEY, "").status.has_ended


def test_who_was_taken_over_from_another_node_writes_no_more(nodes, store):
    here, there = nodes
    with here:
        mine = store.claim(KEY, "")
        mine.check()
    with there:
        assert store.claim(KEY, "").number == 2
    with here, pytest.raises(LostOwnershipError):
        mine.check()


def test_who_submits_knows_what_was_submitted_on_another_node(nodes, store):
    here, there = nodes
    with here, submitting(store.root):
        (store.root / "sweeps").mkdir()
        assert submissions.read_all(store.root) == []
    with there, submitting(store.root):
        (store.root / "sweeps" / "tiny").mkdir()
        submissions.intend(store.root, "tiny", [KEY], {})
    with here, submitting(store.root):
        assert [one.points for one in submissions.read_all(store.root)] == [(KEY,)]
