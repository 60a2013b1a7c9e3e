"""The iteration that gives Muon its speed."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from htbench.optimizers.spectral.polar import CONVERGENT
from htbench.optimizers.spectral.products import combine, crawls, gram, matmul, square

# Of a x + b x^3 + c x^5: steep at 0, near 1 up to 1. Source: https://kellerjordan.github.io/posts/muon/
QUINTIC = (3.4445, -4.7750, 2.0315)

# The best polynomial for each step, for singular values from 1e-3 to 1; the last one converges.
# Source: https://arxiv.org/abs/2505.16932, as in polar_express/basic.py of https://github.com/NoahAmsel/PolarExpress
_EXPRESS = (
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    (3.3184196573706015, -2.488488024314874, 0.51004894012372),
    (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
    (1.891301407787398, -1.2679958271945868, 0.37680408948524835),
    (1.8750014808534479, -1.2500016453999487, 0.3750001645474248),
)
_SAFETY = 1.01  # rounding may lift a singular value above 1, where these polynomials grow

# By name: the polynomials, of which the last one repeats, and the factor of ||M||_F before the first.
COEFFICIENTS = {
    "jordan": ((QUINTIC,), 1.0),
    "convergent": ((CONVERGENT,), 1.0),
    "polar_express": (
        (*((a / _SAFETY, b / _SAFETY**3, c / _SAFETY**5) for a, b, c in _EXPRESS), (1.875, -1.25, 0.375)),
        _SAFETY,
    ),
}


def newton_schulz(
    M: Tensor, steps: int = 5, dtype: torch.dtype = torch.bfloat16, coefficients: str = "jordan"
) -> Tensor:
    """Approximate U V^T with matrix products alone, by iterating quintic polynomials.

        X <- M / ||M||_F;   repeat: A = X X^T,  X <- a X + (b A + c A A) X

    Five steps bring singular values above 0.01 ||M||_F to between 0.68 and 1.14, and smaller ones part way.
    With the coefficients of Polar Express, which change from step to step, five bring those above 0.001 to
    between 0.84 and 1.13, six to between 0.99 and 1.002.

    Args:
        M: (..., m, n), one matrix or a stack of them.
        steps: number of iterations; 5 in the paper and in all released code.
        dtype: precision of the iterations; bfloat16 in the released code.
        coefficients: "jordan" or "convergent", one polynomial for every step, or "polar_express". Of
            "convergent" it takes 12 steps (`polar.STEPS`) to bring all above 5e-4 to 0.95 and more.

    Returns:
        as many matrices in the dtype of M; zero for a zero M.

    Source: https://github.com/KellerJordan/Muon; https://arxiv.org/abs/2505.16932 (Polar Express). Both codes
        round each product and each term of a sum; we fuse them as torch.optim.Muon does, which is closer to
        float32.
    """
    if M.shape[-2] > M.shape[-1]:  # X X^T is then the smaller Gram matrix
        return newton_schulz(M.mT, steps, dtype, coefficients).mT
    polynomials, margin = COEFFICIENTS[coefficients]
    X: Tensor = M.to(dtype)
    norm = torch.linalg.matrix_norm(X, keepdim=True)
    X = X / ((norm if margin == 1 else norm * margin) + 1e-7)
    columns, width = X.shape[-1], _width(X)
    if width > columns:  # zeros change neither X X^T nor the other columns
        X = pad(X, (0, width - columns))
    iterate = _iterate_as_released if X.shape[-2] <= 16 and dtype == torch.bfloat16 else _iterate
    for step in range(steps):
        X = iterate(X, *polynomials[min(step, len(polynomials) - 1)])
    return X[..., :columns].to(M.dtype)


def _width(X: Tensor) -> int:
    """The columns to iterate with. Tensor cores want rows that begin at multiples of 16 bytes or more.

    Source: https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication
    """
    return -(-X.shape[-1] // 32) * 32 if X.is_cuda else X.shape[-1]


def _iterate(X: Tensor, a: float, b: float, c: float) -> Tensor:
    if X.ndim == 3 and not crawls(X):  # for small matrices the words of Python that are left out count
        A = X.bmm(X.mT)
        A = torch.baddbmm(A, A, A, beta=b, alpha=c)  # by the same name, which frees the first
        return torch.baddbmm(X, A, X, beta=a)
    return combine(a, X, 1, square(b, gram(X), c))


def _iterate_as_released(X: Tensor, a: float, b: float, c: float) -> Tensor:
    """The same with the roundings of the released code, which has no fused sums.

    In tiny matrices these do not average out: bfloat16 moves entries by up to 0.06 away from float32, in
    another direction for each order of operations. With this one, recorded trajectories of that code can be
    compared; there is no time to win at that size.
    """
    A = matmul(X, X.mT)
    B = matmul(c * A, A).add_(b * A)
    return matmul(B, X).add_(a * X)
