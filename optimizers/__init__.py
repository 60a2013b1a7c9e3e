"""The optimizers of the HTMuon paper behind one function, `build`.

Importing this package does not import torch: the table (`ZOO`) serves configs and reports too. The classes
are imported when first asked for, as in `from htbench.optimizers import HTMuon, Muon, SOAP`.
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

    from htbench.optimizers.adam_forms import ADOPT, AdEMAMix
    from htbench.optimizers.adopt import adopt_state
    from htbench.optimizers.base import UpdateRule
    from htbench.optimizers.cosmos import COSMOS
    from htbench.optimizers.elementwise import MARS, Cautious, Sophia
    from htbench.optimizers.galore import GaLore
    from htbench.optimizers.groups import Model
    from htbench.optimizers.hybrid import Hybrid
    from htbench.optimizers.lion import Lion, Signum
    from htbench.optimizers.muon import AdaMuon, Muon, NorMuon
    from htbench.optimizers.muon import AdaMuon as HTMuonAdaMuon
    from htbench.optimizers.muon import Muon as Aurora
    from htbench.optimizers.muon import Muon as ContraMuon
    from htbench.optimizers.muon import Muon as DynMuon
    from htbench.optimizers.muon import Muon as HTMuon
    from htbench.optimizers.muon import Muon as HTMuonHT
    from htbench.optimizers.muon import Muon as HTMuonMix
    from htbench.optimizers.muon import Muon as HTMuonNS
    from htbench.optimizers.muon import Muon as HTMuonStream
    from htbench.optimizers.muon import Muon as MuonSVD
    from htbench.optimizers.muon import Muon as PolarGrad
    from htbench.optimizers.muon import Muon as SoftMuon
    from htbench.optimizers.muon import Muon as SoftPolar
    from htbench.optimizers.muon import NorMuon as HTMuonHTNorMuon
    from htbench.optimizers.muon import NorMuon as HTMuonNorMuon
    from htbench.optimizers.muown import Muown
    from htbench.optimizers.prodigy import Prodigy
    from htbench.optimizers.routing import Routing, split_parameters
    from htbench.optimizers.schedule_free import ScheduleFree
    from htbench.optimizers.scion import Scion
    from htbench.optimizers.soap import SOAP
    from htbench.optimizers.soap_kin import KLSOAP, SOAPMuon
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
    "ADOPT",
    "AdEMAMix",
    "AdaMuon",
    "Aurora",
    "COSMOS",
    "Cautious",
    "ContraMuon",
    "DynMuon",
    "GaLore",
    "HTMuon",
    "HTMuonAdaMuon",
    "HTMuonHT",
    "HTMuonHTNorMuon",
    "HTMuonMix",
    "HTMuonNS",
    "HTMuonNorMuon",
    "HTMuonStream",
    "Hybrid",
    "KLSOAP",
    "Lion",
    "MARS",
    "Muon",
    "MuonSVD",
    "Muown",
    "NorMuon",
    "OptimizerSpec",
    "Param",
    "PolarGrad",
    "Prodigy",
    "ROUTING",
    "SOAP",
    "SOAPMuon",
    "SPECTRAL",
    "ScheduleFree",
    "Scion",
    "Signum",
    "SoftMuon",
    "SoftPolar",
    "Sophia",
    "SpectralRule",
    "UpdateRule",
    "ZOO",
    "adopt_state",
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
        "adam_forms": "AdEMAMix ADOPT",
        "adopt": "adopt_state",
        "base": "UpdateRule",
        "elementwise": "Cautious MARS Sophia",
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
        "cosmos": "COSMOS",
        "galore": "GaLore",
        "scion": "Scion",
        "soap": "SOAP",
        "soap_kin": "KLSOAP",
    }.items()
    for name in names.split()
}

# Rows that are a class with another map or other defaults, as classes.
_ROW_OF = {
    "MuonSVD": "muon_svd",
    "HTMuon": "htmuon",
    "HTMuonNS": "htmuon_ns",
    "HTMuonHT": "htmuon_ht",
    "HTMuonStream": "htmuon_stream",
    "HTMuonMix": "htmuon_mix",
    "HTMuonNorMuon": "htmuon_normuon",
    "HTMuonHTNorMuon": "htmuon_ht_normuon",
    "HTMuonAdaMuon": "htmuon_adamuon",
    "SoftMuon": "soft_muon",
    "ContraMuon": "contra_muon",
    "DynMuon": "dynmuon",
    "SoftPolar": "soft_polar",
    "Aurora": "aurora",
    "PolarGrad": "polargrad",
    "SOAPMuon": "soap_muon",
    "Muown": "muown",
}


def __getattr__(name: str) -> object:
    if name in _ROW_OF:
        from htbench.optimizers.assemble import class_of

        globals()[name] = class_of(spec(_ROW_OF[name]), name, __name__)
        return globals()[name]
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
