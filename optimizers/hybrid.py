"""How several optimizers step as one: a matrix rule, and the AdamW for the parameters it does not take."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, overload

import torch
from torch.optim import Optimizer

from htbench.optimizers.base import evaluate, load_checked
from htbench.optimizers.groups import Group

# Which part a group of parameters goes to, piece by piece; the part is made when its first piece comes.
Divide = Callable[[Group], list[tuple["partial[Optimizer]", Group]]]

_MISSING = object()


def _is_made_by(part: Optimizer, make: partial[Optimizer], piece: Group) -> bool:
    """Whether a part is of the class, with the same settings where the piece has none of its own."""
    common = {name: value for name, value in make.keywords.items() if name not in piece}
    known = part.defaults
    return type(part) is make.func and all(known.get(name, _MISSING) == x for name, x in common.items())


class Hybrid(Optimizer):
    """Several optimizers over disjoint parameters, used and saved as one.

    `param_groups` are the group dicts of the parts and `state` is one mapping that all parts share, so that
    schedules, `state_dict` and `load_state_dict` work as with any other `torch.optim.Optimizer`.

    Args:
        parts: the optimizers, stepped in this order.
        groups: more group dicts, which `divide` gives to the parts, as it does later in `add_param_group`.
        divide: see `Divide`; None if there will be no other groups.

    Raises:
        ValueError: a parameter is in two groups, or there is none.
    """

    def __init__(self, *parts: Optimizer, groups: Iterable[Group] = (), divide: Divide | None = None) -> None:
        self.parts, self.divide = parts, divide
        self.owners: list[int] = []  # for each of param_groups the number of its part
        super().__init__([*(group for part in parts for group in part.param_groups), *groups], {})
        self._share()

    def _share(self) -> None:
        for number, part in enumerate(self.parts):
            part.state = self.state
            owned = zip(self.param_groups, self.owners, strict=True)
            part.param_groups = [group for group, owner in owned if owner == number]

    def __getstate__(self) -> dict[str, Any]:
        own = {"parts": self.parts, "divide": self.divide, "owners": self.owners}
        return {**super().__getstate__(), **own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # load_state_dict ends here with new group dicts and a new state, which the parts must share again.
        super().__setstate__(state)
        self._share()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict` returned, every tensor in the precision that it was saved in.

        Raises:
            ValueError: other rules wrote it; the sentence names all.
        """
        parts = [self.parts[owner] for owner in self.owners]
        load_checked(self, super().load_state_dict, state_dict, parts)

    def add_param_group(self, param_group: Group) -> None:
        """Give the parameters of another group to the parts, as `divide` says; all of it or nothing.

        Raises:
            ValueError: a hyperparameter or a parameter is refused, or there is no `divide`.
        """
        for number, part in enumerate(self.parts):
            if any(param_group is group for group in part.param_groups):  # at construction
                return self._take(param_group, number)
        if self.divide is None:
            raise ValueError("a Hybrid cannot take another parameter group: build a new one")
        parts, owners = self.parts, list(self.owners)
        before = [(one, list(one.param_groups)) for one in (self, *parts)]
        try:
            for make, piece in self.divide(param_group):
                self._take(piece, self._give(make, piece))
        except (TypeError, ValueError):
            self.parts, self.owners = parts, owners
            for one, groups in before:
                one.param_groups[:] = groups
            raise

    def _take(self, group: Group, owner: int) -> None:
        super().add_param_group(group)
        self.owners.append(owner)

    def _give(self, make: partial[Optimizer], piece: Group) -> int:
        """Add a piece to the part of its kind, which is made if there is none, and return its number."""
        for number, part in enumerate(self.parts):
            if _is_made_by(part, make, piece):
                part.add_param_group(piece)
                return number
        part = make([piece])
        part.state = self.state
        self.parts = (*self.parts, part)
        return len(self.parts) - 1

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
