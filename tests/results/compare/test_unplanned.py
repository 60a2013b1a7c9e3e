"""Runs that no sweep plans: they have sections of their own, and change nothing that a sweep has planned."""

import dataclasses
import shutil

import pytest

from htbench import results
from htbench.harness import cli
from htbench.harness.config.settings import resolve_config, to_yaml
from htbench.harness.errors import UsageError
from htbench.harness.store.points import sweep_folder
from htbench.results.compare.view import View
from htbench.results.figures import files
from htbench.results.figures.style import DRAWN_BY
from htbench.results.frames.load import load_rows
from htbench.results.tables.registry import GENERAL
from tests.helpers.frames import load_frame
from tests.helpers.records import change_record


@pytest.fixture
def free(bench, make):
    """What `htbench run` leaves: muon is better on every seed, and sgdm was tried twice."""
    for seed in range(5):
        bench.add("digits", "muon", 0.02, seed=seed, metrics=make.image(0.97 + seed / 1000, 0.1))
        bench.add("digits", "adamw", 0.003, seed=seed, metrics=make.image(0.60 + seed / 1000, 0.9))
    for lr in (0.1, 0.3):
        bench.add("digits", "sgdm", lr, metrics=make.image(0.5 + lr, 1.0))
    bench.points.clear()
    return bench


def sections(store, name="main_result", sweeps=None):
    return GENERAL[name](View(load_rows(store, sweeps), store=store)).sections


def test_a_store_without_sweeps_has_tables_figures_and_a_report(free, capsys, monkeypatch):
    monkeypatch.setattr(files, "render", lambda *_: dict.fromkeys(("png", "pdf"), DRAWN_BY.encode()))
    (section,) = sections(free.store)
    assert section.identity["setting"].endswith("not planned")
    names = [column.name for column in section.columns]
    cells = {row[0].text(): dict(zip(names, row, strict=True)) for row in section.rows}
    tests = {name: row["test_accuracy_percent"] for name, row in cells.items()}
    assert {name: cell.value.n for name, cell in tests.items()} == {"muon": 5, "adamw": 5, "sgdm": 1}
    assert {name: row["tried"].value for name, row in cells.items()} == {"muon": 1, "adamw": 1, "sgdm": 2}
    assert not any(cell.bold for row in section.rows for cell in row)
    assert "p_best" not in names and "ties" not in names
    for words in (["table"], ["table", "--json"], ["figure", "lr_curve", "loss", "pareto"], ["report"]):
        assert cli.main([*words, "--root", str(free.store.root)]) == 0
    assert "nothing to draw" not in capsys.readouterr().out


def test_a_run_that_nobody_planned_counts_in_the_budget_and_changes_no_value(demo_copy, bench, make):
    assert bench.store.root == demo_copy.root
    before = {name: list(map(values, sections(demo_copy, name))) for name in GENERAL}
    bench.add("digits", "muon", 0.05, seed=9, metrics=make.image(0.99, 0.1), environment={"code": "ba98"})
    other = bench.add("digits", "adamw", 0.02, metrics=make.image(0.99, 0.1))
    change_record(
        bench.store, other, lambda record: dataclasses.replace(record, config=of_other_code(record.config))
    )
    for name in GENERAL:
        after = sections(demo_copy, name)
        assert [values(section) for section in after[: len(before[name])]] == before[name]
        assert all("not planned" in section.title for section in after[len(before[name]) :])
    assert len(sections(demo_copy)) > len(before["main_result"])
    (section,) = (
        one
        for one in sections(demo_copy)
        if one.title.startswith("digits, ") and one.rows[0][0].value == "adamw"
    )
    tried = {row[0].value: cell_of(section, row, "tried") for row in section.rows}
    assert "tried_elsewhere" in [note.kind for note in tried["muon"].notes]
    assert len(sections(demo_copy, sweeps=["demo-digits"])) == 1


def of_other_code(config):
    """Where a sweep planned such a run, its data and the version of its optimizer would get into words."""
    return config | {"data_fingerprint": "f" * 16, "revisions": {"optimizer": "1+abcdef01"}}


def values(section):
    """All cells but those of the budget."""
    kept = [at for at, column in enumerate(section.columns) if column.name != "tried"]
    return section.title, [[row[at].text() for at in kept] for row in section.rows]


def cell_of(section, row, name):
    return row[[column.name for column in section.columns].index(name)]


def test_the_runs_of_a_deleted_sweep_are_unplanned(demo_copy):
    shutil.rmtree(sweep_folder(demo_copy.root, "demo-digits"))
    frame = results.frame(demo_copy.root)
    gone = frame[frame["sweep"] == ""]
    assert set(gone["task"]) == {"digits"} and set(frame[frame["sweep"] != ""]["task"]) == {"pydocs"}
    assert gone["key"].is_unique and gone["setting"].str.endswith("not planned").all()
    with pytest.raises(UsageError, match="Unknown sweep 'demo-digits'"):
        load_rows(demo_copy, ["demo-digits"])


def test_an_unfinished_run_has_a_row_if_its_settings_can_be_read(bench):
    keys = [bench.add("digits", "adamw", lr, state="failed", reason="oom") for lr in (0.1, 0.2, 0.3, 0.4)]
    config = to_yaml(resolve_config(bench.points["demo-digits"][0].overrides))
    for key, text in zip(keys, (config, "[", "steps: 3", config), strict=True):
        bench.store.files(key).config.write_text(text)
    bench.store.files(keys[3]).record.write_text("{")  # damaged, and the index lacks it
    bench.points.clear()
    found = load_frame(bench.store).set_index("key")
    assert set(found.index) == {keys[0], keys[3]}
    assert (found.loc[keys[0], "state"], found.loc[keys[0], "reason"]) == ("failed", "oom")
    for key in (keys[0], keys[3]):
        shutil.rmtree(bench.store.run_folder(key))
    with pytest.raises(UsageError, match="No run is planned"):
        load_rows(bench.store)


def test_a_pruned_run_of_a_deleted_search_stays_pruned(bench, make):
    key = bench.add("digits", "adamw", 0.1, state="pruned", metrics={"val_loss": 3.0})
    change_record(bench.store, key, lambda record: dataclasses.replace(record, pruned_by=["gone.adamw"]))
    bench.points.clear()
    (row,) = load_rows(bench.store)
    assert (row["key"], row["state"], row["sweep"]) == (key, "pruned", "")


def test_one_sweep_may_be_named_by_a_word(demo_store):
    assert set(results.frame(demo_store.root, "demo-digits")["sweep"]) == {"demo-digits"}
    with pytest.raises(UsageError, match="Unknown sweep 'demo-digit'"):
        results.frame(demo_store.root, "demo-digit")
