"""SOAP, GaLore and COSMOS: what their blocks promise, beside the trajectories of the originals."""

import io
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from htbench.optimizers import linalg
from htbench.optimizers.base import UpdateRule
from htbench.optimizers.cosmos import COSMOS
from htbench.optimizers.galore import GaLore
from htbench.optimizers.linalg import eigen, gram_basis, singular_vectors
from htbench.optimizers.soap import SOAP, rotate
from htbench.optimizers.soap_kin import KLSOAP, SOAPMuon
from tests.helpers.matrices import orthogonal

# Small periods, so that every step of a period is seen.
CASES: dict[str, tuple[type[UpdateRule], dict[str, Any]]] = {
    "soap": (SOAP, {"precondition_frequency": 3}),
    "galore": (GaLore, {"rank": 2, "update_gap": 3}),
    "cosmos": (COSMOS, {"rank": 2}),
    "kl_shampoo": (KLSOAP, {"second_moment": "factors", "precondition_frequency": 3}),
}
every_case = pytest.mark.parametrize("name", CASES)


def gradients(shape: tuple[int, ...], steps: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for _ in range(steps)]


def rule(name: str, W: Tensor, **hyper: Any) -> tuple[nn.Parameter, UpdateRule]:
    cls, small = CASES[name]
    parameter = nn.Parameter(W.clone())
    return parameter, cls([parameter], **{**small, **hyper})


def run(W: nn.Parameter, optimizer: torch.optim.Optimizer, grads: list[Tensor]) -> Tensor:
    for G in grads:
        W.grad = G.clone()
        optimizer.step()
    return W.detach().clone()


def trajectory(name: str, W: Tensor, grads: list[Tensor], **hyper: Any) -> Tensor:
    return run(*rule(name, W, **hyper), grads)


def adam(W: Tensor, grads: list[Tensor], lr: float, betas: tuple[float, float]) -> Tensor:
    parameter = nn.Parameter(W.clone())
    return run(parameter, torch.optim.Adam([parameter], lr, betas, eps=1e-30), grads)


# All three


@every_case
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_bad_gradient_ends_in_bad_weights(name: str, bad: float) -> None:
    for shape in ((4, 3), (3,), (4, 3, 2, 2)):
        spoiled = torch.ones(shape)
        spoiled.view(-1)[1] = bad
        W, optimizer = rule(name, torch.ones(shape))
        run(W, optimizer, gradients(shape, 3, torch.float32))
        assert not run(W, optimizer, [spoiled]).isfinite().all()
        assert not run(W, optimizer, [torch.ones(shape)] * 4).isfinite().all()


@every_case
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_resumes_bit_for_bit_at_any_step_of_the_period(name: str, dtype: torch.dtype, steps: int) -> None:
    for shape in [(6, 4), (5,), (4, 3, 2, 2)]:
        torch.manual_seed(0)
        W, optimizer = rule(name, torch.randn(shape, dtype=dtype))
        grads = gradients(shape, steps + 7, dtype)
        file = io.BytesIO()
        torch.save((run(W, optimizer, grads[:steps]), optimizer.state_dict()), file)
        file.seek(0)
        weight, saved = torch.load(file, weights_only=True)
        again, second = rule(name, weight, lr=0.5)
        second.load_state_dict(saved)
        straight = run(W, optimizer, grads[steps:])
        assert torch.equal(run(again, second, grads[steps:]), straight) and straight.dtype == dtype
        torch.testing.assert_close(
            second.state_dict()["state"], optimizer.state_dict()["state"], rtol=0, atol=0
        )


@every_case
def test_bases_of_a_bfloat16_weight_are_float32(name: str) -> None:
    W, optimizer = rule(name, torch.ones(6, 4, dtype=torch.bfloat16))
    run(W, optimizer, gradients((6, 4), 4, torch.bfloat16))
    basis = {"galore": "P", "cosmos": "U"}.get(name, "Q")
    found = optimizer.state[W][basis]
    for Q in found.values() if isinstance(found, dict) else [found]:
        assert Q.dtype == torch.float32
        torch.testing.assert_close(Q.mT @ Q, torch.eye(Q.shape[1]), rtol=0, atol=1e-5)


# SOAP


def test_soap_without_bases_is_adam_from_the_second_step_on() -> None:
    W, grads = torch.ones(5, 4, dtype=torch.float64), gradients((5, 4), 9)
    hyper = {"lr": 0.01, "weight_decay": 0, "eps": 1e-30, "betas": (0.8, 0.9)}
    found = trajectory("soap", W, grads, max_precond_dim=0, **hyper)
    torch.testing.assert_close(found, adam(W, grads[1:], 0.01, (0.8, 0.9)), rtol=0, atol=1e-13)
    assert torch.equal(trajectory("soap", W, grads[:1]), W)


