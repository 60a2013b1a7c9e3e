"""Where a study is written: a journal file or a database, here a file of SQLite. Both say the same."""

import contextlib
import dataclasses

import optuna
import pytest
from optuna.trial import TrialState, create_trial

from htbench.harness.config.settings import resolve_config
from htbench.harness.errors import UsageError
from htbench.harness.show.status import Status
from htbench.harness.store import Store
from htbench.harness.store.record import RunRecord
from htbench.harness.store.study import study_path
from htbench.harness.system import atomic
from htbench.sweeps.studies import refresh
from htbench.sweeps.studies import study as studies
from htbench.sweeps.studies import trial as jobs
from tests.helpers.searching import (
    SEARCH,
    as_values,
    bring_up_to_date,
    forget,
    journal_path,
    plan,
    state_of,
    written,
)


@pytest.fixture(params=["journal", "database"])
def study(request, tmp_path, write_spec):
    (found,) = plan(tmp_path, write_spec(SEARCH))
    url = f"sqlite:///{tmp_path}/studies.db" if request.param == "database" else ""
    return dataclasses.replace(found, storage=url)


def finish(root, study, number, status=Status.COMPLETED, wanted_by=""):
    taken = jobs.take(Store(root), study.sweep, study.slot(number))
    attempt = Store(root).claim(taken.key, "", wanted_by or taken.study)
    config = dataclasses.asdict(resolve_config(taken.settings))
    figures = {"val_accuracy": number / 10}
    record = RunRecord(taken.key, config, status, figures, 8, 0.0, None, 0, {}, 1, {})
    record.pruned_by.extend([study.name] * (status is Status.PRUNED))
    attempt.finish(record)
    taken._search = study
    taken.tell(record)
    return taken


def test_a_study_learns_of_each_run_that_ends_and_is_made_again_when_it_is_lost(study, tmp_path):
    for number in range(3):
        taken = finish(tmp_path, study, number)
        found = written(tmp_path, study)
        assert [trial.number for trial in found] == list(range(number + 1))
        assert found[number].user_attrs == {"key": taken.key, "status": "completed"}
        assert found[number].value == number / 10 and found[number].params
    before = as_values(written(tmp_path, study))
    place = bring_up_to_date(tmp_path, study)
    assert ("studies.db" if study.storage else ".journal") in place
    bring_up_to_date(tmp_path, study, rebuild=True)
    assert as_values(written(tmp_path, study)) == before
    forget(tmp_path, study)
    bring_up_to_date(tmp_path, study)
    assert as_values(written(tmp_path, study)) == before


def test_a_run_that_was_pruned_and_that_another_sweep_finishes_is_complete(study, tmp_path):
    finish(tmp_path, study, 0, Status.PRUNED)
    finish(tmp_path, study, 1)
    assert [trial.state.name for trial in written(tmp_path, study)] == ["PRUNED", "COMPLETE"]
    finish(tmp_path, study, 0, wanted_by="another")
    bring_up_to_date(tmp_path, study)
    assert [trial.state.name for trial in written(tmp_path, study)] == ["COMPLETE", "COMPLETE"]


def test_no_job_waits_for_a_database(tmp_path, write_spec, monkeypatch):
    (study,), asked = plan(tmp_path, write_spec(SEARCH)), []

    def write(*args, **options):
        with atomic.locked(study_path(tmp_path, study.sweep, study.name).with_name(".lock"), pytest.fail):
            asked.append(args)

    monkeypatch.setattr(studies, "write_search", write)
    refresh.refresh_search(Store(tmp_path), dataclasses.replace(study, storage="postgresql://host/name"))
    assert asked


def test_a_slot_that_is_lost_leaves_the_numbers_of_the_others(tmp_path, write_spec):
    (study,) = plan(tmp_path, write_spec(SEARCH))
    for number in range(3):
        finish(tmp_path, study, number)
    before = as_values(written(tmp_path, study))
    (tmp_path / "sweeps" / "tiny" / "slots" / study.name / "1.json").unlink()
    bring_up_to_date(tmp_path, study)
    first, lost, last = as_values(written(tmp_path, study))
    assert [first, last] == [before[0], before[2]] and lost[1] == "FAIL"


def test_a_database_that_does_not_answer_is_one_sentence_and_a_run_does_without(study, tmp_path, caplog):
    nowhere = dataclasses.replace(study, storage=f"sqlite:///{tmp_path}/no/folder/studies.db")
    with pytest.raises(UsageError, match=r"The storage of study 'tiny.* can't be used \(\w+Error: "):
        refresh.refresh_search(Store(tmp_path), nowhere)
    taken = finish(tmp_path, nowhere, 0)
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


def test_stores_that_share_a_database_add_to_one_study_and_each_run_once(tmp_path, write_spec, monkeypatch):
    path = write_spec(SEARCH)
    first, second = (
        dataclasses.replace(plan(tmp_path / name, path)[0], storage=f"sqlite:///{tmp_path}/studies.db")
        for name in ("first", "second")
    )
    for number in range(2):
        finish(tmp_path / "first", first, number, Status.PRUNED if number else Status.COMPLETED)
    for number in range(3):
        finish(tmp_path / "second", second, number)
    before = [(trial.user_attrs, trial.value) for trial in written(tmp_path, first)]
    assert len({attributes["key"] for attributes, _ in before}) == len(before) == 3
    assert {attributes["status"] for attributes, _ in before} == {"completed"}
    left = list[int]()  # steps until `sweep index` dies

    def make_mortal(act):
        def work(*words, **named):
            left[0] -= 1
            if not left[0]:
                raise RuntimeError("died")
            return act(*words, **named)

        return work

    for owner, name in ((optuna.Study, "add_trials"), (optuna, "delete_study"), (optuna, "create_study")):
        monkeypatch.setattr(owner, name, make_mortal(getattr(owner, name)))
    for steps in range(1, 9):
        left[:] = [steps]
        with pytest.raises(UsageError, match="died") if steps < 8 else contextlib.nullcontext():
            refresh.refresh_search(Store(tmp_path / "first"), first, rebuild=True)
        left[:] = [0]
        refresh.refresh_search(Store(tmp_path / "first"), first)
        assert [(trial.user_attrs, trial.value) for trial in written(tmp_path, first)] == before
    assert optuna.get_all_study_names(first.storage) == [first.name]


def test_a_database_whose_writers_died_or_wrote_at_the_same_moment_is_mended(tmp_path, write_spec):
    (study,) = plan(tmp_path, write_spec(SEARCH))
    study = dataclasses.replace(study, storage=f"sqlite:///{tmp_path}/studies.db")
    begun = optuna.create_study(study_name=study.name, storage=study.storage, direction="maximize")
    keys = [finish(tmp_path, study, 0).key, "of another store"]
    begun.add_trials(begun.trials)
    begun.add_trial(create_trial(state=TrialState.PRUNED, user_attrs={"key": keys[1], "status": "pruned"}))
    keys += [finish(tmp_path, study, 1).key]
    assert [trial.user_attrs["key"] for trial in written(tmp_path, study)] == keys
    mended = optuna.load_study(study_name=study.name, storage=study.storage)
    assert mended.metric_names == ["val_accuracy"] and mended.user_attrs["block"] == "sgdm"
