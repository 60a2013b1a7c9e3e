"""The maps of singular values against each other, against a float64 SVD, and at the edges of their inputs."""

import math
import re
import statistics
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from htbench.optimizers.spectral import SPECTRAL
from htbench.optimizers.spectral.aurora import aurora
from htbench.optimizers.spectral.contra_muon import contra_muon
from htbench.optimizers.spectral.dynmuon import dynmuon
from htbench.optimizers.spectral.exact import graded_power, gram_power, rank_power, svd_power
from htbench.optimizers.spectral.mix_power import mix_power
from htbench.optimizers.spectral.newton_schulz import QUINTIC, newton_schulz
from htbench.optimizers.spectral.ns_root import gram_root, ns_root
from htbench.optimizers.spectral.products import gram, square
from htbench.optimizers.spectral.soft_muon import soft_muon
from htbench.optimizers.spectral.soft_polar import soft_polar
from htbench.optimizers.spectral.stream_power import stream_power
from htbench.optimizers.zoo.spectral import MAPS
from tests.helpers.matrices import ROUNDED_TWICE, close, gaussian, matrices, orthogonal, powers, quick, seeds
from tests.helpers.rows import of_rows

f64, f32, bf16 = torch.float64, torch.float32, torch.bfloat16
DEFAULTS = {name: param.default for name, param in MAPS.items()}
Map = Callable[[Tensor, float], Tensor]
exact = pytest.mark.parametrize("power", [svd_power, gram_power])
everywhere = pytest.mark.parametrize("name", SPECTRAL)


def error(found: Tensor, expected: Tensor) -> float:
    return float((found.double() - expected).norm() / expected.norm())


def raised(M: Tensor, p: float) -> Tensor:
    U, S, Vh = torch.linalg.svd(M, full_matrices=False)
    return U * S**p @ Vh


def followed(M: Tensor, p: float, steps: int, rank: int | None = None) -> Tensor:
    """What `stream_power` returns after so many steps on one matrix."""
    state: dict[str, Any] = {}
    for _ in range(steps):
        O = stream_power(M, p, state, rank)  # noqa: E741
    return O


# --- what defines the exact maps ---


@exact
@quick
@given(drawn=matrices())
def test_zero_is_the_polar_factor_and_one_the_matrix(power: Map, drawn: tuple[Tensor, Tensor]) -> None:
    M, S = drawn
    O = power(M, 0.0)  # noqa: E741
    close(torch.linalg.svdvals(O), torch.ones_like(S))
    close(O @ O.T @ M if len(M) <= M.shape[1] else M @ O.T @ O, M)
    close(power(M, 1.0), M)


@quick
@given(matrices(), powers)
def test_gram_power_is_svd_power(drawn: tuple[Tensor, Tensor], p: float) -> None:
    close(gram_power(drawn[0], p), svd_power(drawn[0], p))


@quick
@given(matrices(), powers)
def test_singular_values_are_raised_to_the_power(drawn: tuple[Tensor, Tensor], p: float) -> None:
    M, S = drawn
    close(torch.linalg.svdvals(svd_power(M, p)), S**p)


@quick
@given(matrices())
def test_newton_schulz_brings_singular_values_near_one(drawn: tuple[Tensor, Tensor]) -> None:
    M, S = drawn
    found = torch.linalg.svdvals(newton_schulz(M, 5, f64))
    # five quintics map [0.01, 1] into this band
    assert found[S > 0.01 * S.norm()].min() > 0.681 and found[S > 0.01 * S.norm()].max() < 1.135


@exact
@quick
@given(drawn=matrices(), p=powers, scale=st.floats(1e-3, 1e3))
def test_homogeneous(power: Map, drawn: tuple[Tensor, Tensor], p: float, scale: float) -> None:
    close(power(scale * drawn[0], p), scale**p * power(drawn[0], p), atol=1e-7)


