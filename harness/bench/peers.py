"""Other implementations of our optimizers, each built so that it does the same work as ours."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from torch import nn
from torch.optim import Optimizer

Params: TypeAlias = "list[nn.Parameter]"
# (the module, parameters of the rule, the others, our hyperparameters with lr and weight_decay) -> optimizer
Build: TypeAlias = "Callable[[Any, Params, Params, Mapping[str, Any]], Any]"


@dataclass(frozen=True)
class Peer:
    """One implementation.

    Attributes:
        row: our optimizer that it is compared with.
        module: what to import; its first part is the package.
        name: of the class, and how it is printed with the package.
        build: makes it.
        at_most: the most that a step of ours may take in units of its own.
        matrices: compare on the matrices only, since the two treat other parameters differently.
        only_bfloat16: whether its Newton-Schulz iterations run in bfloat16 only.
    """

    row: str
    module: str
    name: str
    build: Build
    at_most: float | None = None
    matrices: bool = False
    only_bfloat16: bool = False

    @property
    def label(self) -> str:
        """Package and class."""
        return f"{self.module.partition('.')[0]} {self.name}"

    @property
    def version(self) -> str | None:
        """The installed version of its package, if it is installed."""
        package = self.module.partition(".")[0]
        return None if importlib.util.find_spec(package) is None else importlib.metadata.version(package)

    def obstacle(self, hyper: Mapping[str, Any]) -> str:
        """Why it can't be compared with ours at these hyperparameters; empty if it can."""
        if self.version is None:
            return "not installed"
        if self.only_bfloat16 and hyper["ns_dtype"] != "bfloat16":
            return "iterates in bfloat16 only"
        return ""

    def make(self, chosen: Params, rest: Params, hyper: Mapping[str, Any]) -> Optimizer:
        """The optimizer; whatever its package raises comes through."""
        optimizer: Optimizer = self.build(importlib.import_module(self.module), chosen, rest, hyper)
        return optimizer


def _settings(hyper: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: hyper[name] for name in ("lr", "weight_decay", *names)}


def _muon(hyper: Mapping[str, Any]) -> dict[str, Any]:
    return _settings(hyper, "momentum", "nesterov", "ns_steps")


def _beta2(hyper: Mapping[str, Any]) -> float:
    beta2: float | None = hyper["beta2"]
    return hyper["momentum"] if beta2 is None else beta2


def _torch_muon(torch_optim: Any, chosen: Params, rest: Params, hyper: Mapping[str, Any]) -> Any:
    return torch_optim.Muon(chosen, adjust_lr_fn="original", **_muon(hyper))


def _timm_muon(timm: Any, chosen: Params, rest: Params, hyper: Mapping[str, Any]) -> Any:
    groups = [{"params": chosen, "use_muon": True}]
    return timm.Muon(groups, adjust_lr_fn="original", ns_coefficients="original", **_muon(hyper))


def _kozistr_muon(library: Any, chosen: Params, rest: Params, hyper: Mapping[str, Any]) -> Any:
    return library.Muon([{"params": chosen, "use_muon": True}], **_muon(hyper))


def _heavyball_muon(heavyball: Any, chosen: Params, rest: Params, hyper: Mapping[str, Any]) -> Any:
    betas = (hyper["momentum"], 0.99)  # the second one is of no use to it
    return heavyball.Muon(chosen, betas=betas, nesterov=hyper["nesterov"], **_settings(hyper))


def _kozistr_normuon(library: Any, chosen: Params, rest: Params, hyper: Mapping[str, Any]) -> Any:
    groups = [{"params": chosen, "use_muon": True}]
    return library.NorMuon(groups, beta2=hyper["beta2"], eps=hyper["eps"], **_muon(hyper))


def _kozistr_adamuon(library: Any, chosen: Params, rest: Params, hyper: Mapping[str, Any]) -> Any:
    # Without the sign and without Nesterov momentum: two passes over memory less than ours.
    groups = [{"params": chosen, "use_muon": True}]
    betas = (hyper["momentum"], _beta2(hyper))
    return library.AdaMuon(groups, betas=betas, **_settings(hyper, "ns_steps", "eps"))


def _timm_adamuon(timm: Any, chosen: Params, rest: Params, hyper: Mapping[str, Any]) -> Any:
    # Without the sign.
    groups = [{"params": chosen, "use_muon": True}]
    betas = (0.9, _beta2(hyper))  # the first one is its fallback's
    return timm.Muon(groups, algo="adamuon", ns_coefficients="original", betas=betas, **_muon(hyper))


