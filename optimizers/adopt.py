"""Training goes on from a checkpoint of torch's Muon, Adam, AdamW or SGD where the rule is the same."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from torch import Tensor
from torch.optim import Optimizer

from htbench.optimizers.states import (
    FLAGS,
    Group,
    State,
    is_of_torch,
    name_of_torch,
    rule_of,
    settings_of_torch,
    tensors_of,
)
from htbench.optimizers.zoo.spectral import MUON

# What torch's Muon always does, in our words, and what of ours it never does.
_ALWAYS: Final = {
    "spectral": "newton_schulz",
    "ema": True,
    "ns_dtype": "bfloat16",
    "ns_coefficients": "jordan",
}
_NEVER: Final = ("equalize", "normalize", "interval", "map_first", "blocks")
_SCALE_RULES: Final = {None: "shape", "original": "shape", "match_rms_adamw": "rms0.2"}
# What torch's schedulers and averages write into a group. Other words that its class has not are refused.
_OF_SCHEDULERS: Final = {"initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum", "swa_lr"}
_LIKE_THE_PARAMETER: Final = ("momentum", "momentum_buffer", "exp_avg")


def adopt_state(optimizer: Optimizer, *state_dicts: Mapping[str, Any]) -> None:
    """Load what torch's own optimizers have saved: the next step is the one that they would have made.

    `torch.optim.Muon` goes into "muon"; `AdamW`, `Adam` and `SGD` into "adamw", "adam" and "sgdm", AdamW also
    into the auxiliary AdamW; Adam into AdamW and back where there is no weight decay. Their steps agree bit
    for bit, those of Muon up to the rounding of bfloat16 in Newton-Schulz. As in `load_state_dict`, the
    settings of a group come from the state.

    Args:
        optimizer: of `build`, or of a class of ours. Its groups and their parameters are in the order in
            which the states have them.
        state_dicts: what `state_dict` of torch's optimizers returned; for "muon" often two, those of Muon and
            of AdamW. States of our own classes are loaded as they are.

    Raises:
        ValueError: the rule is another one, or a state does not fit the parameters. Nothing has been loaded.
    """
    state = _join(state_dicts)
    groups: list[State] = optimizer.param_groups
    saved_counts, counts = map(_count_parameters, (state["param_groups"], groups))
    if saved_counts != counts:
        raise ValueError(
            f"the states have groups of {saved_counts} parameters, the optimizer has groups of {counts}: "
            "give the states of all optimizers that wrote them, in the order of param_groups"
        )
    parts = getattr(optimizer, "parts", (optimizer,))
    are_of_torch = not any("rule_name" in group for group in state["param_groups"])
    rules = {id(group): rule_of(part, group) for part in parts for group in part.param_groups}
    for group, saved in zip(groups, state["param_groups"], strict=True):
        rule, numbers = rules[id(group)], saved["params"]
        if are_of_torch and is_of_torch(saved, tensors_of(state, saved)):
            if _is_muon(saved, rule):
                settings = _of_muon(group, saved)
                saved.clear()
                saved.update(settings, params=numbers)
            else:
                saved |= _of_same_class(saved, rule)
        for number, W in zip(numbers, group["params"], strict=True):
            tensors = state["state"].get(number, {})
            if rule == "muon" and "momentum_buffer" in tensors:
                tensors = state["state"][number] = {"momentum": tensors["momentum_buffer"]}
            _refuse_another_shape(number, tensors, W)
    optimizer.load_state_dict(state)


def _count_parameters(groups: Sequence[Group]) -> str:
    return " and ".join(str(len(group["params"])) for group in groups)


def _join(state_dicts: tuple[Mapping[str, Any], ...]) -> State:
    """Several states as one copy of them, in which each parameter has a number of its own."""
    whole: State = {"state": {}, "param_groups": []}
    count = 0
    for state_dict in state_dicts:
        numbers = [number for group in state_dict["param_groups"] for number in group["params"]]
        new = {number: count + place for place, number in enumerate(numbers)}
        count += len(numbers)
        whole["param_groups"] += [
            {**group, "params": [new[number] for number in group["params"]]}
            for group in state_dict["param_groups"]
        ]
        whole["state"] |= {new[number]: own for number, own in state_dict["state"].items() if number in new}
    return whole


def _is_muon(saved: Group, rule: str) -> bool:
    """Whether torch's Muon wrote a group that our Muon takes.

    Raises:
        ValueError: the group has a setting that the class of torch has not: it may be of another package.
    """
    writer = name_of_torch(saved)
    known = {"params", "param_names", *_OF_SCHEDULERS, *FLAGS, *settings_of_torch()[writer]}
    if others := saved.keys() - known:
        raise ValueError(
            f"the state has a setting {min(others)!r}, which {writer} has not: leave it out if no "
            "step reads it"
        )
    return rule == "muon" and writer == "torch.optim.Muon"


def _of_muon(group: Group, saved: Group) -> State:
    """The settings of our Muon for those of torch's.

    Raises:
        ValueError: one of them has no counterpart.
    """
    fixed = settings_of_torch()["torch.optim.Muon"]
    for key in ("ns_coefficients", "eps"):
        value = tuple(saved[key]) if isinstance(saved[key], list) else saved[key]
        if value != fixed[key]:
            raise ValueError(
                f"muon knows torch.optim.Muon with {key}={fixed[key]} only, not with {saved[key]}"
            )
    never = {key: MUON[key].default for key in _NEVER} | {"decay": "decoupled"}
    for key, default in never.items():
        if group.get(key, default) != default:
            raise ValueError(f"torch.optim.Muon has nothing like {key}={group[key]}: build muon without it")
    same = {key: saved[key] for key in ("lr", "weight_decay", "momentum", "nesterov", "ns_steps")}
    schedule = {key: saved[key] for key in _OF_SCHEDULERS & saved.keys()}
    own = {key: value for key, value in group.items() if key != "params"}
    rest = {"lr": float(saved["lr"]), "scale_rule": _SCALE_RULES[saved["adjust_lr_fn"]]}
    return own | same | schedule | _ALWAYS | rest


def _of_same_class(saved: Group, rule: str) -> State:
    """What changes in a group that a class of torch loads which another one may have written.

    Raises:
        ValueError: the two have other rules.
    """
    writer = name_of_torch(saved)
    pair = {"torch.optim.Adam", "torch.optim.AdamW"}
    if {rule, writer} <= pair and "decoupled_weight_decay" not in saved:  # older ones of both save alike
        if rule == "torch.optim.Adam" and saved["weight_decay"]:
            raise ValueError(
                f"this state may be of Adam or of AdamW at weight_decay={saved['weight_decay']:g}: say which "
                "by its decoupled_weight_decay"
            )
        return {"decoupled_weight_decay": rule == "torch.optim.AdamW"}
    if rule == writer:
        return {}
    both = {rule, writer} == pair
    if both and not saved["weight_decay"]:
        return {"decoupled_weight_decay": rule == "torch.optim.AdamW"}
    decay = f" at weight_decay={saved['weight_decay']:g}" if both else ""
    raise ValueError(f"this state was written by {writer}, whose rule is not that of {rule}{decay}")


def _refuse_another_shape(number: int, state: State, W: Tensor) -> None:
    for key in _LIKE_THE_PARAMETER:
        kept = state.get(key)
        if isinstance(kept, Tensor) and kept.shape != W.shape:
            raise ValueError(
                f"the state of parameter {number} has the shape {tuple(kept.shape)}, the parameter "
                f"{tuple(W.shape)}: give the parameters in the order of the state"
            )
