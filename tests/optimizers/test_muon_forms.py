"""What Muon, NorMuon and AdaMuon add around the map: interval, blocks, averages or sums, norms."""

import copy
import math
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from htbench.optimizers import ZOO, AdaMuon, Muon, NorMuon, build, svd_power
from htbench.optimizers.base import matrix_view
from htbench.optimizers.spectral.balance import equalize
from htbench.optimizers.spectral.newton_schulz import newton_schulz
from tests.helpers.matrices import close, matrices
from tests.helpers.rows import of_rows

quick = settings(deadline=None, max_examples=25, derandomize=True)

with_interval = of_rows([name for name, row in ZOO.items() if "interval" in row.params])
CLASSES = [Muon, NorMuon, AdaMuon]
seeds = st.integers(0, 2**32 - 1)


def gradients(count: int, shape: tuple[int, ...] = (6, 4), seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(count)]


def walk(optimizer: torch.optim.Optimizer, W: nn.Parameter, steps: list[Tensor]) -> list[Tensor]:
    weights = []
    for G in steps:
        W.grad = G.to(W.dtype)
        optimizer.step()
        weights.append(W.detach().clone())
    return weights


def started(name: str, **hyper: object) -> tuple[torch.optim.Optimizer, nn.Parameter]:
    W = nn.Parameter(torch.ones(6, 4, dtype=torch.float64))
    return build(name, [("W", W)], routing="matrix", ns_dtype="float64", **hyper), W


@with_interval
@pytest.mark.parametrize(("phase", "due"), [("last", {3, 6}), ("first", {1, 4, 7})])
def test_interval_takes_the_map_at_its_steps_and_newton_schulz_between(
    name: str, phase: str, due: set[int]
) -> None:
    cheap = {"Muon": "muon", "NorMuon": "normuon", "AdaMuon": "adamuon"}[ZOO[name].target.partition(":")[2]]
    interval, W = started(name, interval=3, interval_phase=phase)
    for step, G in enumerate(gradients(7), start=1):
        # the same step from the same state by the plain map and by Newton-Schulz
        before, saved = W.detach().clone(), copy.deepcopy(interval.state[W])
        found = walk(interval, W, [G])[0]
        other, V = started(name if step in due else cheap)
        with torch.no_grad():
            V.copy_(before)
        other.state[V] = {key: value for key, value in saved.items() if key != "interval_step"}
        for key in ("lr", "weight_decay", "ema"):
            other.param_groups[0][key] = interval.param_groups[0][key]
        assert torch.equal(walk(other, V, [G])[0], found), step


@with_interval
@pytest.mark.parametrize("stop", [2, 3])
def test_the_phase_of_an_interval_survives_a_resume(name: str, stop: int) -> None:
    steps = gradients(7)
    optimizer, W = started(name, interval=3)
    straight = walk(optimizer, W, steps)
    optimizer, W = started(name, interval=3)
    walk(optimizer, W, steps[:stop])
    second, V = started(name)
    with torch.no_grad():
        V.copy_(W)
    second.load_state_dict(optimizer.state_dict())
    assert torch.equal(walk(second, V, steps[stop:])[-1], straight[-1])


@pytest.mark.parametrize("cls", CLASSES)
def test_a_parameter_counts_its_own_steps(cls: type[Muon]) -> None:
    W, late = (nn.Parameter(torch.ones(3, 3)) for _ in range(2))
    rule = cls([W, late], spectral="svd_power", interval=3)
    for step in range(3):
        W.grad = torch.eye(3)
        late.grad = torch.eye(3) if step else None
        rule.step()
    assert (rule.state[W]["interval_step"], rule.state[late]["interval_step"]) == (3, 2)


@pytest.mark.parametrize("spectral", ["newton_schulz", "svd_power", "stream_power", "rank_power"])
def test_blocks_are_transformed_each_on_its_own(spectral: str) -> None:
    fused = nn.Parameter(torch.zeros(6, 4, dtype=torch.float64))
    parts = [nn.Parameter(torch.zeros(2, 4, dtype=torch.float64)) for _ in range(3)]
    hyper = {"spectral": spectral, "ns_dtype": "float64", "scale_rule": "rms0.2"}
    rule, own = Muon([fused], blocks=3, **hyper), Muon(parts, **hyper)
    for G in gradients(4):
        fused.grad = G
        for part, block in zip(parts, G.chunk(3), strict=True):
            part.grad = block
        rule.step()
        own.step()
    # s comes from the shape of the whole matrix: 0.2 sqrt(max(6, 4)) against 0.2 sqrt(max(2, 4))
    ratio = math.sqrt(6 / 4)
    assert torch.allclose(fused, ratio * torch.cat(list(parts)), rtol=0, atol=1e-12)


