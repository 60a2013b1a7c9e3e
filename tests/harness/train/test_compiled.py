"""What torch.compile makes is kept in the store, and a damaged file is as good as none."""

import logging

import pytest
import torch

from harness.config.settings import resolve_config
from harness.store import Store
from harness.store.layout import cache_folder
from harness.train import compiling, run

CPU = torch.device("cpu")
LM = {"task": "pydocs", "model": "llama-nano", "optimizer.name": "adamw", "optimizer.lr": 1e-3}


def place(root, settings):
    return compiling.artifacts(cache_folder(root), resolve_config(settings), CPU)


def test_one_file_for_what_is_compiled_alike(tmp_path, tiny):
    compiled = tiny | LM | {"compile": True}
    same = [{"optimizer.name": "muon"}, {"seed": 7}, {"steps": 99}, {"micro_batch": tiny["batch_size"]}]
    other = [{"batch_size": 64}, {"precision.params": "bfloat16"}, {"activation_checkpointing": True}]
    file = place(tmp_path, compiled)
    assert all(place(tmp_path, compiled | one) == file for one in same)
    assert len({file, *(place(tmp_path, compiled | one) for one in other)}) == 1 + len(other)


def test_a_damaged_file_is_as_good_as_none(tmp_path, caplog):
    (tmp_path / "x.bin").write_bytes(b"no artifacts")
    with caplog.at_level(logging.WARNING, "htbench"):
        assert not compiling.load(tmp_path / "x.bin") and not compiling.load(tmp_path / "y.bin")
    assert caplog.text.count("x.bin is damaged") == 1


@pytest.mark.slow
def test_a_compiled_run_has_the_numbers_of_the_other_and_tells_its_compile_time_apart(tmp_path, tiny):
    settings = tiny | LM | {"batch_size": 16, "steps": 30}
    plain = run.run(resolve_config(settings), Store(tmp_path / "plain"))
    store = Store(tmp_path / "compiled")
    record = run.run(resolve_config(settings | {"compile": True}), store)
    assert record.key == plain.key and record.metrics == pytest.approx(plain.metrics, rel=1e-4)
    assert record.timing["compile"] > 20 * record.timing["mean"]
    assert place(store.root, settings).stat().st_size > 1000
    again = run.run(resolve_config(settings | {"compile": True, "seed": 1}), store)
    assert again.timing["compile"] > 0