@exact
@quick
@given(drawn=matrices(), p=powers, left=seeds, right=seeds)
def test_equivariant(power: Map, drawn: tuple[Tensor, Tensor], p: float, left: int, right: int) -> None:
    M, _ = drawn
    Q, R = orthogonal(M.shape[0], left), orthogonal(M.shape[1], right)
    close(power(Q @ M @ R, p), Q @ power(M, p) @ R)
    close(power(M.T, p), power(M, p).T)
    close(newton_schulz(Q @ M @ R, 5, f64), Q @ newton_schulz(M, 5, f64) @ R)


@quick
@given(matrices(), st.floats(0, 1), seeds, st.floats(1e-3, 1e3))
def test_rank_power(drawn: tuple[Tensor, Tensor], exponent: float, seed: int, scale: float) -> None:
    M, S = drawn
    assume(len(S) == 1 or (S[:-1] - S[1:]).min() > 1e-3)  # equal values have no order
    O = rank_power(M, exponent)  # noqa: E741
    close(torch.linalg.svdvals(O), torch.arange(1, len(S) + 1) ** torch.tensor(-exponent, dtype=f64))
    Q = orthogonal(len(M), seed)
    for found, expected in ((scale * M, O), (Q @ M, Q @ O), (M.T, O.T)):
        close(rank_power(found, exponent), expected)


def test_null_directions() -> None:
    U, V = orthogonal(12, 0)[:, :3], orthogonal(9, 1)[:, :3]
    M = U * torch.tensor([3.0, 2.0, 1.0]) @ V.T
    close(torch.linalg.svdvals(svd_power(M, 0.0)), torch.ones(9, dtype=f64))
    for p in (0.0, 0.125):
        close(gram_power(M, p), U * torch.tensor([3.0, 2.0, 1.0]) ** p @ V.T, atol=1e-7)


def test_gram_power_is_linear_below_what_it_resolves() -> None:
    # As the exact map is concave, the linear piece lies below it: noise is never lifted.
    S = torch.logspace(0, -14, 15, dtype=f64)
    U, V = orthogonal(15, 0), orthogonal(15, 1)
    found = (U.T @ gram_power(U * S @ V.T, 0.125) @ V).diagonal()
    resolved = S > 1e-6
    torch.testing.assert_close(found[resolved], S[resolved] ** 0.125, rtol=1e-3, atol=0)
    assert (found[~resolved].abs() <= 1.3 * S[~resolved] ** 0.125).all() and found[-1].abs() < 1e-3


# --- the approximations ---


def test_stream_power_converges_on_a_repeated_matrix() -> None:
    S = torch.logspace(0, -2, 8, dtype=f64)
    for shape in ((8, 8), (8, 12), (12, 8)):
        M = orthogonal(shape[0], 0)[:, :8] * S @ orthogonal(shape[1], 1)[:, :8].T
        first, later = (error(followed(M, 0.125, steps), svd_power(M, 0.125)) for steps in (1, 40))
        assert first > 0.05 and later < 1e-9


@pytest.mark.parametrize(("rank", "k"), [(None, 5), (3, 3), (9, 5)])
def test_stream_power_follows_as_many_directions_as_asked(rank: int | None, k: int) -> None:
    for M in (gaussian(5, 7), gaussian(7, 5, dtype=bf16)):
        state: dict[str, Any] = {}
        assert torch.linalg.matrix_rank(stream_power(M, 0.125, state, rank).double(), rtol=0.02) == k
        assert state["basis"].shape == (M.shape[1], k)
        assert state["basis"].dtype == torch.promote_types(M.dtype, f32)


def test_stream_power_starts_at_the_identity_and_goes_on_from_its_state() -> None:
    M, state = gaussian(5, 7), {"basis": orthogonal(7, 0)[:, :2]}
    for before in (torch.eye(7, 2, dtype=f64), state["basis"]):
        V = torch.linalg.qr(M.T @ M @ before).Q
        R = M @ V
        sigma = R.norm(dim=0)
        own = {} if before is not state["basis"] else dict(state)
        close(stream_power(M, 0.25, own, rank=2), (R / sigma) * sigma**0.25 @ V.T)
        close(own["basis"], V)