def test_blocks_must_divide_the_rows() -> None:
    with pytest.raises(ValueError, match="^blocks must divide the 6 rows of a matrix, got 4"):
        Muon([nn.Parameter(torch.zeros(6, 4))], blocks=4)


class Fused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(4, 12, bias=False), nn.Linear(4, 4)

    def fused_projections(self) -> dict[nn.Parameter, int]:
        return {self.qkv.weight: 3}


def test_a_fused_projection_is_split_by_what_the_model_says() -> None:
    model = Fused()
    whole = build("muon", model)
    assert [group.get("blocks") for group in whole.param_groups] == [1, None]
    plain, split, aux = build("muon", model, fused="split").param_groups
    assert (plain["params"], plain["blocks"]) == ([model.out.weight], 1)
    assert (split["params"], split["blocks"]) == ([model.qkv.weight], 3)
    assert aux["params"] == [model.out.bias]


@pytest.mark.parametrize(
    ("name", "spectral", "outside", "inside"),
    [
        ("htmuon_ns", "ns_root", (-0.5, 0.0, 1.0), (0.25,)),
        ("htmuon_stream", "stream_power", (-0.125,), (0.0, 1.0)),
        ("htmuon_mix", "mix_power", (-0.6, 1.1), (-0.5, 0.0, 1.0)),
        ("htmuon", "svd_power", (-0.6, 1.1), (-0.5, 0.0, 1.0)),
    ],
)
def test_a_power_outside_the_range_of_a_map_is_refused(name, spectral, outside, inside) -> None:
    for p in outside:
        with pytest.raises(ValueError, match=r"^p must be a finite number in [\[(].*, got"):
            Muon([nn.Parameter(torch.ones(2, 2))], spectral=spectral, p=p)
        with pytest.raises(ValueError, match=r"^p must be a finite number in [\[(].*, got"):
            build(name, nn.Linear(2, 2), p=p)
    for p in inside:
        build(name, nn.Linear(2, 2), p=p)


def test_ns_root_says_what_it_takes_p_for() -> None:
    with pytest.warns(UserWarning, match=r"^ns_root can only halve: it takes p = 0.2 for 0.25"):
        build("htmuon_ns", nn.Linear(2, 2), p=0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build("htmuon_ns", nn.Linear(2, 2), p=0.25)


@pytest.mark.parametrize("cls", CLASSES)
def test_a_group_is_checked_as_the_constructor_is(cls: type[Muon]) -> None:
    W, V = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2, 2))
    with pytest.raises(ValueError, match=r"^momentum must be a finite number in \[0, 1\), got 1.5"):
        cls([{"params": [W], "momentum": 1.5}])
    rule = cls([{"params": [W], "momentum": "0.5"}])
    assert rule.param_groups[0]["momentum"] == 0.5
    with pytest.raises(ValueError, match=r"^p must be a finite number in \[-0.5, 1\], got 2"):
        rule.add_param_group({"params": [V], "p": 2})
    copied = copy.deepcopy(rule)
    with pytest.raises(ValueError, match="^p must be"):
        copied.add_param_group({"params": [V], "p": 2})


@quick
@given(seeds, st.floats(0, 0.99), st.booleans())
def test_a_sum_is_an_average_over_one_minus_beta(seed: int, beta: float, nesterov: bool) -> None:
    shared = {"momentum": beta, "nesterov": nesterov, "weight_decay": 0, "spectral": "svd_power"}
    moved = {}
    for ema in (True, False):
        for p in (0.0, 0.5):
            W = nn.Parameter(torch.zeros(4, 3, dtype=torch.float64))
            walk(Muon([W], 1.0, ema=ema, p=p, **shared), W, gradients(1, (4, 3), seed))
            moved[ema, p] = W.detach()
    torch.testing.assert_close(moved[True, 0.0], moved[False, 0.0], rtol=0, atol=1e-9)
    torch.testing.assert_close(moved[True, 0.5], (1 - beta) ** 0.5 * moved[False, 0.5], rtol=0, atol=1e-9)


