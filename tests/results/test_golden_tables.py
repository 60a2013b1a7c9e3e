"""Tables, ledger and figures of stores of every kind, value for value as they were.

`python -m tests.helpers.golden_stores --write` writes the golden files anew. A new value there is a changed
number in somebody's table: say why in the commit. New sentences alone: `--write-words`.
"""

import difflib
import functools
import math
import re

import pytest

from htbench.harness.choice.winner import grouped
from htbench.harness.store import Store
from htbench.results.figures.registry import FIGURES
from htbench.results.frames.load import load_rows
from htbench.results.tables.registry import TABLES
from tests.helpers import golden_snapshot, golden_stores

MOST = 40  # lines of a difference that are shown
NUMBER = re.compile(r"\d+\.\d{6,}(?:e[-+]?\d+)?")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The root of a store, by its name; each is made once."""
    return functools.cache(lambda name: golden_stores.filled(name, tmp_path_factory.mktemp(name)))


def is_same(golden, now):
    """Whether lines agree but for last digits: what is found by iterations has others on other processors."""
    if len(golden) != len(now):
        return False
    for one, other in zip(golden, now, strict=True):
        if one != other:
            numbers, others = NUMBER.findall(one), NUMBER.findall(other)
            if NUMBER.sub("", one) != NUMBER.sub("", other) or len(numbers) != len(others):
                return False
            pairs = zip(map(float, numbers), map(float, others), strict=True)
            if not all(math.isclose(a, b, rel_tol=1e-6) for a, b in pairs):
                return False
    return True


def test_only_last_digits_may_differ():
    assert is_same(["a 0.01214337507 | 3"], ["a 0.01214337509 | 3"])
    for other in ("a 0.01214397507 | 3", "a 0.01214337507 | 4", "b 0.01214337507 | 3", "a 0.01214337507"):
        assert not is_same(["a 0.01214337507 | 3"], [other]), other


def check_same(golden, now):
    """Fail with the lines that differ; pytest itself would cut them short."""
    if not is_same(golden, now):
        lines = list(difflib.unified_diff(golden, now, "golden", "now", n=0, lineterm=""))
        more = [f"... {len(lines)} lines"] if len(lines) > MOST else []
        pytest.fail("\n".join(lines[:MOST] + more), pytrace=False)


@pytest.mark.parametrize("name", golden_stores.STORES)
def test_no_value_has_changed_and_the_sentences_are_those_that_were_agreed(made, name):
    golden, now = golden_snapshot.read(name), golden_stores.snapshot(name, made(name))
    check_same(golden.values, now.values)
    check_same(golden.words, now.words)


def test_each_experiment_of_the_paper_has_its_tables_and_figures_alone(made, tmp_path, monkeypatch):
    """`htbench reproduce nano NAME` plans one of them; tables and figures of the others then have no run."""
    root = made("nano")
    rows = load_rows(Store(root))
    monkeypatch.setattr(golden_snapshot.RENDER, golden_snapshot._undrawn)
    for sweep, own in grouped(rows, lambda row: row["sweep"]).items():
        monkeypatch.setattr(golden_snapshot.LOAD, lambda *_, own=own: own)
        golden_snapshot.say("table", "--root", root)
        golden_snapshot.say("figure", "--root", root, "--out", tmp_path / sweep)


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
