"""Muon, and two optimizers that rescale its update: NorMuon (by rows) and AdaMuon (by entries).

Each takes its map of the singular values by name. HTMuon therefore needs no class: each of its variants is
a row of the registry that selects Muon, NorMuon or AdaMuon with another map.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from htbench.optimizers.base import ema, matrix_view, second_moment
from htbench.optimizers.spectral.rule import SpectralRule, momentum, transform
from htbench.optimizers.stacks import norm
from htbench.optimizers.zoo.spectral import ADAMUON, MUON, NORMUON

# The factor s of an m x n matrix. "shape" is the paper's. "rms0.2" gives updates about the RMS of AdamW's
# updates, so AdamW's learning rates suit it (Moonlight, https://arxiv.org/abs/2502.16982). "spectral" has the
# norm of a map from inputs to outputs that have an RMS of 1 (https://arxiv.org/abs/2310.17813).
SCALE_RULES: dict[str, Callable[[float, float], float]] = {
    "shape": lambda m, n: math.sqrt(max(1, m / n)),
    "rms0.2": lambda m, n: 0.2 * math.sqrt(max(m, n)),
    "spectral": lambda m, n: math.sqrt(m / n),
}


class Muon(SpectralRule):
    """Momentum with its singular values replaced: by 1 (Muon), by their power p or by their rank (HTMuon).

        M <- beta M + (1-beta) G
        O <- NewtonSchulz5(M)                        Muon            spectral="newton_schulz"
             U V^T                                   Muon_SVD        spectral="svd_power", p=0
             U S^p V^T                               HTMuon          spectral="svd_power" or "gram_power"
             NewtonSchulz5(M) (M^T M)^(p/2)          HTMuon_NS       spectral="ns_root"
             U diag(i^-alpha) V^T                    HTMuon_HT       spectral="rank_power"
             U S^p V^T, one QR iteration a step      HTMuon_Stream   spectral="stream_power"
             U S^p V^T, by Newton-Schulz iterates    HTMuon_Mix      spectral="mix_power" (ours)
             maps of others (docs/p_family.md)       Soft-Muon       spectral="soft_muon"
                                                     Contra-Muon     spectral="contra_muon"
                                                     DynMuon         spectral="dynmuon"
                                                     Soft-polar      spectral="soft_polar"
             polar(D M), rows of one length          Aurora          spectral="aurora"
        s <- sqrt(max(1, m/n))
             the nuclear norm <M, O>                 PolarGrad       scale_rule="nuclear"
        W <- W - lr weight_decay W - lr s O

    Args:
        params: parameters with at least two dimensions; a kernel (o, i, h, w) is an o x (i h w) matrix.
        lr: learning rate.
        scale_rule: "shape" for the s above, "rms0.2" for s = 0.2 sqrt(max(m, n)), "spectral" for sqrt(m/n),
            "nuclear" for <M, O>, which is the sum of the singular values of M as far as O is U V^T.
        map_first: O is the average of maps of gradients instead, M in <M, O> the gradient, O its map.
        shared: the keyword arguments of `SpectralRule`. With `conv_reference_quirk`, m and n in s are the
            last two dimensions of a kernel (h and w), as in the released code, not those of its matrix.

    Raises:
        ValueError: as `SpectralRule`.

    Source: HTMuon paper, Algorithms "Muon", "Muon_SVD", "HTMuon", "HTMuon_NS" and "HTMuon_HT";
        https://github.com/TDCSZ327/HTmuon; https://github.com/KellerJordan/Muon. Of "nuclear":
        https://arxiv.org/abs/2505.21799; https://github.com/timlautk/polargrad.

    Differences: the paper's blocks have no Nesterov momentum (`nesterov=False` here). The released code has
    it, and it is our default. We take p = 0.125 for HTMuon and alpha = 0.25 for HTMuon_HT from the paper; the
    released code has p = 0.25, and its scripts have alpha = 0.125. The released code decays a weight that has
    no gradient; we skip the weight, as torch.optim does.
    """

    table = MUON

    def __init__(
        self,
        params: ParamsT,
        lr: float = 0.01,
        *,
        scale_rule: str = "shape",
        map_first: bool = False,
        **shared: Any,
    ) -> None:
        super().__init__(params, locals(), lr=lr, **shared)

    def direction(self, G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        """Return s O of the block above."""
        M = matrix_view(G, state)
        if not group["map_first"]:
            M = momentum(M, state, group)
        O = transform(M, state, group)  # noqa: E741 - the paper's symbol
        s: Tensor | float
        if group["scale_rule"] == "nuclear":
            s = (M * O).sum((-2, -1), keepdim=True)
        else:
            m, n = (G if group["conv_reference_quirk"] else O).shape[-2:]
            s = self.scale(m, n, group)
        if group["map_first"]:
            O = momentum(O, state, group)  # noqa: E741
        return O * s if isinstance(s, Tensor) or s != 1 else O

    @staticmethod
    def scale(m: float, n: float, group: Mapping[str, Any]) -> float:
        """The factor s of the block above, of an m x n matrix."""
        return SCALE_RULES[group["scale_rule"]](m, n)


class NorMuon(SpectralRule):
    """Muon with each row divided by the root of its second moment (NorMuon), with any map (HTMuon+NorMuon).

        M <- beta M + (1-beta) G,   O <- map of M, as in Muon
        v <- beta2 v + (1-beta2) rowmean(O.O)                     v in R^m
        Ohat <- O / sqrt(v + eps)
        s <- sqrt(max(1, m/n)) ||O|| / ||Ohat||                   norm_rule="preserve"
             0.2 sqrt(m n) / ||Ohat||                             norm_rule="rms0.2"
        W <- W - lr weight_decay W - lr s Ohat

    Args:
        params: parameters with at least two dimensions; a kernel (o, i, h, w) is an o x (i h w) matrix.
        lr: learning rate.
        beta2: decay of v. v starts at zero without bias correction; dividing by ||Ohat|| removes that factor.
        eps: added to v or to its root, and to ||Ohat||.
        eps_placement: "inside" the root (the HTMuon authors) or "outside" (the original code and the block).
        norm_rule: the norm of the update s Ohat, "preserve" or "rms0.2", as above.
        shared: the keyword arguments of `SpectralRule`. With `conv_reference_quirk`, `rowmean` is over the
            width of a kernel, and m, n and the norms are those of its height and width, as in the released
            code.

    Raises:
        ValueError: as `SpectralRule`.

    Source: https://arxiv.org/abs/2510.05491; HTMuon paper, Algorithm "NorMuon" (HTMuon+NorMuon is named there
        without a block); https://github.com/zichongli5/NorMuon; https://github.com/TDCSZ327/HTmuon.

    Differences: the paper's block gives the update the norm 0.2 sqrt(m n) and has no Nesterov momentum. Both
    released codes keep the norm of O, multiply it by sqrt(max(1, m/n)) and use Nesterov momentum. Our default
    is theirs, because the published learning rates were tuned with it.
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
        M = momentum(matrix_view(G, state), state, group)
        O = transform(M, state, group)  # noqa: E741 - the paper's symbol
        if group["conv_reference_quirk"]:
            O = O.reshape(G.shape)  # noqa: E741
        v = ema(state, "v", O.square().mean(-1, keepdim=True), group["beta2"])
        inside = group["eps_placement"] == "inside"
        Ohat: Tensor = O * (v + group["eps"]).rsqrt() if inside else O / (v.sqrt() + group["eps"])
        # With the quirk this is one norm per (h, w) slice; "rms0.2" below takes the norm of the whole tensor,
        # as the released code does.
        ratio = torch.linalg.matrix_norm(O, keepdim=True) / (
            torch.linalg.matrix_norm(Ohat, keepdim=True) + group["eps"]
        )
        Ohat.mul_(ratio)
        m, n = O.shape[-2:]
        if group["norm_rule"] == "preserve":
            return Ohat.mul_(math.sqrt(max(1, m / n)))
        return Ohat.mul_(0.2 * math.sqrt(m * n) / (norm(Ohat, state) + group["eps"]))

    @staticmethod
    def scale(m: float, n: float, group: Mapping[str, Any]) -> float:
        """How many times larger the update is than an orthogonal m x n matrix, on average."""
        return SCALE_RULES["shape" if group["norm_rule"] == "preserve" else "rms0.2"](m, n)


