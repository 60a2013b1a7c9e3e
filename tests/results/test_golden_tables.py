"""Tables, ledger and figures of stores of every kind, value for value as they were.

`python -m tests.helpers.golden_stores --write` writes the golden files anew. A new value there is a changed
number in somebody's table: say why in the commit. New sentences alone: `--write-words`.
"""

import difflib
import functools

import pytest

from results.figures.declared import FIGURES
from results.tables.registry import TABLES
from tests.helpers import golden_snapshot, golden_stores

MOST = 40  # lines of a difference that are shown


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What is said of a store, by its name; each store is made once."""

    @functools.cache
    def of(name):
        return golden_stores.snapshot(golden_stores.STORES[name], tmp_path_factory.mktemp(name))

    return of


def check_same(golden, now):
    """Fail with the lines that differ; pytest itself would cut them short."""
    if golden != now:
        lines = list(difflib.unified_diff(golden, now, "golden", "now", n=0, lineterm=""))
        more = [f"... {len(lines)} lines"] if len(lines) > MOST else []
        pytest.fail("\n".join(lines[:MOST] + more), pytrace=False)


@pytest.mark.parametrize("name", golden_stores.STORES)
def test_no_value_has_changed(found, name):
    check_same(golden_snapshot.read(name).values, found(name).values)


@pytest.mark.parametrize("name", golden_stores.STORES)
def test_the_sentences_are_those_that_were_agreed(found, name):
    check_same(golden_snapshot.read(name).words, found(name).words)


def test_archived_runs_have_the_same_tables(tmp_path):
    packed = golden_stores.snapshot(golden_stores.Kind(golden_stores.packed), tmp_path)
    assert list((tmp_path / "store" / "packed").glob("*.zip")), "nothing was packed"
    check_same(golden_snapshot.read("demo").values, packed.values)


def test_each_experiment_of_the_paper_has_its_tables_and_figures_alone(tmp_path, monkeypatch):
    """`htbench reproduce nano NAME` plans one of them; tables and figures of the others then have no run."""
    root = tmp_path / "store"
    golden_stores.nano(root)
    monkeypatch.setattr(golden_snapshot.RENDER, golden_snapshot._undrawn)
    for sweep in sorted(path.name for path in (root / "sweeps").iterdir()):
        golden_snapshot.say("table", "--root", root, "--sweep", sweep)
        golden_snapshot.say("figure", "--root", root, "--sweep", sweep, "--out", tmp_path / sweep)


def test_the_golden_files_have_something_of_everything():
    """What no store has could change unseen."""
    files = [golden_snapshot.read(name) for name in golden_stores.STORES]
    values = "\n".join(line for one in files for line in one.values)
    words = "\n".join(line for one in files for line in one.words)
    for state in ("waiting", "running", "failed", "diverged", "pruned", "damaged"):
        assert f'], "{state}", "' in values, state
    assert 'null, "b"' in values and 'null, "*"' in values, "bold and chosen"
    assert "| mixture: " in words and "0 mixtures" in values
    assert {f"table --strict | exit status {status}" for status in (0, 1)} <= set(values.splitlines())
    drawn = {line.split(" | ")[0] for line in values.splitlines() if not line.endswith("| nothing")}
    for kind, names in (("table", TABLES), ("figure", FIGURES)):
        assert {f"{kind} {name}" for name in names} <= drawn
    assert {"ledger ledger", "ledger ledger_nano"} <= drawn
