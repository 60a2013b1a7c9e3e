"""Matrix products as the maps need them: fused with a sum, symmetric ones by halves, bfloat16 on any CPU.

A product of bfloat16 is defined as a sum in float32 that is rounded at the end. On a CPU without instructions
for it PyTorch takes 28 to 820 ms for what float32 does in 4 to 11 ms (512 x 512 and 512 x 1376, AVX2); there
the sum is taken in float32 and rounded. The values are those of the native product up to the order of sums.
"""

from __future__ import annotations

import torch
from torch import Tensor

# "AVX2" and below have no bfloat16 arithmetic.
_NATIVE_BFLOAT16 = torch.backends.cpu.get_cpu_capability() not in ("DEFAULT", "AVX2")
_BLOCK_ROWS = 4
_TINY = 16


def matmul(A: Tensor, B: Tensor) -> Tensor:
    """A @ B, where products of bfloat16 don't crawl on a CPU that has no instructions for them."""
    if _crawls(A):
        return (A.float() @ B.float()).to(A.dtype)
    return A @ B


def combine(a: float, X: Tensor, b: float, A: Tensor) -> Tensor:
    """a X + b A X in one operation that rounds once; X and A are matrices or equal stacks of them.

    Muon's released code rounds each term. So do we for A of up to 16 rows, where entries are few and a
    rounding does not average out: recorded trajectories of that code have such matrices, and differ from a
    fused sum by twice what bfloat16 itself makes them differ from float32. There is no time to win there.
    """
    if X.dtype == torch.bfloat16 and A.shape[-1] <= _TINY:
        return matmul(b * A, X).add_(a * X)
    if _crawls(X):
        return combine(a, X.float(), b, A.float()).to(X.dtype)
    if X.ndim == 2:
        return torch.addmm(X, A, X, beta=a, alpha=b)
    stack, left = X.flatten(0, -3), A.flatten(0, -3)
    return torch.baddbmm(stack, left, stack, beta=a, alpha=b).view(X.shape)


def gram(X: Tensor) -> Tensor:
    """X X^T. Of a large matrix on a CPU only the upper block rows are multiplied and the rest is mirrored.

    With four of them that is 62.5 % of the FLOPs, and 0.7 to 0.85 of the time. The values are equal bit for
    bit in bfloat16 and float32 where the library sums each entry in the same order (oneDNN, MKL: it does).
    """
    if _crawls(X):
        return gram(X.float()).to(X.dtype)
    if not _wins_by_blocks(X):
        return X @ X.mT
    r = len(X)
    A = X.new_empty(r, r)
    for start, end in _block_rows(r):
        A[start:end, start:] = X[start:end] @ X[start:].mT
        A[end:, start:end] = A[start:end, end:].mT
    return A


def square(a: float, A: Tensor, b: float) -> Tensor:
    """a A + b A A for a symmetric A, which is symmetric again; by block rows as `gram`."""
    if _crawls(A):
        return square(a, A.float(), b).to(A.dtype)
    if not _wins_by_blocks(A):
        return combine(a, A, b, A)
    B = torch.empty_like(A)
    for start, end in _block_rows(len(A)):
        B[start:end, start:] = torch.addmm(A[start:end, start:], A[start:end], A[:, start:], beta=a, alpha=b)
        B[end:, start:end] = B[start:end, end:].mT
    return B


def _crawls(X: Tensor) -> bool:
    return X.dtype == torch.bfloat16 and X.device.type == "cpu" and not _NATIVE_BFLOAT16


def _wins_by_blocks(X: Tensor) -> bool:
    """Say whether the saved FLOPs outweigh more calls and copies: measured on a CPU, so only there."""
    if X.ndim > 2 or X.device.type != "cpu":
        return False
    r, R = X.shape
    return r * r * R >= (2**28 if X.dtype == torch.bfloat16 else 2**26)


def _block_rows(r: int) -> list[tuple[int, int]]:
    step = -(-r // _BLOCK_ROWS)
    return [(start, min(start + step, r)) for start in range(0, r, step)]
