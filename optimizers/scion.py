"""Scion: every step has one length, in a norm that suits the layer."""

import math
from typing import Any

from torch import Tensor
from torch.optim.optimizer import ParamsT

from htbench.optimizers.base import UpdateRule, ema, matrix_view
from htbench.optimizers.spectral.newton_schulz import newton_schulz
from htbench.optimizers.spectral.products import DTYPES
from htbench.optimizers.stacks import Stack, norm
from htbench.optimizers.zoo.spectral import SCION

_EPS = 1e-8


class Scion(UpdateRule):
    """Steps to the border of a ball, whose norm is that of the layer (Scion).

        M <- beta M + (1-beta) G
        O <- radius sqrt(m/n) / (h w) NewtonSchulz5(M)    norm="spectral"; kernels are m x n x h x w
             sign_radius / n sign(M)                      norm="sign"
             radius M / rms(M)                            vectors, with either
        W <- W - lr weight_decay W - lr O

    With a decay of 1, W stays in the ball of this radius (a Frank-Wolfe step); with 0 it is free, the paper's
    unconstrained Scion.

    Args:
        params: parameters of any shape.
        lr: learning rate.
        weight_decay: 1 or 0, as above; others are steps between the two.
        beta: decay of M; the released code's `momentum` is 1 - beta.
        radius: of the ball of hidden layers, `scale` in the released code.
        norm: "spectral" for hidden layers, "sign" (the largest entry) for embeddings and the head.
        sign_radius: of the ball where `norm` is "sign".
        ns_steps, ns_dtype, ns_coefficients: see `newton_schulz`.

    Raises:
        ValueError: a hyperparameter is out of its range.

    Source: https://arxiv.org/abs/2502.07529; https://github.com/LIONS-EPFL/scion. The radii are those of its
        GPT-2 of 124 million parameters. The paper also has layers start on the border of their ball; here the
        first weights are the model's and the same for all rows, so that a seed compares optimizers only.
    """

    table = SCION

    def __init__(
        self,
        params: ParamsT,
        lr: float = 3.6e-4,
        *,
        weight_decay: float = 1.0,
        beta: float = 0.9,
        radius: float = 50.0,
        norm: str = "spectral",
        sign_radius: float = 3000.0,
        ns_steps: int = 5,
        ns_dtype: str = "bfloat16",
        ns_coefficients: str = "jordan",
    ) -> None:
        super().__init__(params, locals())

    def stackable(self, group: dict[str, Any]) -> bool:
        """Always."""
        return True

    def fallback(self, W: Tensor, group: dict[str, Any]) -> str:
        """Steps of sign or of RMS 1, where no matrix is orthogonalized."""
        if W.ndim < 2:
            return "normalized"
        return "sign" if group["norm"] == "sign" else ""

    def direction(self, G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        """Return O of the block above."""
        M = ema(state, "momentum", G, group["beta"])
        own = G.shape[isinstance(state, Stack) :]
        if len(own) < 2:
            rms = norm(M, state) / math.sqrt(math.prod(own))
            D: Tensor = M * (group["radius"] / (rms + _EPS))
            return D
        if group["norm"] == "sign":
            # sign(NaN) is 0 in PyTorch, and would hide a divergence
            return M.sign().add_(M, alpha=0).mul_(group["sign_radius"] / math.prod(own[1:]))
        scale = math.sqrt(own[0] / own[1]) / math.prod(own[2:])
        dtype = DTYPES[group["ns_dtype"]]
        O = newton_schulz(matrix_view(M, state), group["ns_steps"], dtype, group["ns_coefficients"])  # noqa: E741
        return O.mul_(group["radius"] * scale)