def test_soap_rotates_only_dimensions_up_to_the_largest_allowed() -> None:
    W, optimizer = rule("soap", torch.ones(1, 5, 4, 6), max_precond_dim=5)
    run(W, optimizer, gradients((1, 5, 4, 6), 2, torch.float32))
    assert optimizer.state[W]["Q"].keys() == optimizer.state[W]["L"].keys() == {1, 2}


@pytest.mark.parametrize("shape", [(6, 6), (3, 4, 2)], ids=str)
def test_soap_does_not_depend_on_the_basis_of_the_weights(shape: tuple[int, ...]) -> None:
    A = {k: orthogonal(n, seed=k) for k, n in enumerate(shape)}
    W, grads = torch.ones(shape, dtype=torch.float64), gradients(shape, 9)
    rotated = trajectory("soap", rotate(W, A), [rotate(G, A) for G in grads])
    expected = trajectory("soap", W, grads)
    torch.testing.assert_close(rotate(rotated, A, back=True), expected, rtol=0, atol=1e-10)
    assert (expected - W).norm() > 0.01


def test_soap_bases_change_when_due_and_come_to_diagonalize() -> None:
    W, optimizer = rule("soap", torch.ones(4, 4, dtype=torch.float64), precondition_frequency=3)
    scale = torch.tensor([1.0, 3, 9, 27], dtype=torch.float64)
    changed, A = [], orthogonal(4, 5)
    for G in gradients((4, 4), 40):
        last = optimizer.state[W].get("Q")
        run(W, optimizer, [A @ (scale[:, None] * G)])
        changed.append(last is not None and not torch.equal(last[0], optimizer.state[W]["Q"][0]))
    # the first call only starts; then t = 1, 2, ...
    assert [i for i, change in enumerate(changed) if change] == list(range(3, 40, 3))
    L, Q = optimizer.state[W]["L"][0], optimizer.state[W]["Q"][0]
    D = Q.mT @ L @ Q
    assert (D - D.diag().diag()).norm() < 0.02 * D.norm()
    assert (D.diag().diff() < 0).all()


@pytest.mark.parametrize("beta", [None, 0.5])
def test_soap_gathers_gram_matrices_of_the_plain_gradient(beta: float | None) -> None:
    W, optimizer = rule("soap", torch.ones(3, 4, 2, dtype=torch.float64), shampoo_beta=beta)
    grads = gradients((3, 4, 2), 3)
    run(W, optimizer, grads)
    mu, L = 0.95 if beta is None else beta, torch.zeros(4, 4, dtype=torch.float64)
    for G in grads:
        L = mu * L + (1 - mu) * torch.einsum("iaj,ibj->ab", G, G)
    torch.testing.assert_close(optimizer.state[W]["L"][1], L)


def test_soap_without_bias_correction() -> None:
    W, grads = torch.zeros(4, dtype=torch.float64), gradients((4,), 2)
    hyper = {"lr": 1.0, "weight_decay": 0, "eps": 0.0, "betas": (0.5, 0.96)}
    found = trajectory("soap", W, grads, correct_bias=False, **hyper)
    torch.testing.assert_close(found, -grads[1].sign() * 0.5 / 0.2)
    torch.testing.assert_close(trajectory("soap", W, grads, **hyper), -grads[1].sign())


# GaLore


@given(m=st.integers(2, 7), n=st.integers(2, 7), square_side=st.sampled_from(["right", "left"]))
@settings(max_examples=20, deadline=None)
def test_galore_of_full_rank_is_adam_in_the_first_gradients_basis(m: int, n: int, square_side: str) -> None:
    W, grads = torch.ones(m, n, dtype=torch.float64), gradients((m, n), 6)
    hyper = {"lr": 0.01, "eps": 1e-30, "rank": 99, "update_gap": 7, "scale": 0.5}
    found = trajectory("galore", W, grads, square_side=square_side, **hyper)
    U, _, Vh = torch.linalg.svd(grads[0], full_matrices=False)
    if m > n or (m == n and square_side == "right"):
        moved = adam(W @ Vh.mT, [G @ Vh.mT for G in grads], 0.01, (0.9, 0.999)) @ Vh
    else:
        moved = U @ adam(U.mT @ W, [U.mT @ G for G in grads], 0.01, (0.9, 0.999))
    torch.testing.assert_close(found, W + 0.5 * (moved - W), rtol=0, atol=1e-12)


@pytest.mark.parametrize("shape, rank", [((5, 4), 0), ((5,), 3), ((4, 3, 2, 2), 0)], ids=str)
def test_galore_unprojected_is_adam(shape: tuple[int, ...], rank: int) -> None:
    W, grads = torch.ones(shape, dtype=torch.float64), gradients(shape, 6)
    found = trajectory("galore", W, grads, lr=0.01, eps=1e-30, rank=rank)
    torch.testing.assert_close(found, adam(W, grads, 0.01, (0.9, 0.999)), rtol=0, atol=1e-13)


