"""The pages of the zoo: a table of all optimizers, a card for each, from registry and source code."""

import importlib
import inspect
import re
from pathlib import Path

import torch
from torch import nn

from docs.config_page import hyperparameters, table
from htbench import optimizers
from htbench.harness.show.numbers import setting as shown
from htbench.optimizers.spectral import SPECTRAL
from htbench.optimizers.zoo.registry import ZOO, OptimizerSpec

BENCH = Path(__file__).with_name("bench.md")
_SHAPE = (256, 512)  # of the matrix whose state is measured
_TAKES = {
    "released": "What its authors' code gives it is the default; `optimizer.routing` says otherwise.",
    "all": "One rule takes every parameter.",
}

_CARD = """\
# {name}

{paper}

- **Family**: {family}. **Class**: {place}.{fixed}
- **State**: {state}; {memory} bytes per parameter of a {rows} x {columns} matrix in float32.
- **Parameters of one dimension**: {vectors}.{cost}

`htbench zoo --routing llama-60m {name}` shows the rule of each parameter of a model. What a step costs beside
the others: [bench.md](../bench.md#what-an-optimizer-costs).

```sh
htbench zoo --check {name}
htbench run task=digits model=resnet-nano steps=20 \\
    optimizer.name={name} optimizer.lr={lr}
```

## The rule

{rule}

## Hyperparameters

{takes}

{hyperparameters}
"""


def listing() -> str:
    """All optimizers, one per line, each with a link to its card."""
    rows = (
        (
            f"[{row.name}](zoo/{row.name}.md)",
            row.family,
            shown(row.lr.default),
            shown(row.weight_decay.default),
            row.state,
            row.vectors,
            f"[{row.paper}]({row.url})",
        )
        for row in ZOO.values()
    )
    return table(("optimizer", "family", "lr", "weight decay", "state", "vectors", "paper"), rows)


def card(row: OptimizerSpec) -> str:
    """The page of one optimizer."""
    fixed = ", ".join(f"`{name}={shown(value)}`" for name, value in row.fixed.items())
    rest = "What the rule does not take goes to an auxiliary AdamW (`optimizer.aux_lr`, `aux_*`)."
    return _CARD.format(
        name=row.name,
        paper=f"[{row.paper}]({row.url}).",
        family=row.family,
        place=f"`{row.target.replace(':', '.')}`",
        state=row.state,
        memory=f"{state_bytes(row.name):.1f}",
        cost=cost(row.name),
        rows=_SHAPE[0],
        columns=_SHAPE[1],
        vectors=row.vectors,
        fixed=f" **Fixed by the name**: {fixed}." if fixed else "",
        lr=shown(row.lr.default),
        rule=rule(row),
        takes=rest if row.has_aux else _TAKES["released" if row.rest else "all"],
        hyperparameters=hyperparameters(row),
    )


def cost(name: str) -> str:
    """The bounds on the time of a step that docs/bench.md has for a row, as a sentence; empty without any."""
    bounds = BENCH.read_text(encoding="utf-8").partition("### At most")[2].partition("\n#")[0]
    rows = re.findall(rf"^\| (`{name}`.*?) \| (.*?) \| (.*?) \|$", bounds, re.MULTILINE)
    told = "; ".join(f"{label}: {factor} times {beside}" for label, beside, factor in rows)
    return f"\n- **Time of a step, at most**: {told}." if told else ""


def rule(row: OptimizerSpec) -> str:
    """The update in the words and symbols of the source code; of a class of torch, where to read it."""
    module, _, name = row.target.partition(":")
    cls = getattr(importlib.import_module(module), name)
    if module.startswith("torch."):
        place = f"https://docs.pytorch.org/docs/stable/generated/{module}.{name}.html"
        return f"[{module}.{name}]({place}), as PyTorch has it."
    parts = [_prose(cls)]
    spectral = row.fixed.get("spectral") or (
        row.params["spectral"].default if "spectral" in row.params else ""
    )
    if spectral in SPECTRAL:
        parts.append(f"### The map of singular values: {spectral}\n\n{_prose(SPECTRAL[spectral])}")
    return "\n\n".join(parts)


def _prose(subject: object) -> str:
    """A docstring without the part on arguments, which the table of hyperparameters has."""
    text = inspect.getdoc(subject) or ""
    return re.sub(r"^(?:Args|Raises|Returns):\n(?:(?: .*)?\n)*", "", f"{text}\n", flags=re.MULTILINE).strip()


def state_bytes(name: str) -> float:
    """Measured: bytes of the state per parameter of a matrix, after a step."""
    layer = nn.Linear(_SHAPE[1], _SHAPE[0], bias=False)
    optimizer = optimizers.build(name, layer, routing="matrix")
    layer.weight.grad = torch.randn_like(layer.weight)
    if observe := getattr(optimizer, "observe_curvature", None):
        observe(1)
    optimizer.step()
    tensors = [value for state in optimizer.state.values() for value in _tensors(state)]
    return sum(one.numel() * one.element_size() for one in tensors) / layer.weight.numel()


def _tensors(value: object) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [one for part in value for one in _tensors(part)] if isinstance(value, (list, tuple)) else []
