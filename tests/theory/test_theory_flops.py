"""The paper's FLOP formulas beside the operations that are counted.

As in the paper only products count, 2 m n k for an (m, k) times a (k, n) matrix. On the meta device nothing
is computed.
"""

import math

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from htbench.optimizers import newton_schulz, ns_root
from tests.helpers.matrices import gaussian, ns_root_paper

shapes = pytest.mark.parametrize("m, n", [(512, 512), (512, 1376), (1376, 512), (64, 1)])
powers = pytest.mark.parametrize("p", [0.125, 0.03125])


def counted(function, *args) -> int:
    with FlopCounterMode(display=False) as counter:
        function(*args)
    return counter.get_total_flops()


def matrix(m: int, n: int) -> Tensor:
    return torch.empty(m, n, device="meta")


def muon(m: int, n: int) -> int:
    """As printed."""
    return 20 * m * n * min(m, n)


def htmuon_ns(m: int, n: int, p: float, steps: int) -> int:
    """As printed."""
    return muon(m, n) + 4 * m * n**2 + 6 * round(math.log2(2 / p)) * steps * n**3


def htmuon_ns_block(M: Tensor, p: float, steps: int) -> Tensor:
    return newton_schulz(M, 5, torch.float32) @ ns_root_paper(M.mT @ M, p, steps)


@shapes
def test_muon_takes_ten_r_cubed_more_than_printed(m, n):
    """20 m n r counts X X^T and B X of the five steps and leaves out A A, a third of all if m = n."""
    r = min(m, n)
    found = counted(newton_schulz, matrix(m, n), 5, torch.float32)
    assert found == muon(m, n) + 10 * r**3
    if m == n:
        assert found * 2 == muon(m, n) * 3


@shapes
@powers
@pytest.mark.parametrize("steps", [5, 15])
def test_htmuon_ns_takes_the_same_ten_r_cubed_more(m, n, p, steps):
    """The rest of the formula is right for the block as printed."""
    found = counted(htmuon_ns_block, matrix(m, n), p, steps)
    assert found == htmuon_ns(m, n, p, steps) + 10 * min(m, n) ** 3


@shapes
@powers
def test_our_square_roots_save_one_step_each(m, n, p):
    """Three of a root's products are with I or are not read; so 6 L (T - 1) n^3."""
    found = counted(ns_root, matrix(m, n), p, 5, torch.float32)
    assert found == htmuon_ns(m, n, p, 4) + 10 * min(m, n) ** 3


@powers
def test_the_smaller_gram_matrix_makes_a_wide_matrix_as_cheap_as_a_tall_one(p):
    def cost(M: Tensor, side: str) -> int:
        return counted(lambda: ns_root(M, p, 5, torch.float32, side=side))

    tall = cost(matrix(1376, 512), "right")
    assert cost(matrix(512, 1376), "small") == tall
    assert cost(matrix(512, 1376), "right") > 10 * tall


def test_the_transcription_is_of_the_block():
    M = gaussian(40, 24, dtype=torch.float32)
    torch.testing.assert_close(
        htmuon_ns_block(M, 0.25, 12), ns_root(M, 0.25, 5, torch.float32, 12), rtol=0, atol=1e-5
    )