class AdaMuon(SpectralRule):
    """Muon on the sign of its momentum, with each entry scaled as in Adam (AdaMuon), and with any map.

        B <- beta B + G
        O <- map of sign(G + beta B)          sign(B) without nesterov
        V <- beta2 V + (1-beta2) O.O
        Ohat <- O / (sqrt(V) + eps)
        W <- W - lr weight_decay W - lr 0.2 sqrt(m n) Ohat / (||Ohat|| + eps)

    Args:
        params: parameters with at least two dimensions; a kernel (o, i, h, w) is an o x (i h w) matrix.
        lr: learning rate.
        ema: True averages the gradients in B, False sums them as above; sign(B) is the same.
        beta2: decay of V, which starts at zero without bias correction; None means beta.
        eps: keeps the divisions finite.
        sign: False takes the map of G + beta B, or of B, itself.
        shared: the keyword arguments of `SpectralRule`. With `conv_reference_quirk`, m and n are the smallest
            and the largest dimension of a kernel, as in the released code, not those of its matrix.

    Raises:
        ValueError: as `SpectralRule`.

    Source: https://arxiv.org/abs/2507.11005; HTMuon paper, Algorithm "AdaMuon";
        https://github.com/Chongjie-Si/AdaMuon; https://github.com/TDCSZ327/HTmuon.

    Differences: the paper's block has no Nesterov momentum; both released codes have it, and it is our
    default. The original code averages the gradients, the block and the HTMuon authors sum them; the sign
    makes both equal. In the HTMuon authors' code O, V and the update are bfloat16; ours have the precision of
    the parameter. The HTMuon paper says that HTMuon can replace Muon here, but has no experiment on it.
    The AdaMuon of pytorch-optimizer and of timm has the momentum in place of its sign (`sign=False` here).
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
        sign: bool = True,
        **shared: Any,
    ) -> None:
        super().__init__(params, locals(), lr=lr, ema=ema, **shared)

    def direction(self, G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        """Return 0.2 sqrt(m n) Ohat / ||Ohat|| of the block above."""
        B = momentum(matrix_view(G, state), state, group)
        # sign(NaN) is 0 in PyTorch, and would hide a divergence
        S = B.sign().add_(B, alpha=0) if group["sign"] else B
        O = transform(S, state, group)  # noqa: E741 - the paper's symbol
        beta2 = group["momentum"] if group["beta2"] is None else group["beta2"]
        V = second_moment(state, "V", O, beta2)
        Ohat = O / V.sqrt().add_(group["eps"])
        shape = G.shape if group["conv_reference_quirk"] else O.shape[-2:]
        return Ohat.mul_(0.2 * math.sqrt(min(shape) * max(shape)) / (norm(Ohat, state) + group["eps"]))
