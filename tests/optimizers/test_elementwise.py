"""What Cautious, MARS and Sophia promise, in float64 on random gradients."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from htbench import optimizers
from htbench.optimizers import MARS, Cautious, Sophia

quick = settings(deadline=None, max_examples=40, derandomize=True)

decays = st.just(0.0) | st.floats(0.1, 0.99)
rates = st.floats(1e-4, 1.0)
seeds = st.integers(0, 2**32 - 1)


@st.composite
def gradients(draw: st.DrawFn, steps: int = 5) -> Tensor:
    """(steps, 3, 4) with entries of very different size and some zeros."""
    generator = torch.Generator().manual_seed(draw(seeds))
    G = torch.randn(steps, 3, 4, generator=generator, dtype=torch.float64)
    sizes = torch.randint(-3, 4, (3, 4), generator=generator)
    return G * 10.0**sizes * (torch.rand(steps, 3, 4, generator=generator) > 0.1)


def weights(seed: int = 0) -> nn.Parameter:
    return nn.Parameter(torch.randn(3, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))


def trajectory(W: nn.Parameter, optimizer: torch.optim.Optimizer, G: Tensor) -> Tensor:
    """The weights before the first and after every step."""
    seen = [W.detach().clone()]
    for W.grad in G:
        optimizer.step()
        seen.append(W.detach().clone())
    return torch.stack(seen)


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


# --- Cautious ---


@quick
@given(gradients(), decays, decays, st.booleans())
def test_cautious_never_moves_against_the_gradient(G: Tensor, b1: float, b2: float, raw_eps: bool) -> None:
    W = weights()
    step = -trajectory(W, Cautious([W], betas=(b1, b2), raw_eps=raw_eps), G).diff(dim=0)
    assert (step * G >= 0).all()
    assert (step[0] != 0).equal(G[0] != 0)  # the first step is Adam's, which has the gradient's signs


@quick
@given(gradients(steps=4), rates, st.floats(0, 0.5), st.sampled_from([1e-3, 0.9]))
def test_cautious_rescales_the_entries_that_it_keeps(
    G: Tensor, lr: float, weight_decay: float, mask_floor: float
) -> None:
    hyper = {"lr": lr, "weight_decay": weight_decay, "betas": (0.9, 0.99), "eps": 1e-6}
    W, V = weights(), weights()
    cautious, adamw = Cautious([W], mask_floor=mask_floor, **hyper), torch.optim.AdamW([V], **hyper)
    for W.grad in G:
        V.grad = W.grad
        V.data.copy_(W.data)
        before = W * (1 - lr * weight_decay)
        cautious.step(), adamw.step()
        u = before - V
        kept = u * W.grad > 0
        expected = torch.where(kept, u, 0) / max(kept.double().mean().item(), mask_floor)
        torch.testing.assert_close(before - W, expected, rtol=1e-6, atol=1e-12)


# --- MARS ---


@quick
@given(gradients(), rates, st.floats(0, 0.5), decays, decays)
def test_mars_without_correction_and_clipping_is_adamw(
    G: Tensor, lr: float, weight_decay: float, b1: float, b2: float
) -> None:
    hyper = {"lr": lr, "weight_decay": weight_decay, "betas": (b1, b2), "eps": 1e-8}
    W, V = weights(), weights()
    found = trajectory(W, MARS([W], gamma=0, clip=False, **hyper), G)
    close(found, trajectory(V, torch.optim.AdamW([V], **hyper), G))


@quick
@given(gradients(), st.sampled_from([1e-6, 1.0]), st.floats(0, 0.5), st.floats(0, 0.95), st.booleans())
def test_mars_is_adamw_on_the_corrected_gradient(
    G: Tensor, scale: float, gamma: float, b1: float, clip: bool
) -> None:
    G, W, V = scale * G, weights(), weights()  # on either side of norm 1
    found = trajectory(W, MARS([W], gamma=gamma, betas=(b1, 0.95), clip=clip, weight_decay=0), G)
    last = torch.cat([torch.zeros_like(G[:1]), G[:-1]])
    c = G + gamma * b1 / (1 - b1) * (G - last)
    if clip:
        c = torch.stack([one / max(1, one.norm().item()) for one in c])
    adamw = torch.optim.AdamW([V], lr=3e-3, betas=(b1, 0.95), eps=1e-8, weight_decay=0)
    close(found, trajectory(V, adamw, c))


# --- Sophia ---


def observe(W: nn.Parameter, sophia: Sophia, g: Tensor, batch_size: int = 1) -> None:
    W.grad = g
    sophia.observe_curvature(batch_size)


@quick
@given(gradients(), rates, st.floats(0, 0.5), decays)
def test_sophia_without_curvature_is_sign_momentum(
    G: Tensor, lr: float, weight_decay: float, b1: float
) -> None:
    W = weights()
    sophia = Sophia([W], lr, weight_decay=weight_decay, betas=(b1, 0.99), sign_momentum=True, eps=1e-300)
    expected, m = W.detach().clone(), torch.zeros_like(W)
    observe(W, sophia, 100 * G[0])  # whoever calls it all the same
    for W.grad in G:
        sophia.step()
        m = b1 * m + (1 - b1) * W.grad
        expected = expected * (1 - lr * weight_decay) - lr * m.sign()
        close(W.detach(), expected)


@quick
@given(gradients(), gradients(steps=1), st.integers(1, 10**6), st.floats(1e-3, 1))
def test_sophia_divides_by_the_curvature_and_never_moves_an_entry_further_than_lr(
    G: Tensor, g: Tensor, batch_size: int, rho: float
) -> None:
    W, m = weights(), torch.zeros(3, 4, dtype=torch.float64)
    sophia = Sophia([W], 0.01, weight_decay=0, rho=rho)
    observe(W, sophia, g[0], batch_size)
    h = 0.01 * batch_size * g[0].square()
    close(sophia.state[W]["h"], h)
    step = -trajectory(W, sophia, G).diff(dim=0)
    assert (step.abs() <= 0.01 * (1 + 1e-9)).all()
    for gradient, moved in zip(G, step, strict=True):
        m = 0.965 * m + 0.035 * gradient
        torch.testing.assert_close(moved, 0.01 * (m / (rho * h + 1e-15)).clamp(-1, 1), rtol=1e-6, atol=1e-12)


def test_the_diverged_stay_so() -> None:
    W = nn.Parameter(torch.ones(2))
    W.grad = torch.tensor([math.nan, 0.0])
    Sophia([W]).step()  # torch's sign of NaN is 0
    assert W.isnan().tolist() == [True, False]


@pytest.mark.parametrize(
    ("hyper", "due"),
    [
        ({}, [10, 20, 30]),
        ({"curvature_interval": 7}, [7, 14, 21, 28]),
        ({"curvature_interval": 7, "curvature_at_start": True}, [0, 7, 14, 21, 28]),
        ({"curvature_interval": 1}, list(range(1, 31))),
        ({"curvature_interval": 1, "curvature_at_start": True, "sign_momentum": True}, []),
    ],
)
def test_when_sophia_wants_curvature(hyper: dict[str, object], due: list[int]) -> None:
    sophia = Sophia([weights()], **hyper)
    assert [step for step in range(31) if sophia.wants_curvature(step)] == due


def test_groups_share_the_passes() -> None:
    first, second, third = (weights(seed) for seed in range(3))
    groups = [
        {"params": [first], "curvature_interval": 4},
        {"params": [second], "curvature_interval": 6},
        {"params": [third], "sign_momentum": True},
    ]
    sophia = Sophia(groups)
    assert [step for step in range(13) if sophia.wants_curvature(step)] == [4, 6, 8, 12]
    first.grad = third.grad = torch.ones(3, 4, dtype=torch.float64)
    sophia.observe_curvature(1)
    assert "h" in sophia.state[first] and second not in sophia.state and third not in sophia.state


# --- AdEMAMix, schedule-free AdamW and Prodigy against what they are made of ---


def driven(optimizer, W, steps=6):
    """The gradients given, after as many steps; the optimizer moves W."""
    generator = torch.Generator().manual_seed(3)
    for _ in range(steps):
        W.grad = torch.randn(W.shape, generator=generator, dtype=W.dtype)
        optimizer.step()


def start():
    return torch.nn.Parameter(torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 4))


def test_ademamix_without_its_slow_momentum_is_adamw():
    W, other = start(), start()
    settings = {"lr": 0.01, "weight_decay": 0.1}
    driven(optimizers.AdEMAMix([W], betas=(0.9, 0.99, 0.999), alpha=0, **settings), W)
    driven(torch.optim.AdamW([other], betas=(0.9, 0.99), **settings), other)
    torch.testing.assert_close(W, other, rtol=0, atol=1e-14)


@pytest.mark.parametrize("b1", [0.9, 0.5])
def test_schedule_free_evaluates_the_weighted_mean_of_its_steps(b1):
    W = start()
    rule = optimizers.ScheduleFree([W], lr=0.1, betas=(b1, 0.99), weight_decay=0.2)
    mean, total = start().detach(), 0.0
    for lr in (0.05, 0.1, 0.1, 0.02):  # a warm-up, then one below the largest, which has the weight of that
        rule.param_groups[0]["lr"] = lr
        driven(rule, W, 1)
        weight = 0.05**2 if lr == 0.05 else 0.1**2
        total += weight
        z = rule.state[W]["z"]
        mean.lerp_(z, weight / total)
        torch.testing.assert_close(W.detach(), (1 - b1) * z + b1 * mean, rtol=0, atol=1e-14)
        rule.eval()
        rule.eval()  # a second time it is there already
        torch.testing.assert_close(W.detach(), mean, rtol=0, atol=1e-14)
        with pytest.raises(RuntimeError, match=r"call train\(\) before step\(\)"):
            rule.step()
        rule.train()
    torch.testing.assert_close(W.detach(), (1 - b1) * z + b1 * mean, rtol=0, atol=1e-14)


def test_prodigy_finds_a_rate_that_walks_to_the_minimum():
    target, W = start().detach() + 3, start()
    rule = optimizers.Prodigy([W], weight_decay=0)
    for _ in range(400):
        W.grad = W.detach() - target
        rule.step()
    assert (W - target).abs().max() < 0.05
    (group,) = rule.param_groups
    assert 0.03 < group["d"] <= (start() - target).abs().max() + 1e-9  # never more than the distance


def test_prodigy_has_a_rate_for_each_group_from_all_of_its_parameters():
    first, second, third = start(), start(), start()
    together = optimizers.Prodigy([{"params": [first, second]}, {"params": [third]}], d0=1e-3)
    for p, scale in ((first, 1.0), (second, -2.0), (third, 1.0)):
        p.grad = torch.full_like(p, scale)
    for _ in range(4):
        together.step()
    one, two = (group["d"] for group in together.param_groups)
    assert one > 1e-3 and one == pytest.approx(two)  # <G, W0-W> / ||G||_1, of each group its own
