"""trackio reads back what was exported, once. It wants an older pillow than ours: `dev` lacks it."""

from importlib.util import find_spec

import pytest

from tests.helpers.exporting import ADAMW, DIVERGED, MUON, expected, same

pytestmark = pytest.mark.skipif(find_spec("trackio") is None, reason="trackio is not installed")


@pytest.fixture
def storage(tmp_path, monkeypatch):
    """trackio's own storage, in a folder of this test."""
    from trackio import sqlite_storage

    monkeypatch.setattr(sqlite_storage, "TRACKIO_DIR", tmp_path / "trackio")
    return sqlite_storage.SQLiteStorage


def read(storage, project):
    """Key -> name -> (step, value)."""
    found = {}
    for run in storage.get_run_records(project):
        curves = found[run["id"]] = {}
        for row in storage.get_logs(project, run["name"], run_id=run["id"]):
            for name, value in row.items():
                curves.setdefault(name, []).append((row["step"], value))
    return found


def test_trackio_has_every_point_once(source, export, storage, tmp_path):
    words = ("--to", "trackio", "--out", tmp_path / "trackio")
    assert export(*words).startswith("exported 6 runs to 0 were there already, ")
    assert same(expected(source.store), read(storage, "htbench"))
    config = storage.get_run_config("htbench", run_id=DIVERGED)
    assert config["_Group"] == "beta" and config["optimizer.lr"] == 3 and config["grad_clip"] is None
    assert config["htbench.status"] == "diverged" and config["_Created"] == "2026-01-31T12:00:00+00:00"
    assert read(storage, "htbench")[ADAMW]["train_loss"] == [(4, 0.5)]
    assert export(*words).startswith("exported 0 runs to 6 were there already, ")
    source.put(MUON, "muon", lr=0.02, metrics={"val_loss": 0.125})
    assert "1 run to (1 in place of older content), 5 were there already" in export(*words)
    found = read(storage, "htbench")
    assert found[MUON]["val_loss"] == [(2, 0.75), (4, 0.125)] and len(found) == 6
