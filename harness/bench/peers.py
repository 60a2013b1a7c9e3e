"""Other implementations of our optimizers, each built so that it does the same work as ours."""

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from torch import nn
from torch.optim import Optimizer

from htbench.optimizers.modes import training

Hyper: TypeAlias = "Mapping[str, Any]"  # ours, with lr and weight_decay
Params: TypeAlias = "list[nn.Parameter]"


def _rule(chosen: Params, rest: Params, hyper: Hyper) -> Any:
    return chosen


def _flagged(chosen: Params, rest: Params, hyper: Hyper) -> Any:
    return [{"params": chosen, "use_muon": True}]


def _all(chosen: Params, rest: Params, hyper: Hyper) -> Any:
    return [*chosen, *rest]


def _from_the_second_step(chosen: Params, rest: Params, hyper: Hyper) -> Any:
    # At step 1 it would differentiate twice; from step 2 on, only once in `update_period` steps.
    return [{"params": [*chosen, *rest], "step": 1}]


def _projected(chosen: Params, rest: Params, hyper: Hyper) -> Any:
    names = {"rank": "rank", "update_proj_gap": "update_gap", "scale": "scale"}
    sizes = {name: hyper[hyper_name] for name, hyper_name in names.items()}
    return [{"params": chosen, **sizes, "projection_type": "std"}, {"params": rest}]


@dataclass(frozen=True)
class Peer:
    """One implementation.

    Attributes:
        row: our optimizer that it is compared with.
        module: what to import; its first part is the package.
        name: of the class, and how it is printed with the package; `variant` is printed in brackets.
        params: what it gets of (parameters of the rule, the others, our hyperparameters).
        same: its arguments that are called as ours, besides lr and weight_decay.
        more: its other arguments by our hyperparameters.
        at_most: the most that a step of ours may take in units of its own.
        matrices: compare on the matrices only, since the two treat other parameters differently.
        only_bfloat16: whether its Newton-Schulz iterations run in bfloat16 only.
        variant: of the class.
    """

    row: str
    module: str
    name: str
    params: Callable[[Params, Params, Hyper], Any]
    same: tuple[str, ...]
    more: Callable[[Hyper], Hyper] = lambda hyper: {}
    at_most: float | None = None
    matrices: bool = False
    only_bfloat16: bool = False
    variant: str = ""

    @property
    def label(self) -> str:
        """Package and class."""
        variant = f"({self.variant})" if self.variant else ""
        return f"{self.module.partition('.')[0]} {self.name}{variant}"

    @property
    def version(self) -> str | None:
        """The installed version of its package, if it is installed."""
        package = self.module.partition(".")[0]
        return None if importlib.util.find_spec(package) is None else importlib.metadata.version(package)

    def obstacle(self, hyper: Hyper) -> str:
        """Why it can't be compared with ours at these hyperparameters; empty if it can."""
        if self.version is None:
            return "not installed"
        if self.only_bfloat16 and hyper["ns_dtype"] != "bfloat16":
            return "iterates in bfloat16 only"
        return ""

    def make(self, chosen: Params, rest: Params, hyper: Hyper) -> Optimizer:
        """The optimizer; whatever its package raises comes through."""
        same = {name: hyper[name] for name in ("lr", "weight_decay", *self.same)}
        cls = getattr(importlib.import_module(self.module), self.name)
        optimizer: Optimizer = cls(self.params(chosen, rest, hyper), **same, **self.more(hyper))
        return training(optimizer)


def _beta2(hyper: Hyper) -> float:
    beta2: float | None = hyper["beta2"]
    return hyper["momentum"] if beta2 is None else beta2


_KOZISTR = "pytorch_optimizer"
_NS: Final[dict[str, Any]] = {"matrices": True, "only_bfloat16": True}
_MUON, _ADAM = ("momentum", "nesterov", "ns_steps"), ("betas", "eps")
_SHAMPOO = (*_ADAM, "precondition_frequency")


_ORIGINAL: Final = {"adjust_lr_fn": "original"}
_TIMM: Final = {"ns_coefficients": "original"}
_FUSED: Final = {"fused": True}  # one pass over memory: for rules that make two, a measure of what these cost


def _heavyball_soap(hyper: Hyper) -> Hyper:
    beta = hyper["shampoo_beta"]
    return {"shampoo_beta": hyper["betas"][1] if beta is None else beta, "merge_dims": False}


