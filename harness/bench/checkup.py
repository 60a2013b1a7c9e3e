"""`htbench zoo --check`: all properties of the contract, tested on one optimizer by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

import optimizers
from harness.bench import properties
from harness.bench.net import Net
from harness.bench.properties import Build
from optimizers.groups import Model

Property = Callable[[Build], None]


def _each(check: Callable[..., None], values: Iterable[Any]) -> Property:
    def all_of_them(build: Build) -> None:
        for value in values:
            check(build, value)

    return all_of_them


_DTYPES = (torch.bfloat16, torch.float32, torch.float64)
PROPERTIES: dict[str, Property] = {
    "lowers a loss": properties.lowers_a_loss,
    "repeats bit for bit": properties.repeats_bit_for_bit,
    "keeps the dtype": _each(properties.keeps_the_dtype, _DTYPES),
    "takes odd shapes and zero gradients": _each(properties.takes_a_shape, properties.SHAPES.values()),
    "resumes from its state_dict": _each(properties.resumes_onto_the_same_trajectory, _DTYPES[:2]),
    "a copy goes on independently": properties.a_copy_goes_on_independently,
    "takes its lr from param_groups": _each(
        properties.learning_rates_are_set_through_the_groups, (False, True)
    ),
    "works with torch's schedulers": properties.a_scheduler_of_torch_works,
    "leaves gradients alone": properties.gradients_are_left_alone_and_not_kept,
    "skips parameters without gradient": _each(properties.parameters_without_gradient_are_skipped, (False,)),
    "steps parameters apart if separable": properties.parameters_are_stepped_apart_if_separable,
    "evaluates a closure once": properties.a_closure_is_evaluated_once_with_gradients,
}


def builder(name: str, settings: Mapping[str, Any]) -> Build:
    """What makes the optimizer in all checks; a small net's is made at once, to see whether it can be made.

    Args:
        name: a row of the zoo, or "module:Class".
        settings: of `optimizers.build`, such as hyperparameters without a default.

    Raises:
        ValueError: it can't be made; the message is one sentence.
    """

    def build(model: Model, **more: Any) -> Optimizer:
        routing = {} if isinstance(model, nn.Module) else {"routing": "matrix"}  # some look at modules
        return optimizers.build(name, model, **{**routing, **settings, **more})

    try:
        build(Net())
    except Exception as error:  # a user's class may raise anything
        kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
        raise ValueError(f"'{name}' can't be built: {kind}{' '.join(str(error).split())}") from None
    return build


def check(build: Build) -> Iterator[tuple[str, str]]:
    """Test every property.

    Args:
        build: as `builder` returns it.

    Yields:
        each property and what is wrong with it; empty if it holds.
    """
    for words, holds in PROPERTIES.items():
        yield words, _wrong(holds, build)


def _wrong(holds: Property, build: Build) -> str:
    try:
        holds(build)
    except AssertionError as error:
        return str(error).partition("\n")[0]
    except Exception as error:  # a user's class may raise anything
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return ""
