"""What a row of the zoo says, and the hyperparameters that many rows have.

Standard library only, like the rows (`elementwise.py`, `spectral.py`, `subspace.py`) and `registry.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from htbench.optimizers.zoo.param import Param


@dataclass(frozen=True)
class OptimizerSpec:
    """One row of `ZOO`.

    Args:
        name: how configs and tables call it.
        target: "module:Class" of the `torch.optim.Optimizer` behind it, imported when built.
        family: elementwise, spectral or subspace; groups the listings.
        lr, weight_decay: allowed range and default of the two hyperparameters that every optimizer has.
        params: the others, by name.
        state: the tensors that it keeps for a parameter, in the symbols of its docstring.
        vectors: what happens to tensors of one dimension, in a few words.
        fixed: constructor arguments that this row pins (Muon and HTMuon are one class).
        released: which parameters the rule takes under `routing="released"`, a key of `routing.ROUTES`.
        has_aux: whether parameters that the rule does not take go to an auxiliary AdamW, so that `aux_lr` and
            the `aux_*` parameters matter.
        aux_lr: range and default of that AdamW's learning rate.
        rest: without auxiliary AdamW, what a group of parameters that the rule does not take has otherwise.
            Where this is empty too, one rule takes every parameter, whatever the routing.
        schedules: of the learning rate, those that its authors use, with a warm-up; empty: any.
        paper, url: where the method is described.
        revision: raised when the row's numbers change; part of the config hash above 1.
        outside: whether it is a user's own class or that of another package (`optimizers/zoo/outside.py`).
        has_weight_decay: whether it takes one.
        switches: whether it is evaluated at other weights than those it trains (`optimizers/modes.py`).
        shaped: whether its steps can be told what `STEP` names; those of torch's classes can't.
        flagged: whether its groups must say `use_muon`, which is False for what its own AdamW takes.
    """

    name: str
    target: str
    family: str
    lr: Param
    weight_decay: Param
    params: Mapping[str, Param]
    state: str = ""
    vectors: str = "same rule"
    fixed: Mapping[str, object] = field(default_factory=dict)
    released: str = "all"
    has_aux: bool = False
    aux_lr: Param = Param(float, 1e-3, low=0, low_open=True, help="peak learning rate of the auxiliary AdamW")
    rest: Mapping[str, object] = field(default_factory=dict)
    schedules: tuple[str, ...] = ()
    paper: str = ""
    url: str = ""
    revision: int = 1
    outside: bool = False
    has_weight_decay: bool = True
    switches: bool = False
    shaped: bool = True
    flagged: bool = False

    @property
    def routed(self) -> bool:
        """Whether the rule leaves some parameters to another treatment, so that routing matters."""
        return self.has_aux or bool(self.rest)


HTMUON_PAPER: Final = "HTMuon: Improving Muon via Heavy-Tailed Spectral Correction"
HTMUON_URL: Final = "https://github.com/TDCSZ327/HTmuon"


# What a parameter group may say of the steps of a rule of ours, see `optimizers.steps`. Defaults stay unsaid.
STEP: Final = {
    "decay": Param(
        str,
        "decoupled",
        choices=("decoupled", "coupled", "independent", "cautious"),
        before="decoupled",
        used_by="step",
        help="of weights beside the step, in the gradient, without the peak of lr, or where the step agrees",
    ),
}


def lr(default: float) -> Param:
    """A peak learning rate."""
    return Param(float, default, low=0, low_open=True, help="peak learning rate")


def weight_decay(default: float, kind: str = "decoupled") -> Param:
    """A weight decay."""
    return Param(float, default, low=0, help=f"{kind} weight decay")


def beta(default: float | None, help: str) -> Param:
    """The decay of one running average."""
    return Param(float, default, low=0, high=1, high_open=True, help=help)


def betas(*defaults: float) -> Param:
    """The decays of several running averages."""
    return Param(tuple, defaults, low=0, high=1, high_open=True, help="decay of the moments")


def eps(default: float, help: str = "added to the root of the second moment") -> Param:
    """A small number that keeps a division finite."""
    return Param(float, default, low=0, help=help)


def aux(eps_default: float = 1e-10, **more: Param) -> dict[str, Param]:
    """The hyperparameters of the auxiliary AdamW, used by `build`."""
    params = {
        "aux_betas": betas(0.9, 0.95),
        "aux_eps": eps(eps_default, "eps of the auxiliary AdamW"),
        "aux_weight_decay": Param(float, None, low=0, help="of the auxiliary AdamW; null: as weight_decay"),
        **more,
    }
    return {name: replace(param, used_by="aux") for name, param in params.items()}


def of_class(table: Mapping[str, Param], **more: Param) -> dict[str, Any]:
    """What a row says of the hyperparameters of a class of ours.

    Args:
        table: all arguments of the class, which checks them against it.
        more: hyperparameters that `build` and the auxiliary AdamW read.
    """
    own = {name: param for name, param in table.items() if name not in ("lr", "weight_decay")}
    return {"lr": table["lr"], "weight_decay": table["weight_decay"], "params": own | more}
