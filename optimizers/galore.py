"""GaLore: Adam on the gradient's projection onto its leading singular directions."""

from typing import Any

from torch import Tensor
from torch.optim.optimizer import ParamsT

from htbench.optimizers.adam import adam_direction
from htbench.optimizers.base import UpdateRule, matrix_view
from htbench.optimizers.linalg import precise, singular_vectors
from htbench.optimizers.stacks import own_dims
from htbench.optimizers.zoo.subspace import GALORE


class GaLore(UpdateRule):
    """Adam in a subspace of low rank, that of the gradient's leading singular vectors every T steps (GaLore).

        if t mod T = 0:  U, S, V <- SVD(G),   P <- V_r if m >= n else U_r          t = 0, 1, ...
        R <- G P if m >= n else P^T G
        N <- Adam's step for R, with eps added to sqrt(v) before the bias correction
        W <- (1 - lr weight_decay) (W - lr alpha N P^T)                            P N if m < n

    The moments are kept as they are when P changes.

    Args:
        params: parameters of any shape; a kernel (o, i, h, w) is an o x (i h w) matrix. Vectors, and groups
            with rank 0, get plain Adam without alpha.
        lr: learning rate.
        weight_decay: decoupled weight decay, after the update.
        rank: r, cut to min(m, n).
        scale: alpha.
        update_gap: T.
        betas: of Adam.
        eps: of Adam.
        square_side: "right" or "left", the side of P where m = n.

    Raises:
        ValueError: a hyperparameter is out of its range.

    Source: https://arxiv.org/abs/2403.03507; https://github.com/jiaweizzhao/GaLore; HTMuon paper, Algorithm
        "GaLore". The block projects a square matrix from the left, the released code and we from the right;
        the block corrects the bias before it adds eps and has no weight decay. The paper does not state rank,
        alpha and T: ours are those of GaLore's LLaMA-60M scripts (rank 256 for the larger models). Of a
        bfloat16 parameter the released code keeps P and the moments in bfloat16, we in float32. The moments
        stay when P changes, so later steps depend on the signs that the SVD happens to give its vectors.
    """

    table = GALORE
    reads_rates = True

    def __init__(
        self,
        params: ParamsT,
        lr: float = 2e-2,
        *,
        weight_decay: float = 0.0,
        rank: int = 128,
        scale: float = 0.25,
        update_gap: int = 200,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        square_side: str = "right",
    ) -> None:
        super().__init__(params, locals())

    def fallback(self, W: Tensor, group: dict[str, Any]) -> str:
        """Adam without projection, or a projection that loses nothing."""
        if W.ndim < 2 or group["rank"] == 0:
            return "not projected"
        n = min(matrix_view(W).shape)
        return f"rank {group['rank']} covers all {n} dimensions" if group["rank"] >= n else ""

    def stackable(self, group: dict[str, Any]) -> bool:
        """Always."""
        return True

    def direction(self, G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        """Return (1 - lr weight_decay) alpha N P^T of the block above."""
        G = matrix_view(G, state)
        shrink = 1 - group["lr"] * group["weight_decay"]
        if len(own_dims(G, state)) < 2 or group["rank"] == 0:
            return adam_direction(G, state, group["betas"], group["eps"], raw_eps=True).mul_(shrink)
        G = precise(G)
        m, n = G.shape[-2:]
        right = m > n or (m == n and group["square_side"] == "right")
        if state.get("step", 0) % group["update_gap"] == 0:
            state["P"] = singular_vectors(G, group["rank"], right)
        P: Tensor = state["P"]
        R = G @ P if right else P.mT @ G
        N = adam_direction(R, state, group["betas"], group["eps"], raw_eps=True)
        N.mul_(group["scale"] * shrink)
        return N @ P.mT if right else P @ N
