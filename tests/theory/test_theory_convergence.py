"""HTMuon_Stochastic on a noisy quadratic with known L and sigma: which printed bounds hold.

f(W) = 1/2 <W, H W> with H = diag(1/5 ... 1), so L = 1 and f* = 0. A sample of the gradient is off by random
signs times sigma / sqrt(mn): its variance is sigma^2. The mean of a batch of B is drawn from the binomial
distribution. The paper's expectations are means over 200 seeds, compared with a margin of four standard
errors. `ell` (the paper's l) and `eta` are the greatest singular value and step seen in any seed: a bound
that holds with them holds with every admissible value.

The paper prints the theorem's constants in three ways that disagree: `main_text`, and in the appendix
`general` (any beta) and `corollary` (beta = 1/sqrt(T)). `corrected` is what the proof gives.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from htbench.optimizers import svd_power

SEEDS, m, n, r, L = 200, 6, 4, 4, 1.0
T = B = 64  # steps and batch, equal as in the theorem
H = torch.linspace(1 / 5, 1, m, dtype=torch.float64)[:, None]


@dataclass(frozen=True)
class Run:
    p: float
    beta: float
    sigma: float
    delta: float  # f(W_0) - f*
    ell: float
    eta: float
    error: Tensor  # ||grad f(W_t) - M_t||_F, t = 0 ... T, by seed
    gradient: Tensor  # the mean over t of ||grad f(W_t)||_{1+p}^2, by seed


def squared_norm(X: Tensor, p: float) -> Tensor:
    """||X||_{1+p}^2, the Schatten norm."""
    return torch.linalg.svdvals(X).pow(1 + p).sum(-1).pow(2 / (1 + p))


@functools.cache
def htmuon_stochastic(p: float, sigma: float, distance: float, beta: float = T**-0.5) -> Run:
    """The block as printed: no s, no decay, the theorem's step. M_0 = G_0 as in its lemma; W_1 = W_0."""
    generator = torch.Generator().manual_seed(0)
    W_0 = distance * torch.randn(m, n, generator=generator, dtype=torch.float64)
    W, signs, half = W_0.repeat(SEEDS, 1, 1), torch.full((SEEDS, m, n), float(B)), torch.tensor(0.5)

    def batch_mean() -> Tensor:
        up = torch.binomial(signs, half.expand_as(signs), generator=generator).double()
        return H * W + sigma / math.sqrt(m * n) * (2 * up / B - 1)

    M = batch_mean()
    errors, squares, ell, eta = [(H * W - M).norm(dim=(1, 2))], [], 0.0, 0.0
    for _ in range(T):
        M = beta * M + (1 - beta) * batch_mean()
        U, S, Vh = torch.linalg.svd(M, full_matrices=False)
        O = U * S[:, None] ** p @ Vh  # noqa: E741 - the paper's symbol
        eta_t = (M * O).sum((1, 2)) / (L * O.square().sum((1, 2)))
        errors.append((H * W - M).norm(dim=(1, 2)))
        squares.append(squared_norm(H * W, p))
        ell, eta = max(ell, S.max().item()), max(eta, eta_t.max().item())
        W = W - eta_t[:, None, None] * O
    delta = (H * W_0.square()).sum().item() / 2
    return Run(p, beta, sigma, delta, ell, eta, torch.stack(errors), torch.stack(squares).mean(0))


def upper(samples: Tensor) -> Tensor:
    """The mean over the seeds, plus four standard errors."""
    return samples.mean(-1) + 4 * samples.std(-1) / math.sqrt(SEEDS)


def lower(samples: Tensor) -> Tensor:
    return samples.mean(-1) - 4 * samples.std(-1) / math.sqrt(SEEDS)


# Each gives the three terms in the bracket of the theorem, and the factor of L r^(1/s) Delta / ((1-eps) T).
Constants = Callable[[Run], tuple[float, float, float, float]]


