"""torch keeps what it compiles where nobody but its user can write."""

import os

import pytest

from htbench.harness.config.key import resolved
from htbench.harness.config.settings import resolve_config
from htbench.harness.store import Store
from htbench.harness.train import compiling, run

LM = {"task": "pydocs", "model": "llama-nano", "optimizer.name": "adamw", "optimizer.lr": 1e-3}
VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The folder of this user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setenv(VARIABLE, "")  # so that it is put back
    monkeypatch.delenv(VARIABLE)
    return tmp_path / "caches" / "htbench" / "inductor"


def test_the_folder_is_the_users_alone_unless_a_variable_names_one(folder, monkeypatch):
    compiling.use_cache_of_user()
    assert os.environ[VARIABLE] == str(folder) and folder.stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv(VARIABLE, "elsewhere")
    compiling.use_cache_of_user()
    assert os.environ[VARIABLE] == "elsewhere"


@pytest.mark.parametrize("mode", [0o775, 0o707])
def test_nothing_is_kept_where_others_can_write(folder, caplog, mode):
    """To load it is to execute it."""
    folder.mkdir(parents=True)
    folder.chmod(mode)
    compiling.use_cache_of_user()
    assert os.environ[VARIABLE] != str(folder) and os.stat(os.environ[VARIABLE]).st_mode & 0o777 == 0o700
    assert f"others can write into {folder}" in caplog.text


def test_nothing_is_kept_in_a_folder_of_somebody_else(folder, monkeypatch):
    folder.mkdir(parents=True)
    monkeypatch.setattr("os.geteuid", lambda: folder.stat().st_uid + 1)
    compiling.use_cache_of_user()
    assert os.environ[VARIABLE] != str(folder)


@pytest.mark.slow
def test_a_compiled_run_has_the_numbers_of_the_other_and_tells_its_compile_time_apart(folder, tmp_path, tiny):
    settings = tiny | LM | {"batch_size": 16, "steps": 30}
    plain = run.run(resolved(resolve_config(settings)), Store(tmp_path / "plain"))
    store = Store(tmp_path / "compiled")
    record = run.run(resolved(resolve_config(settings | {"compile": True})), store)
    assert record.key == plain.key and record.metrics == pytest.approx(plain.metrics, rel=1e-4)
    assert record.timing["compile"] > 20 * record.timing["mean"]
    assert any(path.is_file() for path in (folder / "fxgraph").rglob("*"))
    again = run.run(resolved(resolve_config(settings | {"compile": True, "seed": 1})), store)
    assert again.timing["compile"] > 0
