"""Where a study is written: a journal file or a database, here a file of SQLite. Both say the same."""

import dataclasses
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from htbench.harness.errors import UsageError
from htbench.harness.store import Store
from htbench.harness.store.importing import import_store
from htbench.sweeps.plan import slots
from htbench.sweeps.studies import refresh
from htbench.sweeps.studies import trial as jobs
from tests.helpers.searching import SEARCH, as_values, bring_up_to_date, journal_path, plan, state_of, written


@pytest.fixture(params=["journal", "database"])
def study(request, tmp_path, write_spec):
    (found,) = plan(tmp_path, write_spec(SEARCH))
    url = f"sqlite:///{tmp_path}/studies.db" if request.param == "database" else ""
    return dataclasses.replace(found, storage=url, nonce="abc")


def test_a_study_is_written_again_with_each_slot_and_keeps_its_trials(study, tmp_path):
    store = Store(tmp_path)
    for number in range(3):
        taken = jobs.take(store, study.sweep, study.slot(number))
        place = bring_up_to_date(tmp_path, study)
        found = written(tmp_path, study)
        assert [trial.number for trial in found] == list(range(number + 1))
        assert found[number].user_attrs == {"key": taken.key}
    assert ("studies.db" if study.storage else ".journal") in place
    before = as_values(written(tmp_path, study))
    (tmp_path / "sweeps" / "tiny" / "slots" / study.name / "1.json").unlink()
    bring_up_to_date(tmp_path, study)
    first, lost, last = as_values(written(tmp_path, study))
    assert [first, last] == [before[0], before[2]] and lost[1] == "FAIL", "others keep their numbers"


def test_a_database_that_does_not_answer_is_one_sentence_and_a_run_does_without(study, tmp_path, caplog):
    nowhere = dataclasses.replace(study, storage=f"sqlite:///{tmp_path}/no/folder/studies.db")
    with pytest.raises(UsageError, match=r"The storage of study 'tiny.* can't be used \(\w+Error: "):
        refresh.refresh_search(Store(tmp_path), nowhere)
    taken = jobs.take(Store(tmp_path), study.sweep, study.slot(0))
    taken._search = nowhere
    taken.report(1, {"val_accuracy": 0.5})
    taken.tell(type("Record", (), {"key": taken.key}))
    assert "can't be used" in caplog.text and taken.key in caplog.text


@pytest.mark.parametrize("damage", [lambda data: b"garbage\n", lambda data: data + b'{"op_code": 4, "torn'])
def test_a_journal_that_cannot_be_read_is_made_again_from_the_slots(tmp_path, write_spec, damage):
    (study,) = plan(tmp_path, write_spec(SEARCH))
    jobs.take(Store(tmp_path), study.sweep, study.slot(0))
    bring_up_to_date(tmp_path, study)
    journal = journal_path(tmp_path, study)
    whole = as_values(written(tmp_path, study))
    journal.write_bytes(damage(journal.read_bytes()))
    bring_up_to_date(tmp_path, study)
    assert as_values(written(tmp_path, study)) == whole == state_of(study, tmp_path)
    before = journal.read_bytes()
    bring_up_to_date(tmp_path, study)
    assert journal.read_bytes() == before, "nothing is written while nothing changes"


# --- two stores and one database ---


def planned(root, path):
    """The name in the database of a sweep's study, after the sweep was planned in a store."""
    (found,) = plan(root, path)
    return found.name_in_database


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
    return slots.read_study(root, "tiny", folder.name).name_in_database


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
