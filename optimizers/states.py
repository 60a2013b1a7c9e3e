"""Which rule wrote the state of an optimizer: a state that another rule wrote is refused.

A group of ours has the name of its rule as `rule_name`, and so its state has. States of version 0.1.0 lack
it, and those of torch's classes: there the settings tell whose a state is.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch.optim import Optimizer

from htbench.imported import load
from htbench.optimizers.zoo.registry import UNSET, ZOO, OptimizerSpec, Param

State: TypeAlias = dict[str, Any]
Group: TypeAlias = Mapping[str, Any]

# How a step is computed, which no settings of ours say; older versions of torch have fewer of them.
FLAGS = {"foreach", "maximize", "capturable", "differentiable", "fused", "decoupled_weight_decay"}
_TORCH = "torch.optim."
_RULE = {"update", "direction", "table", "conclude"}  # what makes a rule another one
# What classes of torch and of other packages call the tensors that they keep. Ours call none so.
_NOT_OURS = {"exp_avg", "exp_avg_sq", "momentum_buffer", "square_avg", "sum", "step_size", "prev"}


def name_rule(cls: type, group: Group) -> str:
    """The rule of a group: a row of the zoo, or the name of a class that has no row.

    Args:
        cls: of the optimizer that has the group.
        group: with its settings. A `rule_name` that it has stays if it can be true, as one class has several
            rows.
    """
    if not hasattr(cls, "table"):
        return _outside(cls)
    row, base = getattr(cls, "row", None), _class_of_rows(cls)
    fitting = [one for one in _rows_of(base) if _fits(one, group)]
    names = {one.name for one in fitting}
    if fitting:
        stated = next((name for name in (group.get("rule_name"), row) if name in names), None)
        return stated or max(fitting, key=lambda one: len(one.fixed)).name
    spectral = group.get("spectral")
    return f"{base.__qualname__} with {spectral}" if spectral else base.__qualname__


def _class_of_rows(cls: type) -> type:
    """The class of the zoo whose rule a class has: a subclass may add to it, but has no update of its own."""
    for base in cls.__mro__:
        if any(_rows_of(base)):
            return base
        if not _RULE.isdisjoint(vars(base)):
            return cls
    return cls


def checked(parts: Sequence[Optimizer], groups: Sequence[Group], state: State) -> State:
    """A state that the rules of an optimizer wrote, with the words that older versions did not write.

    Args:
        parts: for each group the optimizer that has it.
        groups: of the optimizer.
        state: what `load_state_dict` got.

    Raises:
        ValueError: another rule wrote it.
    """
    found = state["param_groups"]
    ours = [rule_of(part, group) for part, group in zip(parts, groups, strict=True)]
    if len(found) != len(groups):  # torch refuses it, but does not say why
        theirs = [_writer(group, tensors_of(state, group)) for group in found]
        if set(theirs) != set(ours):
            raise ValueError(_refusal(theirs, ours))
        return state
    pairs = list(zip(parts, groups, found, strict=True))
    if not all(_is_of(part, group, one, tensors_of(state, one)) for part, group, one in pairs):
        theirs = [
            name if _is_of(part, group, one, tensors_of(state, one)) else _writer(one, tensors_of(state, one))
            for name, (part, group, one) in zip(ours, pairs, strict=True)
        ]
        raise ValueError(_refusal(theirs, ours))
    return {**state, "param_groups": [_list_missing(part, group, one) | one for part, group, one in pairs]}


def _list_missing(part: Optimizer, group: Group, saved: Group) -> State:
    """What a group that an older version saved may lack: words of ours, flags of torch, newer settings."""
    table: Mapping[str, Param] = getattr(part, "table", {})
    settings = {key: param.before for key, param in table.items() if param.before is not UNSET}
    words = {key: group[key] for key in ("rule_name", "peak_lr", *FLAGS) if key in group}
    if "peak_lr" in words and "initial_lr" in saved:
        words["peak_lr"] = saved["initial_lr"]
    return settings | words


def refuse_others(optimizer: Optimizer, state: State) -> State:
    """The hook with which `build` has torch's own classes check a state that they load."""
    return checked([optimizer] * len(optimizer.param_groups), optimizer.param_groups, state)


