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

from optimizers import outside
from optimizers.base import evaluate, restore_dtypes
from optimizers.registry import ROUTING, OptimizerSpec, resolve_value

Model: TypeAlias = "nn.Module | Iterable[tuple[str, nn.Parameter]]"
Predicate: TypeAlias = Callable[[str, nn.Parameter], bool]
Routing: TypeAlias = "str | Predicate"


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

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict` returned, every tensor in the precision that it was saved in."""
        super().load_state_dict(state_dict)
        restore_dtypes(self, state_dict)

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


def split_parameters(
    model: Model, routing: Routing, released: str = "matrix"
) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Divide the trainable parameters into those of the rule and the rest; a tied weight counts once.

    Args:
        model: a module, or (name, parameter) pairs.
        routing: "matrix" sends every parameter with two or more dimensions to the rule; "hidden" leaves out
            embeddings (by module type) and the output layer (what the model's method `get_output_embeddings`
            returns, if it has one); "released" does as the optimizer's authors did; or a predicate
            (name, parameter) -> bool.
        released: what "released" stands for, a key of `ROUTES`.

    Raises:
        ValueError: unknown routing, parameters without names, or a routing that goes by the modules without
            the module.
    """
    takes = routing if callable(routing) else _takes(model, routing, released)
    chosen: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    for name, p in _trainable(model):
        (chosen if takes(name, p) else rest).append(p)
    return chosen, rest


def _takes(model: Model, routing: str, released: str) -> Predicate:
    resolve_value(ROUTING, "routing", routing)
    word = released if routing == "released" else routing
    if word in _BY_MODULE and not isinstance(model, nn.Module):
        raise ValueError(
            f"routing {routing!r} must see the modules: pass the model, or a predicate as routing"
        )
    return ROUTES[word](model)


def _matrix(model: Model) -> Predicate:
    return lambda name, p: p.ndim >= 2


def _all(name: str, p: nn.Parameter) -> bool:
    return True


def _two_dimensional(model: Model) -> Predicate:
    return lambda name, p: p.ndim == 2


def _hidden(model: Model) -> Predicate:
    ends = _embeddings(model) | _output(model)
    return lambda name, p: p.ndim >= 2 and p not in ends


def _not_output(model: Model) -> Predicate:
    output = _output(model)
    return lambda name, p: p.ndim >= 2 and p not in output


def _hidden_linear(model: Model) -> Predicate:
    output = _output(model)
    linear = {m.weight for m in _modules(model) if isinstance(m, nn.Linear)}
    return lambda name, p: p in linear and p not in output


# What a rule takes. The first two are words for users (`ROUTING`), the others are what some authors did.
ROUTES: dict[str, Callable[[Model], Predicate]] = {
    "matrix": _matrix,
    "hidden": _hidden,
    "all": lambda model: _all,
    "two_dimensional": _two_dimensional,  # MARS: a kernel goes to AdamW
    "not_output": _not_output,  # AdaMuon
    "hidden_linear": _hidden_linear,  # GaLore
}
_BY_MODULE = {"hidden", "not_output", "hidden_linear"}


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
    if row.outside:
        decay = {"weight_decay": weight_decay} if row.has_weight_decay else {}
        return outside.build(row, [p for _, p in _trainable(model)], {"lr": lr, **decay, **hyper})
    hyper = {**row.fixed, **hyper}
    aux = {key: hyper.pop(key) for key in row.params if key.startswith("aux_")}
    if not row.routed or hyper.pop("optimize_1d", False):
        routing = _all
    chosen, rest = split_parameters(model, routing, row.released)
    groups: list[dict[str, Any]] = [{"params": chosen}]
    if hyper.pop("no_decay_1d", False):
        groups = _without_decay_of_vectors(chosen)
    if hyper.pop("fused", "whole") == "split":
        groups = _split_fused(model, chosen)
    if row.rest:
        groups.append({"params": rest, **row.rest})
    groups = [group for group in groups if group["params"]]
    parts = [_load(row.target)(groups, lr=lr, weight_decay=weight_decay, **hyper)] if groups else []
    if row.has_aux and rest:
        parts.append(_aux(rest, aux_lr, weight_decay, aux))
    optimizer = parts[0] if len(parts) == 1 else Hybrid(*parts)
    covered = [p for group in optimizer.param_groups for p in group["params"]]
    assert len(covered) == len(set(covered)) and set(covered) == {p for _, p in _trainable(model)}
    return optimizer


def _aux(params: list[nn.Parameter], lr: float, weight_decay: float, aux: dict[str, Any]) -> AdamW:
    groups = [{"params": params}]
    if aux.get("aux_no_decay_1d"):
        groups = _without_decay_of_vectors(params)
    if aux["aux_weight_decay"] is not None:
        weight_decay = aux["aux_weight_decay"]
    return AdamW(groups, lr, betas=aux["aux_betas"], eps=aux["aux_eps"], weight_decay=weight_decay)


def _trainable(model: Model) -> list[tuple[str, nn.Parameter]]:
    pairs = list(model.named_parameters() if isinstance(model, nn.Module) else model)
    if any(isinstance(pair, Tensor) for pair in pairs):
        raise ValueError("parameters need names here: pass the model or model.named_parameters()")
    first: dict[nn.Parameter, str] = {}
    for name, p in pairs:
        if p.requires_grad:
            first.setdefault(p, name)
    return [(name, p) for p, name in first.items()]


def _modules(model: Model) -> Iterable[nn.Module]:
    return model.modules() if isinstance(model, nn.Module) else ()


def _embeddings(model: Model) -> set[nn.Parameter]:
    modules = [m for m in _modules(model) if isinstance(m, (nn.Embedding, nn.EmbeddingBag))]
    return {p for m in modules for p in m.parameters()}


def _output(model: Model) -> set[nn.Parameter]:
    """Parameters of the layer that makes the logits, which a model names by `get_output_embeddings`."""
    find: Callable[[], nn.Module | None] | None = getattr(model, "get_output_embeddings", None)
    output = find() if find is not None else None
    return set(output.parameters()) if output is not None else set()


def _split_fused(model: Model, params: list[nn.Parameter]) -> list[dict[str, Any]]:
    """Groups by the number of projections that a matrix holds, which a model tells by `fused_projections`."""
    find: Callable[[], dict[nn.Parameter, int]] | None = getattr(model, "fused_projections", None)
    blocks = find() if find is not None else {}
    sizes = sorted({blocks.get(p, 1) for p in params})
    return [{"params": [p for p in params if blocks.get(p, 1) == n], "blocks": n} for n in sizes]


def _without_decay_of_vectors(params: list[nn.Parameter]) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = [
        {"params": [p for p in params if p.ndim >= 2]},
        {"params": [p for p in params if p.ndim < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def _load(target: str) -> Callable[..., Optimizer]:
    module, name = target.split(":")
    rule: Callable[..., Optimizer] = getattr(importlib.import_module(module), name)
    return rule
