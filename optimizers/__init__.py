"""The optimizers of the HTMuon paper behind one function, `build`.

Importing this package does not import torch: the table (`ZOO`) serves configs and reports too. The classes
are imported when first asked for, as in `from htbench.optimizers import Muon`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from htbench import imported
from htbench.optimizers.zoo import grouped
from htbench.optimizers.zoo.grouped import Groups
from htbench.optimizers.zoo.registry import ROUTING, ZOO, OptimizerSpec, Param, resolve, resolve_value, spec

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from htbench.optimizers.adam_forms import AdEMAMix, Adopt
    from htbench.optimizers.base import UpdateRule
    from htbench.optimizers.cosmos import Cosmos
    from htbench.optimizers.elementwise import Cautious, Mars, Sophia
    from htbench.optimizers.galore import GaLore
    from htbench.optimizers.groups import Model
    from htbench.optimizers.hybrid import Hybrid
    from htbench.optimizers.lion import Lion, Signum
    from htbench.optimizers.muon import AdaMuon, Muon, NorMuon
    from htbench.optimizers.prodigy import Prodigy
    from htbench.optimizers.routing import Routing, split_parameters
    from htbench.optimizers.schedule_free import ScheduleFree
    from htbench.optimizers.scion import Scion
    from htbench.optimizers.soap import Soap
    from htbench.optimizers.spectral import SPECTRAL
    from htbench.optimizers.spectral.contra_muon import contra_muon
    from htbench.optimizers.spectral.dynmuon import dynmuon
    from htbench.optimizers.spectral.exact import gram_power, rank_power, svd_power
    from htbench.optimizers.spectral.mix_power import mix_power
    from htbench.optimizers.spectral.newton_schulz import newton_schulz
    from htbench.optimizers.spectral.ns_root import gram_root, ns_root
    from htbench.optimizers.spectral.rule import SpectralRule
    from htbench.optimizers.spectral.soft_muon import soft_muon
    from htbench.optimizers.spectral.soft_polar import soft_polar
    from htbench.optimizers.spectral.stream_power import stream_power
    from htbench.optimizers.transfer import Transfer

__all__ = [
    "ROUTING",
    "SPECTRAL",
    "ZOO",
    "AdEMAMix",
    "AdaMuon",
    "Adopt",
    "Cautious",
    "Cosmos",
    "GaLore",
    "Hybrid",
    "Lion",
    "Mars",
    "Muon",
    "NorMuon",
    "OptimizerSpec",
    "Param",
    "Prodigy",
    "ScheduleFree",
    "Scion",
    "Signum",
    "Soap",
    "Sophia",
    "SpectralRule",
    "UpdateRule",
    "build",
    "contra_muon",
    "dynmuon",
    "gram_power",
    "gram_root",
    "mix_power",
    "newton_schulz",
    "ns_root",
    "rank_power",
    "resolve",
    "resolve_value",
    "soft_muon",
    "soft_polar",
    "spec",
    "split_parameters",
    "stream_power",
    "svd_power",
]

_HOME = {
    name: module
    for module, names in {
        "adam_forms": "AdEMAMix Adopt",
        "base": "UpdateRule",
        "elementwise": "Cautious Mars Sophia",
        "spectral.exact": "gram_power rank_power svd_power",
        "hybrid": "Hybrid",
        "lion": "Lion Signum",
        "prodigy": "Prodigy",
        "schedule_free": "ScheduleFree",
        "routing": "split_parameters",
        "spectral.mix_power": "mix_power",
        "muon": "AdaMuon Muon NorMuon",
        "spectral.rule": "SpectralRule",
        "spectral.newton_schulz": "newton_schulz",
        "spectral.ns_root": "gram_root ns_root",
        "spectral": "SPECTRAL",
        "spectral.contra_muon": "contra_muon",
        "spectral.dynmuon": "dynmuon",
        "spectral.soft_muon": "soft_muon",
        "spectral.soft_polar": "soft_polar",
        "spectral.stream_power": "stream_power",
        "cosmos": "Cosmos",
        "galore": "GaLore",
        "scion": "Scion",
        "soap": "Soap",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module '{__name__}' has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def build(
    name: str,
    model_or_named_parameters: Model,
    *,
    lr: float | None = None,
    weight_decay: float | None = None,
    routing: Routing = "released",
    aux_lr: float | None = None,
    groups: Groups | None = None,
    transfer: Transfer | None = None,
    **hyper: object,
) -> Optimizer:
    """Build an optimizer of `ZOO`, or a class outside of it, an ordinary `torch.optim.Optimizer`.

    Sophia also wants a second backward pass now and then: before update `step` (0-based), if
    `optimizer.wants_curvature(step)`, do one on labels that are sampled from the model's own predictions, and
    call `optimizer.observe_curvature(batch_size)`. Without these passes it is sign momentum, and warns.
    docs/optimizers.md has a loop with it, and with groups and schedules.

    Args:
        name: a row of `ZOO`, or "module:Class" of any `torch.optim.Optimizer`, which gets all parameters
            unless `routing` or `groups` say otherwise.
        model_or_named_parameters: a module; parameters; (name, parameter) pairs; or group dicts of either, as
            for any `torch.optim.Optimizer`. A group may have settings of its own: all keyword arguments below
            but `routing`, with the same meaning. Frozen parameters of a module or of pairs are left out.
        lr, weight_decay: None takes the default of the row. `lr` is the learning rate of the rule.
        routing: which parameters the rule gets, see `split_parameters`. An optimizer that treats all of them
            alike (`routed` false in its row) takes them all; one from outside does so with "released".
            Parameters without modules around them can be told apart by their shapes only, parameters without
            names by no predicate.
        aux_lr: learning rate of the auxiliary AdamW; None is 1e-3 (MARS: 3e-3), as in the released code.
        groups: settings by the name of a group of parameters, with the optimizer that trains it:
            `{"embedding": {"optimizer": "adamw", "lr": 0.003}, "*.mlp.*": {"lr": 0.01}}`. Names are those of
            `optimizers.zoo.grouped.KINDS` and patterns; that module says what is left open.
        transfer: factors of rate and decay, parameter by parameter, from those of a narrower model.
        hyper: the other hyperparameters of the row, coerced and checked by `resolve`.

    Raises:
        ValueError: one sentence naming the unknown name, the value and what is allowed.
    """
    wanted = [name, *(own["optimizer"] for own in (groups or {}).values() if "optimizer" in own)]
    imported.allowed.update(map(str, wanted))  # who builds a part wants its code to run
    row = spec(name, routing)
    if not callable(routing):
        resolve_value(ROUTING, "routing", routing)

    def number(param: Param, field_name: str, value: float | None) -> Any:
        return resolve_value(param, field_name, param.default if value is None else value)

    from htbench.optimizers.assemble import assemble  # imports torch

    settings = {
        "lr": number(row.lr, "lr", lr),
        "weight_decay": number(row.weight_decay, "weight_decay", weight_decay),
        "aux_lr": number(row.aux_lr, "aux_lr", aux_lr),
        **resolve(name, hyper, routing),
    }
    named = grouped.resolve(row, groups or {}, settings)
    return assemble(row, model_or_named_parameters, routing, settings, named, transfer)