def test_galore_projectors_own_their_memory() -> None:
    W, optimizer = rule("galore", torch.ones(20, 10), rank=2)
    run(W, optimizer, [torch.randn(20, 10)])
    assert optimizer.state[W]["P"].untyped_storage().nbytes() == 10 * 2 * 4


# COSMOS


@given(
    m=st.integers(1, 8),
    n=st.integers(1, 8),
    rank=st.integers(1, 9),
    rule_name=st.sampled_from(["ema", "nesterov", "gradient"]),
    side=st.sampled_from(["right", "left"]),
)
@settings(max_examples=30, deadline=None)
def test_cosmos_updates_have_one_norm(m: int, n: int, rank: int, rule_name: str, side: str) -> None:
    W, grads = torch.zeros(m, n, dtype=torch.float64), gradients((m, n), 3)
    hyper = {"lr": 0.02, "lr_ratio": 0.3, "weight_decay": 0, "eps": 1e-14, "ns_dtype": "float64"}
    W, optimizer = rule("cosmos", W, rank=rank, momentum_rule=rule_name, side=side, **hyper)
    for G in grads:
        before = run(W, optimizer, [])
        length = (run(W, optimizer, [G]) - before).norm().item()
        assert length == pytest.approx(0.02 * 0.3 * math.sqrt(m * n), rel=1e-8)


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (12, 4)], ids=str)
@pytest.mark.parametrize("split", [False, True])
def test_cosmos_on_the_left_is_cosmos_on_transposes(shape: tuple[int, int], split: bool) -> None:
    W, grads = torch.zeros(shape, dtype=torch.float64), gradients(shape, 5)
    hyper = {"split_qkv": split, "ns_dtype": "float64"}
    right = trajectory("cosmos", W, grads, **hyper)
    left = trajectory("cosmos", W.mT, [G.mT for G in grads], side="left", **hyper)
    torch.testing.assert_close(left.mT, right, rtol=0, atol=1e-11)


def test_cosmos_follows_the_leading_eigenvectors() -> None:
    W, optimizer = rule("cosmos", torch.zeros(6, 5, dtype=torch.float64), rank=2)
    scale, A = torch.tensor([20.0, 10, 1, 1, 1], dtype=torch.float64), orthogonal(5, 0)
    total = torch.zeros(5, 5, dtype=torch.float64)
    for G in gradients((6, 5), 60):
        G = G * scale @ A.mT
        run(W, optimizer, [G])
        total = 0.95 * total + 0.05 * G.mT @ G
    U, S = optimizer.state[W]["U"], optimizer.state[W]["S"]
    best = torch.linalg.eigh(total)[1][:, -2:]
    torch.testing.assert_close(U @ U.mT, best @ best.mT, rtol=0, atol=0.01)
    torch.testing.assert_close(S, U.mT @ total @ U, rtol=0, atol=0.01 * total.norm().item())


def test_cosmos_at_full_rank_leaves_nothing_to_newton_schulz() -> None:
    W, grads = torch.zeros(6, 3, dtype=torch.float64), gradients((6, 3), 4)
    found = [trajectory("cosmos", W, grads, rank=3, gamma=gamma) for gamma in (0.0, 1.0)]
    assert torch.equal(*found)


@pytest.mark.parametrize("shape", [(6, 4), (7,), (3, 3, 2, 2)], ids=str)
def test_cosmos_gives_other_tensors_adamw(shape: tuple[int, ...]) -> None:
    W, grads = torch.ones(shape, dtype=torch.float64), gradients(shape, 5)
    hyper = {"lr": 0.01, "weight_decay": 0.2, "eps": 1e-3, "betas": (0.8, 0.9, 0.5)}
    found = trajectory("cosmos", W, grads, max_rows=5, **hyper)
    parameter = nn.Parameter(W.clone())
    torch_adamw = torch.optim.AdamW([parameter], 0.01, (0.8, 0.9), eps=1e-3, weight_decay=0.2)
    torch.testing.assert_close(found, run(parameter, torch_adamw, grads), rtol=0, atol=1e-13)


def test_cosmos_gradient_rule_has_no_momentum() -> None:
    W, optimizer = rule("cosmos", torch.zeros(6, 4), momentum_rule="gradient")
    run(W, optimizer, gradients((6, 4), 2, torch.float32))
    assert optimizer.state[W].keys() == {"step", "U", "S", "V"}


# The bases


