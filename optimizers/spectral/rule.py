"""What Muon, NorMuon and AdaMuon share: momentum, and a map of its singular values chosen by name."""

import math
import warnings
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from htbench.optimizers import watch
from htbench.optimizers.base import UpdateRule, ema, kept
from htbench.optimizers.spectral import SPECTRAL
from htbench.optimizers.spectral.balance import equalize, normalize
from htbench.optimizers.spectral.dynmuon import check_exponent
from htbench.optimizers.spectral.exact import check_power

# The most entries of a matrix that is stacked on a CPU. Measured with 8 matrices, one thread and bfloat16
# arithmetic: a stacked step takes .29 of the time at (48, 128), .49 at (128, 128), 1.2 at (256, 256); with
# iterations in float32 .82 at (48, 128) and 1.1 at (128, 128).
_SMALL = 2**14
# On a CPU they decompose one matrix after the other, and stacks gain little: .82 to .98 of the time.
_DECOMPOSING = {"svd_power", "gram_power", "rank_power", "stream_power"}


class SpectralRule(UpdateRule):
    """A rule for matrices that transforms the singular values of its momentum (abstract).

        M <- beta M + (1-beta) G
        O <- map of (1-beta) G + beta M      with nesterov
             map of M                        without

    Args:
        params: parameters with at least two dimensions; a kernel (o, i, h, w) is an o x (i h w) matrix.
        own: the `locals()` of a subclass's constructor, for the hyperparameters that it adds to those below.
        lr: learning rate.
        weight_decay: decoupled weight decay.
        momentum: beta.
        nesterov: as above. The paper's blocks are without, all released code is with it, and so are we.
        ema: average the gradients as above; if not, sum them: M <- beta M + G, and G + beta M with nesterov.
        spectral: the map, a key of `optimizers.spectral.SPECTRAL`.
        p: exponent of the singular values, in [-0.5, 1] for "svd_power", "gram_power" and "mix_power", in
            [0, 1] for "stream_power", in (0, 1) for "ns_root", in [-0.5, 0.5] for "dynmuon".
        rank_exponent: alpha of "rank_power".
        equalize: divide by the norms of rows or columns before the map (MuonEq): "row", "column",
            "row_column" or "none".
        normalize: and after it (Muon+): "row", "column", "row_column", "column_row" or "none".
        interval: apply the map in every so many steps, and "newton_schulz" in the others (HTMuon interval-k).
            A parameter counts its own steps; the count is in the `state_dict`, so that a resumed run keeps
            the phase, which the released code loses.
        interval_phase: "last" for steps k, 2k, ..., as released; "first" for steps 1, k+1, ...
        ns_steps, ns_dtype: of "newton_schulz" and the factor that "ns_root" takes from it. The dtype is also
            that of "soft_muon", "contra_muon", "dynmuon", "soft_polar" and "aurora", which make 12 steps of
            their own.
        ns_coefficients: polynomials of "newton_schulz", "jordan" or "polar_express".
        gram_dtype: of "gram_power"; with "graded" matrices of up to 64 rows or columns get the SVD, larger
            ones `exact.graded_power` and, on a GPU, `exact.gram_power` in float64.
        root_steps, root_eps, root_eps_relative, gram_side: of "ns_root".
        rank, qr_eps: of "stream_power".
        mix_set, mix_dtype, mix_fp32_steps: of "mix_power".
        blend: of "soft_muon".
        contra: of "contra_muon".
        softening, energy: of "soft_polar".
        balance_steps, balance_power: of "aurora".
        blocks: transform so many equal blocks of rows each on its own (the parts of a fused projection).
        conv_reference_quirk: treat a kernel as the released code does; each subclass says how.

    Raises:
        ValueError: a hyperparameter is out of its range, or a parameter has fewer than two dimensions.
    """

    def __init__(
        self,
        params: ParamsT,
        own: dict[str, Any],
        *,
        lr: float,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ema: bool = True,
        spectral: str = "newton_schulz",
        p: float = 0.125,
        rank_exponent: float = 0.25,
        equalize: str = "none",
        normalize: str = "none",
        interval: int = 1,
        interval_phase: str = "last",
        ns_steps: int = 5,
        ns_dtype: str = "bfloat16",
        ns_coefficients: str = "jordan",
        gram_dtype: str = "graded",
        root_steps: int = 5,
        root_eps: float = 1e-6,
        root_eps_relative: bool = False,
        gram_side: str = "right",
        rank: int | None = None,
        qr_eps: float = 1e-8,
        mix_set: str = "k6",
        mix_dtype: str = "bfloat16",
        mix_fp32_steps: int = 0,
        blend: float = 1.0,
        contra: float = 0.2,
        softening: float = 0.2,
        energy: str = "keep",
        balance_steps: int = 2,
        balance_power: float = 0.5,
        blocks: int = 1,
        conv_reference_quirk: bool = False,
    ) -> None:
        given = locals() | own
        super().__init__(params, {key: x for key, x in given.items() if key not in ("own", "shared")})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters; see `UpdateRule`. A group that is refused is not added."""
        super().add_param_group(param_group)
        group = self.param_groups.pop()
        for W in group["params"]:
            if W.ndim < 2:
                raise ValueError(f"{type(self).__name__} takes matrices, got shape {tuple(W.shape)}")
            if len(W) % group["blocks"]:
                raise ValueError(f"blocks must divide the {len(W)} rows of a matrix, got {group['blocks']}")
        _check_power(group["spectral"], group["p"])
        self.param_groups.append(group)

    def stackable(self, group: dict[str, Any]) -> bool:
        """Whether each matrix is transformed as a whole and by its own shape."""
        return group["blocks"] == 1 and not group["conv_reference_quirk"]

    def shows_rounding(self, group: dict[str, Any]) -> bool:
        """Whether the map is of every step, and not made of products in bfloat16."""
        return group["spectral"] in _DECOMPOSING and group["interval"] == 1

    def faster_stacked(self, W: Tensor, group: dict[str, Any]) -> bool:
        """Whether W is on a GPU, or small and mapped by matrix products alone."""
        small = W.numel() <= _SMALL and group["spectral"] not in _DECOMPOSING
        # The convergent polynomial meets ties of bfloat16, which a stacked product may round another way.
        alone = group["spectral"] == "aurora" or group.get("ns_coefficients") == "convergent"
        return (small and not alone) or super().faster_stacked(W, group)


def momentum(G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Update M with the gradient G, and return it or, with Nesterov, the point ahead of it."""
    beta: float = group["momentum"]
    if group["ema"]:
        M = ema(state, "momentum", G, beta)
        return G.lerp(M, beta) if group["nesterov"] else M
    B = kept(state, "momentum", G).mul_(beta).add_(G)
    return G.add(B, alpha=beta) if group["nesterov"] else B


