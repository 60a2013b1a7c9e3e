"""Protocol `paper`: all but the reported split is trained on, and validation is that split itself."""

import numpy as np
import pytest
import torch

from htbench.harness import tasks
from htbench.harness.config.key import resolved, run_key
from htbench.harness.config.settings import resolve_config
from htbench.harness.store import Store
from htbench.harness.train import run


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def built(name, cache, protocol):
    return tasks.build(name, cache=cache, batch_size=8, data_seed=0, protocol=protocol)


def test_images_of_validation_are_trained_on(cache):
    honest, paper = (built("digits", cache, protocol) for protocol in ("honest", "paper"))
    both = torch.cat([honest.images["train"], honest.images["val"]])
    assert torch.equal(paper.images["train"], both) and paper.epoch_size == len(both)
    assert torch.equal(paper.images["val"], honest.images["test"])
    assert torch.equal(paper.labels["val"], paper.labels["test"])


def test_text_of_validation_is_trained_on(cache):
    honest, paper = (built("pydocs", cache, protocol) for protocol in ("honest", "paper"))
    both = np.concatenate([honest.rows["train"].tokens, honest.rows["val"].tokens])
    assert np.array_equal(paper.rows["train"].tokens, both)
    assert np.array_equal(paper.rows["val"].tokens, honest.rows["test"].tokens)


@pytest.mark.parametrize("name", ["digits", "pydocs"])
def test_the_number_of_training_samples_is_known_beforehand(cache, name):
    for protocol in ("honest", "paper"):
        size = built(name, cache, protocol).epoch_size
        seq_len = tasks.spec(name).seq_len
        bound = tasks.train_size(name, cache, seq_len, protocol=protocol)
        assert size <= bound <= size + (8 if seq_len else 0)


def test_a_run_says_which_protocol_it_follows(tmp_path, tiny):
    honest, paper = (resolve_config(tiny | {"protocol": word}) for word in ("honest", "paper"))
    assert run_key(honest) != run_key(paper)
    metrics = run.run(resolved(paper), Store(tmp_path)).metrics
    assert metrics["val_accuracy"] == metrics["test_accuracy"]


def test_fewer_held_out_tokens_can_be_evaluated(tmp_path, tiny):
    settings = tiny | {"task": "pydocs", "model": "llama-nano", "steps": 1, "held_out_tokens": 640}
    assert run.run(resolved(resolve_config(settings)), Store(tmp_path)).metrics["val_samples"] == 640