def test_stream_power_takes_small_values_for_zero() -> None:
    M = torch.diag(torch.tensor([1.0, 1e-3, 1e-5], dtype=f64))
    found = stream_power(M, 0.5, {}, eps=1e-4)
    close(found, torch.diag(torch.tensor([1.0, 1e-3, 0.0], dtype=f64)).sqrt())


@pytest.mark.parametrize("dtype", [f64, f32])
@pytest.mark.parametrize("relative", [False, True])
def test_the_side_of_the_gram_matrix_does_not_matter(dtype: torch.dtype, relative: bool) -> None:
    for shape in ((16, 40), (40, 16), (24, 24)):
        M = gaussian(*shape, dtype=dtype)
        right, small = (
            ns_root(M, 0.125, ns_dtype=dtype, side=side, relative=relative) for side in ("right", "small")
        )
        assert error(small, right.double()) < 1e-5
        r = min(shape)
        assert gram_root(M, 0.125, side="small").shape == (r, r)
    wide = gaussian(4, 6, dtype=dtype)
    assert torch.equal(gram_root(wide, 0.25, side="small"), gram_root(wide.T, 0.25))


def test_relative_eps_makes_ns_root_homogeneous() -> None:
    M = gaussian(12, 20)
    for p in (0.125, 0.5):
        moved = {}
        for relative in (False, True):
            of = [ns_root(c * M, p, ns_dtype=f64, side="small", relative=relative) for c in (1.0, 1e-4)]
            moved[relative] = error(of[1], 1e-4**p * of[0])
        assert moved[True] < 1e-2 * moved[False] and moved[True] < 3e-4  # the 1e-7 in the norm of NS
    scaled, plain = (gram_root(M, 0.125, eps=1e-12, relative=relative) for relative in (True, False))
    assert error(scaled, plain) < 1e-7  # the same power of M but for eps


def test_a_power_between_two_powers_of_one_half_is_rounded() -> None:
    M = gaussian(6, 6)
    for relative in (False, True):
        taken = gram_root(M, 0.25, relative=relative)
        assert torch.equal(gram_root(M, 0.2, relative=relative), taken)
        assert error(gram_root(M, 0.125, relative=relative), taken) > 0.1


def test_the_released_factor_of_gradients_below_eps() -> None:
    found = torch.linalg.eigvalsh(gram_root(1e-6 * gaussian(6, 6), 0.125))
    close(found, torch.full_like(found, 1e-6 ** (1 / 16)), atol=1e-3)


# Relative error on 64 x 64 Gaussian matrices against the float64 SVD; p = 1/8, alpha = 1/4; median of nine as
# measured. Twice that where it is amplified rounding (*), which another BLAS does differently.
MEASURED: dict[str, tuple[Callable[[Tensor], Tensor], dict[torch.dtype, float]]] = {
    "svd_power": (lambda M: svd_power(M, 0.125), {f32: 9.4e-7, bf16: 3.2e-3}),
    "gram_power": (lambda M: gram_power(M, 0.125), {f64: 4.2e-13, f32: 1e-6, bf16: 3.2e-3}),  # *
    "graded_power": (lambda M: graded_power(M, 0.125), {f32: 6e-6, bf16: 3.2e-3}),
    "gram_power f32": (lambda M: gram_power(M, 0.125, f32), {f32: 2.6e-4, bf16: 3.2e-3}),  # *
    "ns_root": (lambda M: ns_root(M, 0.125), {f64: 0.27, f32: 0.27, bf16: 0.27}),
    "ns_root, 15": (lambda M: ns_root(M, 0.125, 5, f32, 15), {f64: 0.21, f32: 0.21, bf16: 0.21}),
    "stream_power, 1": (lambda M: followed(M, 0.125, 1), {f64: 0.31, f32: 0.31, bf16: 0.31}),
    "stream_power, 10": (lambda M: followed(M, 0.125, 10), {f64: 0.034, f32: 0.034, bf16: 0.034}),
    "rank_power": (lambda M: rank_power(M, 0.25), {f32: 1.1e-6, bf16: 3.3e-3}),
}