def _fused_adamw(torch_optim: Any, chosen: Params, rest: Params, hyper: Mapping[str, Any]) -> Any:
    # One pass over memory: for rules that make two, a measure of what these cost.
    return torch_optim.AdamW([*chosen, *rest], fused=True, **_settings(hyper, "betas", "eps"))


def _timm_cautious(timm: Any, chosen: Params, rest: Params, hyper: Mapping[str, Any]) -> Any:
    # The class behind its name "cadamw".
    return timm.AdamWLegacy([*chosen, *rest], caution=True, **_settings(hyper, "betas", "eps"))


def _timm_mars(timm: Any, chosen: Params, rest: Params, hyper: Mapping[str, Any]) -> Any:
    return timm.Mars(
        [*chosen, *rest], betas_1d=hyper["aux_betas"], **_settings(hyper, "betas", "eps", "gamma")
    )


def _kozistr_sophia(library: Any, chosen: Params, rest: Params, hyper: Mapping[str, Any]) -> Any:
    # At step 1 it would differentiate twice; from step 2 on, only once in `update_period` steps.
    groups = [{"params": [*chosen, *rest], "step": 1}]
    return library.SophiaH(groups, p=1.0, update_period=10**9, **_settings(hyper, "betas", "eps"))


def _kozistr_soap(library: Any, chosen: Params, rest: Params, hyper: Mapping[str, Any]) -> Any:
    return library.SOAP(
        [*chosen, *rest],
        max_precondition_dim=hyper["max_precond_dim"],
        **_settings(hyper, "betas", "shampoo_beta", "eps", "correct_bias", "precondition_frequency"),
    )


def _heavyball_soap(heavyball: Any, chosen: Params, rest: Params, hyper: Mapping[str, Any]) -> Any:
    beta = hyper["shampoo_beta"]
    return heavyball.SOAP(
        [*chosen, *rest],
        shampoo_beta=hyper["betas"][1] if beta is None else beta,
        merge_dims=False,
        **_settings(hyper, "betas", "eps", "precondition_frequency", "max_precond_dim"),
    )


def _kozistr_galore(library: Any, chosen: Params, rest: Params, hyper: Mapping[str, Any]) -> Any:
    projected = {
        "params": chosen,
        "rank": hyper["rank"],
        "update_proj_gap": hyper["update_gap"],
        "scale": hyper["scale"],
        "projection_type": "std",
    }
    return library.GaLore([projected, {"params": rest}], **_settings(hyper, "betas", "eps"))


_KOZISTR = "pytorch_optimizer"
_NEWTON_SCHULZ: Final[dict[str, Any]] = {"matrices": True, "only_bfloat16": True}

# Several peers of a row with the same bound: ours must keep it against the fastest, hence against all.
PEERS: Final = (
    Peer("muon", "torch.optim", "Muon", _torch_muon, 1.0, **_NEWTON_SCHULZ),
    Peer("muon", "timm.optim", "Muon", _timm_muon, **_NEWTON_SCHULZ),
    Peer("muon", _KOZISTR, "Muon", _kozistr_muon, **_NEWTON_SCHULZ),
    Peer("muon", "heavyball", "Muon", _heavyball_muon, **_NEWTON_SCHULZ),
    Peer("normuon", _KOZISTR, "NorMuon", _kozistr_normuon, 1.0, **_NEWTON_SCHULZ),
    Peer("adamuon", _KOZISTR, "AdaMuon", _kozistr_adamuon, 1.0, **_NEWTON_SCHULZ),
    Peer("adamuon", "timm.optim", "Muon(adamuon)", _timm_adamuon, 1.0, **_NEWTON_SCHULZ),
    Peer("adamw", "torch.optim", "AdamW(fused)", _fused_adamw, 1.2),
    Peer("cautious", "torch.optim", "AdamW(fused)", _fused_adamw, 2.5),
    Peer("mars", "torch.optim", "AdamW(fused)", _fused_adamw, 2.5),
    Peer("cautious", "timm.optim", "cadamw", _timm_cautious, 0.9),
    Peer("mars", "timm.optim", "Mars", _timm_mars, 0.9),
    Peer("sophia", _KOZISTR, "SophiaH", _kozistr_sophia, 1.0),
    Peer("soap", _KOZISTR, "SOAP", _kozistr_soap, 1.0),
    Peer("soap", "heavyball", "SOAP", _heavyball_soap, 1.0),
    Peer("galore", _KOZISTR, "GaLore", _kozistr_galore, 1.0),
)


def peers_of(row: str) -> list[Peer]:
    """The peers of a row."""
    return [peer for peer in PEERS if peer.row == row]
