"""The optimizers of several models of one kind, stepped together: each operation of a rule for all of them.

Rates and decays are each optimizer's own; all other hyperparameters must be the same for a rule to be shared.
On a CPU the numbers are those of the optimizers alone.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from htbench.optimizers.base import UpdateRule, divide_direction, move
from htbench.optimizers.cost import separable
from htbench.optimizers.hybrid import Hybrid
from htbench.optimizers.stacks import divide, gather, scatter
from htbench.optimizers.zoo.spec import STEP

_OWN = ("params", "initial_lr")  # what may differ between groups that step together
_RATES = ("lr", "weight_decay")  # and these, unless a direction depends on them


@torch.no_grad()
def step_together(optimizers: Sequence[Optimizer], *, compare: bool = False) -> bool:
    """Make the step of each optimizer.

    Args:
        optimizers: made alike, for models of one kind whose gradients are there.
        compare: compute each parameter's direction alone, too, and step alone where it differs.

    Returns:
        whether none differed; True without `compare`.
    """
    is_equal = True
    for same in zip(*(one.parts if isinstance(one, Hybrid) else (one,) for one in optimizers), strict=True):
        rules = [part for part in same if isinstance(part, UpdateRule)]
        if len(rules) == len(same) and _can_share(rules):
            for groups in zip(*(rule.param_groups for rule in rules), strict=True):
                is_equal &= _step_groups(rules, groups, compare)
        else:
            _step_equal(same)
    return is_equal


def _step_equal(parts: Sequence[Optimizer]) -> None:
    """Step each optimizer; those of torch's own that have the same settings, rates too, as one."""
    alike: dict[str, list[Optimizer]] = defaultdict(list)
    for number, part in enumerate(parts):
        own = number if isinstance(part, UpdateRule) or not separable(part) else ""
        alike[f"{own} {[_settings(group, _OWN) for group in part.param_groups]}"].append(part)
    for same in alike.values():
        one = same[0]
        if len(same) > 1:
            one = copy.copy(one)
            groups = zip(*(part.param_groups for part in same), strict=True)
            one.param_groups = [
                first | {"params": [W for group in (first, *others) for W in group["params"]]}
                for first, *others in groups
            ]
            one.state = defaultdict(dict, {W: state for part in same for W, state in part.state.items()})
        one.step()


def _can_share(rules: Sequence[UpdateRule]) -> bool:
    """Whether one direction serves all: it has the same settings but for rate and decay."""
    first = rules[0]
    own = _OWN if first.reads_rates else (*_OWN, *_RATES)
    if not first.separable or type(first).update is not UpdateRule.update:
        return False
    return all(
        first.stackable(group)
        and group.keys().isdisjoint(STEP)
        and all(_settings(other.param_groups[i], own) == _settings(group, own) for other in rules)
        for i, group in enumerate(first.param_groups)
    )


def _settings(group: dict[str, Any], own: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name not in own}


def _step_groups(rules: Sequence[UpdateRule], groups: Sequence[dict[str, Any]], compare: bool) -> bool:
    """Step one group of each rule; return whether no direction differed from that of a parameter alone."""
    owners = {W: number for number, group in enumerate(groups) for W in group["params"]}
    list_of: dict[Tensor, list[Tensor]] = {}  # of what is shared: those with which it steps alone
    for lists in zip(*map(UpdateRule.lists, rules, groups), strict=True):
        W = lists[0][0]
        if W.is_cuda or len(lists[0]) > 1 or rules[0].shows_rounding(groups[0]):
            list_of |= {W: params for params in lists for W in params}
        else:
            for rule, params, group in zip(rules, lists, groups, strict=True):
                rule.step_list(params, group)
    states = {W: rules[owners[W]].state[W] for W in list_of}
    directions: dict[int, dict[Tensor, Tensor]] = defaultdict(dict)
    is_equal = True
    for params in divide(list(list_of), states, lambda W: True):
        state = gather([states[W] for W in params])
        D = rules[0].direction(torch.stack([W.grad for W in params]), state, groups[0])  # type: ignore[misc]
        moves = None if D is None else divide_direction(D, params)
        if compare:
            own = list({id(list_of[W]): list_of[W] for W in params}.values())
            numbers = [owners[some[0]] for some in own]
            if not _is_alone(rules[0], own, [groups[i] for i in numbers], states, moves, state):
                is_equal = False
                for some, i in zip(own, numbers, strict=True):
                    rules[i].step_list(some, groups[i])
                continue
        scatter(state, [states[W] for W in params])
        for W, one in zip(params, moves or (), strict=moves is not None):
            directions[owners[W]][W] = one
    for owner, ours in directions.items():
        move(list(ours), list(ours.values()), groups[owner])
    return is_equal


def is_same(A: Tensor, B: Tensor) -> bool:
    """Whether all entries are equal; what is not a number is equal to itself."""
    return torch.equal(A, B) or torch.allclose(A, B, rtol=0, atol=0, equal_nan=True)


def _is_alone(
    rule: UpdateRule,
    lists: Sequence[list[Tensor]],
    groups: Sequence[dict[str, Any]],
    states: dict[Tensor, dict[str, Any]],
    moves: Sequence[Tensor] | None,
    stack: dict[str, Any],
) -> bool:
    """Whether a stack has, bit for bit, the directions and states of the lists that step alone."""
    number = 0
    for params, group in zip(lists, groups, strict=True):
        after = [copy.deepcopy(states[W]) for W in params]
        state = after[0] if len(params) == 1 else gather(after)
        G = params[0].grad if len(params) == 1 else torch.stack([W.grad for W in params])  # type: ignore[misc]
        D = rule.direction(G, state, group)  # type: ignore[arg-type]
        if len(params) > 1:
            scatter(state, after)
        alone = [] if D is None else divide_direction(D, params)
        stacked = [] if moves is None else moves[number : number + len(params)]
        if len(alone) != len(stacked) or not all(map(is_same, alone, stacked)):
            return False
        if not all(_has_part(stack, one, number + i) for i, one in enumerate(after)):
            return False
        number += len(params)
    return True


def _has_part(stack: dict[str, Any], state: dict[str, Any], number: int) -> bool:
    """Whether the state of a parameter is the part of this number of a stack."""
    return stack.keys() == state.keys() and all(
        _has_part(stack[key], one, number)
        if isinstance(one, dict)
        else is_same(stack[key][number], one)
        if isinstance(one, Tensor)
        else stack[key] == one
        for key, one in state.items()
    )