@pytest.mark.parametrize("failing", [(), (torch.float32,), (torch.float32, torch.float64)])
def test_eigenvectors_are_found_where_the_solver_fails(monkeypatch: pytest.MonkeyPatch, failing: Any) -> None:
    eigh, A, V = torch.linalg.eigh, torch.diag(torch.tensor([1.0, 3.0, 2.0])), torch.eye(3)[:, [0, 2, 1]]

    def fails(A: Tensor) -> Any:
        if A.dtype in failing and A.any():
            raise torch.linalg.LinAlgError("did not converge")
        return eigh(A)

    monkeypatch.setattr(linalg.torch.linalg, "eigh", fails)
    values, vectors = eigen(torch.stack([torch.zeros(3, 3), A]))  # they ascend
    assert vectors.dtype == torch.float32 and torch.equal(vectors[1].abs(), V)
    assert torch.equal(values, torch.tensor([[0.0, 0, 0], [1, 2, 3]]))


def lowered(G: Tensor, kind: str) -> Tensor:
    """G with rows of zeros, as an embedding has for tokens that did not occur, or of rank 2."""
    if kind == "unseen":
        return G * (torch.arange(len(G)) % 3 > 0).unsqueeze(-1).to(G)
    return G[:, :2] @ G[:2] if kind == "rank 2" else G


@pytest.mark.parametrize("kind", ["dense", "unseen", "rank 2"])
@pytest.mark.parametrize("shape", [(12, 12), (30, 8), (8, 30)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gram_basis_begins_with_the_singular_vectors_and_ends_as_smoothly(
    shape: tuple[int, int], kind: str, dtype: torch.dtype
) -> None:
    (A,), eps = gradients(shape, 1), torch.finfo(dtype).eps
    A = lowered(A, kind).to(dtype)
    Q, (U, S, _) = gram_basis(A), np.linalg.svd(A.double().numpy())
    rank = int((S > S[0] * 1e-5).sum())
    overlap = Q.double().numpy().T @ U
    np.testing.assert_allclose(abs(overlap[:rank, :rank]), np.eye(rank), rtol=0, atol=100 * eps)
    np.testing.assert_allclose(overlap[rank:, :rank], 0, atol=100 * eps)
    torch.testing.assert_close(Q.mT @ Q, torch.eye(len(Q), dtype=dtype), rtol=0, atol=20 * eps)
    rounded = A * (1 + eps * gradients(shape, 2)[1].clamp(-2, 2).to(dtype))
    torch.testing.assert_close(gram_basis(rounded).abs(), Q.abs(), rtol=0, atol=2000 * eps)
    stack = gram_basis(torch.stack([A, torch.zeros_like(A), A]))
    torch.testing.assert_close(stack[[0, 2]].abs(), torch.stack([Q, Q]).abs(), rtol=0, atol=1000 * eps)
    torch.testing.assert_close(stack[1].abs(), torch.eye(len(Q), dtype=dtype))


@pytest.mark.parametrize("shape", [(24, 24), (48, 16), (16, 48), (160, 8)], ids=str)
@pytest.mark.parametrize(
    ("cls", "hyper", "most"),  # where rounding chose the bases 0.16 to 0.35
    [
        (SOAP, {}, 0.02),
        (KLSOAP, {}, 0.06),  # tall ones divide by eigenvalues of rounding: 0.01 to 0.04 over draws
        (KLSOAP, {"second_moment": "factors"}, 0.02),
        (SOAPMuon, {"ns_dtype": "float32"}, 0.02),
        (COSMOS, {"rank": 6, "ns_dtype": "float32"}, 0.02),
        (COSMOS, {"rank": 22, "ns_dtype": "float32"}, 0.06),  # its Newton-Schulz has only rounding at first
        (GaLore, {"rank": 6, "update_gap": 4}, 0.02),
    ],
    ids=["soap", "kl_soap", "kl_shampoo", "soap_muon", "cosmos", "cosmos above the rank", "galore"],
)
def test_rounding_of_the_gradients_stays_rounding(
    cls: type[UpdateRule], hyper: dict[str, Any], most: float, shape: tuple[int, int]
) -> None:
    draws, ends = gradients(shape, 40), []
    grads, noise = [1e-3 * G for G in draws[:20]], [R.clamp(-2, 2) for R in draws[20:]]
    for size in (0.0, 1e-7):
        W = nn.Parameter(torch.zeros(shape))
        near = [G * (1 + size * R) for G, R in zip(grads, noise, strict=True)]
        ends.append(run(W, cls([W], **hyper), [G.float() for G in near]))
    assert (ends[1] - ends[0]).norm() < most * ends[0].norm()


@pytest.mark.parametrize("right", [False, True])
def test_singular_vectors_of_a_diverged_matrix_have_the_usual_shape(right: bool) -> None:
    X = torch.ones(5, 3)
    bad = singular_vectors(X * torch.inf, 2, right)
    assert bad.isnan().all() and bad.shape == singular_vectors(X, 2, right).shape
