"""Means of the weights: what they are, that training is as without, that a killed run keeps them."""

import pytest
import torch

from harness import tasks
from harness.config import AverageConfig
from harness.config.key import resolved, run_key
from harness.config.settings import resolve_config
from harness.errors import UsageError
from harness.store import Store
from harness.train.average import Average
from harness.train.checkpoint import load
from harness.train.learner import Learner
from harness.train.run import run
from tests.helpers.batch_norm import statistics
from tests.helpers.interrupting import finish, interrupt


def walk(config, steps, dtype=torch.float64):
    """The mean after some steps of a layer with weights that are known, and these weights."""
    layer = torch.nn.Linear(3, 2, dtype=dtype)
    average, weights = Average(config, layer, steps), []
    generator = torch.Generator().manual_seed(0)
    for step in range(1, steps + 1):
        with torch.no_grad():
            layer.weight.copy_(torch.randn(2, 3, generator=generator, dtype=torch.float64))
        average.update(step)
        weights.append(layer.weight.detach().clone())
    return average, torch.stack(weights)


@pytest.mark.parametrize("decay", [0.5, 0.9, 0.999])
def test_ema_is_the_mean_with_weights_that_fall_into_the_past(decay):
    average, weights = walk(AverageConfig(ema=decay), 12)
    powers = decay ** torch.arange(11, -1, -1, dtype=torch.float64)
    expected = (powers[:, None, None] * weights).sum(0) / powers.sum()
    torch.testing.assert_close(average.mean["weight"], expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("tail", "count"), [(1.0, 12), (0.25, 3), (1e-6, 1)])
def test_tail_is_the_plain_mean_over_the_end(tail, count):
    average, weights = walk(AverageConfig(tail=tail), 12)
    torch.testing.assert_close(average.mean["weight"], weights[-count:].mean(0), rtol=0, atol=1e-13)


def test_the_model_has_the_mean_meanwhile_only():
    average, weights = walk(AverageConfig(ema=0.9), 5, torch.bfloat16)
    assert average.mean["weight"].dtype == torch.float32  # a mean of many would stand still in bfloat16
    with average.in_place():
        assert torch.equal(average.model.weight, average.mean["weight"].bfloat16())
    assert torch.equal(average.model.weight, weights[-1])


@pytest.mark.parametrize("setting", [{"average.ema": 0.8}, {"average.tail": 0.6}], ids=str)
@pytest.mark.parametrize("rule", ["sgdm", "schedule_free"])
def test_a_run_with_a_mean_trains_as_without_and_goes_on_bit_for_bit(tmp_path, tiny, setting, rule):
    plain = tiny | {"optimizer.name": rule, "optimizer.lr": 0.05, "log_every": 1}
    without = run(resolved(resolve_config(plain)), Store(tmp_path / "without"))
    config = resolve_config(plain | setting)
    straight, curve = finish(config, tmp_path / "straight")
    same = {name: x for name, x in straight.metrics.items() if not name.endswith("_average")}
    assert same == without.metrics and straight.key != without.key
    held_out = {name for name in same if name.startswith(("val_", "test_"))}
    assert straight.metrics.keys() - same.keys() == {f"{name}_average" for name in held_out}
    assert straight.metrics["val_loss_average"] != straight.metrics["val_loss"]
    interrupt(config, tmp_path / "cut", 5)
    assert load(Store(tmp_path / "cut").files(straight.key).checkpoint)["average"]
    again, its_curve = finish(config, tmp_path / "cut")
    assert again.metrics == straight.metrics and its_curve == curve


def test_batch_norm_has_the_statistics_of_the_mean_of_the_weights(tmp_path, tiny, monkeypatch):
    monkeypatch.setattr("harness.train.learner._STATISTICS", 3)
    config = resolve_config(tiny | {"average.ema": 0.5, "optimizer.lr": 0.05})
    run_of_it = resolved(config)
    task = tasks.load_for(run_of_it.task, config, tmp_path / "cache")
    learner = Learner(run_of_it, task, 8, torch.device("cpu"))
    for step in range(4):
        learner.update(step)

    def tensors():
        return {name: x.clone() for name, x in learner.model.state_dict().items()}

    seen, before = {}, tensors()
    monkeypatch.setattr(learner, "_evaluate", lambda split: seen.update(tensors()) or {})
    learner.evaluate_average("val")
    after = tensors()
    assert all(torch.equal(x, after[name]) and x.dtype == after[name].dtype for name, x in before.items())
    assert before.keys() == seen.keys() > learner.average.mean.keys()
    assert all(torch.equal(seen[name], x) for name, x in learner.average.mean.items())

    learner.model.load_state_dict(seen)
    expected = statistics(learner.model, (task.batch(step).inputs for step in range(3)))
    for name, (mean, var) in expected.items():
        torch.testing.assert_close(seen[f"{name}.running_mean"], mean, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(seen[f"{name}.running_var"], var, rtol=1e-4, atol=1e-5)
        assert seen[f"{name}.num_batches_tracked"] == 3
        assert seen[f"{name}.num_batches_tracked"].dtype == torch.int64


def test_without_a_mean_key_and_checkpoint_are_as_before(tmp_path, tiny):
    config = resolve_config(tiny | {"log_every": 1})
    assert run_key(config) == run_key(resolve_config(tiny | {"average.ema": None, "average.tail": None}))
    interrupt(config, tmp_path, 3)
    assert "average" not in load(Store(tmp_path).files(run_key(config)).checkpoint)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"average.ema": 0.9, "average.tail": 0.1}, r"give average.ema or average.tail, not both"),
        ({"average.ema": 1}, r"average.ema must be a finite number in \(0, 1\) or null, got 1"),
        ({"average.tail": 0}, r"average.tail must be a finite number in \(0, 1\] or null, got 0"),
    ],
)
def test_what_is_no_mean_is_refused(tiny, settings, message):
    with pytest.raises(UsageError, match=message):
        resolve_config(tiny | settings)
