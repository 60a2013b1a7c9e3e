"""Matrix products as the maps need them: fused with a sum, symmetric ones by halves, bfloat16 on any CPU.

A product of bfloat16 is defined as a sum in float32 that is rounded at the end. On a CPU without instructions
for it PyTorch takes 28 to 820 ms for what float32 does in 4 to 11 ms (512 x 512 and 512 x 1376, AVX2); there
the sum is taken in float32 and rounded. The values are those of the native product up to the order of sums.
"""

import torch
from torch import Tensor

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64}

# "AVX2" and below have no bfloat16 arithmetic.
_NATIVE_BFLOAT16 = torch.backends.cpu.get_cpu_capability() not in ("DEFAULT", "AVX2")
_HAS_TILES = torch.cpu._is_amx_tile_supported()  # AMX, which multiplies in bfloat16 as fast as it copies


def matmul(A: Tensor, B: Tensor) -> Tensor:
    """A B."""
    if crawls(A):
        return (A.float() @ B.float()).to(A.dtype)
    return A.bmm(B) if A.ndim == 3 else A @ B  # `@` looks at the shapes for longer


def fused(C: Tensor, A: Tensor, B: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta C + alpha A B, rounded once; of matrices or of equal stacks of them."""
    if crawls(C):
        return fused(C.float(), A.float(), B.float(), beta, alpha).to(C.dtype)
    if C.ndim > 3:
        stacks = (X.flatten(0, -3) for X in (C, A, B))
        return torch.baddbmm(*stacks, beta=beta, alpha=alpha).view(C.shape)
    return (torch.addmm if C.ndim == 2 else torch.baddbmm)(C, A, B, beta=beta, alpha=alpha)


def combine(a: float, X: Tensor, b: float, A: Tensor) -> Tensor:
    """a X + b A X, rounded once."""
    return fused(X, A, X, a, b)


def gram(X: Tensor) -> Tensor:
    """X X^T. Of a large matrix on a CPU only the upper block rows are multiplied; the rest is mirrored.

    Four block rows have 62.5 % of the FLOPs. In bfloat16 and float32 the values were those of the whole
    product bit for bit, with oneDNN and MKL; in float64 they differ by the order of sums.
    """
    if crawls(X):
        return gram(X.float()).to(X.dtype)
    rows = _block_rows(X)
    if len(rows) == 1:
        return matmul(X, X.mT)
    A = X.new_empty(len(X), len(X))
    for start, end in rows:
        A[start:end, start:] = X[start:end] @ X[start:].mT
        A[end:, start:end] = A[start:end, end:].mT
    return A


def square(a: float, A: Tensor, b: float) -> Tensor:
    """a A + b A A of a symmetric A, which is symmetric again; by block rows as `gram`."""
    if crawls(A):
        return square(a, A.float(), b).to(A.dtype)
    rows = _block_rows(A)
    if len(rows) == 1:
        return fused(A, A, A, a, b)
    B = torch.empty_like(A)
    for start, end in rows:
        B[start:end, start:] = fused(A[start:end, start:], A[start:end], A[:, start:], a, b)
        B[end:, start:end] = B[start:end, end:].mT
    return B


def crawls(X: Tensor) -> bool:
    """Whether the CPU lacks instructions for products in the dtype of X; for float16 hardly any has them."""
    slow = X.dtype == torch.float16 or (X.dtype == torch.bfloat16 and not _NATIVE_BFLOAT16)
    return slow and X.device.type == "cpu"


def _block_rows(X: Tensor) -> list[tuple[int, int]]:
    """Split the rows of X in up to four blocks, where that wins: more calls and copies for fewer FLOPs.

    512 x 512, 512 x 1376 and 1024 x 1024 take 1, 0.87 and 0.76 of the time in bfloat16, and 0.8, 0.7 and 0.66
    in float32; in bfloat16 with AMX 1.2, 1.4 and 1.4. Not measured on a GPU, so not done there.
    """
    r, R = X.shape[-2:]
    if X.ndim > 2 or X.device.type != "cpu" or (_HAS_TILES and X.dtype == torch.bfloat16):
        return [(0, r)]
    worth = 2**27 if X.dtype == torch.bfloat16 else 2**25  # multiplications per block row
    step = -(-r // max(1, min(4, r * r * R // worth)))
    return [(start, min(start + step, r)) for start in range(0, r, step)]
