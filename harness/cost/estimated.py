"""The two simulations that tell what a run costs, once for each kind of run in a process."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.config import OptimizerConfig, RunConfig
from harness.cost.run_class import run_class
from harness.cost.shapes import NotEstimatedError, Shapes

if TYPE_CHECKING:
    from harness.cost.passes import Passes
    from harness.cost.state import Steps

_REMEMBERED = 16
_known: OrderedDict[str, tuple[Passes, Steps]] = OrderedDict()
_known_passes: OrderedDict[str, Passes] = OrderedDict()  # those of most optimizers are the same


def forget() -> None:
    """Simulate everything anew from now on."""
    _known.clear()
    _known_passes.clear()


def simulated(config: RunConfig, shapes: Shapes, device: str | None) -> tuple[Passes, Steps]:
    """The passes of a process and the steps of the optimizer.

    Raises:
        NotEstimatedError: the model or the optimizer does not work on tensors without memory.
    """
    place = device or ("cpu" if config.device == "auto" else config.device)
    name = repr((config, shapes, place))
    if name not in _known:
        _remember(_known, name, _simulate(config, shapes, place))
    return _known[name]


def _remember(known: OrderedDict[str, Any], name: str, value: Any) -> None:
    known[name] = value
    if len(known) > _REMEMBERED:
        known.popitem(last=False)


def _simulate(config: RunConfig, shapes: Shapes, device: str) -> tuple[Passes, Steps]:
    import torch

    from harness.cost import passes, state

    gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()  # type: ignore[no-untyped-call]
    try:
        # A run that asks for its own cost goes on with its random numbers.
        with torch.random.fork_rng(gpus), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            interval = passes.curvature_interval(config)
            kind = run_class(replace(config, optimizer=OptimizerConfig()))
            name = repr((kind, interval, shapes, device))
            if name not in _known_passes:
                _remember(_known_passes, name, passes.run(config, shapes, device))
            return _known_passes[name], state.run(config, shapes, device)
    except Exception as error:
        said = " ".join(str(error).split())[:300]
        raise NotEstimatedError(
            f"'{config.model}' with '{config.optimizer.name}' can't be tried without memory "
            f"({type(error).__name__}: {said})"
        ) from error
