"""Parameters of one shape that step as one stack: an operation for all of them in place of one for each.

A small matrix keeps a processor busy for less time than PyTorch needs to start an operation. A GPU waits for
these starts in every step of a model with many small matrices.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

State: TypeAlias = "dict[str, Any]"

# Entries of the largest tensor of a stack, of the gradient or the state. In float32 it has 64 MiB, as has
# each copy of it. A matrix of this size keeps a GPU busy alone.
MOST_ENTRIES = 2**24


class Stack(dict[str, Any]):
    """The states of several parameters: every tensor has them along its first dimension, also in a dict."""


def own_dims(x: Tensor, state: Mapping[str, Any]) -> tuple[int, ...]:
    """The dimensions of x that belong to one parameter: all, or all but the first if `state` is a `Stack`."""
    return tuple(range(isinstance(state, Stack), x.ndim))


def norm(x: Tensor, state: Mapping[str, Any]) -> Tensor:
    """The Frobenius norm of each parameter, with as many dimensions as x."""
    found: Tensor = torch.linalg.vector_norm(x, dim=own_dims(x, state), keepdim=True)
    return found


def parts(x: Tensor, state: Mapping[str, Any]) -> list[Tensor]:
    """The parts of x that belong to one parameter each."""
    return list(x.unbind()) if isinstance(state, Stack) else [x]


def divide(
    params: Sequence[Tensor], states: Mapping[Tensor, State], together: Callable[[Tensor], bool]
) -> Iterator[list[Tensor]]:
    """Lists of parameters that step as one: of one kind, with the same counters.

    Args:
        params: parameters with gradients.
        states: of each parameter.
        together: whether a parameter may be in a list with others.
    """
    alike: dict[Hashable, list[Tensor]] = defaultdict(list)
    for p in params:
        if together(p):
            alike[p.shape, p.dtype, p.device, _layout(states[p])].append(p)
        else:
            yield [p]
    for found in alike.values():
        size = max(1, MOST_ENTRIES // max(1, found[0].numel(), *_entries(states[found[0]])))
        yield from (found[i : i + size] for i in range(0, len(found), size))


def _layout(state: State) -> Hashable:
    """What the states of one stack have in common: the kinds of their tensors, the values of the rest."""
    return *state, *map(_kind, state.values())


def _kind(x: Any) -> Hashable:
    if isinstance(x, dict):
        return _layout(x)
    return (x.shape, x.dtype) if isinstance(x, Tensor) else x


def _entries(state: State) -> Iterator[int]:
    for x in state.values():
        if isinstance(x, Tensor):
            yield x.numel()
        elif isinstance(x, dict):
            yield from _entries(x)


def gather(states: Sequence[State]) -> Stack:
    """The stack of some states with one layout."""
    return Stack({key: _together([one[key] for one in states]) for key in states[0]})


def _together(values: list[Any]) -> Any:
    first = values[0]
    if isinstance(first, dict):
        return gather(values)
    return torch.stack(values) if isinstance(first, Tensor) else first


def scatter(stack: State, states: Sequence[State]) -> None:
    """Give every parameter its part of the stack, in place where it has such a tensor."""
    for key, value in stack.items():
        if isinstance(value, dict):
            scatter(value, [state.setdefault(key, {}) for state in states])
        elif not isinstance(value, Tensor):
            for state in states:
                state[key] = value
        elif key in states[0]:
            # Parts whose columns lie one after the other, as those of a QR, would be copied by a kernel each.
            torch._foreach_copy_([state[key] for state in states], value.contiguous().unbind())
        else:
            for state, part in zip(states, value.contiguous().unbind(), strict=True):
                state[key] = part.clone()  # a view would keep the whole stack alive, and save it