def main_text(run: Run) -> tuple[float, float, float, float]:
    lag = 4 * r * run.ell ** (2 * run.p / (1 + run.p)) * (L * run.eta) ** 2 / T  # l^(2/q)
    return 2 * run.sigma / T, 4 * run.sigma**2 / T**3, lag, 2


def general(run: Run) -> tuple[float, float, float, float]:
    _, start, lag, delta = corrected(run)
    return 2 * (1 - run.beta) * run.sigma / (B * (1 + run.beta)), start, lag, delta


def corollary(run: Run) -> tuple[float, float, float, float]:
    lag = 4 * r * run.ell ** (2 * run.p) * (L * run.eta) ** 2 / T
    return 2 * run.sigma / T, 4 * run.sigma**2 / T, lag, 4


def corrected(run: Run) -> tuple[float, float, float, float]:
    noise = 2 * (1 - run.beta) * run.sigma**2 / (B * (1 + run.beta))
    start = 2 * run.beta**2 * run.sigma**2 / ((1 - run.beta**2) * B * T)
    lag = 2 * r * run.ell ** (2 * run.p) * (run.beta * L * run.eta / (1 - run.beta)) ** 2
    return noise, start, lag, 4


def bound(run: Run, constants: Constants, eps: float) -> float:
    noise, start, lag, delta = constants(run)
    factor = L * r ** ((1 - run.p) / (1 + run.p)) / (1 - eps)  # L r^(1/s) / (1-eps)
    weight = 2 * factor * ((1 - eps) / L + 1 / (L * eps))
    return weight * (noise + start + lag) + delta * factor * run.delta / T


# (sigma, distance of W_0 from the minimum): noise and distance alike, almost no noise, almost only noise
REGIMES = [(1.0, 1.0), (0.01, 1.0), (100.0, 0.1)]
betas = pytest.mark.parametrize("beta", [0.0, T**-0.5, 0.9])


def in_each_regime(test):
    powers = pytest.mark.parametrize("p", [0.125, 0.5])
    return powers(pytest.mark.parametrize("sigma, distance", REGIMES)(test))


@in_each_regime
@pytest.mark.parametrize("beta", [T**-0.5, 0.9])  # at beta = 0 the bound is the mean, to one standard error
def test_the_momentum_lemma_holds(p, sigma, distance, beta):
    run = htmuon_stochastic(p, sigma, distance, beta)
    t = torch.arange(T + 1)
    noise = (math.sqrt((1 - beta) / (1 + beta)) + beta**t) * sigma / math.sqrt(B)
    lag = math.sqrt(r) * run.ell**p * beta * L * run.eta / (1 - beta)
    assert (upper(run.error) <= noise + lag).all()


@in_each_regime
@betas
def test_the_second_moment_of_the_momentum_error_has_sigma_squared(p, sigma, distance, beta):
    """The proof takes E X^2 <= (E X)^2, which is false; the variance of M_t gives the same with sigma^2."""
    run = htmuon_stochastic(p, sigma, distance, beta)
    noise, _, lag, _ = corrected(run)
    start = 2 * beta ** (2 * torch.arange(T + 1)) * sigma**2 / B
    assert (upper(run.error**2) <= noise + start + lag).all()


def test_the_printed_second_moment_has_sigma_and_fails():
    run = htmuon_stochastic(0.125, 100.0, 0.1)
    noise, _, lag, _ = general(run)
    assert (lower(run.error[1:] ** 2) > noise + lag).all()


@in_each_regime
@betas
@pytest.mark.parametrize("eps", [0.1, 0.5, 0.9])
def test_the_corrected_bound_holds(p, sigma, distance, beta, eps):
    run = htmuon_stochastic(p, sigma, distance, beta)
    assert upper(run.gradient) <= bound(run, corrected, eps)


@in_each_regime
@pytest.mark.parametrize("eps", [0.1, 0.5, 0.9])
def test_the_corollary_of_the_appendix_holds(p, sigma, distance, eps):
    """Its 4 sigma^2 / T, where the proof has 4 sigma^2 / T^3, covers the sigma that should be sigma^2."""
    run = htmuon_stochastic(p, sigma, distance)
    assert upper(run.gradient) <= bound(run, corollary, eps)


