"""The owner-stepped optimizer: each process steps some of the parameters and keeps the state of those only.

Every process has the whole optimizer with all its groups, so that schedules and the layout of its state_dict
are those of one process. Before a step it drops the gradients of parameters that others own, which every
optimizer then skips. Afterwards the owners broadcast the new values.

A step costs what its dearest process costs, and a singular value decomposition is not proportional to the
number of entries. So the main process measures what a step of each kind of parameter takes and deals the
parameters out, the dearest first, each to the process with the least so far (Graham, "Bounds on
multiprocessing timing anomalies", 1969). Formulas would have to be kept for every rule and machine, and there
are none for the rules of users. Two measurements differ a little, but the numbers of a run do not depend on
who steps what.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW, Optimizer

from harness.parallel.group import Group, buckets


class Shards:
    """An optimizer whose parameters are divided among the processes of a run.

    The constructor, `step` and `state_dict` are called by all processes together.

    Args:
        optimizer: new, without state, the same in all processes. If it is not `separable`, or the process is
            alone, every process steps every parameter.
        group: the processes of the run.
        divide: False if every process is to step every parameter.

    Attributes:
        owners: for each parameter, in the order of `optimizer.param_groups`, the process that steps it; None
            if every process does.
    """

    def __init__(self, optimizer: Optimizer, group: Group, *, divide: bool = True) -> None:
        self.optimizer, self.group = optimizer, group
        self.params: list[Tensor] = [p for one in optimizer.param_groups for p in one["params"]]
        self.owners: list[int] | None = None
        self._foreign: set[Tensor] = set()
        if divide and group.size > 1 and separable(optimizer):
            costs = seconds_of_a_step(optimizer) if group.is_main else []
            self.owners = group.broadcast(deal_out(costs, group.size))
            owned = zip(self.params, self.owners, strict=True)
            self._foreign = {p for p, owner in owned if owner != group.rank}
        for p in self._foreign:
            optimizer.state.pop(p, None)  # some classes make it in their constructor

    def drop_gradients(self) -> None:
        """Drop the gradients of the parameters that other processes own."""
        for p in self._foreign:
            p.grad = None

    def step(self) -> None:
        """Step every parameter that has a gradient. Every process must have all of them; some are dropped."""
        moving = [p.grad is not None for p in self.params]
        self.drop_gradients()
        self.optimizer.step()
        if self.owners is not None:
            self._broadcast(moving, self.owners)

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's state_dict as a single process has it, in the main process; others get their part.

        The state of one parameter at a time goes to the main process's CPU memory.
        """
        whole = self.optimizer.state_dict()
        for number, owner in enumerate(self.owners or ()):
            if owner:
                ours = whole["state"].get(number) if self.group.rank == owner else None
                state = self.group.to_main(_on_cpu(ours), owner)
                if state is not None:
                    whole["state"][number] = state
        return whole

    def load_state_dict(self, whole: dict[str, Any]) -> None:
        """Load this process's part of what `state_dict` returned, on whatever number of processes."""
        foreign = {number for number, p in enumerate(self.params) if p in self._foreign}
        state = {name: one for name, one in whole["state"].items() if name not in foreign}
        self.optimizer.load_state_dict({**whole, "state": state})

    def _broadcast(self, moving: Sequence[bool], owners: Sequence[int]) -> None:
        """Give the others the new values of the parameters that this process owns."""
        owned = defaultdict(list)
        for p, moves, owner in zip(self.params, moving, owners, strict=True):
            if moves:
                owned[owner, p.dtype].append(p.detach())
        for (owner, _), params in sorted(owned.items(), key=lambda item: item[0][0]):
            for bucket in buckets(params):
                self.group.broadcast_tensors(bucket, owner)


def separable(optimizer: Optimizer) -> bool:
    """Whether a step of one parameter depends on nothing of the others, and skips those without gradient.

    The rules of the zoo and the classes of torch.optim but LBFGS are so. Any other class may couple its parameters, by
    a norm over all gradients, for example. It counts as separable if it says so by `separable = True`.
    """
    cls = type(optimizer)
    known = getattr(torch.optim, cls.__name__, None) is cls is not torch.optim.LBFGS
    parts = getattr(optimizer, "parts", None)
    return all(map(separable, parts)) if parts else bool(getattr(optimizer, "separable", known))


def deal_out(costs: Sequence[float], size: int) -> list[int]:
    """The owner of each item among `size` processes, so that the largest sum of costs is small."""
    owners, loads = [0] * len(costs), [0.0] * size
    for number in sorted(range(len(costs)), key=lambda number: -costs[number]):
        owners[number] = loads.index(min(loads))
        loads[owners[number]] += costs[number]
    return owners


def seconds_of_a_step(optimizer: Optimizer) -> list[float]:
    """What a step of each parameter takes here, measured once for each group and shape, on a random gradient.

    Nothing changes. A class without `direction` is taken for AdamW: like that it moves memory.
    """
    seconds: dict[tuple[int, torch.Size], float] = {}
    found: dict[Tensor, float] = {}
    cuda = {p.device for group in optimizer.param_groups for p in group["params"] if p.is_cuda}
    with torch.no_grad(), torch.random.fork_rng(cuda):
        for part in getattr(optimizer, "parts", None) or (optimizer,):
            for group in part.param_groups:
                for p in group["params"]:
                    kind = id(group), p.shape
                    if kind not in seconds:
                        seconds[kind] = _seconds(part, group, p)
                    found[p] = seconds[kind]
    return [found[p] for group in optimizer.param_groups for p in group["params"]]


def _seconds(rule: Optimizer, group: dict[str, Any], p: Tensor) -> float:
    """The mean of the second and third step; in the first one libraries load and bases are made."""
    gradient = torch.randn_like(p)
    direction = getattr(rule, "direction", None)
    step: Callable[[], object]
    if direction is None:
        stand_in = torch.zeros_like(p)
        stand_in.grad = gradient
        step = AdamW([stand_in]).step
    else:
        step = partial(direction, gradient, {}, group)
    step()
    began = _now(p)
    for _ in range(2):
        step()
    return (_now(p) - began) / 2


def _now(p: Tensor) -> float:
    if p.is_cuda:
        torch.cuda.synchronize(p.device)
    return time.perf_counter()


def _on_cpu(state: Any) -> Any:
    if isinstance(state, dict):
        return {name: _on_cpu(value) for name, value in state.items()}
    return state.cpu() if isinstance(state, Tensor) else state
