"""wandb's offline files have what was exported, once. Its messages are read with its own protocol."""

import json
import math
import struct
from importlib.util import find_spec

import pytest

from tests.helpers.exporting import ADAMW, DIVERGED, LEAVING, MUON, SEED1, expected, same

# It is imported by the tests only: it changes how Python prints.
pytestmark = pytest.mark.skipif(find_spec("wandb") is None, reason="wandb is not installed")


@pytest.fixture(autouse=True)
def _nothing_from_outside(monkeypatch):
    for name in ("WANDB_MODE", "WANDB_PROJECT", "WANDB_DIR"):
        monkeypatch.delenv(name, raising=False)


def records(path):
    """The messages of a file: after 7 bytes a log in blocks of 32 KiB, as LevelDB writes it."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, place, message = path.read_bytes(), 7, b""
    while place + 7 <= len(data):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        _, length, kind = struct.unpack("<IHB", data[place : place + 7])
        message += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield Record.FromString(message)
            message = b""


def read(home):
    """Key -> the run's message, its config, curves and summary."""
    found = {}
    for path in sorted(home.glob("offline-run-*/*.wandb")):
        all_records = list(records(path))
        assert any(record.HasField("exit") for record in all_records)
        (run,) = (record.run for record in all_records if record.HasField("run"))
        assert run.run_id not in found, "doubled"
        curves, summary = {}, {}
        for record in all_records:
            for item in record.history.item:
                point = (record.history.step.num, json.loads(item.value_json))
                curves.setdefault(item.key or item.nested_key[0], []).append(point)
            for item in record.summary.update:
                summary[item.key or "/".join(item.nested_key)] = json.loads(item.value_json)
        config = {item.key: json.loads(item.value_json) for item in run.config.update}
        found[run.run_id] = run, config, curves, summary
    return found


def test_the_offline_files_have_every_point_once(source, export):
    home = source.store.root / "wandb"
    assert export("--to", "wandb").startswith("exported 5 runs to 0 were there already, ")
    found = read(home)
    assert same(expected(source.store), {key: curves for key, (_, _, curves, _) in found.items()})
    run, config, curves, summary = found[DIVERGED]
    assert (run.project, run.run_group, run.job_type) == ("htbench", "beta", "search")
    assert run.display_name == f"adamw-lr3-seed0-{DIVERGED}-diverged"
    assert list(run.tags) == ["search", "diverged"] and run.host == ""
    assert config["optimizer.lr"] == 3 and config["grad_clip"] is None
    assert curves["_timestamp"][-1] == (4, 1769860802)
    assert math.isnan(curves["loss"][-1][1])
    assert found[ADAMW][3]["train_loss"] == 0.5 and found[ADAMW][3]["run/steps"] == 4
    assert found[SEED1][0].job_type == "replicate"
    before = sorted(home.glob("offline-run-*"))
    assert export("--to", "wandb").startswith("exported 0 runs to 5 were there already, ")
    assert sorted(home.glob("offline-run-*")) == before and len(read(home)) == len(LEAVING)


def test_nothing_is_sent_and_wandb_finds_the_run_to_upload(source, export, monkeypatch, tmp_path):
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    words = ("--to", "wandb", "--out", tmp_path / "here", "--project", "ours", "alpha")
    assert export(*words) == "exported 2 runs to 0 were there already"
    found = read(tmp_path / "here")
    assert found.keys() == {MUON, SEED1} and {run.project for run, *_ in found.values()} == {"ours"}
