"""`htbench zoo --routing`: which rule every parameter of a model gets."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from harness.config import parts
from harness.config.settings import read_words
from harness.display import Column, aligned, document, shown, terminal_width
from harness.errors import UsageError

_COLUMNS = {
    "parameter": Column(words=True, rank=0),
    "shape": Column(words=True, rank=2),
    "rule": Column(words=True, least=12, rank=0),
    "lr": Column(words=True, rank=4),
    "weight_decay": Column(words=True, rank=3),
}


def show(words: Sequence[str], *, as_json: bool) -> int:
    """Print the routing of `MODEL OPTIMIZER [key=value ...]`; a key is an argument of `optimizers.build`.

    Raises:
        UsageError: fewer than two words, an unknown model or optimizer, or a bad hyperparameter.
    """
    if len(words) < 2:
        raise UsageError(
            f"--routing takes a model and an optimizer, such as 'llama-60m muon', not '{words[0]}'."
        )
    parts.allow(words[:2])
    rows, note = routes(words[0], words[1], read_words(words[2:]))
    print(document(rows) if as_json else _table(rows))
    if note:
        print(note if as_json else f"\n{note}", file=sys.stderr if as_json else sys.stdout)
    return 0


def routes(
    model_name: str, optimizer_name: str, settings: dict[str, Any]
) -> tuple[list[dict[str, Any]], str]:
    """One row of plain values per parameter, in the model's order; nothing is allocated.

    Returns:
        the rows, and what a run would say of an optimizer that reaches little (`optimizers.reach`).

    Raises:
        UsageError: an unknown model or optimizer, or a bad hyperparameter.
    """
    import torch

    import models
    import optimizers
    from optimizers.reach import little_reach, treatments

    settings = {key.removeprefix("optimizer."): value for key, value in settings.items()}
    try:
        with torch.device("meta"):
            model = models.build(model_name)
            optimizer = optimizers.build(optimizer_name, model, **settings)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    how = treatments(optimizer)
    groups = {p: group for group in optimizer.param_groups for p in group["params"]}
    rows = [_row(name, p, str(how[p]), groups[p]) for name, p in model.named_parameters()]
    return rows, little_reach(optimizer_name, optimizer)


def _row(name: str, p: Any, rule: str, group: dict[str, Any]) -> dict[str, Any]:
    return {
        "parameter": name,
        "shape": list(p.shape),
        "rule": _shown(rule, group, p),
        "lr": group["lr"],
        "weight_decay": group["weight_decay"],
    }


def _shown(rule: str, group: dict[str, Any], p: Any) -> str:
    """The class, and what of the group or the shape makes it treat this parameter in a way of its own."""
    if group.get("blocks", 1) > 1:
        return f"{rule}, {group['blocks']} blocks"
    if p.ndim > 2 and "spectral" in group:
        return f"{rule}, as {len(p)} x {p.numel() // len(p)}"
    return rule


def _table(rows: list[dict[str, Any]]) -> str:
    header = ("parameter", "shape", "rule", "lr", "weight_decay")
    cells = [
        (
            row["parameter"],
            " x ".join(map(str, row["shape"])),
            row["rule"],
            shown(row["lr"]),
            shown(row["weight_decay"]),
        )
        for row in rows
    ]
    rules = sorted({_class(row["rule"]) for row in rows})
    counts = [f"{sum(_class(row['rule']) == rule for row in rows)} by {rule}" for rule in rules]
    table = aligned([header, *cells], _COLUMNS, terminal_width())
    return f"{table}\n\n{len(rows)} parameters, each once: {', '.join(counts)}."


def _class(rule: str) -> str:
    return rule.replace(",", " ").split()[0]
