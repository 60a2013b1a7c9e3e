"""Rows of Muon and of everything that transforms singular values, and the arguments of their classes.

The rows differ in three things: the class (how the transformed momentum O is scaled), the map that makes O,
and its parameters.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from htbench.optimizers.zoo.param import UNSET, Param
from htbench.optimizers.zoo.spec import (
    HTMUON_PAPER,
    HTMUON_URL,
    OptimizerSpec,
    aux,
    beta,
    betas,
    eps,
    lr,
    of_class,
    weight_decay,
)

_DTYPES = ("bfloat16", "float32", "float64")
MAP_NAMES: Final = (
    "newton_schulz",
    "svd_power",
    "gram_power",
    "ns_root",
    "rank_power",
    "stream_power",
    "mix_power",
    "soft_muon",
    "contra_muon",
    "dynmuon",
    "soft_polar",
    "aurora",
)

# Parameters of the maps.
MAPS: Final = {
    "p": Param(float, 0.125, low=-0.5, high=1, help="power of the singular values: 0 is Muon, 1 is SGDM"),
    "rank_exponent": Param(
        float, 0.25, low=0, help="the i-th singular value becomes i^-rank_exponent (alpha in the paper)"
    ),
    "interval": Param(int, 1, low=1, help="every so many steps; Newton-Schulz on the others"),
    "interval_phase": Param(
        str,
        "last",
        choices=("last", "first"),
        inert=({"interval": (1,)},),
        help="steps k, 2k, ... or 1, k+1, ...",
    ),
    "ns_steps": Param(int, 5, low=1, help="Newton-Schulz iterations"),
    "ns_dtype": Param(str, "bfloat16", choices=_DTYPES, help="precision of the iterations"),
    "ns_coefficients": Param(
        str,
        "jordan",
        choices=("jordan", "convergent", "polar_express"),
        before="jordan",
        help="Muon's polynomial, that of track 3 (12 steps), or those of Polar Express, one for each step",
    ),
    "gram_dtype": Param(
        str,
        "graded",
        choices=("graded", "float32", "float64"),
        help="precision of the Gram matrix of gram_power; graded: float32, by steps (on a GPU float64 at "
        "once); an SVD up to 64 rows or columns",
    ),
    "root_steps": Param(int, 5, low=1, help="coupled iterations of each square root of ns_root"),
    "root_eps": eps(1e-6, "added to the Gram matrix of ns_root"),
    "root_eps_relative": Param(
        bool, False, help="root_eps relative to ||M||^2, so that the map stays homogeneous"
    ),
    "gram_side": Param(
        str, "right", choices=("right", "small"), help="the root of M^T M as released, or of the smaller Gram"
    ),
    "rank": Param(int, None, low=1, help="directions that stream_power follows; null: all"),
    "qr_eps": eps(1e-8, "singular values up to this count as zero in stream_power"),
    "mix_set": Param(
        str,
        "k6",
        choices=("k5", "k6", "k7", "k8", "k6_accurate", "k7_accurate"),
        help="coefficients of mix_power; k5 costs what Newton-Schulz costs",
    ),
    "mix_dtype": Param(
        str,
        "bfloat16",
        choices=(*_DTYPES, "float16"),
        help="precision of the iterations of mix_power; float16 is for CUDA, a CPU emulates it",
    ),
    "mix_fp32_steps": Param(int, 0, low=0, help="iterations in float32 before those in mix_dtype"),
    "blend": Param(float, 1.0, low=0, high=1, help="share of the softened update in soft_muon; 0 is Muon"),
    "contra": Param(
        float, 0.2, low=0, high=1, high_open=True, help="share of the momentum that contra_muon takes away"
    ),
    "softening": Param(float, 0.2, low=0, high=1, help="share of the momentum in soft_polar; 0 is Muon"),
    "energy": Param(
        str, "keep", choices=("keep", "none"), help="soft_polar: keep the norm of Muon's update, or not"
    ),
    "balance_steps": Param(int, 2, low=1, help="polar factors that aurora takes in one step"),
    "balance_power": Param(
        float, 0.5, low=0, low_open=True, help="how far aurora's diagonal follows the lengths of rows"
    ),
}

# What all classes share, apart from the parameters of the maps.
MOMENTUM: Final = {
    "momentum": beta(0.95, "decay of the gradient average M"),
    "nesterov": Param(bool, True, help="transform (1-beta) G + beta M, as released, instead of M"),
    "ema": Param(bool, True, help="M = beta M + (1-beta) G; if not, beta M + G"),
    "equalize": Param(
        str,
        "none",
        choices=("none", "row", "column", "row_column"),
        before="none",
        help="divide rows, columns or both by their norms before the map (MuonEq)",
    ),
    "normalize": Param(
        str,
        "none",
        choices=("none", "row", "column", "row_column", "column_row"),
        before="none",
        help="bring rows or columns to norm 1 after the map (Muon+)",
    ),
    "blocks": Param(int, 1, low=1, help="row blocks that are transformed each on its own"),
    "conv_reference_quirk": Param(bool, False, help="treat a kernel as the released code does"),
}
_SUMS = replace(MOMENTUM["ema"], default=False)
SCALE_RULE: Final = Param(
    str,
    "shape",
    choices=("shape", "rms0.2", "spectral", "nuclear"),
    help="sqrt(max(1, m/n)), 0.2 sqrt(max(m, n)), sqrt(m/n) or the nuclear norm of the momentum",
)

# All arguments of the classes in optimizers/muon.py, which check them against these tables.
_SHARED = {
    "lr": lr(0.01),
    "weight_decay": weight_decay(0.1),
    "spectral": Param(str, "newton_schulz", choices=MAP_NAMES, help="the map M -> O"),
    **MOMENTUM,
    **MAPS,
}
MUON: Final = {
    **_SHARED,
    "scale_rule": SCALE_RULE,
    "map_first": Param(
        bool, False, before=False, help="map gradients and average O (PolarGrad's polar_first)"
    ),
}
NORMUON: Final = {
    **_SHARED,
    "beta2": beta(0.95, "decay of the rows' second moment v"),
    "eps": eps(1e-10, "added to v"),
    "eps_placement": Param(
        str, "inside", choices=("inside", "outside"), help="O / sqrt(v + eps) or O / (sqrt(v) + eps)"
    ),
    "norm_rule": Param(
        str, "preserve", choices=("preserve", "rms0.2"), help="keep ||O||, or make it 0.2 sqrt(m n)"
    ),
}
ADAMUON: Final = {
    **_SHARED,
    "ema": _SUMS,
    "beta2": beta(None, "decay of the second moment V; null: as momentum"),
    "eps": eps(1e-8),
    "sign": Param(bool, True, before=True, help="map the sign of the momentum; if not, the momentum"),
}

SOAP_MUON: Final = {
    **_SHARED,
    "beta2": beta(0.9, "decay of the second moment in the bases"),
    "shampoo_beta": beta(0.9, "decay of the Gram matrices"),
    "precondition_frequency": Param(int, 10, low=1, help="steps between two updates of the bases"),
    "max_precond_dim": Param(int, 10000, low=0, help="larger dimensions are not rotated"),
    "eps": eps(1e-8),
}
MUOWN: Final = {
    **_SHARED,
    "lr": lr(1e-3),
    "weight_decay": weight_decay(0.0),
    "ema": _SUMS,
    "scale_rule": Param(
        str,
        "rms0.2",
        choices=("shape", "rms0.2", "spectral"),
        help="sqrt(max(1, m/n)), 0.2 sqrt(max(m, n)) or sqrt(m/n)",
    ),
    "betas": betas(0.9, 0.95),
    "eps": eps(1e-8),
}
SCION: Final = {
    "lr": lr(3.6e-4),
    "weight_decay": weight_decay(1.0),
    "beta": beta(0.9, "decay of the gradient average M"),
    "radius": Param(float, 50.0, low=0, low_open=True, help="of the ball of a hidden layer"),
    "norm": Param(str, "spectral", choices=("spectral", "sign"), help="of the matrices that the rule takes"),
    "sign_radius": Param(float, 3000.0, low=0, low_open=True, help="of the ball of embeddings and the head"),
    **{key: MAPS[key] for key in ("ns_steps", "ns_dtype")},
    "ns_coefficients": replace(MAPS["ns_coefficients"], before=UNSET),
}

# Which parameters a row needs for a map.
_OF_MAP: Final = {
    "newton_schulz": ("ns_steps", "ns_dtype", "ns_coefficients"),
    "svd_power": ("p",),
    "gram_power": ("p", "gram_dtype"),
    "ns_root": ("p", "root_steps", "root_eps", "root_eps_relative", "gram_side"),
    "rank_power": ("rank_exponent",),
    "stream_power": ("p", "rank", "qr_eps"),
    "mix_power": ("p", "mix_set", "mix_dtype", "mix_fp32_steps"),
    "soft_muon": ("blend",),
    "contra_muon": ("contra",),
    "dynmuon": ("p",),
    "soft_polar": ("softening", "energy"),
    "aurora": ("balance_steps", "balance_power"),
}
# ns_root takes a factor from Newton-Schulz; the others have an iteration of their own.
_READ_BY: Final = {
    "ns_root": ("ns_steps", "ns_dtype"),
    **dict.fromkeys(("soft_muon", "contra_muon", "dynmuon", "soft_polar", "aurora"), ("ns_dtype",)),
}
_POWER = {  # p of the maps that don't take all of [-0.5, 1]
    "ns_root": replace(MAPS["p"], low=0, low_open=True, high_open=True),
    "stream_power": replace(MAPS["p"], low=0),
}
_FUSED = Param(
    str,
    "whole",
    choices=("whole", "split"),
    used_by="build",
    help="transform a fused projection (q, k, v in one matrix) whole, or each of its parts",
)


def _row(
    name: str,
    cls: str,
    *maps: str,
    lr_default: float,
    decay: float = 0.1,
    own: Mapping[str, Param] = MappingProxyType({}),
    released: str = "matrix",
    paper: str = HTMUON_PAPER,
    url: str = HTMUON_URL,
    revision: int = 1,
    **fixed: object,
) -> OptimizerSpec:
    """The row of a class with one map, or with several to choose from; `own` are its own defaults."""
    table, home, state = _CLASSES[cls]
    if len(maps) == 1:
        fixed = {"spectral": maps[0], **fixed}
    params = {key: param for key, param in _params(table, maps).items() if key not in fixed}
    return OptimizerSpec(
        name=name,
        target=f"htbench.optimizers.{home}:{cls}",
        family="spectral",
        lr=lr(lr_default),
        weight_decay=weight_decay(decay),
        params={**params, **own, **_AUX[cls]},
        state=state + (", basis" if maps == ("stream_power",) else ""),
        vectors="AdamW",
        fixed=fixed,
        released=released,
        has_aux=True,
        shaped=cls != "Muown",
        paper=paper,
        url=url,
        revision=revision,
    )


def _params(table: dict[str, Param], maps: tuple[str, ...]) -> dict[str, Param]:
    own = {key: table[key] for key in table if key not in ("lr", "weight_decay", "spectral", "blocks", *MAPS)}
    of_maps = {key: replace(table[key], inert=_inert(key)) for one in maps for key in _OF_MAP[one]}
    if maps[0] in _POWER:
        of_maps["p"] = _POWER[maps[0]]
    if len(maps) > 1:
        of_maps["spectral"] = replace(table["spectral"], default=maps[0], choices=maps)
    if "newton_schulz" not in maps:
        # `interval` puts Newton-Schulz in between.
        of_maps |= {key: replace(table[key], inert=_inert(key)) for key in _OF_MAP["newton_schulz"]}
        of_maps |= {key: table[key] for key in ("interval", "interval_phase")}
    return {**own, **of_maps, "fused": _FUSED}


def _inert(key: str) -> tuple[dict[str, tuple[str | int, ...]], ...]:
    """Where a parameter of some maps changes nothing: with another map, and no Newton-Schulz in between."""
    others = tuple(one for one in MAP_NAMES if key not in _READ_BY.get(one, ()) + _OF_MAP[one])
    between = {"interval": (1,)} if key in _OF_MAP["newton_schulz"] else {}
    return ({"spectral": others, **between},)


_CLASSES = {  # arguments, module, state
    "Muon": (MUON, "muon", "M"),
    "NorMuon": (NORMUON, "muon", "M, v (rows)"),
    "AdaMuon": (ADAMUON, "muon", "M, V"),
    "SOAPMuon": (SOAP_MUON, "soap_kin", "M, v, L and Q of each side"),
    "Muown": (MUOWN, "muown", "M, and g, r, m and v of each row"),
}
_AUX = {
    **dict.fromkeys(("Muon", "NorMuon", "SOAPMuon"), aux()),
    "AdaMuon": aux(1e-8, aux_no_decay_1d=Param(bool, True, help="no weight decay on vectors in the AdamW")),
    "Muown": aux(1e-8),
}
_POWERS = ("gram_power", "svd_power", "ns_root", "stream_power", "mix_power")
_NORMUON: Any = {
    "paper": "Li et al., NorMuon: Making Muon more efficient and scalable, 2025",
    "url": "https://arxiv.org/abs/2510.05491",
}
_ADAMUON: Any = {
    "paper": "Si et al., AdaMuon: Adaptive Muon Optimizer, 2025",
    "url": "https://arxiv.org/abs/2507.11005",
}
# Learning rate and weight decay of Soft-Muon, Contra-Muon and Soft-polar are ours. The published ones are of
# stacks in which other parts set the size of an update. The rate is the default of Muon's released code.
_SOFT_MUON: Any = {
    "paper": "Nilin, Contra-Muon and Soft-Muon, 2026",
    "url": "https://github.com/KellerJordan/modded-nanogpt/pull/291",
}
_CONTRA_MUON: Any = {
    "paper": "Nilin, Contra-Muon and Soft-Muon, 2026",
    "url": "https://github.com/KellerJordan/modded-nanogpt/pull/275",
}
_SOFT_POLAR: Any = {
    "paper": "Soft-polar Muon, modded-nanogpt pull request 332, 2026",
    "url": "https://github.com/KellerJordan/modded-nanogpt/pull/332",
}

ROWS: Final = (
    _row(
        "muon",
        "Muon",
        "newton_schulz",
        lr_default=0.01,
        paper="Jordan et al., Muon: An optimizer for hidden layers in neural networks, 2024",
        url="https://kellerjordan.github.io/posts/muon/",
    ),
    _row("muon_svd", "Muon", "svd_power", lr_default=0.03, p=0.0),
    _row("htmuon", "Muon", "gram_power", "svd_power", lr_default=0.03),
    _row("htmuon_ns", "Muon", "ns_root", lr_default=0.03),
    _row("htmuon_ht", "Muon", "rank_power", lr_default=0.03),
    _row("htmuon_stream", "Muon", "stream_power", lr_default=0.03),
    _row(
        "htmuon_mix",
        "Muon",
        "mix_power",
        lr_default=0.03,
        paper=f"{HTMUON_PAPER}; the map is our own",
    ),
    _row("normuon", "NorMuon", "newton_schulz", lr_default=0.03, **_NORMUON),
    _row("htmuon_normuon", "NorMuon", *_POWERS, lr_default=0.03),
    _row("htmuon_ht_normuon", "NorMuon", "rank_power", lr_default=0.03),
    _row("adamuon", "AdaMuon", "newton_schulz", lr_default=5e-3, released="not_output", **_ADAMUON),
    _row("htmuon_adamuon", "AdaMuon", *_POWERS, lr_default=5e-3, released="not_output"),
    _row("soft_muon", "Muon", "soft_muon", lr_default=0.02, **_SOFT_MUON),
    _row("contra_muon", "Muon", "contra_muon", lr_default=0.02, **_CONTRA_MUON),
    _row(
        "dynmuon",
        "Muon",
        "dynmuon",
        lr_default=0.02,
        decay=0.025,
        own={
            "p": Param(float, 0.25, low=-0.5, high=0.5, help="power of the singular values, near 1 only"),
            "ema": _SUMS,
        },
        paper="Wu et al., DynMuon: A Dynamic Spectral Shaping View of Muon, 2026",
        url="https://arxiv.org/abs/2605.17109",
    ),
    _row("soft_polar", "Muon", "soft_polar", lr_default=0.02, **_SOFT_POLAR),
    _row(
        "aurora",
        "Muon",
        "aurora",
        lr_default=0.05,
        decay=0.025,
        paper="Tilde Research, Aurora, 2026",
        url="https://blog.tilderesearch.com/blog/aurora",
    ),
    _row(
        "polargrad",
        "Muon",
        "newton_schulz",
        lr_default=0.02,
        decay=0.0,
        own={
            "nesterov": replace(MOMENTUM["nesterov"], default=False),
            # Its authors take the polar factor itself, to which 8 of these steps come within 1e-10.
            "ns_steps": replace(MAPS["ns_steps"], default=8, inert=_inert("ns_steps")),
            "ns_coefficients": replace(MAPS["ns_coefficients"], default="polar_express"),
        },
        scale_rule="nuclear",
        paper="Lau et al., PolarGrad: A Class of Matrix-Gradient Optimizers, 2025",
        url="https://arxiv.org/abs/2505.21799",
    ),
    _row(
        "soap_muon",
        "SOAPMuon",
        "newton_schulz",
        lr_default=0.0375,
        decay=0.0,
        own={
            "ns_steps": replace(MAPS["ns_steps"], default=12, inert=_inert("ns_steps")),
            "ns_coefficients": replace(MAPS["ns_coefficients"], default="convergent", before=UNSET),
        },
        paper="Vyas et al., SOAP-Muon, 2026, in modded-nanogpt pull request 278",
        url="https://nikhilvyas.github.io/SOAP_Muon.pdf",
        revision=2,
    ),
    _row(
        "muown",
        "Muown",
        "newton_schulz",
        lr_default=1e-3,
        decay=0.0,
        released="hidden",
        conv_reference_quirk=False,
        paper="Lion et al., Muown: Row-Norm Control for Muon Optimization, 2026",
        url="https://arxiv.org/abs/2605.10797",
    ),
    OptimizerSpec(
        name="scion",
        target="htbench.optimizers.scion:Scion",
        family="spectral",
        **of_class(SCION),
        state="M",
        vectors="normalized",
        released="hidden",
        rest={"norm": "sign"},
        paper="Pethick et al., Training Deep Learning Models with Norm-Constrained LMOs, 2025",
        url="https://arxiv.org/abs/2502.07529",
    ),
)
