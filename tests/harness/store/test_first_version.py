"""Stores of version 0.1.0 last: what its commands left is read, counted as done, and gone on with.

Where a `revision` of what these runs use (`sgdm`, `muon`, `resnet-nano`, `digits`) is raised on purpose, the
plan asks for new runs, and the first test says which.
"""

import json
import re

import pytest

from htbench.harness.store import Store
from tests.helpers.command import Htbench
from tests.helpers.first_store import CUT, FILES, back_into_folders, unpack, words
from tests.helpers.stored_runs import files


@pytest.fixture
def htbench(tmp_path):
    root = unpack(tmp_path)
    back_into_folders(root)
    return Htbench(root, tmp_path)


def test_a_store_with_archives_is_refused_until_its_runs_are_back_in_folders(tmp_path):
    root = unpack(tmp_path)
    before = files(root)
    for words_of in (("sweep", "run", "first.yaml"), ("table",), ("runs", "import", root, "--root", "mine")):
        done = Htbench(root, tmp_path)(*words_of)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert "has runs in archives" in done.stderr and "docs/cluster.md, 'File quotas'" in done.stderr
    assert files(root) == before
    back_into_folders(root)
    assert len(Store(root).records(Store(root).keys())) == 10


def test_what_was_trained_is_not_trained_again(htbench):
    before = {path: path.read_bytes() for path in htbench.root.glob("runs/*/*/record.json")}
    done = htbench("sweep", "plan", *FILES, "--json")
    assert done.returncode == 0, done.stderr
    assert {plan["sweep"]: plan["to_run"] for plan in json.loads(done.stdout)} == {"first": 0, "search": 0}
    again = htbench("sweep", "run", *FILES)
    assert again.returncode == 0, again.stderr
    assert {path: path.read_bytes() for path in htbench.root.glob("runs/*/*/record.json")} == before


def test_it_is_sound_and_has_a_table(htbench):
    found = htbench("doctor").stdout  # the rest is about the machine, on which something may be wrong
    assert re.findall(r"^(\S+) +store ", found, re.MULTILINE) == ["ok"], found
    table = htbench("table", "main_result", "first", "--format", "json")
    assert table.returncode == 0, table.stderr
    (section,) = json.loads(table.stdout)[0]["sections"]
    assert sorted(row[0]["value"] for row in section["rows"]) == ["muon", "sgdm"]


def test_a_run_that_was_cut_off_goes_on_from_its_checkpoint(htbench, tmp_path):
    (place,) = htbench.root.glob("runs/*/*/checkpoint.pt")
    done = htbench("run", *words(CUT))
    assert done.returncode == 0, done.stderr
    resumed = Store(htbench.root).record(place.parent.name)
    assert json.loads((place.parent / "attempts" / "2.json").read_text())["start_step"] == 10
    assert (resumed.steps, resumed.attempts, resumed.repeated_steps) == (20, 2, 0)
    calm = Htbench(tmp_path / "calm")
    assert calm("run", *words(CUT)).returncode == 0
    undisturbed = Store(calm.root).record(resumed.key)  # on one machine, the resumed one began on another
    assert resumed.metrics["val_loss"] == pytest.approx(undisturbed.metrics["val_loss"], rel=0.01)
