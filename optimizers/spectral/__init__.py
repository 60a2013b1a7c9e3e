"""The maps of a matrix's singular values, M = U diag(S) V^T -> U diag(f(S)) V^T, by name.

Which map an optimizer uses is the only line in which Muon and the forms of HTMuon differ. The parameter group
holds it as a word, the key of `SPECTRAL`, so that it can be written to disk and swept.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from htbench.optimizers.spectral.aurora import aurora
from htbench.optimizers.spectral.contra_muon import contra_muon
from htbench.optimizers.spectral.dynmuon import dynmuon
from htbench.optimizers.spectral.exact import graded_power, gram_power, rank_power, svd_power
from htbench.optimizers.spectral.mix_power import MIX_DTYPES, mix_power
from htbench.optimizers.spectral.newton_schulz import newton_schulz
from htbench.optimizers.spectral.ns_root import ns_root
from htbench.optimizers.spectral.products import DTYPES
from htbench.optimizers.spectral.soft_muon import soft_muon
from htbench.optimizers.spectral.soft_polar import soft_polar
from htbench.optimizers.spectral.stream_power import stream_power

# Up to this smaller side "graded" is an SVD, which is as quick there (docs/bench.md). The rule is the same on
# every device: the numbers of a run must not depend on its place.
_SMALL_SIDE = 64

# (M, state of the parameter, its group) -> O. The state serves maps that continue from the previous step.
SpectralMap = Callable[[Tensor, dict[str, Any], dict[str, Any]], Tensor]

SPECTRAL: dict[str, SpectralMap] = {
    "newton_schulz": lambda M, _, group: newton_schulz(
        M, group["ns_steps"], DTYPES[group["ns_dtype"]], group["ns_coefficients"]
    ),
    "svd_power": lambda M, _, group: svd_power(M, group["p"]),
    "gram_power": lambda M, _, group: _gram_power(M, group["p"], group["gram_dtype"]),
    "ns_root": lambda M, _, group: ns_root(
        M,
        group["p"],
        group["ns_steps"],
        DTYPES[group["ns_dtype"]],
        group["root_steps"],
        group["root_eps"],
        group["gram_side"],
        group["root_eps_relative"],
    ),
    "rank_power": lambda M, _, group: rank_power(M, group["rank_exponent"]),
    "stream_power": lambda M, state, group: stream_power(
        M, group["p"], state, group["rank"], group["qr_eps"]
    ),
    "mix_power": lambda M, _, group: mix_power(
        M, group["p"], group["mix_set"], MIX_DTYPES[group["mix_dtype"]], group["mix_fp32_steps"]
    ),
    "soft_muon": lambda M, _, group: soft_muon(M, group["blend"], DTYPES[group["ns_dtype"]]),
    "contra_muon": lambda M, _, group: contra_muon(M, group["contra"], DTYPES[group["ns_dtype"]]),
    "dynmuon": lambda M, _, group: dynmuon(M, group["p"], DTYPES[group["ns_dtype"]]),
    "soft_polar": lambda M, _, group: soft_polar(
        M, group["softening"], group["energy"], DTYPES[group["ns_dtype"]]
    ),
    "aurora": lambda M, _, group: aurora(
        M, group["balance_steps"], group["balance_power"], DTYPES[group["ns_dtype"]]
    ),
}


def _gram_power(M: Tensor, p: float, precision: str) -> Tensor:
    """The exact power, by `graded_power` or by one Gram matrix of a dtype.

    Small matrices get `svd_power` in place of `graded_power`, as in the authors' code: where rows are badly
    scaled it finds singular values below 1e-7 of the largest, where `graded_power` is linear. A dtype that is
    asked for by name holds for every size.
    """
    if precision != "graded":
        return gram_power(M, p, DTYPES[precision])
    return svd_power(M, p) if min(M.shape[-2:]) <= _SMALL_SIDE else graded_power(M, p)
