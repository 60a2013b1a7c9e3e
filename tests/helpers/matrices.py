"""Random matrices with chosen singular values, as hypothesis draws them."""

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


def orthogonal(n: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(n, n, generator=generator, dtype=torch.float64))[0]


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
