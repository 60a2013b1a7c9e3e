"""A user's own model: any class or function that returns an `nn.Module`."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Final

from models.imported import load, target
from models.spec import ModelSpec

GROUP: Final = "htbench.models"  # of entry points


@functools.cache
def spec(name: str) -> ModelSpec | None:
    """The row of a factory outside of the table; None if there is no entry point of this name.

    The factory may have two attributes. `kind` is "lm" if the model is for language tasks only, "image" if it
    is for images only. `batch_norm = False` says that its numbers do not depend on how a batch is divided.

    Args:
        name: "module:Class", "module:function", or an entry point of the group `htbench.models`.

    Raises:
        ValueError: one sentence: it can't be imported, or can't be called.
    """
    place = target(name, GROUP)
    if place is None:
        return None
    factory = load(place)
    if not callable(factory):
        raise ValueError(f"'{name}' must be a class or a function that returns a model, not {factory!r}")
    kind = getattr(factory, "kind", "")
    return ModelSpec(
        name,
        target=place,
        kind=kind if isinstance(kind, str) else "",
        settings={},
        batch_norm=getattr(factory, "batch_norm", True) is not False,
        outside=True,
    )


def build(row: ModelSpec, options: dict[str, Any]) -> Any:
    """The model of a row made by `spec`.

    Args:
        row: of a factory outside of the table.
        options: what is offered, for example `vocabulary`, `classes`; the factory gets those that it takes.

    Raises:
        ValueError: it needs something else, or returns no model.
    """
    from torch import nn

    factory: Any = load(row.target)
    arguments = inspect.signature(factory).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in arguments.values()):
        options = {name: value for name, value in options.items() if name in arguments}
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for p in arguments.values():
        if p.default is p.empty and p.kind not in variable and p.name not in options:
            raise ValueError(f"the model '{row.name}' needs '{p.name}', which the task does not give")
    model = factory(**options)
    if not isinstance(model, nn.Module):
        raise ValueError(f"'{row.name}' must return a torch.nn.Module, not {type(model).__name__}")
    return model