# Several peers of a row with the same bound: ours must keep it against the fastest, hence against all.
PEERS: Final = (
    Peer("muon", "torch.optim", "Muon", _rule, _MUON, lambda _: _ORIGINAL, 1.0, **_NS),
    Peer("muon", "timm.optim", "Muon", _flagged, _MUON, lambda _: _ORIGINAL | _TIMM, **_NS),
    Peer("muon", _KOZISTR, "Muon", _flagged, _MUON, **_NS),
    # The second beta is of no use to it. Its polynomials are fixed: the path is a third away from ours.
    Peer(
        "muon",
        "heavyball",
        "Muon",
        _rule,
        ("nesterov",),
        lambda h: {"betas": (h["momentum"], 0.99)},
        **_NS,
        variant="other polynomials",
    ),
    Peer("normuon", _KOZISTR, "NorMuon", _flagged, (*_MUON, "beta2", "eps"), at_most=1.0, **_NS),
    # Without the sign, the first without Nesterov momentum, too: two passes over memory less than ours.
    Peer(
        *("adamuon", _KOZISTR, "AdaMuon", _flagged, ("ns_steps", "eps")),
        *(lambda h: {"betas": (h["momentum"], _beta2(h))}, 1.0),
        **_NS,
    ),
    Peer(  # the first beta is its fallback's
        *("adamuon", "timm.optim", "Muon", _flagged, _MUON),
        *(lambda h: {"algo": "adamuon", "betas": (0.9, _beta2(h))} | _TIMM, 1.0),
        **_NS,
        variant="adamuon",
    ),
    Peer("adamw", "torch.optim", "AdamW", _all, _ADAM, lambda _: _FUSED, 1.2, variant="fused"),
    Peer("cautious", "torch.optim", "AdamW", _all, _ADAM, lambda _: _FUSED, 2.5, variant="fused"),
    Peer("mars", "torch.optim", "AdamW", _all, _ADAM, lambda _: _FUSED, 2.5, variant="fused"),
    Peer(
        "cautious",
        "timm.optim",
        "AdamWLegacy",
        _all,
        _ADAM,
        lambda _: {"caution": True},
        0.9,
        variant="cadamw",
    ),
    Peer("mars", "timm.optim", "Mars", _all, (*_ADAM, "gamma"), lambda h: {"betas_1d": h["aux_betas"]}, 0.9),
    Peer(
        *("sophia", _KOZISTR, "SophiaH", _from_the_second_step, _ADAM),
        *(lambda _: {"p": 1.0, "update_period": 10**9}, 1.0),
    ),
    Peer(
        *("soap", _KOZISTR, "SOAP", _all, (*_SHAMPOO, "shampoo_beta", "correct_bias")),
        *(lambda h: {"max_precondition_dim": h["max_precond_dim"]}, 1.0),
    ),
    Peer("soap", "heavyball", "SOAP", _all, (*_SHAMPOO, "max_precond_dim"), _heavyball_soap, 1.0),
    Peer(
        *("kl_soap", "heavyball", "KLSOAP", _rule, (*_SHAMPOO, "shampoo_beta")),
        *(lambda _: {"merge_dims": False}, 1.1, True),
    ),
    Peer("galore", _KOZISTR, "GaLore", _projected, _ADAM, at_most=1.0),
    Peer("lion", "lion_pytorch", "Lion", _all, ("betas",), at_most=1.1),
    Peer("lion", "timm.optim", "Lion", _all, ("betas",), at_most=1.1),
    Peer("lion", _KOZISTR, "Lion", _all, ("betas",), at_most=1.1),
    Peer("signum", _KOZISTR, "SignSGD", _all, ("momentum",), at_most=1.1),
    Peer("ademamix", _KOZISTR, "AdEMAMix", _all, ("betas", "alpha", "eps"), at_most=1.1),
    Peer("adopt", _KOZISTR, "ADOPT", _all, ("betas", "eps"), at_most=1.1),
    Peer("schedule_free", "schedulefree", "AdamWScheduleFree", _all, _ADAM, at_most=1.1),
    Peer("schedule_free", _KOZISTR, "ScheduleFreeAdamW", _all, _ADAM, at_most=1.1),
    Peer("prodigy", "prodigyopt", "Prodigy", _all, (*_ADAM, "d0"), at_most=1.1),
    Peer("prodigy", _KOZISTR, "Prodigy", _all, (*_ADAM, "d0"), at_most=1.1),
)


def peers_of(row: str) -> list[Peer]:
    """The peers of a row."""
    return [peer for peer in PEERS if peer.row == row]
