"""U S^p V^T is the steepest-descent direction in the Schatten-q ball, 1/(1+p) + 1/q = 1.

The paper's theorem: of all D with ||D||_q <= 1, D* = U S^p V^T / ||G||_{1+p}^p has the greatest <G, D>, the
dual norm ||G||_{1+p}. Here in float64, on matrices with chosen singular values.
"""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from htbench.optimizers import svd_power
from tests.helpers.matrices import gaussian, matrices, orthogonal, seeds

quick = settings(deadline=None, max_examples=60, derandomize=True)

gradients = matrices().map(lambda drawn: drawn[0])
powers = st.one_of(st.sampled_from([0.0, 0.125, 1.0]), st.floats(0.02, 1))


def schatten(X: Tensor, q: float) -> float:
    S = torch.linalg.svdvals(X)
    return (S[0] * (S / S[0]).norm(q)).item()


def conjugate(p: float) -> float:
    return math.inf if p == 0 else (1 + p) / p


def inner(A: Tensor, B: Tensor) -> float:
    return (A * B).sum().item()


def steepest(G: Tensor, p: float) -> Tensor:
    return svd_power(G, p) / schatten(G, 1 + p) ** p


def assert_no_better(D: Tensor, G: Tensor, p: float) -> None:
    """D, scaled into the ball, gains no more than the steepest direction."""
    assert inner(G, D) / schatten(D, conjugate(p)) <= inner(G, steepest(G, p)) * (1 + 1e-10)


@quick
@given(gradients, powers)
def test_the_direction_is_in_the_ball_and_reaches_the_dual_norm(G, p):
    assert schatten(steepest(G, p), conjugate(p)) == pytest.approx(1, rel=1e-10)
    assert inner(G, steepest(G, p)) == pytest.approx(schatten(G, 1 + p), rel=1e-10)


@quick
@given(gradients, powers, seeds)
def test_no_other_direction_gains_more(G, p, seed):
    assert_no_better(gaussian(*G.shape, seed=seed), G, p)


@quick
@given(gradients, powers, seeds, st.floats(1e-6, 1))
def test_no_perturbation_of_it_gains_more(G, p, seed, size):
    E = gaussian(*G.shape, seed=seed)
    for sign in (-1, 1):
        assert_no_better(steepest(G, p) + sign * size * E, G, p)


@quick
@given(gradients, powers, seeds)
def test_no_other_spectrum_on_its_singular_vectors_gains_more(G, p, seed):
    U, _, Vh = torch.linalg.svd(G, full_matrices=False)
    assert_no_better(U * gaussian(1, len(Vh), seed=seed).abs() @ Vh, G, p)


@pytest.mark.parametrize("p", [0.0, 0.03125, 0.125, 0.5, 1.0])
@pytest.mark.parametrize("other", [0.0625, 0.25, 0.75, 0.875])
def test_every_other_power_gains_less(p, other):
    G = orthogonal(5, 0)[:, :3] * torch.tensor([4.0, 1.0, 0.2], dtype=torch.float64) @ orthogonal(3, 1)
    D = svd_power(G, other) / schatten(svd_power(G, other), conjugate(p))
    assert inner(G, D) < (1 - 1e-4) * inner(G, steepest(G, p))


@quick
@given(gradients)
def test_the_limits_are_the_spectral_norm_and_the_frobenius_norm(G):
    """p = 0 is Muon: D* = U V^T gains the nuclear norm. p = 1 is the gradient: G / ||G||_F gains ||G||_F."""
    assert torch.linalg.matrix_norm(steepest(G, 0.0), 2).item() == pytest.approx(1, rel=1e-10)
    assert inner(G, steepest(G, 0.0)) == pytest.approx(torch.linalg.matrix_norm(G, "nuc").item(), rel=1e-10)
    torch.testing.assert_close(steepest(G, 1.0), G / G.norm())
