"""What an update is made of, for whoever watches a step from outside. Without a watcher nothing is kept.

The spectra of updates are those of the matrix O that a map of the singular values gives, before the factor s,
the learning rate and the weight decay. It exists within one call only, which notes it here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from htbench.optimizers.stacks import parts


@dataclass(frozen=True)
class Update:
    """The update of one parameter in one step.

    Attributes:
        result: O of a rule with a map of the singular values; of other rules what lr multiplies. In the shape
            of the parameter, or of its matrix view. It may change after the call.
        momentum: what the map was applied to, in the same shape; None for rules without a map.
        blocks: so many equal blocks of rows were mapped each on its own.
    """

    result: Tensor
    momentum: Tensor | None = None
    blocks: int = 1


See = Callable[[Tensor, Update], None]

_see: See | None = None
_params: Sequence[Tensor] = ()  # that step now and have noted nothing yet


@contextmanager
def watching(see: See) -> Iterator[None]:
    """Call `see(parameter, its update)` for what steps meanwhile, once for each parameter and step.

    A rule whose kernel makes the whole step at once (fused AdamW, Cautious, MARS) notes nothing.
    """
    global _see
    _see = see
    try:
        yield
    finally:
        _see = None


def begin(params: Sequence[Tensor]) -> None:
    """These parameters step now, as one."""
    global _params
    _params = params if _see is not None else ()


def note(result: Tensor, state: Mapping[str, Any], momentum: Tensor | None = None, blocks: int = 1) -> None:
    """Show the update of the parameters that step now. Of several notes the first one counts.

    Args:
        result, momentum, blocks: as in `Update`, maybe of several parameters along the first dimension.
        state: tells whether it is so, as in `UpdateRule.direction`.
    """
    global _params
    if _see is None or not _params:
        return
    params, _params = _params, ()
    inputs = [None] * len(params) if momentum is None else parts(momentum, state)
    for W, one, M in zip(params, parts(result, state), inputs, strict=True):
        _see(W, Update(one, M, blocks))