def transform(M: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Return O, the group's map of the singular values of M, or what stands in for it between its steps."""
    O = _mapped(M, state, group)  # noqa: E741 - the paper's symbol
    watch.note(O, state, M, group["blocks"])
    return O


def _mapped(M: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    name: str = group["spectral"]
    if group["interval"] > 1:
        t = state["interval_step"] = state.get("interval_step", 0) + 1
        due = 0 if group["interval_phase"] == "last" else 1
        name = name if t % group["interval"] == due else "newton_schulz"
    if group["blocks"] == 1:
        return _balanced(name, M, state, group)
    blocks = enumerate(M.chunk(group["blocks"]))
    return torch.cat(
        [_balanced(name, block, state.setdefault(f"block{i}", {}), group) for i, block in blocks]
    )


def _balanced(name: str, M: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """The map between the two normalizations of rows and columns, if the group has them."""
    return normalize(SPECTRAL[name](equalize(M, group["equalize"]), state, group), group["normalize"])


def _check_power(spectral: str, p: float) -> None:
    if spectral in ("svd_power", "gram_power", "mix_power", "stream_power"):
        check_power(p, spectral, low=0 if spectral == "stream_power" else -0.5)
    if spectral == "ns_root" and not 0 < p < 1:
        raise ValueError(f"p must be a finite number in (0, 1) for the map {spectral}, got {p!r}")
    if spectral == "dynmuon":
        check_exponent(p)
    if spectral == "ns_root" and not math.log2(p).is_integer():
        taken = 2.0 ** round(math.log2(p))
        warnings.warn(f"ns_root can only halve: it takes p = {p:g} for {taken:g}", stacklevel=5)
