"""Weights of a run: the final ones, else those of the checkpoint, else a sentence."""

import pytest
import torch

from htbench.harness.config.key import run_key
from htbench.harness.config.settings import resolve_config
from htbench.harness.errors import UsageError
from htbench.harness.store import Store
from htbench.harness.train.checkpoint import load_weights
from tests.helpers.interrupting import finish, interrupt


def test_the_final_weights_else_those_of_the_checkpoint(tmp_path, tiny):
    config = resolve_config(tiny | {"checkpoint.keep_weights": True, "log_every": 1})
    files = Store(tmp_path).files(run_key(config))
    with pytest.raises(UsageError, match="kept no weights"):
        load_weights(files)
    interrupt(config, tmp_path, 3)
    early, step = load_weights(files)
    assert 0 < step < 8
    finish(config, tmp_path)
    final, step = load_weights(files)
    assert step is None and final.keys() == early.keys()
    assert not all(torch.equal(final[name], early[name]) for name in final)


@pytest.mark.parametrize("name", ["weights", "checkpoint"])
def test_a_damaged_file_is_told(tmp_path, name):
    files = Store(tmp_path).files("aa11bb22cc33")
    files.path.mkdir(parents=True)
    getattr(files, name).write_bytes(b"PK no archive")
    with pytest.raises(UsageError, match=r"damaged|can't be used"):
        load_weights(files)