def test_the_general_bound_of_the_appendix_fails_without_momentum():
    """From the minimum with beta = 0 only 2 sigma / B is left; the squared gradient is like sigma^2 / B."""
    run = htmuon_stochastic(0.125, 1e3, 0.0, 0.0)
    assert lower(run.gradient) > 3 * bound(run, general, 0.5)
    assert upper(run.gradient) < bound(run, corrected, 0.5)


def test_the_bound_of_the_main_text_fails_under_large_noise():
    """In larger units of f the run is the same and its squared gradient sigma^2 times as large. Two of the
    bound's terms fall behind: 2 sigma / T, and that with l^(2/q) in place of l^(2p), whatever the value of l.
    """
    run = htmuon_stochastic(0.5, 1e9, 0.0)
    assert lower(run.gradient) > 10 * bound(run, main_text, 0.5)
    assert upper(run.gradient) < bound(run, corollary, 0.5)


# --- one step: where the factor of Delta comes from ---


def step(G: Tensor, M: Tensor, p: float) -> tuple[float, float]:
    """(f(W) - f(W'), ||G - M||_F^2) for a step of the block on f = 1/2 ||W||^2, whose gradient is G = W."""
    O = svd_power(M, p)  # noqa: E741
    eta = (M * O).sum() / O.square().sum()
    return (G.square().sum() - (G - eta * O).square().sum()).item() / 2, (G - M).square().sum().item()


def gap(G: Tensor, M: Tensor, p: float, eps: float, decreases: int) -> float:
    """Right side minus left side of the last display of the proof for one t, with L = 1:

    (1-eps) / (2 r^(1/s)) ||G||_{1+p}^2 <= (1 - eps + 1/eps) ||G - M||_F^2 + decreases (f(W) - f(W'))
    """
    decrease, error = step(G, M, p)
    left = (1 - eps) / (2 * min(G.shape) ** ((1 - p) / (1 + p))) * squared_norm(G, p).item()
    return (1 - eps + 1 / eps) * error + decreases * decrease - left


@settings(deadline=None, max_examples=150, derandomize=True)
@given(
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(0, 2**32 - 1),
    st.floats(0.01, 0.99),
    st.floats(0.02, 0.98),
    st.floats(0, 2),
    st.floats(0, 4),
)
def test_one_step_holds_with_twice_the_decrease(rows, cols, seed, p, eps, noise, decay):
    """Twice, hence 4 L r^(1/s) Delta as in the appendix. From eps = 1/2 on, once is enough, hence also 2."""
    generator = torch.Generator().manual_seed(seed)
    X, E = torch.randn(2, rows, cols, generator=generator, dtype=torch.float64)
    U, _, Vh = torch.linalg.svd(X, full_matrices=False)
    M = U * torch.arange(1, len(Vh) + 1).double() ** -decay @ Vh
    for decreases in (2, 1) if eps >= 0.5 else (2,):
        assert gap(M - noise * E / E.norm(), M, p, eps, decreases) >= -1e-12


def test_one_step_fails_with_the_decrease_that_the_proof_prints():
    """It loses the factor two in its last line, hence 2 L r^(1/s) Delta in the main text."""
    M = torch.diag(torch.tensor([1.0, 1e-30, 1e-30], dtype=torch.float64))
    G = torch.diag(torch.tensor([1.0, -0.003, -0.003], dtype=torch.float64))
    assert gap(G, M, 1e-6, 0.01, 1) < -1e-4
    assert gap(G, M, 1e-6, 0.01, 2) > 0


def test_without_noise_the_bound_is_met_with_equality():
    """beta = 0, a flat spectrum, f = 1/2 ||W||^2: 2 L r^(1/s) Delta cannot be made smaller."""
    G = torch.eye(3, dtype=torch.float64)
    decrease, _ = step(G, G, 0.125)
    assert squared_norm(G, 0.125).item() == pytest.approx(2 * 3 ** (0.875 / 1.125) * decrease, rel=1e-12)
