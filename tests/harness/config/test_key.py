"""Golden keys: a run that somebody made stays that run. `tests/golden/keys.json` only ever grows."""

import dataclasses
import json
from pathlib import Path

import pytest

from htbench import models, optimizers
from htbench.harness.config.key import identity, run_key, stored_keys
from htbench.harness.config.names import REMOVED, settings_of
from htbench.harness.config.settings import as_stored, resolve_config, to_settings, to_yaml
from htbench.harness.config.yaml_text import read_yaml
from htbench.harness.errors import UsageError
from htbench.optimizers.zoo.registry import Param

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "keys.json").read_text())


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: row["key"])
def test_golden_key(row, tmp_path):
    """Also of the stored config, without a look at its parts."""
    config = resolve_config(row["settings"])
    assert run_key(config) == row["key"]
    (tmp_path / "config.yaml").write_text(to_yaml(config))
    for stored in (json.loads(json.dumps(dataclasses.asdict(config))), read_yaml(tmp_path / "config.yaml")):
        assert stored_keys(as_stored(settings_of(stored))) == {row["key"]}


def test_a_config_of_older_code_is_read_where_what_is_gone_did_nothing(tmp_path):
    row = GOLDEN[0]
    older = to_settings(resolve_config(row["settings"])) | dict(REMOVED)
    assert stored_keys(as_stored(older)) == {row["key"]} == {run_key(resolve_config(older))}
    nested = dataclasses.asdict(resolve_config(row["settings"]))
    nested["checkpoint"]["trunk"] = True  # which changed no number
    assert settings_of(nested).keys().isdisjoint(REMOVED)
    assert stored_keys(as_stored(settings_of(nested))) == {row["key"]}
    with pytest.raises(UsageError, match="Unknown setting 'average.ema'"):
        as_stored(older | {"average.ema": 0.9})


@pytest.mark.parametrize("base", ["Muon", "NorMuon", "AdaMuon", "SOAP"])
def test_a_stored_config_of_a_class_derived_from_ours_has_its_key(base, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"derived_{base}.py").write_text(
        f"from htbench.optimizers import {base}\nclass Mine({base}): pass\n"
    )
    name = f"derived_{base}:Mine"
    for more in ({}, {"optimizer.ema": False}, {"optimizer.interval": 3}) if base != "SOAP" else ({},):
        config = resolve_config(
            {"task": "digits", "model": "resnet-nano", "steps": 2, "optimizer.name": name} | more
        )
        key = run_key(config)
        with monkeypatch.context() as gone:
            gone.setattr(optimizers, "spec", None)
            assert key in stored_keys(as_stored(to_settings(config)))


def test_micro_batch_is_part_of_a_run_with_batch_statistics_only():
    digits, pydocs = GOLDEN[0]["settings"], GOLDEN[1]["settings"]
    assert run_key(resolve_config(digits | {"micro_batch": 4})) != run_key(resolve_config(digits))
    assert run_key(resolve_config(pydocs | {"micro_batch": 4})) == run_key(resolve_config(pydocs))


@pytest.mark.parametrize("default", [1, 7])
def test_a_field_added_later_keeps_old_keys_at_the_value_that_acts_like_the_code_before(monkeypatch, default):
    settings = next(row["settings"] for row in GOLDEN if row["settings"]["optimizer.name"] == "htmuon")
    then = resolve_config(settings)
    key, stored = run_key(then), json.loads(json.dumps(dataclasses.asdict(then)))
    row = optimizers.ZOO["htmuon"]
    grown = dataclasses.replace(row, params={**row.params, "later": Param(int, default, low=1, before=1)})
    monkeypatch.setitem(optimizers.ZOO, "htmuon", grown)
    assert run_key(resolve_config(settings | {"optimizer.later": 1})) == key
    assert (run_key(resolve_config(settings)) == key) == (default == 1)
    assert run_key(resolve_config(settings | {"optimizer.later": 5})) != key
    assert as_stored(settings_of(stored)).optimizer.hyper["later"] == 1
    assert stored_keys(as_stored(settings_of(stored))) == {key}


@pytest.mark.parametrize("part", ["model", "optimizer"])
def test_a_raised_revision_gives_new_keys(monkeypatch, part):
    config = resolve_config(GOLDEN[0]["settings"])
    before = run_key(config)
    table, name = {
        "model": (models.SIZES, config.model),
        "optimizer": (optimizers.ZOO, config.optimizer.name),
    }[part]
    revision = table[name].revision + 1
    monkeypatch.setitem(table, name, dataclasses.replace(table[name], revision=revision))
    raised = resolve_config(GOLDEN[0]["settings"])
    assert identity(raised)["revisions"][part] == revision
    assert run_key(raised) != before and run_key(config) == before


def test_the_identity_holds_plain_values_only():
    json.dumps(identity(resolve_config(GOLDEN[0]["settings"])), allow_nan=False)
    assert "checkpoint" not in identity(resolve_config(GOLDEN[0]["settings"]))
