"""Which parameter gets which rule, and how two optimizers step as one.

A matrix rule cannot take norm gains and biases, so an auxiliary AdamW takes what the rule does not. The
choice is made once, from shapes and module types, and is then visible in the parameter groups.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, overload

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from optimizers.base import evaluate
from optimizers.registry import AUX, ROUTING, OptimizerSpec, resolve_value

Model: TypeAlias = "nn.Module | Iterable[tuple[str, nn.Parameter]]"
Routing: TypeAlias = "str | Callable[[str, nn.Parameter], bool]"


class Hybrid(Optimizer):
    """Several optimizers over disjoint parameters, used and saved as one.

    `param_groups` are the group dicts of the parts and `state` is one mapping that all parts share, so that
    schedules, `state_dict` and `load_state_dict` work as with any other `torch.optim.Optimizer`.

    Args:
        parts: the optimizers, stepped in this order.

    Raises:
        ValueError: a parameter is in two parts.
    """

    def __init__(self, *parts: Optimizer) -> None:
        self.parts = parts
        super().__init__([group for part in parts for group in part.param_groups], {})
        self._share()

    def _share(self) -> None:
        groups = iter(self.param_groups)
        for part in self.parts:
            part.state = self.state
            part.param_groups = [next(groups) for _ in part.param_groups]

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "parts": self.parts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # load_state_dict ends here with new group dicts and a new state, which the parts must share again.
        super().__setstate__(state)
        self._share()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Take a group of a part, at construction; any other raises ValueError, for no part would step it."""
        if not any(param_group is group for part in self.parts for group in part.param_groups):
            raise ValueError("a Hybrid cannot take another parameter group: build a new one")
        super().add_param_group(param_group)

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Step every part; return the loss of the closure, if one is given."""
        loss = evaluate(closure)
        for part in self.parts:
            part.step()
        return loss


def split_parameters(model: Model, routing: Routing) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Divide the trainable parameters into those of the rule and the rest; a tied weight counts once.

    Args:
        model: a module, or (name, parameter) pairs.
        routing: "matrix" sends every parameter with two or more dimensions to the rule; "released" does as
            the optimizer's authors did (for the Muon family the same, embedding and output layer included);
            "hidden" leaves out embeddings (by module type) and the output layer (what the model's method
            `get_output_embeddings` returns, if it has one); or a predicate (name, parameter) -> bool.

    Raises:
        ValueError: unknown routing, parameters without names, or "hidden" without the module they belong to.
    """
    if not callable(routing):
        resolve_value(ROUTING, "routing", routing)
    matrix: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    takes = routing if callable(routing) else _by_shape(_ends(model) if routing == "hidden" else set())
    for name, p in _trainable(model):
        (matrix if takes(name, p) else rest).append(p)
    return matrix, rest


def assemble(
    row: OptimizerSpec,
    model: Model,
    *,
    lr: float,
    weight_decay: float,
    routing: Routing,
    aux_lr: float,
    hyper: dict[str, Any],
) -> Optimizer:
    """Build the optimizer of a row from checked hyperparameters; `optimizers.build` is the way in."""
    model = model if isinstance(model, nn.Module) else list(model)  # named_parameters() is a generator
    hyper = {**row.fixed, **hyper}
    aux = {key: hyper.pop(key) for key in AUX if key in hyper}
    matrix, rest = split_parameters(model, routing if row.has_aux else lambda name, p: True)
    groups = _decay_groups(matrix, weight_decay) if hyper.pop("no_decay_1d", False) else matrix
    parts = [_load(row.target)(groups, lr=lr, weight_decay=weight_decay, **hyper)] if matrix else []
    if rest:
        decay = weight_decay if aux["aux_weight_decay"] is None else aux["aux_weight_decay"]
        parts.append(AdamW(rest, aux_lr, betas=aux["aux_betas"], eps=aux["aux_eps"], weight_decay=decay))
    optimizer = parts[0] if len(parts) == 1 else Hybrid(*parts)
    covered = [p for group in optimizer.param_groups for p in group["params"]]
    assert len(covered) == len(set(covered)) and set(covered) == {p for _, p in _trainable(model)}
    return optimizer


def _trainable(model: Model) -> list[tuple[str, nn.Parameter]]:
    pairs = list(model.named_parameters() if isinstance(model, nn.Module) else model)
    if any(isinstance(pair, Tensor) for pair in pairs):
        raise ValueError("parameters need names here: pass the model or model.named_parameters()")
    first: dict[nn.Parameter, str] = {}
    for name, p in pairs:
        if p.requires_grad:
            first.setdefault(p, name)
    return [(name, p) for p, name in first.items()]


def _by_shape(excluded: set[nn.Parameter]) -> Callable[[str, nn.Parameter], bool]:
    return lambda name, p: p.ndim >= 2 and p not in excluded


def _ends(model: Model) -> set[nn.Parameter]:
    """Parameters of embeddings and of the output layer, where a language model touches its vocabulary."""
    if not isinstance(model, nn.Module):
        raise ValueError("routing 'hidden' must see the modules: pass the model, or a predicate as routing")
    ends: list[nn.Module] = [m for m in model.modules() if isinstance(m, (nn.Embedding, nn.EmbeddingBag))]
    find_output: Callable[[], nn.Module | None] | None = getattr(model, "get_output_embeddings", None)
    if find_output is not None and (output := find_output()) is not None:
        ends.append(output)
    return {p for module in ends for p in module.parameters()}


def _decay_groups(params: list[nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    groups = [
        {"params": [p for p in params if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in params if p.ndim < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def _load(target: str) -> Callable[..., Optimizer]:
    module, name = target.split(":")
    rule: Callable[..., Optimizer] = getattr(importlib.import_module(module), name)
    return rule
