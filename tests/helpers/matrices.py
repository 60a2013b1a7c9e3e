"""Random matrices, also with chosen singular values, as hypothesis draws them; the paper's root of one."""

import math

import torch
from hypothesis import settings
from hypothesis import strategies as st
from packaging.version import Version
from torch import Tensor

settings.register_profile("optimizers", deadline=None, max_examples=40, derandomize=True)

quick = settings.get_profile("optimizers")


sizes = st.integers(1, 7)


powers = st.floats(0, 1)


seeds = st.integers(0, 2**32 - 1)

# How far a compiled map may be from the map itself. PyTorch before 2.12 makes x.add_(y, alpha=a) a product
# and a sum: in bfloat16 two roundings instead of one (https://github.com/pytorch/pytorch/pull/176799).
ROUNDED_TWICE = 0.0 if Version(torch.__version__) >= Version("2.12") else 0.02


def gaussian(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def orthogonal(n: int, seed: int) -> Tensor:
    return torch.linalg.qr(gaussian(n, n, seed=seed))[0]


@st.composite
def matrices(draw: st.DrawFn, smallest: float = 0.1) -> tuple[Tensor, Tensor]:
    """(M, its singular values in descending order), all of them between `smallest` and 10."""
    m, n = draw(sizes), draw(sizes)
    rank = min(m, n)
    values = sorted(draw(st.lists(st.floats(smallest, 10), min_size=rank, max_size=rank)), reverse=True)
    S = torch.tensor(values, dtype=torch.float64)
    return orthogonal(m, draw(seeds))[:, :rank] * S @ orthogonal(n, draw(seeds))[:, :rank].T, S


def close(found: Tensor, expected: Tensor, atol: float = 1e-9) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=atol)


def ns_root_paper(X: Tensor, p: float, T: int, eps: float = 1e-6) -> Tensor:
    """The paper's Algorithm "NS_root" as printed, on a positive definite X."""
    I = torch.eye(len(X), dtype=X.dtype, device=X.device)  # noqa: E741
    for _ in range(round(math.log2(2 / p))):
        alpha = X.norm()
        X = X / (alpha + eps)
        Y, Z = X, I
        for _ in range(T):
            Q = 3.0 * I - Z @ Y
            Y = 0.5 * Y @ Q
            Z = 0.5 * Q @ Z
        X = alpha.sqrt() * Y
        X = (X + X.mT) / 2 + eps * I
    return X
