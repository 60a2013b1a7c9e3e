"""The curvature pass: what is drawn, what the estimate estimates, and that a run notices nothing else."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from htbench.harness.config.settings import resolve_config
from htbench.harness.data.task import IGNORED, Batch
from htbench.harness.data.text import TextTask
from htbench.harness.train import curvature
from htbench.harness.train.curvature import sample, uniform
from htbench.optimizers import Sophia
from tests.helpers.interrupting import assert_resumes, finish

CPU = torch.device("cpu")
OFF = torch.autocast("cpu", enabled=False)
ALMOST_ONE = 1 - 2**-24


class Task:
    """Whatever the model says, a row for every target."""

    def logits(self, model, batch):
        return model(batch.inputs).flatten(0, -2)


def estimate(model, batch, *, task=None, seed=0, step=0, micro_batch=10**9, autocast=OFF):
    """h of every parameter after one pass of a Sophia that keeps only the last estimate."""
    sophia = Sophia(model.parameters(), betas=(0.9, 0.0))
    settings = {"micro_batch": micro_batch, "device": CPU, "autocast": autocast}
    curvature.backward(task or Task(), model, batch, seed=seed, step=step, **settings)
    sophia.observe_curvature(batch.count)
    sophia.zero_grad()
    return [sophia.state[p]["h"] for p in model.parameters()]


def images(dtype=torch.float32):
    """A classifier with batch statistics and dropout, and a batch with a target that does not count."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 4)).to(dtype)
    targets = torch.randint(4, (12,))
    targets[3] = IGNORED
    return model, Batch.of(torch.randn(12, 5, dtype=dtype), targets)


# --- drawing ---


def test_sampling_inverts_the_distribution_function():
    logits = torch.tensor([0.5, 0.25, 0.25]).log().expand(6, 3)
    u = torch.tensor([0.0, 0.49, 0.51, 0.74, 0.76, ALMOST_ONE])
    targets = torch.tensor([2, 2, 2, IGNORED, 2, 2])
    assert sample(logits, targets, u).tolist() == [0, 0, 1, IGNORED, 2, 2]
    shaped = sample(logits, targets.view(2, 3), u.view(2, 3))
    assert shaped.tolist() == [[0, 0, 1], [IGNORED, 2, 2]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_impossible_classes_are_never_drawn(dtype):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3000, 50, generator=generator, dtype=dtype)
    impossible = torch.rand(3000, 50, generator=generator) < 0.5
    impossible[:, 7] = False
    logits[impossible] = -torch.inf
    for u in (torch.zeros(3000), torch.full((3000,), ALMOST_ONE), uniform(torch.Size([3000]), 0, 0)):
        drawn = sample(logits, torch.zeros(3000, dtype=torch.int64), u)
        assert not impossible.gather(1, drawn[:, None]).any()


def test_classes_come_as_often_as_the_model_says():
    logits = torch.tensor([1.0, -2.0, 0.5, 0.0])
    drawn = sample(logits.expand(40_000, 4), torch.zeros(40_000), uniform(torch.Size([40_000]), 5, 20))
    frequencies = drawn.bincount(minlength=4) / 40_000
    torch.testing.assert_close(frequencies, logits.softmax(0), rtol=0, atol=0.01)  # four standard deviations


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_diverged_model_still_has_targets(bad):
    drawn = sample(torch.full((4, 3), bad), torch.zeros(4), uniform(torch.Size([4]), 0, 0))
    assert ((drawn >= 0) & (drawn < 3)).all()


def test_uniform_numbers_are_a_pure_function_of_seed_and_step():
    shape = torch.Size([20, 30])
    u = uniform(shape, 3, 50)
    assert u.shape == shape and u.dtype == torch.float32 and 0 <= u.min() and u.max() < 1
    assert abs(u.mean() - 0.5) < 0.05 and len(u.unique()) > 590
    assert torch.equal(u, uniform(shape, 3, 50))
    for other in (uniform(shape, 3, 60), uniform(shape, 4, 50), uniform(shape, 3 + 2**32, 50)):
        assert (u == other).sum() < 5


# --- the estimate ---


class Copies(nn.Module):
    """Independent softmax classifiers (R, V, D) with the same weights, each with inputs (n, D) of its own."""

    def __init__(self, copies, W):
        super().__init__()
        self.weight = nn.Parameter(W.expand(copies, *W.shape).clone())

    def forward(self, x):
        return torch.einsum("rvd,rnd->rnv", self.weight, x)


