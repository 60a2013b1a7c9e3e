"""Identities of the spectral maps, in float64 on random matrices with chosen singular values."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from htbench.optimizers.muon import Muon
from htbench.optimizers.spectral.exact import svd_power
from htbench.optimizers.spectral.newton_schulz import newton_schulz
from tests.helpers.matrices import close, matrices, powers, quick

torch.set_num_threads(1)


@quick
@given(matrices(), powers)
def test_singular_values_are_raised_to_the_power(drawn: tuple[Tensor, Tensor], p: float) -> None:
    M, S = drawn
    close(torch.linalg.svdvals(svd_power(M, p)), S**p)


@quick
@given(matrices())
def test_newton_schulz_brings_singular_values_near_one(drawn: tuple[Tensor, Tensor]) -> None:
    M, S = drawn
    found = torch.linalg.svdvals(newton_schulz(M, 5, torch.float64))
    # five quintics map [0.01, 1] into this band
    assert found[S > 0.01 * S.norm()].min() > 0.681 and found[S > 0.01 * S.norm()].max() < 1.135


def rule(W: Tensor, **hyper: object) -> tuple[nn.Parameter, Muon]:
    parameter = nn.Parameter(W.clone())
    return parameter, Muon([parameter], weight_decay=0, spectral="svd_power", **hyper)


@quick
@given(matrices(), matrices(), st.floats(0, 0.99), st.floats(1e-3, 1))
def test_htmuon_with_power_one_is_sgd_with_averaged_momentum(
    first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor], momentum: float, lr: float
) -> None:
    G = [first[0], first[0].flip(0), first[0].flip(1)]
    W, muon = rule(torch.zeros_like(G[0]), lr=lr, p=1.0, momentum=momentum, nesterov=False)
    expected, M = torch.zeros_like(W), torch.zeros_like(W)
    m, n = W.shape
    for gradient in G:
        W.grad = gradient
        muon.step()
        M = momentum * M + (1 - momentum) * gradient
        expected = expected - lr * max(1, m / n) ** 0.5 * M
    close(W.detach(), expected)


@quick
@given(matrices(), st.booleans())
def test_muon_svd_ignores_the_scale_of_the_gradient(drawn: tuple[Tensor, Tensor], nesterov: bool) -> None:
    moved = []
    for scale in (1.0, 50.0):
        W, muon = rule(torch.zeros_like(drawn[0]), p=0.0, nesterov=nesterov)
        W.grad = scale * drawn[0]
        muon.step()
        moved.append(W.detach())
    close(*moved)


@quick
@given(matrices(), st.sampled_from(["shape", "rms0.2"]))
def test_scale_rules(drawn: tuple[Tensor, Tensor], scale_rule: str) -> None:
    M, _ = drawn
    m, n = M.shape
    W, muon = rule(torch.zeros_like(M), lr=1.0, p=0.0, scale_rule=scale_rule)
    W.grad = M
    muon.step()
    s = {"shape": max(1, m / n) ** 0.5, "rms0.2": 0.2 * max(m, n) ** 0.5}[scale_rule]
    close(W.detach(), -s * svd_power(M, 0.0))


def test_the_quirk_takes_the_shape_factor_from_the_kernel() -> None:
    G = torch.randn(24, 2, 3, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    moved = {}
    for quirk in (False, True):
        W, muon = rule(torch.zeros_like(G), p=0.125, conv_reference_quirk=quirk)
        W.grad = G
        muon.step()
        moved[quirk] = W.detach()
    # 24 x 6 as a matrix, 3 x 1 as a kernel
    close(moved[True] / moved[False], torch.full_like(G, (3 / 4) ** 0.5))
