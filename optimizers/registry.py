"""The optimizers this project compares, as a table of plain values.

Standard library only, so that configs, plans and reports can check a hyperparameter without importing torch.
Defaults are those of the released code, with learning rate and weight decay from the paper's tables (those of
LLaMA-60M, for SGDM of ResNet-18). A contract test holds each row and the signature of its class together.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from optimizers.param import UNSET, Param, Value, resolve_value

__all__ = [
    "AUX",
    "AUX_LR",
    "MUON",
    "ROUTING",
    "UNSET",
    "ZOO",
    "OptimizerSpec",
    "Param",
    "Value",
    "resolve",
    "resolve_value",
    "spec",
]


@dataclass(frozen=True)
class OptimizerSpec:
    """One row of `ZOO`.

    Args:
        name: how configs and tables call it.
        target: "module:Class" of the `torch.optim.Optimizer` behind it, imported when built.
        family: elementwise or spectral; groups the listings.
        lr, weight_decay: allowed range and default of the two hyperparameters that every optimizer has.
        params: the others, by name.
        fixed: constructor arguments that this row pins (Muon and HTMuon are one class).
        has_aux: whether parameters that the rule does not take go to an auxiliary AdamW, so that `aux_lr` and
            the `aux_*` parameters matter. Without it one rule takes every parameter, whatever the routing.
        paper, url: where the method is described.
        revision: raised when the row's numbers change; part of the config hash above 1.
    """

    name: str
    target: str
    family: str
    lr: Param
    weight_decay: Param
    params: Mapping[str, Param]
    fixed: Mapping[str, object] = field(default_factory=dict)
    has_aux: bool = False
    paper: str = ""
    url: str = ""
    revision: int = 1


def spec(name: str) -> OptimizerSpec:
    """Return the row of `ZOO` with this name.

    Raises:
        ValueError: there is none; the message names the nearest ones.
    """
    if name not in ZOO:
        raise ValueError(f"unknown optimizer {name!r}; {_nearest(name, ZOO)}")
    return ZOO[name]


def resolve(name: str, hyper: Mapping[str, object]) -> dict[str, Value]:
    """Coerce and check the hyperparameters of an optimizer and fill in all its defaults, sorted by name.

    Raises:
        ValueError: for an unknown name (with the nearest valid ones), a wrong type or a value out of range.
    """
    params = spec(name).params
    for key in hyper:
        if key not in params:
            raise ValueError(f"{name} has no hyperparameter {key!r}; {_nearest(key, params)}")
    return {key: resolve_value(p, key, hyper.get(key, p.default)) for key, p in sorted(params.items())}


def _nearest(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(sorted(known))}"


def _lr(default: float) -> Param:
    return Param(float, default, low=0, low_open=True, help="peak learning rate")


def _weight_decay(default: float, kind: str = "decoupled") -> Param:
    return Param(float, default, low=0, help=f"{kind} weight decay")


def _beta(default: float, help: str) -> Param:
    return Param(float, default, low=0, high=1, high_open=True, help=help)


def _betas(first: float, second: float) -> Param:
    return Param(tuple, (first, second), low=0, high=1, high_open=True, help="decay of the two moments")


AUX_LR: Final = _lr(1e-3)
ROUTING: Final = Param(
    str, "released", choices=("released", "matrix", "hidden"), help="which parameters a matrix rule gets"
)

_ADAM = {
    "betas": _betas(0.9, 0.999),
    "eps": Param(float, 1e-8, low=0, help="added to the root of the second moment"),
}

# All arguments of `optimizers.muon.Muon`, which checks them against this table; rows take parts of it.
MUON: Final = {
    "lr": _lr(0.01),
    "weight_decay": _weight_decay(0.1),
    "momentum": _beta(0.95, "decay of the gradient average M"),
    "nesterov": Param(bool, True, help="transform (1-beta) G + beta M, as released, instead of M"),
    "spectral": Param(str, "newton_schulz", choices=("newton_schulz", "svd_power"), help="the map M -> O"),
    "p": Param(float, 0.125, low=0, high=1, help="power of the singular values: 0 is Muon, 1 is SGDM"),
    "ns_steps": Param(int, 5, low=1, help="Newton-Schulz iterations"),
    "ns_dtype": Param(
        str, "bfloat16", choices=("bfloat16", "float32", "float64"), help="precision of the iterations"
    ),
    "scale_rule": Param(
        str, "shape", choices=("shape", "rms0.2"), help="sqrt(max(1, m/n)) or 0.2 sqrt(max(m, n))"
    ),
    "conv_reference_quirk": Param(bool, False, help="m/n of a kernel from its last two dimensions"),
}

# Of the auxiliary AdamW, used by `build`.
AUX: Final = {
    "aux_betas": _betas(0.9, 0.95),
    "aux_eps": Param(float, 1e-10, low=0, help="eps of the auxiliary AdamW"),
    "aux_weight_decay": Param(float, None, low=0, help="of the auxiliary AdamW; null: as weight_decay"),
}


def _muon(*names: str) -> dict[str, Param]:
    shared = ("momentum", "nesterov", "scale_rule", "conv_reference_quirk")
    return {**{name: MUON[name] for name in (*shared, *names)}, **AUX}


_HTMUON: dict[str, Any] = {
    "paper": "HTMuon: Improving Muon via Heavy-Tailed Spectral Correction",
    "url": "https://github.com/TDCSZ327/HTmuon",
}

_ROWS = (
    OptimizerSpec(
        name="adam",
        target="torch.optim:Adam",
        family="elementwise",
        lr=_lr(1e-3),
        weight_decay=_weight_decay(1e-5, "coupled (L2)"),
        params=_ADAM,
        paper="Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015",
        url="https://arxiv.org/abs/1412.6980",
    ),
    OptimizerSpec(
        name="adamw",
        target="torch.optim:AdamW",
        family="elementwise",
        lr=_lr(1e-3),
        weight_decay=_weight_decay(0.1),
        params={**_ADAM, "no_decay_1d": Param(bool, False, help="no weight decay on vectors")},
        paper="Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019",
        url="https://arxiv.org/abs/1711.05101",
    ),
    OptimizerSpec(
        name="sgdm",
        target="torch.optim:SGD",
        family="elementwise",
        lr=_lr(0.3),
        weight_decay=_weight_decay(5e-4, "coupled (L2)"),
        params={
            "momentum": _beta(0.9, "weight mu of the gradient sum B"),
            "nesterov": Param(bool, False, help="step along G + mu B instead of B"),
        },
        paper="Sutskever et al., On the importance of initialization and momentum, 2013",
        url="https://proceedings.mlr.press/v28/sutskever13.html",
    ),
    OptimizerSpec(
        name="muon",
        target="optimizers.muon:Muon",
        family="spectral",
        lr=_lr(0.01),
        weight_decay=_weight_decay(0.1),
        params=_muon("ns_steps", "ns_dtype"),
        fixed={"spectral": "newton_schulz"},
        has_aux=True,
        paper="Jordan et al., Muon: An optimizer for hidden layers in neural networks, 2024",
        url="https://kellerjordan.github.io/posts/muon/",
    ),
    OptimizerSpec(
        name="muon_svd",
        target="optimizers.muon:Muon",
        family="spectral",
        lr=_lr(0.03),
        weight_decay=_weight_decay(0.1),
        params=_muon(),
        fixed={"spectral": "svd_power", "p": 0.0},
        has_aux=True,
        **_HTMUON,
    ),
    OptimizerSpec(
        name="htmuon",
        target="optimizers.muon:Muon",
        family="spectral",
        lr=_lr(0.03),
        weight_decay=_weight_decay(0.1),
        params=_muon("p"),
        fixed={"spectral": "svd_power"},
        has_aux=True,
        **_HTMUON,
    ),
)

ZOO: Final[dict[str, OptimizerSpec]] = {row.name: row for row in _ROWS}
