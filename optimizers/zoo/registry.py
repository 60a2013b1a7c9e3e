"""The optimizers this project compares, as a table of plain values.

Standard library only, so that configs, plans and reports can check a hyperparameter without importing torch.
Defaults are those of the released code, with learning rate and weight decay from the paper's tables (those of
LLaMA-60M, for SGDM of ResNet-18). A contract test holds each row and the signature of its class together.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from htbench.optimizers.zoo import elementwise, outside, spectral, subspace
from htbench.optimizers.zoo.param import UNSET, Param, Value, resolve_value
from htbench.optimizers.zoo.spec import STEP, OptimizerSpec, aux

__all__ = ["ROUTING", "UNSET", "ZOO", "OptimizerSpec", "Param", "Value", "resolve", "resolve_value", "spec"]

ROUTING: Final = Param(
    str,
    "released",
    choices=("released", "matrix", "hidden"),
    help="which parameters a matrix rule gets",
)


def _shaped(row: OptimizerSpec) -> OptimizerSpec:
    """A row of ours with what its steps can be told; the classes of torch have steps of their own."""
    if not row.target.startswith("htbench.optimizers."):
        return replace(row, shaped=False)
    return replace(row, params={**row.params, **STEP}) if row.shaped else row


_ROWS = {row.name: _shaped(row) for family in (elementwise, spectral, subspace) for row in family.ROWS}

# The order of listings: baselines, Muon and its forms, the maps of others, the rest as in the paper's
# tables, then what else people expect.
_NAMES = (
    *("adam", "adamw", "sgdm"),
    *("muon", "muon_svd", "htmuon", "htmuon_ns", "htmuon_ht", "htmuon_stream", "htmuon_mix"),
    *("soft_muon", "contra_muon", "dynmuon", "soft_polar"),
    *("normuon", "htmuon_normuon", "htmuon_ht_normuon", "adamuon", "htmuon_adamuon"),
    *("scion", "polargrad", "aurora", "soap_muon", "kl_soap", "muown"),
    *("mars", "soap", "cautious", "cosmos", "galore", "sophia"),
    *("lion", "signum", "ademamix", "adopt", "schedule_free", "prodigy"),
)

ZOO: Final[dict[str, OptimizerSpec]] = {name: _ROWS[name] for name in _NAMES if name in _ROWS}


# Hyperparameters that are the period of dear steps: every so many steps one does all the work.
PERIODS = ("interval", "precondition_frequency", "update_gap")


def spec(name: str, routing: object = "released") -> OptimizerSpec:
    """Return the row of `ZOO` with this name, or one made from a class outside of it.

    Args:
        name: in `ZOO`; else "module:Class", or an entry point of the group `htbench.optimizers`. Such a class
            is imported if its name is allowed, see `htbench.imported`; `optimizers.build` allows it.
        routing: with any other than "released" a class from outside shares the parameters with an auxiliary
            AdamW, as a matrix rule of ours does.

    Raises:
        ValueError: there is none, and the message names the nearest ones; or the class can't be used, or is
            not allowed.
    """
    row = ZOO.get(name) or outside.spec(name)
    if row is not None and row.outside and routing != "released":
        return replace(row, has_aux=True, params={**aux(1e-8), **row.params})
    if row is None:
        raise ValueError(f"unknown optimizer {name!r}; {nearest(name, ZOO)}")
    return row


def resolve(name: str, hyper: Mapping[str, object], routing: object = "released") -> dict[str, Value]:
    """Coerce and check the hyperparameters of an optimizer and fill in all its defaults, sorted by name.

    Args:
        name, routing: as `spec` takes them.
        hyper: what is given.

    Raises:
        ValueError: for an unknown name (with the nearest valid ones), a wrong type or a value out of range.
    """
    params = spec(name, routing).params
    for key in hyper:
        if key not in params:
            raise ValueError(f"{name} has no hyperparameter {key!r}; {nearest(key, params)}")
    return {key: resolve_value(p, key, hyper.get(key, p.default)) for key, p in sorted(params.items())}


def nearest(word: str, known: Iterable[str]) -> str:
    """What was meant by a word that is not known, to follow a semicolon."""
    close = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(sorted(known))}"