@quick
@given(seeds, st.sampled_from([("row", 5, 1), ("column", 1, 7)]))
def test_equalized_momentum_forgets_the_scale_of_rows_or_columns(
    seed: int, drawn: tuple[str, int, int]
) -> None:
    side, rows, columns = drawn
    G = gradients(1, (5, 7), seed)[0]
    scales = torch.logspace(-2, 3, rows * columns, dtype=torch.float64).view(rows, columns)
    moved = []
    for one in (G, scales * G):
        W = nn.Parameter(torch.zeros(5, 7, dtype=torch.float64))
        walk(Muon([W], 1.0, equalize=side, nesterov=False, weight_decay=0, ns_dtype="float64"), W, [one])
        moved.append(W.detach())
    torch.testing.assert_close(moved[0], moved[1], rtol=0, atol=1e-8)
    lengths = G.norm(dim=1 if side == "row" else 0, keepdim=True)
    torch.testing.assert_close(-moved[0], newton_schulz(G / lengths, 5, torch.float64), rtol=0, atol=1e-8)
    both = G / G.norm(dim=0) / G.norm(dim=1, keepdim=True)
    torch.testing.assert_close(equalize(G, "row_column"), both, rtol=1e-12, atol=0)


@quick
@given(seeds, st.sampled_from([(4, 6), (6, 4), (4, 3, 2, 2)]))
def test_lengths_of_the_updates(seed: int, shape: tuple[int, ...]) -> None:
    G = gradients(1, shape, seed)[0]
    m, n = matrix_view(G).shape
    for cls, hyper in ((NorMuon, {"norm_rule": "rms0.2"}), (AdaMuon, {})):
        W = nn.Parameter(torch.zeros(shape, dtype=torch.float64))
        walk(cls([W], 1.0, weight_decay=0, **hyper), W, [G])
        assert W.detach().norm().item() == pytest.approx(0.2 * math.sqrt(m * n), rel=1e-6)


@quick
@given(seeds, st.floats(1e-3, 1e3))
def test_adamuon_ignores_the_scale_of_gradients_and_how_they_are_summed(seed: int, scale: float) -> None:
    moved = []
    for factor, ema in ((1.0, False), (scale, False), (1.0, True)):
        W = nn.Parameter(torch.zeros(4, 6, dtype=torch.float64))
        rule = AdaMuon([W], ema=ema, ns_dtype="float64")
        walk(rule, W, [factor * G for G in gradients(3, (4, 6), seed)])
        moved.append(W.detach())
    torch.testing.assert_close(moved[0], moved[1], rtol=0, atol=1e-9)
    torch.testing.assert_close(moved[0], moved[2], rtol=0, atol=1e-9)


# --- around the exact map, on matrices with chosen singular values ---


def rule(W: Tensor, **hyper: object) -> tuple[nn.Parameter, Muon]:
    parameter = nn.Parameter(W.clone())
    return parameter, Muon([parameter], weight_decay=0, spectral="svd_power", **hyper)


@quick
@given(matrices(), st.floats(0, 0.99), st.floats(1e-3, 1))
def test_htmuon_with_power_one_is_sgd_with_averaged_momentum(
    drawn: tuple[Tensor, Tensor], momentum: float, lr: float
) -> None:
    G = [drawn[0], drawn[0].flip(0), drawn[0].flip(1)]
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


def test_adamuon_without_sign_maps_the_momentum_itself() -> None:
    signs = [G.sign() for G in gradients(2)]
    (signed, W), (plain, V) = started("adamuon"), started("adamuon", sign=False)
    first, second = walk(signed, W, signs[:1]), walk(plain, V, signs[:1])
    # A map of singular values does not see the length of what it maps.
    torch.testing.assert_close(first[0], second[0], rtol=0, atol=1e-9)
    assert (walk(signed, W, signs[1:])[0] - walk(plain, V, signs[1:])[0]).abs().max() > 1e-4
