"""The two simulations that tell what a run costs, once for each kind of run in a process."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from typing import TYPE_CHECKING

from harness.config import RunConfig
from harness.cost.shapes import NotEstimatedError, Shapes

if TYPE_CHECKING:
    from harness.cost.passes import Passes
    from harness.cost.state import Steps

_REMEMBERED = 16
_known: OrderedDict[str, tuple[Passes, Steps]] = OrderedDict()


def simulated(config: RunConfig, shapes: Shapes, device: str | None) -> tuple[Passes, Steps]:
    """The passes of a process and the steps of the optimizer.

    Raises:
        NotEstimatedError: the model or the optimizer does not work on tensors without memory.
    """
    place = device or ("cpu" if config.device == "auto" else config.device)
    name = repr((config, shapes, place))
    if name not in _known:
        _known[name] = _simulate(config, shapes, place)
        if len(_known) > _REMEMBERED:
            _known.popitem(last=False)
    return _known[name]


def _simulate(config: RunConfig, shapes: Shapes, device: str) -> tuple[Passes, Steps]:
    import torch

    from harness.cost import passes, state

    gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    try:
        # A run that asks for its own cost goes on with its random numbers.
        with torch.random.fork_rng(gpus), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return passes.run(config, shapes, device), state.run(config, shapes, device)
    except Exception as error:
        said = " ".join(str(error).split())[:300]
        raise NotEstimatedError(
            f"'{config.model}' with '{config.optimizer.name}' can't be tried without memory "
            f"({type(error).__name__}: {said})"
        ) from error
