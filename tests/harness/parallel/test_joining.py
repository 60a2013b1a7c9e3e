"""How processes find each other, and what they say while one is missing. Stores and connections are real."""

from datetime import timedelta

import pytest

from htbench.harness.errors import RunFailedError, StoppedError, UsageError
from htbench.harness.parallel import joining
from htbench.harness.parallel.group import ALONE, Group
from htbench.harness.parallel.joining import joined, place
from htbench.harness.parallel.processes import VARIABLES, _find_free_port
from htbench.harness.store.points import SEARCH, Point
from htbench.harness.train.monitor import Monitor
from htbench.sweeps.run.execute import EXIT_ENDED, execute


@pytest.fixture
def started(monkeypatch):
    """Say what a launcher would; returns where the processes are to meet."""

    def start(**values):
        port = str(_find_free_port())
        given = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port} | values
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, value in given.items():
            if value is not None:
                monkeypatch.setenv(name, value)
        return f"{given['MASTER_ADDR']}:{port}"

    return start


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({"WORLD_SIZE": None, "RANK": "1"}, ALONE),
        ({"WORLD_SIZE": "1", "RANK": None}, ALONE),
        ({"RANK": "1"}, Group(1, 2, 1)),
        ({"WORLD_SIZE": "4", "RANK": "3", "LOCAL_RANK": "1"}, Group(3, 4, 1)),
    ],
)
def test_variables_tell_a_process_its_place(started, variables, found):
    started(**variables)
    assert place() == found


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE=two must be a whole number from 1;"),
        ({"RANK": "2"}, "RANK=2 must be a whole number from 0 to 1;"),
        ({"RANK": "-1"}, "RANK=-1 must be"),
        ({"LOCAL_RANK": "a"}, "LOCAL_RANK=a must be"),
        ({"MASTER_PORT": "65536"}, "MASTER_PORT=65536 must be a whole number from 1 to 65535;"),
        ({"RANK": None, "MASTER_ADDR": None}, "WORLD_SIZE=2 is set without RANK and MASTER_ADDR, .*unset"),
    ],
)
def test_variables_that_cannot_be_are_one_sentence(started, variables, sentence):
    started(**variables)
    with pytest.raises(UsageError, match=sentence), joined():
        pass


@pytest.mark.parametrize(("rank", "address"), [("0", "127.0.0.1"), ("1", "127.0.0.1"), ("1", "no.invalid")])
def test_a_wait_says_whom_it_is_for_and_has_an_end(started, monkeypatch, caplog, rank, address):
    at = started(RANK=rank, MASTER_ADDR=address)
    monkeypatch.setattr(joining, "QUIET", 0.0)
    monkeypatch.setattr(joining, "PATIENCE", timedelta(seconds=0.5))
    whom = f"1 of 2 processes (RANK={1 - int(rank)})"
    with pytest.raises(RunFailedError) as late, joined():
        pass
    assert str(late.value).startswith(f"{whom} did not come to {at}") and "unset WORLD_SIZE" in str(
        late.value
    )
    (said,) = {record.getMessage() for record in caplog.records}
    assert said.startswith(f"waiting for {whom} at {at}") and said.endswith("because WORLD_SIZE=2 is set")


def test_all_go_on_or_none(started):
    started(WORLD_SIZE="3")
    stopped = [joining._open_store(Group(0, 3))]  # has the store
    with pytest.raises(StoppedError, match=r"for 1 of 3 processes \(RANK=2\)"):
        joining._await_all(Group(1, 3), lambda: True)
    with pytest.raises(StoppedError):  # though all are there now
        joining._await_all(Group(2, 3), lambda: False)

    started(WORLD_SIZE="2")
    together = joining._open_store(Group(0, 2))
    assert joining._await_all(Group(1, 2), lambda: False) is not None
    assert joining._await_all(Group(1, 2), lambda: True) is not None  # it goes on with the others
    del stopped, together


def test_processes_of_different_sizes_and_a_port_in_use_are_refused(started):
    started()
    server = joining._open_store(Group(0, 2))
    assert not joining._open_store(Group(1, 3)).check(["0"]), "it takes no other for one of its own"
    with pytest.raises(UsageError, match="MASTER_PORT=.* choose a free one"):
        joining._open_store(Group(0, 2))
    del server


def test_a_point_that_cannot_be_is_refused_before_its_process_waits(started, tmp_path, tiny):
    started()
    said = []
    point = Point("tiny", "only", SEARCH, "0" * 12, tiny)
    assert execute(tmp_path, point, Monitor(), said.append) == EXIT_ENDED
    assert "was planned with other code" in str(said)
