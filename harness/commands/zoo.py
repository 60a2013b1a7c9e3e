"""`htbench zoo` and `htbench models`: the registries of optimizers and models."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Mapping
from typing import Any

import models as zoo_of_models
from harness.display import Column, aligned, document, shown, terminal_width, wrapped
from optimizers.zoo.registry import ZOO, Param

WIDTH = 110  # of the wrapped hyperparameters, at most
_ZOO = {
    "name": Column(words=True, rank=0),
    "family": Column(words=True, least=8, rank=4),
    "lr": Column(words=True, rank=1),
    "weight_decay": Column(words=True, rank=2),
    "state": Column(words=True, least=12, rank=3),
    "vectors": Column(words=True, least=12, rank=5),
    "paper": Column(words=True, least=12, rank=6),
}
_MODELS = {
    "name": Column(words=True, rank=0),
    "kind": Column(words=True, rank=2),
    "settings": Column(words=True, least=16, rank=3),
}

_BELOW_ZOO = """
state: the tensors kept for a parameter, each as large as it unless said. vectors: what happens to parameters
of one dimension (gains, biases). `htbench zoo --routing MODEL NAME` shows what happens to each parameter.

Hyperparameters and their defaults, set as optimizer.NAME=VALUE; --json has their ranges:
"""


def add_zoo_arguments(parser: argparse.ArgumentParser) -> None:
    """--json, --routing and --check."""
    parser.add_argument("--json", action="store_true", help="as JSON, with types and allowed ranges")
    parser.add_argument(
        "--check",
        nargs="+",
        metavar=("OPTIMIZER", "key=value"),
        help="whether it does all that training expects of it, for example: mypkg.opt:MyOpt beta=0.9",
    )
    parser.add_argument(
        "--routing",
        nargs="+",
        metavar=("MODEL OPTIMIZER", "key=value"),
        help="show which rule each parameter of a model gets, for example: llama-60m muon routing=hidden",
    )


def zoo(args: argparse.Namespace) -> int:
    """Print every optimizer with its defaults and its source, how one divides a model, or what one does."""
    if args.check:
        from harness.commands import check

        return check.show(args.check, as_json=args.json)
    if args.routing:
        from harness.commands import routing

        return routing.show(args.routing, as_json=args.json)
    if args.json:
        print(document(zoo_rows()))
        return 0
    header = ("name", "family", "lr", "weight_decay", "state", "vectors", "paper")
    rows = [
        (
            row.name,
            row.family,
            shown(row.lr.default),
            shown(row.weight_decay.default),
            row.state,
            row.vectors,
            row.paper,
        )
        for row in ZOO.values()
    ]
    room = terminal_width()
    print(aligned([header, *rows], _ZOO, room))
    print("\n".join(line for text in _BELOW_ZOO.split("\n") for line in wrapped(text, room, "")))
    width, name_width = min(room or WIDTH, WIDTH), max(map(len, ZOO)) + 2
    for row in ZOO.values():
        words = " ".join(f"{name}={shown(param.default)}" for name, param in row.params.items())
        start = f"{row.name:{name_width}}"
        print(textwrap.fill(words, width, initial_indent=start, subsequent_indent=" " * name_width))
    return 0


def zoo_rows() -> list[dict[str, Any]]:
    """The optimizers as plain values."""
    return [
        {
            "name": row.name,
            "family": row.family,
            "lr": _param(row.lr),
            "weight_decay": _param(row.weight_decay),
            "hyper": {name: _param(param) for name, param in row.params.items()},
            "fixed": dict(row.fixed),
            "has_aux": row.has_aux,
            "state": row.state,
            "vectors": row.vectors,
            "paper": row.paper,
            "url": row.url,
            "revision": row.revision,
        }
        for row in ZOO.values()
    ]


def _param(param: Param) -> dict[str, Any]:
    return {
        "type": param.type.__name__,
        "default": param.default,
        "allowed": param.allowed(),
        "help": param.help,
    }


def add_models_arguments(parser: argparse.ArgumentParser) -> None:
    """--json."""
    parser.add_argument("--json", action="store_true", help="as JSON")


def models(args: argparse.Namespace) -> int:
    """Print every model with its exact number of trainable parameters."""
    rows = model_rows()
    if args.json:
        print(document(rows))
        return 0
    cells = [(row["name"], row["kind"], f"{row['parameters']:,}", _words(row["settings"])) for row in rows]
    print(aligned([("name", "kind", "parameters", "settings"), *cells], _MODELS, terminal_width()))
    return 0


def model_rows() -> list[dict[str, Any]]:
    """The models as plain values, counted with their own settings (a task may bring another vocabulary)."""
    return [
        {
            "name": row.name,
            "kind": row.kind,
            "parameters": zoo_of_models.count_parameters(row.name),
            "settings": row.settings,
            "revision": row.revision,
        }
        for row in zoo_of_models.SIZES.values()
    ]


def _words(settings: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={shown(value)}" for name, value in settings.items())
