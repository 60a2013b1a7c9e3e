"""Optimizers that can't train a model as it is: one sentence with what would do, and that does."""

import textwrap

import pytest

from htbench.harness.config import parts
from htbench.harness.config.key import resolved
from htbench.harness.config.settings import resolve_config
from htbench.harness.errors import RunFailedError, UsageError
from htbench.harness.show.status import Status
from htbench.harness.store import Store
from htbench.harness.train.run import run

MUON = "torch.optim:Muon"
SPARSE = "torch.optim:SparseAdam"
PARTS = """
    import torch
    from torch import nn


    class Sharp(torch.optim.SGD):
        def step(self, closure=None):
            assert closure is not None, "needs a closure"
            return super().step(closure)


    class Broken(torch.optim.SGD):
        def step(self, closure=None):
            raise KeyError("a slip of its author")


    class Words(nn.Module):
        def __init__(self, vocabulary):
            super().__init__()
            self.embed = nn.Embedding(vocabulary, 4, sparse=True)
            self.head = nn.Linear(4, vocabulary)

        def forward(self, x):
            return self.head(self.embed(x))


    class Hollow(nn.Module):
        def __init__(self, classes, in_channels):
            super().__init__()
            self.head = nn.Linear(in_channels, classes)
            self.gain = nn.Parameter(torch.empty(0))
            self.matrix = nn.Parameter(torch.empty(0, 3))
            self.kernel = nn.Parameter(torch.empty(2, 0, 3, 3))

        def forward(self, x):
            return self.head(x.mean((2, 3))) + self.gain.sum() + self.matrix.sum() + self.kernel.sum()
"""


@pytest.fixture
def train(tmp_path, monkeypatch, tiny):
    """Train for a step with these settings beside tiny ones."""
    (tmp_path / "unfit_parts.py").write_text(textwrap.dedent(PARTS))
    monkeypatch.syspath_prepend(tmp_path)

    def one_step(**settings):
        given = tiny | {"steps": 1, "optimizer.lr": 0.01} | settings
        parts.allow(parts.named(given))
        return resolved(resolve_config(given)), Store(tmp_path / "store")

    return one_step


TEXT = {"task": "pydocs", "model": "unfit_parts:Words"}


@pytest.mark.parametrize(
    ("settings", "sentence", "instead"),
    [
        (
            {"optimizer.name": MUON},
            f"{MUON} can't train the model 'resnet-nano' as it is (ValueError: Muon only supports 2D",
            {"optimizer.routing": "matrix", "optimizer.groups.kernels.optimizer": "adamw"},
        ),
        (
            TEXT | {"optimizer.name": "adamw"},
            "adamw can't take the sparse gradients of embed.weight; sparse=False in the model",
            {"optimizer.groups.embedding.optimizer": SPARSE},
        ),
        (
            {"optimizer.name": SPARSE},
            f"{SPARSE} takes only sparse gradients, and those of the model 'resnet-nano' are dense",
            {"optimizer.name": "torch.optim:Adam"},
        ),
        (
            {"optimizer.name": "unfit_parts:Sharp"},
            "unfit_parts:Sharp needs a closure in its steps, which a run does not give (AssertionError:",
            {"optimizer.name": "torch.optim:AdamW"},
        ),
    ],
)
def test_what_an_optimizer_cannot_train_is_a_sentence_with_what_would_do(train, settings, sentence, instead):
    refused, store = train(**settings)
    with pytest.raises(UsageError) as error:
        run(refused, store)
    assert str(error.value).startswith(sentence)
    told = [f"{name}={value}" for name, value in instead.items() if name != "optimizer.name"]
    assert " ".join(told or instead.values()) in str(error.value)
    state = store.state(refused.key)
    assert state.status is Status.WAITING and state.message == str(error.value)
    assert run(*train(**settings | instead)).status is Status.COMPLETED


@pytest.mark.parametrize("rule", ["adamw", "sgdm"])
def test_sparse_gradients_are_not_clipped(train, rule):
    with pytest.raises(UsageError, match="of embed.weight with grad_clip=1; sparse=False .* dense.$"):
        run(*train(**TEXT | {"optimizer.name": rule, "grad_clip": 1.0}))


def test_a_slip_of_a_class_is_a_failure_with_its_own_words(train):
    with pytest.raises(RunFailedError, match="KeyError: 'a slip of its author'"):
        run(*train(**{"optimizer.name": "unfit_parts:Broken"}))


@pytest.mark.parametrize("name", ["muon", "soap", "htmuon_mix"])
def test_parameters_without_entries_are_left_alone(train, name):
    record = run(*train(**{"model": "unfit_parts:Hollow", "optimizer.name": name}))
    assert record.status is Status.COMPLETED
