"""Rates that are tensors, as compiled steps want them: they train, are resumed and are written as numbers."""

import textwrap

import pytest
import torch

from htbench.harness.config import parts
from htbench.harness.config.settings import resolve_config, to_settings
from htbench.harness.train.building import build_optimizer
from tests.helpers.interrupting import assert_resumes, finish

RATES = """
    import torch


    class Given(torch.optim.Adam):
        def __init__(self, params, lr=1e-3):
            super().__init__(params, lr=torch.tensor(lr), foreach=False)


    class Default(torch.optim.Adam):
        def __init__(self, params, lr=torch.tensor(0.25)):
            super().__init__(params, lr=torch.as_tensor(lr), foreach=False)


    class Held(torch.optim.SGD):
        def __init__(self, params, lr=0.1):
            self.rate = torch.tensor(lr)
            super().__init__(params, lr=self.rate, foreach=False)

        @torch.no_grad()
        def step(self, closure=None):  # reads what it holds, as a compiled step does
            for group in self.param_groups:
                for p in group["params"]:
                    p -= self.rate * p.grad
"""


@pytest.fixture
def config(tmp_path, monkeypatch, tiny):
    (tmp_path / "rates_parts.py").write_text(textwrap.dedent(RATES))
    monkeypatch.syspath_prepend(tmp_path)

    def made(name, **more):
        settings = tiny | {"optimizer.name": name, "optimizer.lr": 0.01} | more
        parts.allow(parts.named(settings))
        return resolve_config(settings)

    return made


@pytest.mark.parametrize(("name", "plain"), [("Given", "torch.optim:Adam"), ("Held", "torch.optim:SGD")])
def test_they_train_as_numbers_do_and_are_resumed_bit_for_bit(config, tmp_path, name, plain):
    _, rows = assert_resumes(to_settings(config(f"rates_parts:{name}")), tmp_path, 1)
    _, plain_rows = finish(config(plain, log_every=1), tmp_path / "plain")
    for mine, theirs in zip(rows, plain_rows, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-3)


def test_groups_do_not_share_one(config):
    groups = {"optimizer.groups.vectors.schedule": "constant", "optimizer.groups.kernels.schedule": "linear"}
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Linear(2, 2))
    rule = build_optimizer(config("rates_parts:Given", **groups), model)
    rates = [group["lr"] for group in rule.param_groups]
    assert len({id(rate) for rate in rates}) == len(rates) == 3
    assert [group["initial_lr"] for group in rule.param_groups] == pytest.approx([0.01] * 3)


def test_a_default_may_be_one(config):
    assert config("rates_parts:Default", **{"optimizer.lr": None}).optimizer.lr == 0.25
