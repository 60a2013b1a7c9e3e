"""Muon, and the two optimizers that scale its update anew, NorMuon and AdaMuon.

Each takes its map of the singular values by name. HTMuon in all its forms is therefore rows of the registry,
not classes: Muon, NorMuon or AdaMuon with another map.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from optimizers.base import ema, matrix_view, second_moment
from optimizers.spectral.rule import SpectralRule, momentum, transform
from optimizers.zoo.spectral import ADAMUON, MUON, NORMUON

# The factor s of an m x n matrix. "shape" is the paper's; "rms0.2" gives updates the RMS of AdamW's and so
# wants AdamW-sized learning rates (Moonlight, https://arxiv.org/abs/2502.16982).
SCALE_RULES = {
    "shape": lambda m, n: math.sqrt(max(1, m / n)),
    "rms0.2": lambda m, n: 0.2 * math.sqrt(max(m, n)),
}


class Muon(SpectralRule):
    """Momentum whose singular values are made equal (Muon) or drawn together (HTMuon).

        M <- beta M + (1-beta) G
        O <- NewtonSchulz5(M)                        Muon            spectral="newton_schulz"
             U V^T                                   Muon_SVD        spectral="svd_power", p=0
             U S^p V^T                               HTMuon          spectral="svd_power" or "gram_power"
             NewtonSchulz5(M) (M^T M)^(p/2)          HTMuon_NS       spectral="ns_root"
             U diag(i^-alpha) V^T                    HTMuon_HT       spectral="rank_power"
             U S^p V^T, one QR iteration a step      HTMuon_Stream   spectral="stream_power"
             U S^p V^T, by Newton-Schulz iterates    HTMuon_Mix      spectral="mix_power" (ours)
        s <- sqrt(max(1, m/n))
        W <- W - lr weight_decay W - lr s O

    Args:
        params: parameters with at least two dimensions; a kernel (o, i, h, w) is an o x (i h w) matrix.
        lr: learning rate.
        scale_rule: "shape" for the s above, "rms0.2" for s = 0.2 sqrt(max(m, n)).
        shared: the keyword arguments of `SpectralRule`. With `conv_reference_quirk`, m and n in s are the
            last two dimensions of a kernel (h and w), as in the released code, not those of its matrix.

    Raises:
        ValueError: as `SpectralRule`.

    Source: HTMuon paper, Algorithms "Muon", "Muon_SVD", "HTMuon", "HTMuon_NS" and "HTMuon_HT";
        https://github.com/TDCSZ327/HTmuon; https://github.com/KellerJordan/Muon. The blocks have no Nesterov
        momentum, the released code has it, and so do we (`nesterov=False` is the block). The released HTMuon
        has p = 0.25, its scripts for HTMuon_HT alpha = 0.125; the paper and we have 0.125 and 0.25. The
        released code decays a weight that got no gradient; we skip it, as torch.optim does.
    """

    table = MUON

    def __init__(
        self, params: ParamsT, lr: float = 0.01, *, scale_rule: str = "shape", **shared: Any
    ) -> None:
        super().__init__(params, locals(), lr=lr, **shared)

    def direction(self, G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        """Return s O of the block above."""
        M = momentum(matrix_view(G), state, group)
        O = transform(M, state, group)  # noqa: E741 - the paper's symbol
        m, n = G.shape[-2:] if group["conv_reference_quirk"] else O.shape
        s = SCALE_RULES[group["scale_rule"]](m, n)
        return O if s == 1 else s * O


class NorMuon(SpectralRule):
    """Muon with rows brought to one size by their second moment (NorMuon), with any map (HTMuon+NorMuon).

        M <- beta M + (1-beta) G,   O <- map of M, as in Muon
        v <- beta2 v + (1-beta2) rowmean(O.O)                     v in R^m
        Ohat <- O / sqrt(v + eps)
        s <- sqrt(max(1, m/n)) ||O|| / ||Ohat||                   norm_rule="preserve"
             0.2 sqrt(m n) / ||Ohat||                             norm_rule="rms0.2"
        W <- W - lr weight_decay W - lr s Ohat

    Args:
        params: parameters with at least two dimensions; a kernel (o, i, h, w) is an o x (i h w) matrix.
        lr: learning rate.
        beta2: decay of v; it starts at zero and is not bias corrected, which s makes up for.
        eps: added to v, or to its root.
        eps_placement: "inside" the root (the paper's authors) or "outside" (the original and the block).
        norm_rule: how long the update is made.
        shared: the keyword arguments of `SpectralRule`. With `conv_reference_quirk` the means go over the
            width of a kernel and the norms over its height and width, as in the released code.

    Raises:
        ValueError: as `SpectralRule`.

    Source: https://arxiv.org/abs/2510.05491; HTMuon paper, Algorithm "NorMuon" (HTMuon+NorMuon is named there
        without a block); https://github.com/zichongli5/NorMuon; https://github.com/TDCSZ327/HTmuon. The block
        makes the update 0.2 sqrt(m n) long and has no Nesterov momentum; both codes keep its length, multiply
        by sqrt(max(1, m/n)) and use Nesterov, and so do we: the published learning rates go with that rule.
    """

    table = NORMUON

    def __init__(
        self,
        params: ParamsT,
        lr: float = 0.03,
        *,
        beta2: float = 0.95,
        eps: float = 1e-10,
        eps_placement: str = "inside",
        norm_rule: str = "preserve",
        **shared: Any,
    ) -> None:
        super().__init__(params, locals(), lr=lr, **shared)

    def direction(self, G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        """Return s Ohat of the block above."""
        M = momentum(matrix_view(G), state, group)
        O = transform(M, state, group)  # noqa: E741 - the paper's symbol
        if group["conv_reference_quirk"]:
            O = O.reshape(G.shape)  # noqa: E741
        v = ema(state, "v", O.square().mean(-1, keepdim=True), group["beta2"])
        inside = group["eps_placement"] == "inside"
        Ohat: Tensor = O * (v + group["eps"]).rsqrt() if inside else O / (v.sqrt() + group["eps"])
        # Per kernel with the quirk, where the released rms rule then goes on to the norm of the whole.
        norm = partial(torch.linalg.matrix_norm, keepdim=True)
        Ohat.mul_(norm(O) / (norm(Ohat) + group["eps"]))
        m, n = O.shape[-2:]
        if group["norm_rule"] == "preserve":
            return Ohat.mul_(math.sqrt(max(1, m / n)))
        return Ohat.mul_(0.2 * math.sqrt(m * n) / (Ohat.norm() + group["eps"]))


class AdaMuon(SpectralRule):
    """Muon on the sign of its momentum, scaled entry by entry as Adam does (AdaMuon), with any map.

        B <- beta B + G
        O <- map of sign(G + beta B)          sign(B) without nesterov
        V <- beta2 V + (1-beta2) O.O
        Ohat <- O / (sqrt(V) + eps)
        W <- W - lr weight_decay W - lr 0.2 sqrt(m n) Ohat / (||Ohat|| + eps)

    Args:
        params: parameters with at least two dimensions; a kernel (o, i, h, w) is an o x (i h w) matrix.
        lr: learning rate.
        beta2: decay of V, which starts at zero and is not bias corrected; None takes beta.
        eps: keeps the divisions finite.
        shared: the keyword arguments of `SpectralRule`. With `conv_reference_quirk`, m and n are the smallest
            and the largest dimension of a kernel, as in the released code, not those of its matrix.

    Raises:
        ValueError: as `SpectralRule`.

    Source: https://arxiv.org/abs/2507.11005; HTMuon paper, Algorithm "AdaMuon";
        https://github.com/Chongjie-Si/AdaMuon; https://github.com/TDCSZ327/HTmuon. The block has no Nesterov
        momentum; both codes have it, and so do we. The original averages where the block and the paper's
        authors sum, which the sign makes one. In their code O, V and the update are bfloat16; ours are in the
        precision of the parameter. That HTMuon plugs in here is a claim of the paper without an experiment.
    """

    table = ADAMUON

    def __init__(
        self,
        params: ParamsT,
        lr: float = 5e-3,
        *,
        ema: bool = False,
        beta2: float | None = None,
        eps: float = 1e-8,
        **shared: Any,
    ) -> None:
        super().__init__(params, locals(), lr=lr, ema=ema, **shared)

    def direction(self, G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        """Return 0.2 sqrt(m n) Ohat / ||Ohat|| of the block above."""
        B = momentum(matrix_view(G), state, group)
        S = B.sign().add_(B, alpha=0)  # sign(NaN) is 0 in PyTorch, and would hide a divergence
        O = transform(S, state, group)  # noqa: E741 - the paper's symbol
        beta2 = group["momentum"] if group["beta2"] is None else group["beta2"]
        V = second_moment(state, "V", O, beta2)
        Ohat = O / V.sqrt().add_(group["eps"])
        entries = min(G.shape) * max(G.shape) if group["conv_reference_quirk"] else O.numel()
        length = Ohat.norm() + group["eps"]
        return Ohat.mul_(0.2 * math.sqrt(entries) / length)
