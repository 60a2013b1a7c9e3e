"""Muon, and what differs from it only in how the singular values of the momentum are transformed.

HTMuon and Muon_SVD are rows of the registry that build `Muon` with another spectral map, not classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.optim.optimizer import ParamsT

from optimizers.base import UpdateRule, ema, matrix_view
from optimizers.param import Param
from optimizers.registry import MUON
from optimizers.spectral import SPECTRAL

# The factor s of an m x n matrix. "shape" is the paper's; "rms0.2" gives updates the RMS of AdamW's and so
# wants AdamW-sized learning rates (Moonlight, https://arxiv.org/abs/2502.16982).
SCALE_RULES = {
    "shape": lambda m, n: math.sqrt(max(1, m / n)),
    "rms0.2": lambda m, n: 0.2 * math.sqrt(max(m, n)),
}


class SpectralRule(UpdateRule):
    """A rule for matrices that transforms the singular values of its momentum (abstract).

    Its hyperparameters include `momentum`, `nesterov` and `spectral`, the key of the map in
    `optimizers.spectral.SPECTRAL`, with those that the maps read: `p`, `ns_steps`, `ns_dtype`.

    Raises:
        ValueError: a hyperparameter is out of its range, or a parameter has fewer than two dimensions.
    """

    def __init__(self, params: ParamsT, defaults: dict[str, Any], table: Mapping[str, Param]) -> None:
        super().__init__(params, defaults, table)
        for W in (W for group in self.param_groups for W in group["params"]):
            if W.ndim < 2:
                raise ValueError(f"{type(self).__name__} takes matrices, got shape {tuple(W.shape)}")

    def spectral_momentum(self, G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        """M <- beta M + (1-beta) G, and return O, the spectral map of M, as an (m, n) matrix."""
        G, beta = matrix_view(G), group["momentum"]
        M = ema(state, "momentum", G, beta)
        if group["nesterov"]:
            M = G.lerp(M, beta)
        return SPECTRAL[group["spectral"]](M, state, group)


class Muon(SpectralRule):
    """Momentum whose singular values are made equal (Muon) or drawn together (HTMuon).

        M <- beta M + (1-beta) G
        O <- NewtonSchulz5(M)          Muon        spectral="newton_schulz"
             U V^T                     Muon_SVD    spectral="svd_power", p=0
             U S^p V^T                 HTMuon      spectral="svd_power"
        s <- sqrt(max(1, m/n))
        W <- W - lr weight_decay W - lr s O

    Args:
        params: parameters with at least two dimensions; a kernel (o, i, h, w) is an o x (i h w) matrix.
        lr: learning rate.
        weight_decay: decoupled weight decay.
        momentum: beta.
        nesterov: transform (1-beta) G + beta M instead of M.
        spectral: the map from M to O.
        p: exponent of "svd_power", in [0, 1].
        ns_steps, ns_dtype: iterations and precision (bfloat16, float32, float64) of "newton_schulz".
        scale_rule: "shape" for the s above, "rms0.2" for s = 0.2 sqrt(max(m, n)).
        conv_reference_quirk: take m and n in s from the last two dimensions of a kernel (h and w), as the
            released code does, not from its matrix.

    Source: HTMuon paper, Algorithms "Muon", "Muon_SVD" and "HTMuon"; https://github.com/TDCSZ327/HTmuon;
        https://github.com/KellerJordan/Muon. The blocks have no Nesterov momentum, the released code has it,
        and so do we (`nesterov=False` is the block). The released HTMuon has p = 0.25; the paper and we have
        0.125. The released code decays a weight that got no gradient; we skip it, as torch.optim does.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 0.01,
        *,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        spectral: str = "newton_schulz",
        p: float = 0.125,
        ns_steps: int = 5,
        ns_dtype: str = "bfloat16",
        scale_rule: str = "shape",
        conv_reference_quirk: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "spectral": spectral,
            "p": p,
            "ns_steps": ns_steps,
            "ns_dtype": ns_dtype,
            "scale_rule": scale_rule,
            "conv_reference_quirk": conv_reference_quirk,
        }
        super().__init__(params, defaults, MUON)

    def direction(self, G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        """Return s O of the block above."""
        O = self.spectral_momentum(G, state, group)  # noqa: E741 - the paper's symbol
        m, n = G.shape[-2:] if group["conv_reference_quirk"] else O.shape
        s = SCALE_RULES[group["scale_rule"]](m, n)
        return s * O
