"""What is evaluated, kept and checkpointed: the weights that the optimizer says are the result."""

import pytest
import torch

from htbench.harness import tasks
from htbench.harness.config import parts
from htbench.harness.config.key import resolved, run_key
from htbench.harness.config.settings import resolve_config
from htbench.harness.store import Store
from htbench.harness.train.checkpoint import load, load_weights
from htbench.harness.train.learner import Learner
from tests.helpers.batch_norm import statistics
from tests.helpers.interrupting import assert_resumes, finish, interrupt

FREE = {"optimizer.name": "schedule_free", "optimizer.lr": 0.01, "schedule.name": "constant", "log_every": 1}


TWO_MODES = """
import torch


class TwoModes(torch.optim.SGD):
    # A class of others: it is made for evaluation, where all weights are zero.

    def __init__(self, params, lr=0.1):
        super().__init__(params, lr=lr)
        self.trains = False
        self.away = []

    def step(self, closure=None):
        assert self.trains
        return super().step(closure)

    def train(self):
        for group in self.param_groups:
            for p in group["params"]:
                if self.away:
                    p.data.copy_(self.away.pop(0)).mul_(1 + 1e-6)  # it rounds on its way back
        self.trains = True

    def eval(self):
        self.away = [p.detach().clone() for group in self.param_groups for p in group["params"]]
        for group in self.param_groups:
            for p in group["params"]:
                p.data.zero_()
        self.trains = False
"""


@pytest.fixture
def two_modes(tmp_path, monkeypatch):
    (tmp_path / "two_modes.py").write_text(TWO_MODES)
    monkeypatch.syspath_prepend(tmp_path)
    parts.allow(["two_modes:TwoModes"])
    return "two_modes:TwoModes"


def test_evaluations_on_the_way_change_no_numbers(tmp_path, tiny):
    plain, _ = finish(resolve_config(tiny | FREE), tmp_path / "plain")
    more = {"evaluation.every": 2, "checkpoint.every_steps": 3, "evaluation.untrained": True}
    other, _ = finish(resolve_config(tiny | FREE | more), tmp_path / "other")
    assert plain.key == other.key
    assert plain.metrics == {k: v for k, v in other.metrics.items() if k != "untrained_val_loss"}


def test_a_schedule_free_run_goes_on_bit_for_bit(tmp_path, tiny):
    assert_resumes(tiny | FREE, tmp_path, 3)


def test_what_is_kept_are_the_weights_that_were_evaluated(tmp_path, tiny, two_modes):
    settings = tiny | {"optimizer.name": two_modes, "optimizer.lr": 0.1, "checkpoint.keep_weights": True}
    config = resolve_config(settings | {"log_every": 1})
    files = Store(tmp_path).files(run_key(config))
    interrupt(config, tmp_path, 3)
    saved, early = load(files.checkpoint), load_weights(files)[0]
    assert all(p.any() for name, p in saved["model"].items() if name.endswith("weight"))
    record, _ = finish(config, tmp_path)
    final = load_weights(files)[0]
    for weights in (early, final):
        assert not any(p.any() for name, p in weights.items() if name.endswith("weight"))
    assert record.metrics["val_loss"] == pytest.approx(torch.log(torch.tensor(10.0)).item(), abs=1e-5)
    assert record.metrics["train_loss"] != pytest.approx(record.metrics["val_loss"], abs=1e-3)
    assert record.environment["outside"]["switches"] is True, "tables say so"


def test_batch_norm_has_the_statistics_of_the_weights_that_are_evaluated(tmp_path, tiny):
    settings = tiny | FREE | {"optimizer.lr": 0.05, "checkpoint.keep_weights": True, "micro_batch": 8}
    config = resolve_config(settings)
    interrupt(config, tmp_path, 5)
    checkpoint = load(Store(tmp_path).files(run_key(config)).checkpoint)
    run = resolved(config)
    task = tasks.load_for(run.task, config, Store(tmp_path).root / "cache")
    learner = Learner(run, task, 8, torch.device("cpu"))
    weights = checkpoint["evaluated"]
    learner.model.load_state_dict(weights)
    micros = (micro for step in range(50) for micro in task.batch(step).split(8))
    expected = statistics(learner.model, (micro.to("cpu").inputs for micro in micros))
    for name, (mean, var) in expected.items():
        torch.testing.assert_close(weights[f"{name}.running_mean"], mean, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(weights[f"{name}.running_var"], var, rtol=1e-4, atol=1e-5)
        # Those of training stay as they are.
        assert not torch.allclose(checkpoint["model"][f"{name}.running_mean"], mean, rtol=1e-2, atol=1e-3)


def test_other_optimizers_pay_nothing(tmp_path, tiny, monkeypatch):
    monkeypatch.setattr("htbench.harness.train.learner._copy", None)
    config = resolve_config(tiny | {"log_every": 1})
    interrupt(config, tmp_path, 3)
    assert "evaluated" not in load(Store(tmp_path).files(run_key(config)).checkpoint)
    finish(config, tmp_path)
