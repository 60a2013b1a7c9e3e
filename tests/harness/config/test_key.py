"""Golden keys: a run that somebody made stays that run. `tests/golden/keys.json` only ever grows."""

import dataclasses
import json
from pathlib import Path

import pytest

import models
import optimizers
from harness.config import key as keys
from harness.config.key import identity, run_key
from harness.config.settings import make
from optimizers.zoo.registry import Param

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "keys.json").read_text())


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: row["key"])
def test_golden_key(row):
    assert run_key(make(row["settings"])) == row["key"]


def test_micro_batch_is_part_of_a_run_with_batch_statistics_only():
    digits, pydocs = GOLDEN[0]["settings"], GOLDEN[1]["settings"]
    assert run_key(make(digits | {"micro_batch": 4})) != run_key(make(digits))
    assert run_key(make(pydocs | {"micro_batch": 4})) == run_key(make(pydocs))


def test_a_field_added_later_keeps_old_keys_at_its_neutral_value(monkeypatch):
    settings = next(row["settings"] for row in GOLDEN if row["settings"]["optimizer.name"] == "htmuon")
    before = run_key(make(settings))
    row = optimizers.ZOO["htmuon"]
    grown = dataclasses.replace(row, params={**row.params, "interval": Param(int, 1, low=1, neutral=1)})
    monkeypatch.setitem(optimizers.ZOO, "htmuon", grown)
    assert run_key(make(settings)) == before
    assert run_key(make(settings | {"optimizer.interval": 5})) != before


@pytest.mark.parametrize("part", ["model", "optimizer"])
def test_a_raised_revision_gives_new_keys(monkeypatch, part):
    config = make(GOLDEN[0]["settings"])
    before = run_key(config)
    table, name = {
        "model": (models.SIZES, config.model),
        "optimizer": (optimizers.ZOO, config.optimizer.name),
    }[part]
    monkeypatch.setitem(table, name, dataclasses.replace(table[name], revision=2))
    raised = make(GOLDEN[0]["settings"])
    assert identity(raised)["revisions"] == {part: 2}
    assert run_key(raised) != before and run_key(config) == before


def test_the_identity_holds_plain_values_only():
    json.dumps(identity(make(GOLDEN[0]["settings"])), allow_nan=False)
    assert "checkpoint" not in identity(make(GOLDEN[0]["settings"]))
    assert keys.run_key(make(GOLDEN[0]["settings"])) == GOLDEN[0]["key"]
