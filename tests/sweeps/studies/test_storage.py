"""The two kinds of storage do the same: create, open again, rebuild. Here a database is a file of SQLite."""

import dataclasses
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from htbench.harness.errors import UsageError
from htbench.harness.store import Store
from htbench.harness.store.importing import import_store
from htbench.sweeps.plan import slots
from htbench.sweeps.spec import sweep_file as specs
from htbench.sweeps.studies import trial as jobs
from htbench.sweeps.studies.connection import Connection
from htbench.sweeps.studies.storage import Database, JournalFile
from tests.helpers.searching import SEARCH, plan

KEY = "0123456789ab"


@pytest.fixture(params=[JournalFile, Database])
def study(request, tmp_path, write_spec):
    (found,) = slots.studies(specs.load(write_spec(SEARCH)))
    url = f"sqlite:///{tmp_path}/studies.db" if request.param is Database else ""
    return dataclasses.replace(found, storage=url, nonce="abc")


def numbers(connection):
    return [trial.number for trial in connection.list_trials()]


def test_a_study_is_created_once_opened_again_and_rebuilt(study, tmp_path):
    first = Connection(tmp_path, study)
    assert isinstance(first.home, Database if study.storage else JournalFile)
    number, chosen = first.ask({})
    first.store_key(number, KEY)
    again = Connection(tmp_path, study)
    assert numbers(again) == [0] and again.list_trials()[0].user_attrs == {"key": KEY}
    filled = {0: {"trial": 2, "key": KEY, "overrides": chosen}}
    assert not again.has_slots(filled)
    again.rebuild(filled)
    assert numbers(again) == [0, 1, 2] and again.has_slots(filled)
    first.store_key(2, KEY)
    assert numbers(first) == [0, 1, 2], "the first connection sees the rebuilt study"
    for connection in (first, again):
        connection.release()
    assert first._find_id(0) is not None, "usable after it was released"
    assert ("studies.db" if study.storage else ".journal") in again.home.address


def test_a_database_that_does_not_answer_is_one_sentence(study, tmp_path):
    nowhere = dataclasses.replace(study, storage=f"sqlite:///{tmp_path}/no/folder/studies.db")
    with pytest.raises(UsageError, match=r"The storage of study 'tiny.* can't be used \(\w+Error: "):
        Connection(tmp_path, nowhere)


@pytest.mark.parametrize("damage", [lambda data: b"garbage\n", lambda data: data + b'{"op_code": 4, "torn'])
def test_a_journal_that_cannot_be_read_is_made_again_from_the_slots(tmp_path, write_spec, damage):
    (study,) = plan(tmp_path, write_spec(SEARCH))
    store = Store(tmp_path)
    first = jobs.take(store, study.sweep, study.slot(0))
    journal = Connection(tmp_path, study).home.path
    journal.write_bytes(damage(journal.read_bytes()))
    with pytest.raises(ValueError):
        Connection(tmp_path, study)
    first.report(1, {"val_accuracy": 0.5})  # is in the curve for later: a run does not depend on its study
    jobs.take(store, study.sweep, study.slot(1))
    trials = Connection(tmp_path, study).list_trials()
    assert [(trial.number, trial.user_attrs["key"] == first.key) for trial in trials] == [
        (0, True),
        (1, False),
    ]


# --- two stores and one database ---


def planned(root, path):
    """The name in the database of a sweep's study, after the sweep was planned in a store."""
    (found,) = plan(root, path)
    return Database(found).study_name


@pytest.fixture
def sweep(tmp_path, write_spec):
    storage = f"postgresql://nobody@127.0.0.1:1/{tmp_path.name}"
    return write_spec(SEARCH.replace("mode: tpe", f"mode: tpe, storage: '{storage}'"))


def imported(other, root):
    """Import a store; what the command said of sweeps."""
    done = import_store(Store(root), other)
    assert not done.remarks
    return done.sweeps


def test_stores_that_are_imported_from_one_another_have_studies_of_their_own(sweep, tmp_path):
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    name = planned(first, sweep)
    assert imported(first, second) == imported(second, third) == ["tiny"]
    names = [name, read(second), read(third)]
    assert len(set(names)) == 3
    assert [planned(root, sweep) for root in (first, second, third)] == names
    assert imported(second, first) == imported(first, second) == [], "the sweeps do not differ"
    assert [planned(root, sweep) for root in (first, second, third)] == names


def read(root):
    """The name in the database for a job, which does not plan."""
    (folder,) = root.glob("sweeps/tiny/slots/*/")
    return Database(slots.read_study(root, "tiny", folder.name)).study_name


def test_the_nonce_of_a_store_is_made_once_and_again_if_it_is_damaged(sweep, tmp_path):
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: planned(tmp_path / "s", sweep), range(8)))) == 1
    before = read(tmp_path / "s")
    for damage in ("", "[]", '{"nonce": "../x"}', '{"nonce": 1}'):
        (tmp_path / "s" / "store.json").write_text(damage)
        assert read(tmp_path / "s") == read(tmp_path / "s") != before
        assert re.fullmatch(r"tiny\.sgdm\.\w{6}\.[0-9a-f]{8}", read(tmp_path / "s"))


def test_a_store_without_a_database_has_no_nonce(write_spec, tmp_path):
    plan(tmp_path / "s", write_spec(SEARCH))
    assert not (tmp_path / "s" / "store.json").exists()
