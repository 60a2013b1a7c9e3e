"""The paper's lemma: singular values k^-s mean eigenvalue density lambda^-alpha, alpha = 1 + 1/(2s).

Such a spectrum is n atoms and not a density: each test allows for what n atoms make of one, by derivation.
"""

import math

import pytest
import torch
from torch import Tensor

from htbench.optimizers import svd_power

decays = pytest.mark.parametrize("s", [0.3, 0.5, 1.0, 1.5])
powers = pytest.mark.parametrize("p", [0.125, 0.5, 1.0])


def power_law(n: int, s: float) -> Tensor:
    """A (1.5 n, n) matrix with singular values k^-s and random singular vectors."""
    generator = torch.Generator().manual_seed(n)
    X = torch.randn(n + n // 2, n, generator=generator, dtype=torch.float64)
    U, _, Vh = torch.linalg.svd(X, full_matrices=False)
    return U * torch.arange(1, n + 1, dtype=torch.float64) ** -s @ Vh


def eigenvalues(W: Tensor) -> Tensor:
    """Of W^T W, descending."""
    return torch.linalg.svdvals(W).square()


def fit(eigs: Tensor) -> float:
    """The maximum-likelihood exponent of a density lambda^-alpha above the smallest eigenvalue (Hill)."""
    return 1 + len(eigs) / (eigs / eigs[-1]).log().sum().item()


@decays
@powers
def test_eigenvalues_are_counted_by_the_integral_of_the_density(s, p):
    """n P(a < lambda <= b) is the integral of a density with the lemma's exponent, up to one atom."""
    n, alpha = 200, 1 + 1 / (2 * s * p)
    eigs = eigenvalues(svd_power(power_law(n, s), p))
    edges = torch.logspace(math.log10(eigs[-1]), 0, 12, dtype=torch.float64)
    for a, b in zip(edges[:-1], edges[1:], strict=True):
        integral = (a ** (1 - alpha) - b ** (1 - alpha)).item()  # of (alpha-1) lambda^-alpha, from a to b
        assert ((eigs > a * (1 - 1e-9)) & (eigs <= b)).sum().item() == pytest.approx(integral, abs=1.001)


@decays
@powers
@pytest.mark.parametrize("n", [64, 200])
def test_the_fitted_exponent_is_that_of_the_lemma(n, s, p):
    """sum_k ln(lambda_k / lambda_n) = 2 s p (n ln n - ln n!), and by Stirling the fit is above the lemma by

    (1 + o(1)) ln(2 pi n) / (4 s p n). U S^p V^T has decay s p in place of s.
    """
    found = fit(eigenvalues(svd_power(power_law(n, s), p)))
    lemma = 1 + 1 / (2 * s * p)
    assert found == pytest.approx(1 + n / (2 * s * p * (n * math.log(n) - math.lgamma(n + 1))), rel=1e-8)
    assert 1 < (found - lemma) / (math.log(2 * math.pi * n) / (4 * s * p * n)) < 1.1


def test_a_smaller_power_is_a_lighter_tail():
    """The momentum has the heaviest tail, HTMuon's update a lighter one, Muon's none.

    The paper says that alpha grows as p -> 0, "this means" that HTMuon's tail is heavier than Muon's. Both
    hold, but the one does not mean the other: by its definition a larger alpha is a lighter tail.
    """
    W = power_law(100, 0.7)
    alphas = [fit(eigenvalues(svd_power(W, p))) for p in (1.0, 0.5, 0.25, 0.125)]
    assert alphas == sorted(alphas) and alphas[-1] > 2 * alphas[0]
    assert fit(eigenvalues(svd_power(W, 0.0))) > 1e12
