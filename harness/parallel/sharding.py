"""The owner-stepped optimizer: each process steps some of the parameters and keeps the state of those only.

Every process has the whole optimizer with all its groups, so that schedules and the layout of its state_dict
are those of one process. Before a step it drops the gradients of parameters that others own, which every
optimizer then skips. Afterwards the owners broadcast the new values.

A step takes as long as its slowest process. So the main process finds out what a step of each parameter costs
and deals the parameters out, the dearest first, each to the process with the least so far (Graham, "Bounds on
multiprocessing timing anomalies", 1969). The numbers of a run do not depend on who steps what.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from htbench.harness.parallel.group import Group, buckets

Costs = Callable[[Optimizer], Sequence[float]]


class Shards:
    """An optimizer whose parameters are divided among the processes of a run.

    The constructor, `step` and `state_dict` are called by all processes together.

    Args:
        optimizer: new, without state, the same in all processes.
        group: the processes of the run.
        costs: what a step of each parameter costs, in any unit and in the order of `optimizer.param_groups`;
            the main process asks for it. None if every process is to step every parameter.

    Attributes:
        owners: for each parameter, in the order of `optimizer.param_groups`, the process that steps it; None
            if every process does.
    """

    def __init__(self, optimizer: Optimizer, group: Group, costs: Costs | None) -> None:
        self.optimizer, self.group = optimizer, group
        self.params: list[Tensor] = [p for group in optimizer.param_groups for p in group["params"]]
        self.owners: list[int] | None = None
        self._foreign: set[Tensor] = set()
        if costs is not None and group.size > 1:
            self.owners = group.broadcast(deal_out(costs(optimizer) if group.is_main else [], group.size))
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
        state = {number: own for number, own in whole["state"].items() if number not in foreign}
        rates = [group["lr"] for group in self.optimizer.param_groups]
        self.optimizer.load_state_dict({**whole, "state": state})
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            if isinstance(rate, Tensor):  # a compiled step may hold it, and it is on its device
                group["lr"] = rate.fill_(group["lr"])

    def share(self) -> None:
        """Give all processes the values of the parameters that each one owns."""
        if self.owners is not None:
            self._broadcast([True] * len(self.params), self.owners)

    def _broadcast(self, moving: Sequence[bool], owners: Sequence[int]) -> None:
        """Give the others the new values of the parameters that this process owns."""
        owned = defaultdict(list)
        for p, moves, owner in zip(self.params, moving, owners, strict=True):
            if moves:
                owned[owner, p.dtype].append(p.detach())
        for (owner, _), params in sorted(owned.items(), key=lambda item: item[0][0]):
            for bucket in buckets(params):
                self.group.broadcast_tensors(bucket, owner)


def deal_out(costs: Sequence[float], size: int) -> list[int]:
    """The owner of each item among `size` processes, so that the largest sum of costs is small."""
    owners, loads = [0] * len(costs), [0.0] * size
    for number in sorted(range(len(costs)), key=lambda number: -costs[number]):
        owners[number] = loads.index(min(loads))
        loads[owners[number]] += costs[number]
    return owners


def _on_cpu(state: Any) -> Any:
    if isinstance(state, dict):
        return {name: _on_cpu(value) for name, value in state.items()}
    return state.cpu() if isinstance(state, Tensor) else state