def _refusal(theirs: Sequence[str], ours: Sequence[str]) -> str:
    """The sentence for a state of other rules."""
    both = [list(dict.fromkeys(names)) for names in (theirs, ours)]
    rules = [[name for name in names if not name.startswith(_TORCH)] or names for names in both]
    writer, reader = map(" and ".join, both if rules[0] == rules[1] else rules)
    adopted = writer.startswith(_TORCH)
    way = "see whether optimizers.adopt_state takes it" if adopted else f"load it into {writer}"
    return (
        f"this state was written by {writer}, and {reader} can't go on from it: {way}, or begin without a "
        "state"
    )


# --- whose a group is ---


def rule_of(part: Optimizer, group: Group) -> str:
    """The name of the rule that steps a group of an optimizer, or of one of its parts."""
    return str(group.get("rule_name")) if "rule_name" in group else name_rule(type(part), group)


def _outside(cls: type) -> str:
    own = getattr(torch.optim, cls.__name__, None) is cls
    return _TORCH + cls.__name__ if own else cls.__qualname__


def _is_of(part: Optimizer, group: Group, found: Group, tensors: set[str]) -> bool:
    """Whether the rule of a group wrote another one; without the word, whether nothing speaks against it."""
    own = rule_of(part, group)
    if "rule_name" in found:
        return bool(found["rule_name"] == own)
    if own in ZOO:
        others = {key: value for key, value in found.items() if key not in group}
        likely = not is_of_torch(others, tensors) and ZOO[own].target in _likely(found)
        return likely and _fits(ZOO[own], found)
    if own.startswith(_TORCH):
        decoupled = part.defaults.get("decoupled_weight_decay")
        same = found.get("decoupled_weight_decay", decoupled) == decoupled  # Adam and AdamW
        return same and part.defaults.keys() - FLAGS <= found.keys()
    return True


def is_of_torch(group: Group, tensors: set[str]) -> bool:
    """Whether a group without the word was not written by a rule of ours, but by one like torch's."""
    return not tensors.isdisjoint(_NOT_OURS) or not group.keys().isdisjoint(FLAGS | {"adjust_lr_fn"})


def tensors_of(state: State, group: Group) -> set[str]:
    """The names of what is kept for the parameters of a group."""
    return {key for number in group["params"] for key in state["state"].get(number, ())}


def _writer(group: Group, tensors: set[str]) -> str:
    """The most likely name of the rule that wrote a group."""
    if "rule_name" in group:
        return str(group["rule_name"])
    if is_of_torch(group, tensors):
        return name_of_torch(group)
    fitting = [row for target in _likely(group) for row in _of_target(target) if _fits(row, group)]
    return max(fitting, key=lambda row: len(row.fixed)).name if fitting else "another class"


def name_of_torch(group: Group) -> str:
    """The class of torch that has the settings of a group, or those nearest to them."""
    decoupled = group.get("decoupled_weight_decay", False)

    def likeness(name: str) -> tuple[int, bool]:
        settings = settings_of_torch()[name]
        return -len(settings.keys() ^ group.keys()), settings.get("decoupled_weight_decay") == decoupled

    return max(settings_of_torch(), key=likeness)


@functools.cache
def settings_of_torch() -> dict[str, dict[str, Any]]:
    """The settings of torch's classes with their defaults, by the name of the class with its module."""
    found = {}
    for cls in vars(torch.optim).values():
        if isinstance(cls, type) and issubclass(cls, Optimizer) and cls is not Optimizer:
            rule: Any = cls
            found[_outside(cls)] = rule([torch.zeros(1, 1, requires_grad=True)]).defaults
    return found


def _likely(group: Group) -> set[str]:
    """The classes of rows whose settings are most like those of a group without the word."""
    scores: dict[str, int] = {}
    for target in {row.target for row in ZOO.values() if row.target.startswith("htbench.optimizers.")}:
        table: Mapping[str, Param] = load(target).table  # type: ignore[attr-defined]
        missing = [key for key in table.keys() - group.keys() if table[key].before is UNSET]
        scores[target] = len(table.keys() & group.keys()) - 2 * len(missing)
    return {target for target, score in scores.items() if score == max(scores.values())}


def _of_target(target: str) -> Iterator[OptimizerSpec]:
    return (row for row in ZOO.values() if row.target == target)


def _rows_of(cls: type) -> Iterator[OptimizerSpec]:
    return _of_target(f"{cls.__module__}:{cls.__qualname__}")


def _fits(row: OptimizerSpec, group: Group) -> bool:
    """Whether the settings of a group are some of a row: its map, and what it pins."""
    param = row.params.get("spectral")
    chosen = param is None or group.get("spectral") in (param.choices or ())
    return chosen and all(group.get(key, value) == value for key, value in row.fixed.items())