@pytest.mark.parametrize("what", MEASURED)
def test_errors_stay_what_they_were(what: str) -> None:
    function, measured = MEASURED[what]
    exactly = (lambda M: rank_power(M, 0.25)) if what == "rank_power" else (lambda M: raised(M, 0.125))
    all_of_them = [gaussian(64, 64, seed=seed) for seed in range(9)]
    for dtype, allowed in measured.items():
        found = statistics.median(error(function(M.to(dtype)), exactly(M)) for M in all_of_them)
        print(f"{what} {dtype}: {found:.2g}")
        assert found < 1.5 * allowed, dtype


@pytest.mark.parametrize("shape", [(24, 24), (64, 160), (160, 64)])
def test_fused_sums_are_closer_to_float32_than_rounded_terms(shape: tuple[int, int]) -> None:
    M = gaussian(*shape, dtype=f32)
    single = newton_schulz(M, dtype=f32).double()
    a, b, c = QUINTIC
    X = (M if shape[0] <= shape[1] else M.T).bfloat16()
    X = X / X.norm()
    for _ in range(5):  # as Muon's released code rounds
        A = X @ X.mT
        X = a * X + (b * A + c * A @ A) @ X
    rounded = error((X if shape[0] <= shape[1] else X.mT).float(), single)
    assert error(newton_schulz(M), single) < rounded < 0.04


@pytest.mark.parametrize("dtype", [bf16, f32, f64, torch.float16])
@pytest.mark.parametrize("shape", [(512, 512), (512, 1376), (510, 1377), (16, 24)])
def test_a_gram_matrix_from_block_rows_is_the_whole_product(
    shape: tuple[int, int], dtype: torch.dtype
) -> None:
    X = gaussian(*shape, dtype=dtype) / 32
    A = gram(X)
    whole = X @ X.mT if dtype in (f32, f64) else (X.float() @ X.float().mT).to(dtype)
    torch.testing.assert_close(A, whole, rtol=64 * torch.finfo(dtype).eps, atol=64 * torch.finfo(dtype).eps)
    B = square(0.5, A, 0.01)
    assert error(B, 0.5 * A.double() + 0.01 * A.double() @ A.double()) < 16 * torch.finfo(dtype).eps