@pytest.mark.parametrize("ignored", [False, True])
def test_the_mean_estimate_is_the_diagonal_of_the_gauss_newton_matrix(ignored):
    copies = 20_000
    generator = torch.Generator().manual_seed(0)
    W = torch.randn(3, 2, generator=generator, dtype=torch.float64)
    x = torch.randn(4, 2, generator=generator, dtype=torch.float64)
    targets = torch.zeros(4, dtype=torch.int64)
    if ignored:
        targets[1] = IGNORED
    batch = Batch.of(x.expand(copies, 4, 2), targets.expand(copies, 4))
    (h,) = estimate(Copies(copies, W), batch)

    def mean_loss(W):
        return functional.cross_entropy(x @ W.T, targets, reduction="sum") / batch.count

    # For a linear model the Gauss-Newton matrix is the Hessian, whatever the targets are.
    hessian = torch.autograd.functional.hessian(mean_loss, W).view(6, 6)
    # One estimate is a squared, nearly normal number: the mean of 20,000 is off by about one per cent.
    torch.testing.assert_close(h.mean(0), hessian.diag().view(3, 2), rtol=0.04, atol=0)


def test_micro_batches_change_nothing():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(9, 6), nn.Tanh(), nn.Linear(6, 9)).double()
    stream = np.arange(40, dtype=np.uint16) % 9
    sizes = {"batch_size": 7, "seq_len": 5, "data_seed": 0, "held_out_tokens": 5}
    task = TextTask(dict.fromkeys(("train", "val", "test"), stream), np.ones(9), **sizes)
    batch = task.batch(0)
    targets = batch.targets.clone()
    targets[2] = targets[6, 1] = IGNORED
    batch = Batch.of(batch.inputs, targets)
    whole = estimate(model, batch, task=task)
    for micro_batch in (1, 2, 3):  # one sample has no target that counts
        torch.testing.assert_close(estimate(model, batch, task=task, micro_batch=micro_batch), whole)


def test_it_repeats_and_depends_on_seed_and_step():
    model, batch = images()
    first = torch.cat([h.flatten() for h in estimate(model, batch, seed=1, step=10)])
    for seed, step, same in ((1, 10, True), (1, 20, False), (2, 10, False)):
        torch.manual_seed(7)  # dropout
        again = estimate(model, batch, seed=seed, step=step)
        torch.manual_seed(7)
        assert all(map(torch.equal, again, estimate(model, batch, seed=seed, step=step)))
        assert same or not torch.equal(torch.cat([h.flatten() for h in again]), first)


def test_a_pass_leaves_no_trace():
    model, batch = images()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.get_rng_state()
    estimate(model, batch)
    after = model.state_dict()
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
    assert torch.equal(torch.get_rng_state(), random)
    assert all(p.grad is None for p in model.parameters())
    assert model.training and model[1].track_running_stats
    model(batch.inputs)
    assert not torch.equal(model[1].running_mean, before["1.running_mean"])  # they follow training again


def test_batch_statistics_are_used_though_not_updated():
    model, batch = images(torch.float64)
    model[2].p = 0.0
    h = estimate(model, batch)
    model[1].running_mean.fill_(3.0)
    torch.testing.assert_close(estimate(model, batch), h)


def test_autocast_is_honoured():
    seen = []

    class Model(nn.Linear):
        def forward(self, x):
            seen.append(super().forward(x))
            return seen[-1]

    batch = Batch.of(torch.randn(4, 3), torch.zeros(4, dtype=torch.int64))
    estimate(Model(3, 2), batch, micro_batch=2, autocast=torch.autocast("cpu", torch.bfloat16))
    assert [(out.dtype, len(out)) for out in seen] == [(torch.bfloat16, 2)] * 2


# --- in a run ---


def test_an_interrupted_run_gives_the_same_bits(tmp_path, tiny):
    tiny |= {"optimizer.name": "sophia", "optimizer.lr": 0.01, "optimizer.curvature_interval": 2}
    _, whole = assert_resumes(tiny, tmp_path, 3, 6)  # stops after four updates, when a pass is due
    _, signs = finish(resolve_config(tiny | {"optimizer.sign_momentum": True, "log_every": 1}), tmp_path)
    losses, sign_losses = ([row["loss"] for row in curve if "loss" in row] for curve in (whole, signs))
    # The third update is the first changed.
    assert losses[:3] == sign_losses[:3] and losses[3] != sign_losses[3]


@pytest.mark.filterwarnings("ignore:Sophia made")  # the pass of this test tells the optimizer nothing
@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({"optimizer.name": "sgdm"}, []),
        ({"optimizer.name": "muon"}, []),
        ({"optimizer.name": "sophia", "optimizer.curvature_interval": 3}, [3, 6]),
        (
            {
                "optimizer.name": "sophia",
                "optimizer.curvature_interval": 3,
                "optimizer.curvature_at_start": True,
            },
            [0, 3, 6],
        ),
    ],
)
def test_the_loop_makes_the_passes_that_are_wanted(tmp_path, tiny, monkeypatch, settings, steps):
    seen = []

    def backward(task, model, batch, **context):
        context = SimpleNamespace(**context)
        seen.append(context.step)
        assert torch.equal(batch.inputs, task.batch(context.step).inputs)
        assert (context.seed, context.micro_batch) == (11, 16)
        assert all(p.grad is None for p in model.parameters())

    monkeypatch.setattr(curvature, "backward", backward)
    finish(resolve_config(tiny | settings | {"optimizer.lr": 1e-3, "seed": 11}), tmp_path)
    assert seen == steps
