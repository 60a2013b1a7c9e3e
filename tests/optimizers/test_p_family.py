"""Soft-Muon, Contra-Muon, DynMuon and Soft-polar against float64 transcriptions of their definitions.

The transcriptions act on singular values, with numpy: what a map makes of a matrix is U diag(g) V^T.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from htbench.optimizers import ZOO, build
from htbench.optimizers.spectral.contra_muon import contra_muon
from htbench.optimizers.spectral.dynmuon import dynmuon
from htbench.optimizers.spectral.soft_muon import soft_muon
from htbench.optimizers.spectral.soft_polar import soft_polar
from tests.helpers.matrices import close, orthogonal, quick, seeds

f64, f32, bf16 = torch.float64, torch.float32, torch.bfloat16
Values = NDArray[np.float64]


# --- the definitions ---


def chain(x: Values) -> list[Values]:
    """x and twelve iterates of 2 x - 1.5 x^3 + .5 x^5."""
    out = [x]
    while len(out) < 13:
        y = out[-1]
        out.append(2 * y - 1.5 * y**3 + 0.5 * y**5)
    return out


def norm4(s: Values) -> float:
    return float((s**4).sum() ** 0.25)


def soft_muon_g(s: Values, blend: float) -> Values:
    w = [0.1091613623, 0.07085664498, 0.05210528973, 0.05457295795, 0.05011334061, 0.03334622198]
    w += [0.05022104481, 0.1053727358, 0.1187323776, 0.1185061091, 0.1185059576, 0.1185059576]
    *first, muon = chain(s / norm4(s))
    soft = sum(one * f for one, f in zip(w, first, strict=True))
    both = (1 - blend) * muon + blend * soft * norm4(muon) / norm4(soft)
    return both * norm4(muon) / norm4(both)


def contra_muon_g(s: Values, c: float) -> Values:
    x = s / norm4(s)
    muon = chain(x)[-1]
    return (muon - c * x) * norm4(muon) / norm4(muon - c * x)


def dynmuon_g(s: Values, p: float) -> Values:
    size = math.sqrt((s**2).sum())
    x, d = s / size, p / 2
    e = x**2 - 1
    return size**p * (1 + d * e + d * (d - 1) / 2 * e**2) * chain(x)[-1]


def soft_polar_g(s: Values, a: float, energy: str) -> Values:
    muon = chain(s / norm4(s))[-1]
    if energy == "none":
        return (1 - a) * muon + a * s / math.sqrt((s**2).sum())
    both = (1 - a) * muon + a * s * norm4(muon) / norm4(s)
    return both * norm4(muon) / norm4(both)


# (the map, its definition, their hyperparameters)
CASES = [
    *((soft_muon, soft_muon_g, (blend,)) for blend in (0.0, 0.4, 1.0)),
    *((contra_muon, contra_muon_g, (c,)) for c in (0.0, 0.2, 0.9)),
    *((dynmuon, dynmuon_g, (p,)) for p in (-0.5, -0.25, 0.0, 0.25, 0.5)),
    *((soft_polar, soft_polar_g, (a, energy)) for a in (0.0, 0.2, 1.0) for energy in ("keep", "none")),
]
every_map = pytest.mark.parametrize(("map_", "definition", "hyper"), CASES)


def drawn(m: int, n: int, values: Values) -> tuple[Tensor, Tensor, Tensor]:
    """M = U diag(values) V^T, and U and V."""
    U, V = orthogonal(m, 0)[:, : len(values)], orthogonal(n, 1)[:, : len(values)]
    return U * torch.from_numpy(values) @ V.T, U, V


@every_map
@pytest.mark.parametrize("shape", [(12, 20), (20, 12), (16, 16), (1, 5)])
def test_a_map_is_what_its_definition_says(map_, definition, hyper, shape: tuple[int, int]) -> None:
    r = min(shape)
    # bfloat16 cannot hold small values: its rounding plants some of 1e-3 to 1e-2 in all directions
    small = np.append(np.geomspace(1, 1e-5, r - 1), 0) if r > 1 else np.ones(1)
    for values, dtype, allowed in ((small, f64, 1e-10), (np.geomspace(1, 0.1, r), bf16, 0.03)):
        M, U, V = drawn(*shape, 3e-4 * values)
        expected = U * torch.from_numpy(definition(3e-4 * values, *hyper)) @ V.T
        assert (map_(M, *hyper, dtype) - expected).norm() < allowed * expected.norm()
    assert map_(M.to(f32), *hyper, f64).dtype == f32


@every_map
@quick
@given(seed=seeds, scale=st.sampled_from([1e-25, 1e-12, 1.0, 1e12, 1e25]))
def test_the_size_of_a_matrix_counts_in_dynmuon_only(map_, definition, hyper, seed, scale) -> None:
    M = torch.randn(5, 8, generator=torch.Generator().manual_seed(seed))
    power = hyper[0] if map_ is dynmuon else 0.0
    one, other = (map_(c * M, *hyper, f32) for c in (1.0, scale))
    torch.testing.assert_close(other / scale**power, one, rtol=1e-3, atol=1e-4)


# --- what the docstrings say of them ---


def test_the_error_of_soft_muon_as_a_power() -> None:
    for low, expected in ((5e-3, 0.032), (1.5e-3, 0.154), (5e-4, 0.387)):
        x = torch.logspace(math.log10(low), math.log10(0.5), 500, dtype=f64)
        pairs = soft_muon(torch.diag_embed(torch.stack([torch.ones_like(x), x], 1)), 1.0, f64)
        ratio = pairs[:, 1, 1] / pairs[:, 0, 0] / x**0.1
        error = (ratio.max() - ratio.min()) / (ratio.max() + ratio.min())
        assert error.item() == pytest.approx(expected, abs=3e-3)


def test_dynmuon_is_no_power_of_small_values() -> None:
    S = torch.tensor([1.0, 1e-2, 1e-3], dtype=f64)
    for p, limit in ((0.25, 0.82), (-0.25, 1.195)):
        found = dynmuon(torch.diag(S), p, f64).diagonal()
        assert found[:2].tolist() == pytest.approx([1, limit], abs=1e-3)
        assert found[2].item() == pytest.approx(limit, rel=0.01) and found[2] / S[2] ** p != pytest.approx(
            1, rel=0.5
        )


def test_what_contra_muon_and_soft_polar_do_to_the_order_of_values() -> None:
    S = torch.tensor([1.0, 0.5, 0.1], dtype=f64)
    contra, soft = (map_(torch.diag(S), 0.2, dtype=f64).diagonal() for map_ in (contra_muon, soft_polar))
    assert (contra.diff() > 0).all() and (soft.diff() < 0).all()
    assert contra[0] / contra[2] == pytest.approx(0.8, abs=0.03)
    scaled = soft_polar(torch.diag(S), 1.0, dtype=f64).diagonal() / S
    close(scaled, scaled[:1].expand(3))


# --- the rows ---


def test_defaults_are_as_published() -> None:
    hyper = {name: {key: p.default for key, p in ZOO[name].params.items()} for name in ZOO}
    assert hyper["soft_muon"]["blend"] == 1 and hyper["contra_muon"]["contra"] == 0.2
    assert (hyper["soft_polar"]["softening"], hyper["soft_polar"]["energy"]) == (0.2, "keep")
    dyn = hyper["dynmuon"]
    assert (dyn["p"], dyn["ema"], dyn["nesterov"], dyn["momentum"]) == (0.25, False, True, 0.95)
    assert ZOO["dynmuon"].weight_decay.default == 0.025 and ZOO["dynmuon"].lr.default == 0.02


@pytest.mark.parametrize(
    ("name", "definition", "hyper"),
    [
        ("soft_muon", soft_muon_g, (1.0,)),
        ("contra_muon", contra_muon_g, (0.2,)),
        ("dynmuon", dynmuon_g, (0.25,)),
        ("soft_polar", soft_polar_g, (0.2, "keep")),
    ],
)
def test_momentum_may_be_zero(name, definition, hyper) -> None:
    W = nn.Parameter(torch.zeros(6, 9, dtype=f64))
    optimizer = build(name, [W], lr=0.5, weight_decay=0, momentum=0, ns_dtype="float64")
    s = np.geomspace(3, 1e-4, 6)
    W.grad, U, V = drawn(6, 9, s)
    optimizer.step()
    close(W.detach(), -0.5 * (U * torch.from_numpy(definition(s, *hyper)) @ V.T), atol=1e-10)
