"""What `build` may be given: a model, parameters, (name, parameter) pairs, or group dicts of them."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from torch import Tensor, nn

Group = dict[str, Any]
Entry: TypeAlias = "tuple[str | None, nn.Parameter]"  # a parameter and its name, if one was given
Given: TypeAlias = "nn.Parameter | tuple[str, nn.Parameter] | Mapping[str, Any]"
Model: TypeAlias = "nn.Module | Iterable[Given]"


def entries(params: Iterable[Any]) -> list[Entry]:
    """Parameters with their names, if they have some, each parameter once.

    Raises:
        ValueError: something is neither a parameter nor a (name, parameter) pair.
    """
    first: dict[Any, str | None] = {}
    for given in [params] if isinstance(params, Tensor) else params:
        name, p = given if isinstance(given, tuple) and len(given) == 2 else (None, given)
        if not isinstance(p, Tensor):
            raise ValueError(f"parameters must be tensors or (name, tensor) pairs, got {type(p).__name__}")
        first.setdefault(p, name)
    return [(name, p) for p, name in first.items()]


def params_of(found: list[Entry]) -> list[Any]:
    """The inverse of `entries`: what `torch.optim.Optimizer` takes as `params`."""
    return [p if name is None else (name, p) for name, p in found]


def read_groups(given: Model) -> list[Group]:
    """Everything that `build` may be given, as group dicts.

    Parameters of a model or of pairs that are frozen or have no entries are left out. Those of a list or a
    group stay, as in torch.optim: whoever lists them may want to train them later.

    Raises:
        ValueError: it is nothing of the kind.
    """
    if isinstance(given, nn.Module):
        return [{"params": [p for p in given.parameters() if _is_trained(p)]}]
    if isinstance(given, (Tensor, Mapping, str)) or not isinstance(given, Iterable):
        raise ValueError(
            "build takes a model, a list of parameters or of (name, parameter) pairs, or a list of group "
            f"dicts, got one {type(given).__name__}"
        )
    _refuse_sets(given)
    items = list(given)
    if any(isinstance(item, Mapping) for item in items):
        return [read_group(item) for item in items]
    found = [(name, p) for name, p in entries(items) if name is None or _is_trained(p)]
    return [{"params": params_of(found)}]


def _is_trained(p: Tensor) -> bool:
    return p.requires_grad and p.numel() > 0


def read_group(item: object) -> Group:
    """A copy of a group dict with its parameters as a list, each once.

    Raises:
        ValueError: it is no group dict, or its parameters are none.
    """
    if not isinstance(item, Mapping) or "params" not in item:
        raise ValueError(f"a parameter group must be a dict with 'params', got {item!r:.60}")
    params = item["params"]
    _refuse_sets(params)
    if "param_names" in item:  # a group of another optimizer
        params = zip(item["param_names"], params, strict=True)
    kept = {key: value for key, value in item.items() if key not in ("param_names", "rule_name")}
    return {**kept, "params": params_of(entries(params))}


def _refuse_sets(params: object) -> None:
    if isinstance(params, (set, frozenset)):
        raise ValueError("parameters must be in an order that stays, got a set: pass a list")