@pytest.mark.parametrize("shape", [(20, 61), (61, 20), (3, 64, 65), (32, 64)])
def test_columns_of_zeros_change_nothing(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]) -> None:
    M = gaussian(*shape)
    plain = newton_schulz(M, dtype=f64)
    monkeypatch.setitem(newton_schulz.__globals__, "_width", lambda X: -(-X.shape[-1] // 32) * 32)
    torch.testing.assert_close(newton_schulz(M, dtype=f64), plain, rtol=0, atol=1e-12)


# --- inputs ---

OUTSIDE = [
    *((power, "[-0.5, 1]", (-0.75, 1.5)) for power in (svd_power, gram_power, graded_power, mix_power)),
    *((root, "(0, 1)", (0.0, 1.0, -0.5)) for root in (ns_root, gram_root)),
    (lambda M, p: stream_power(M, p, {}), "[0, 1]", (-0.125, 1.5)),
    (dynmuon, "[-0.5, 0.5]", (-0.6, 0.51)),
]


@pytest.mark.parametrize(("power", "allowed", "outside"), OUTSIDE)
def test_every_map_says_its_range_of_p(power: Map, allowed: str, outside: tuple[float, ...]) -> None:
    for p in (*outside, math.nan):
        message = rf"^p must be a finite number in {re.escape(allowed)} for the map \w+, got {p}"
        with pytest.raises(ValueError, match=message):
            power(torch.eye(2), p)


@pytest.mark.parametrize("power", [svd_power, gram_power, graded_power])
@pytest.mark.parametrize("p", [-0.5, -0.125])
def test_negative_powers(power: Map, p: float) -> None:
    S = torch.logspace(0, -3, 12, dtype=f64)
    M = (orthogonal(12, 0) * S @ orthogonal(20, 1)[:, :12].T).float()
    assert error(power(M, p), raised(M.double(), p)) < 1e-3
    low = M[:, :1] * M[:1]  # rank one: null directions are bounded
    assert power(low, p).isfinite().all() and not power(0 * M, p).any()


@pytest.mark.parametrize("shape", [(64, 64), (48, 128), (128, 48)])
def test_graded_power_resolves_what_one_gram_matrix_in_float32_does_not(shape: tuple[int, int]) -> None:
    S = torch.logspace(0, -5, min(shape), dtype=f64)
    M = (orthogonal(shape[0], 0)[:, : len(S)] * S @ orthogonal(shape[1], 1)[:, : len(S)].T).float()
    truth = raised(M.double(), 0.125)
    assert error(graded_power(M, 0.125), truth) < 2e-3 < 0.1 < error(gram_power(M, 0.125, f32), truth)
    torch.testing.assert_close(graded_power(1e-25 * M, 0.125), 1e-25**0.125 * graded_power(M, 0.125))


@pytest.mark.parametrize("p", [-0.25, 0.125])
@pytest.mark.parametrize("shape", [(8, 8), (64, 64), (64, 171), (171, 64), (65, 65), (65, 171), (3, 12, 12)])
def test_the_default_map_is_the_svd_of_a_small_matrix_and_graded_from_65_on(
    shape: tuple[int, ...], p: float
) -> None:
    M = gaussian(*shape[-2:], dtype=f32).expand(shape)
    default = DEFAULTS | {"p": p}
    wanted = svd_power if min(shape[-2:]) <= 64 else graded_power
    assert torch.equal(SPECTRAL["gram_power"](M, {}, default), wanted(M, p))
    for dtype in (f32, f64):  # asked for by name
        named = default | {"gram_dtype": str(dtype).removeprefix("torch.")}
        assert torch.equal(SPECTRAL["gram_power"](M, {}, named), gram_power(M, p, dtype))


@everywhere
@pytest.mark.parametrize("shape", [(20, 20), (5, 8), (8, 5)])
def test_a_batch_is_its_matrices(name: str, shape: tuple[int, int]) -> None:
    batch = gaussian(3, 2, *shape)
    batch[0, 0, 0, 0] = math.nan  # in one matrix only
    batch[0, 1] = 0
    batch[1, 0] *= 1e20
    hyper = DEFAULTS | {"ns_dtype": "float64", "mix_dtype": "float64"}
    one_by_one = torch.stack([SPECTRAL[name](M, {}, hyper) for M in batch.flatten(0, 1)])
    found = SPECTRAL[name](batch, {}, hyper).flatten(0, 1)
    torch.testing.assert_close(found, one_by_one, equal_nan=True, rtol=1e-9, atol=1e-12)
    assert found.isfinite().flatten(1).all(-1).tolist() == [False] + 5 * [True]


@everywhere
@pytest.mark.parametrize("dtype", [bf16, f32, f64])
def test_any_finite_matrix_has_a_finite_image(name: str, dtype: torch.dtype) -> None:
    for shape in ((5, 5), (4, 7), (7, 4), (1, 6), (6, 1), (1, 1)):
        full = gaussian(*shape, dtype=dtype)
        low = full[:, :1] * full[:1]
        for M in (full, full.T, low, 1e-20 * full, torch.zeros_like(full)):
            before = M.clone()
            found = SPECTRAL[name](M, {}, DEFAULTS)
            assert torch.equal(M, before)
            assert found.isfinite().all() and found.dtype == dtype and found.shape == M.shape


@everywhere
@pytest.mark.parametrize("dtype", [bf16, f32, f64])
def test_a_matrix_that_is_not_finite_has_no_finite_image(name: str, dtype: torch.dtype) -> None:
    for shape in ((5, 5), (4, 7), (7, 4), (1, 6), (6, 1)):
        for value in (math.nan, math.inf, -math.inf):
            M = gaussian(*shape, dtype=dtype)
            M[-1, 0] = value
            assert not SPECTRAL[name](M, {}, DEFAULTS).isfinite().all()


@pytest.mark.parametrize("name", SPECTRAL)
def test_zero_stays_zero_unless_ranks_count(name: str) -> None:
    found = SPECTRAL[name](torch.zeros(4, 6), {}, DEFAULTS)
    assert bool(found.any()) == (name == "rank_power")
    assert gram_root(torch.zeros(4, 6), 0.125, relative=True).isfinite().all()


# --- the table ---

OTHER = {
    "p": 0.5,
    "rank_exponent": 0.75,
    "ns_steps": 3,
    "ns_dtype": "float64",
    "ns_coefficients": "polar_express",
    "gram_dtype": "float32",
    "root_steps": 2,
    "root_eps": 1e-2,
    "root_eps_relative": True,
    "gram_side": "small",
    "rank": 2,
    "qr_eps": 3.3,
    "mix_set": "k5",
    "mix_dtype": "float16",
    "mix_fp32_steps": 1,
    "blend": 0.3,
    "contra": 0.6,
    "softening": 0.7,
    "energy": "none",
    "balance_steps": 3,
    "balance_power": 0.2,
}
READ: dict[str, tuple[Callable[[Tensor], Tensor], set[str]]] = {
    "newton_schulz": (
        lambda M: newton_schulz(M, 3, f64, "polar_express"),
        {"ns_steps", "ns_dtype", "ns_coefficients"},
    ),
    "svd_power": (lambda M: svd_power(M, 0.5), {"p"}),
    "gram_power": (lambda M: gram_power(M, 0.5, f32), {"p", "gram_dtype"}),
    "ns_root": (
        lambda M: ns_root(M, 0.5, 3, f64, 2, 1e-2, "small", True),
        {"p", "ns_steps", "ns_dtype", "root_steps", "root_eps", "root_eps_relative", "gram_side"},
    ),
    "rank_power": (lambda M: rank_power(M, 0.75), {"rank_exponent"}),
    "stream_power": (lambda M: stream_power(M, 0.5, {}, 2, 3.3), {"p", "rank", "qr_eps"}),
    "mix_power": (
        lambda M: mix_power(M, 0.5, "k5", torch.float16, 1),
        {"p", "mix_set", "mix_dtype", "mix_fp32_steps"},
    ),
    "soft_muon": (lambda M: soft_muon(M, 0.3, f64), {"blend", "ns_dtype"}),
    "contra_muon": (lambda M: contra_muon(M, 0.6, f64), {"contra", "ns_dtype"}),
    "dynmuon": (lambda M: dynmuon(M, 0.5, f64), {"p", "ns_dtype"}),
    "soft_polar": (lambda M: soft_polar(M, 0.7, "none", f64), {"softening", "energy", "ns_dtype"}),
    "aurora": (lambda M: aurora(M, 3, 0.2, f64), {"balance_steps", "balance_power", "ns_dtype"}),
}


@everywhere
def test_the_table_reads_the_hyperparameters_of_the_group(name: str) -> None:
    direct, own = READ[name]
    M = gaussian(5, 7, dtype=f32)
    found = SPECTRAL[name](M, {}, {**DEFAULTS, **OTHER})
    assert torch.equal(found, direct(M))
    for hyper in own:  # each of them counts
        assert not torch.equal(SPECTRAL[name](M, {}, {**DEFAULTS, **OTHER, hyper: DEFAULTS[hyper]}), found)


@of_rows(SPECTRAL, quick=("newton_schulz", "gram_power", "mix_power"))
def test_no_map_breaks_the_graph(name: str) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(SPECTRAL[name], backend="eager", fullgraph=True)
    states: list[dict[str, Any]] = [{}, {}]
    for M in (gaussian(4, 6, dtype=f32), gaussian(4, 6, dtype=f32, seed=1)):
        eager = SPECTRAL[name](M, states[0], DEFAULTS)
        torch.testing.assert_close(compiled(M, states[1], DEFAULTS), eager, rtol=0, atol=1e-6 + ROUNDED_TWICE)
    assert states[0].keys() == states[1].keys()
