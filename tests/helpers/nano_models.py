"""Trained nano language models, and some that only look so."""

from pathlib import Path

import torch

from htbench import models
from htbench.harness.config.settings import resolve_config
from htbench.harness.export.trained import Trained
from htbench.harness.store.run_folder import RunFolder
from htbench.models.families import family
from tests.helpers.interrupting import finish

NANO = {"task": "pydocs", "steps": 20, "batch_size": 16, "checkpoint.keep_weights": True, "log_every": 1}
OPTIMIZERS = {"llama-nano": "muon", "gpt2-nano": "adamw"}


def train(root, model, **settings):
    """The key of a finished run in the store `root`."""
    config = resolve_config(NANO | {"model": model, "optimizer.name": OPTIMIZERS[model]} | settings)
    return finish(config, root)[0].key


def untrained(model, dtype=torch.float32, **config):
    """A model with weights large enough for every nonlinearity to matter, as if a run had left it."""
    torch.manual_seed(0)
    module = models.build(model)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.3 if parameter.ndim > 1 else 0.5)
    described = {"task": "pydocs", "model": model, "optimizer": {"name": "adamw"}, "batch_size": 2, **config}
    settings = models.spec(model).settings
    state = module.to(dtype).state_dict()
    return Trained("k" * 12, RunFolder(Path("/nowhere")), described, None, family(model), settings, state, 7)
