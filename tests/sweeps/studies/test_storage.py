"""The two kinds of storage do the same: create, open again, rebuild. Here a database is a file of SQLite."""

import dataclasses

import optuna
import pytest

from harness.errors import UsageError
from sweeps.plan import slots
from sweeps.spec import sweep_file as specs
from sweeps.studies.connection import Connection
from sweeps.studies.storage import Database, JournalFile
from tests.helpers.searching import SEARCH


@pytest.fixture(params=[JournalFile, Database])
def study(request, tmp_path, write_spec):
    (found,) = slots.studies(specs.load(write_spec(SEARCH)))
    url = f"sqlite:///{tmp_path}/studies.db" if request.param is Database else ""
    return dataclasses.replace(found, storage=url, nonce="abc")


def numbers(connection):
    return [trial.number for trial in connection.trials()]


def test_a_study_is_created_once_opened_again_and_rebuilt(study, tmp_path):
    first = Connection(tmp_path, study)
    assert isinstance(first.kept, Database if study.storage else JournalFile)
    number, chosen = first.ask({})
    first.name(number, "key")
    again = Connection(tmp_path, study)
    assert numbers(again) == [0] and again.trials()[0].user_attrs == {"key": "key"}
    filled = {0: {"trial": 2, "key": "key", "overrides": chosen}}
    assert not again.agrees(filled)
    again.rebuild(filled)
    assert numbers(again) == [0, 1, 2] and again.agrees(filled)
    first.name(2, "key")
    assert numbers(first) == [0, 1, 2], "the first connection sees the rebuilt study"
    for connection in (first, again):
        connection.release()
    assert first.trial_id(0) is not None, "usable after it was released"
    assert ("studies.db" if study.storage else ".journal") in again.kept.shown


def test_names_in_a_database_tell_stores_apart(study):
    kept = Database(study).study_name, Database(dataclasses.replace(study, nonce="other")).study_name
    assert len(set(kept)) == 2


def test_a_database_that_does_not_answer_is_one_sentence(study, tmp_path):
    nowhere = dataclasses.replace(study, storage=f"sqlite:///{tmp_path}/no/folder/studies.db")
    with pytest.raises(UsageError, match=r"The storage of study 'tiny.* can't be used \(\w+Error: "):
        Connection(tmp_path, nowhere)


def test_an_unreadable_journal_is_cleared(study, tmp_path):
    kept = JournalFile(tmp_path, dataclasses.replace(study, storage=""))
    kept.path.parent.mkdir()
    kept.path.write_text("garbage\n")
    with pytest.raises(ValueError):
        Connection(tmp_path, dataclasses.replace(study, storage=""))
    kept.clear()
    assert kept.refresh() and kept.path.read_bytes() == b""
    storage, found = kept.connect(lambda s: optuna.create_study(storage=s, study_name=kept.study_name))
    assert kept.is_current() and found.study_name == study.name and storage is not None
