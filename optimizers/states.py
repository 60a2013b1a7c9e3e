"""Which rule wrote the state of an optimizer: a state that another rule wrote is refused.

A group of ours has the name of its rule as `rule_name`, and so its state has. States of version 0.1.0 lack
it, and those of torch's classes: there the settings tell whose a state is.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from htbench.imported import load
from htbench.optimizers.zoo.registry import UNSET, ZOO, OptimizerSpec, Param

State = dict[str, Any]
Group = Mapping[str, Any]

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
    fitting = {spec.name: spec for spec in _rows_of(base) if _fits(spec, group)}
    if fitting:
        stated = next((name for name in (group.get("rule_name"), row) if name in fitting), None)
        return stated or max(fitting.values(), key=lambda spec: len(spec.fixed)).name
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


def check_state(parts: Sequence[Optimizer], groups: Sequence[Group], state: State) -> State:
    """A state that the rules of an optimizer wrote, with the words that older versions did not write.

    Args:
        parts: for each group the optimizer that has it.
        groups: of the optimizer.
        state: what `load_state_dict` got.

    Raises:
        ValueError: another rule wrote it.
    """
    saved_groups = state["param_groups"]
    rules = [rule_of(part, group) for part, group in zip(parts, groups, strict=True)]
    if len(saved_groups) != len(groups):  # torch refuses it, but does not say why
        writers = [_writer(saved, tensors_of(state, saved)) for saved in saved_groups]
        if set(writers) != set(rules):
            raise ValueError(_refusal(writers, rules))
        return state
    triples = list(zip(parts, groups, saved_groups, strict=True))
    fitting = [_is_of(part, group, saved, tensors_of(state, saved)) for part, group, saved in triples]
    if not all(fitting):
        writers = [
            rule if fits else _writer(saved, tensors_of(state, saved))
            for rule, fits, saved in zip(rules, fitting, saved_groups, strict=True)
        ]
        raise ValueError(_refusal(writers, rules))
    filled = [_list_missing(part, group, saved) | saved for part, group, saved in triples]
    return {**state, "param_groups": filled}


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
    return check_state([optimizer] * len(optimizer.param_groups), optimizer.param_groups, state)


def _refusal(writers: Sequence[str], readers: Sequence[str]) -> str:
    """The sentence for a state of other rules."""
    both = [list(dict.fromkeys(names)) for names in (writers, readers)]
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
    is_of_torch_itself = getattr(torch.optim, cls.__name__, None) is cls
    return _TORCH + cls.__name__ if is_of_torch_itself else cls.__qualname__


def _is_of(part: Optimizer, group: Group, saved: Group, tensors: set[str]) -> bool:
    """Whether the rule of a group wrote another one; without the word, whether nothing speaks against it."""
    rule = rule_of(part, group)
    if "rule_name" in saved:
        return bool(saved["rule_name"] == rule)
    if rule in ZOO:
        unknown = {key: value for key, value in saved.items() if key not in group}
        likely = not is_of_torch(unknown, tensors) and ZOO[rule].target in _likely(saved)
        return likely and _fits(ZOO[rule], saved)
    if rule.startswith(_TORCH):
        decoupled = part.defaults.get("decoupled_weight_decay")
        same = saved.get("decoupled_weight_decay", decoupled) == decoupled  # Adam and AdamW
        return same and part.defaults.keys() - FLAGS <= saved.keys()
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
    settings = {}
    for cls in vars(torch.optim).values():
        if isinstance(cls, type) and issubclass(cls, Optimizer) and cls is not Optimizer:
            rule: Any = cls
            settings[_outside(cls)] = rule([torch.zeros(1, 1, requires_grad=True)]).defaults
    return settings


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
