"""What torch.compile makes is kept for its user only, and a damaged file is as good as none."""

import logging

import pytest
import torch

from harness.config.key import resolved
from harness.config.settings import resolve_config
from harness.store import Store
from harness.train import compiling, run

CPU = torch.device("cpu")
LM = {"task": "pydocs", "model": "llama-nano", "optimizer.name": "adamw", "optimizer.lr": 1e-3}


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    """The folder of this user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return tmp_path / "caches" / "htbench" / "compiled"


def place(settings):
    return compiling.artifacts(resolve_config(settings), CPU)


def test_one_file_for_what_is_compiled_alike(tmp_path, tiny):
    compiled = tiny | LM | {"compile": True}
    same = [{"optimizer.name": "muon"}, {"seed": 7}, {"steps": 99}, {"micro_batch": tiny["batch_size"]}]
    other = [{"batch_size": 64}, {"precision.params": "bfloat16"}, {"activation_checkpointing": True}]
    file = place(compiled)
    assert all(place(compiled | one) == file for one in same)
    assert len({file, *(place(compiled | one) for one in other)}) == 1 + len(other)


def test_a_damaged_file_is_as_good_as_none(tmp_path, caplog):
    (tmp_path / "x.bin").write_bytes(b"no artifacts")
    with caplog.at_level(logging.WARNING, "htbench"):
        assert not compiling.load(tmp_path / "x.bin") and not compiling.load(tmp_path / "y.bin")
    assert caplog.text.count("x.bin is damaged") == 1


@pytest.mark.parametrize("mode", [0o775, 0o707])
def test_nothing_is_loaded_from_or_kept_where_others_can_write(own, tmp_path, monkeypatch, caplog, mode):
    """To load it is to execute it."""
    loaded = []
    monkeypatch.setattr(torch.compiler, "load_cache_artifacts", lambda data: loaded.append(data) or object())
    monkeypatch.setattr(torch.compiler, "save_cache_artifacts", lambda: (b"made", None))
    compiling.keep(own / "x.bin")
    assert own.stat().st_mode & 0o777 == 0o700
    assert compiling.load(own / "x.bin") and loaded == [b"made"]
    own.chmod(mode)
    compiling.keep(own / "y.bin")
    assert not compiling.load(own / "x.bin") and not (own / "y.bin").exists() and len(loaded) == 1
    assert f"others can write into {own}" in caplog.text


def test_what_an_evaluation_compiles_is_kept_too(own, monkeypatch):
    """Its graph comes after the first step's; a process that has compiled less takes nothing away."""
    for made in (b"training", b"training, evaluation", b"training"):
        monkeypatch.setattr(torch.compiler, "save_cache_artifacts", lambda made=made: (made, None))
        compiling.keep(own / "x.bin")
    assert (own / "x.bin").read_bytes() == b"training, evaluation"


def test_each_gpu_of_a_node_has_a_file_of_its_own(tiny, monkeypatch):
    """The code for a GPU names its number."""
    config = resolve_config(tiny | LM | {"compile": True})
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "GPU")
    files = set()
    for number in range(2):
        monkeypatch.setattr(torch.cuda, "current_device", lambda number=number: number)
        files.add(compiling.artifacts(config, torch.device("cuda")))
    assert len(files) == 2


def test_nothing_is_loaded_from_a_folder_of_somebody_else(own, monkeypatch):
    own.mkdir(parents=True)
    (own / "x.bin").write_bytes(b"planted")
    monkeypatch.setattr(torch.compiler, "load_cache_artifacts", lambda data: pytest.fail("executed"))
    monkeypatch.setattr("os.geteuid", lambda: own.stat().st_uid + 1)
    assert not compiling.load(own / "x.bin")


@pytest.mark.slow
def test_a_compiled_run_has_the_numbers_of_the_other_and_tells_its_compile_time_apart(tmp_path, tiny):
    settings = tiny | LM | {"batch_size": 16, "steps": 30}
    plain = run.run(resolved(resolve_config(settings)), Store(tmp_path / "plain"))
    store = Store(tmp_path / "compiled")
    record = run.run(resolved(resolve_config(settings | {"compile": True})), store)
    assert record.key == plain.key and record.metrics == pytest.approx(plain.metrics, rel=1e-4)
    assert record.timing["compile"] > 20 * record.timing["mean"]
    assert place(settings).stat().st_size > 1000
    again = run.run(resolved(resolve_config(settings | {"compile": True, "seed": 1})), store)
    assert again.timing["compile"] > 0
