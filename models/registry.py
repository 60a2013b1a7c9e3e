"""Every model this project can train, as a literal table that can be read without torch.

A row names the class and its settings; `build` imports the class only when a model is wanted. A user's own
model is any class or function that returns an `nn.Module`; its row is made when it is asked for.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from htbench import imported

if TYPE_CHECKING:
    from torch import nn

GROUP: Final = "htbench.models"  # of entry points


@dataclass(frozen=True)
class ModelSpec:
    """One row of `SIZES`.

    Attributes:
        name: of the model.
        target: "module:Class".
        kind: `lm`: tokens (B, T) -> logits (B, T, V); `image`: images (B, C, H, W) -> logits (B, classes).
        settings: the keyword arguments of `target`: width, depth and so on.
        batch_norm: whether the statistics of a micro-batch enter the numbers: then micro-batch and world size
            belong to a run's key.
        stacks: whether `models.stacked` can make one of several.
        revision: of its code, raised whenever the same settings give other numbers than before.
        outside: whether it is a user's own model, or that of another package.
    """

    name: str
    target: str
    kind: str
    settings: dict[str, Any]
    batch_norm: bool = False
    stacks: bool = False
    revision: int = 1
    outside: bool = False

    def fits(self, kind: str) -> bool:
        """Whether it is for tasks of this kind; a model from outside that does not say so is for all."""
        return self.kind in ("", kind)


def _llama(name: str, hidden: int, intermediate: int, heads: int, layers: int, **settings: int) -> ModelSpec:
    shape = {"hidden": hidden, "intermediate": intermediate, "heads": heads, "layers": layers}
    defaults = {"vocabulary": 32000, "max_length": 256}
    return ModelSpec(name, "htbench.models.llama:Llama", "lm", {**shape, **defaults, **settings}, stacks=True)


def _resnet(name: str, blocks: tuple[int, ...], *, bottleneck: bool, **settings: int) -> ModelSpec:
    defaults = {"width": 64, "in_channels": 3, "classes": 10}
    settings = {**defaults, **settings}
    return ModelSpec(
        name,
        "htbench.models.resnet:ResNet",
        "image",
        {"blocks": blocks, "bottleneck": bottleneck, **settings},
        batch_norm=True,
    )


def _gpt2(name: str, hidden: int, heads: int, layers: int, **settings: int) -> ModelSpec:
    shape = {"hidden": hidden, "intermediate": 4 * hidden, "heads": heads, "layers": layers}
    return ModelSpec(name, "htbench.models.gpt2:GPT2", "lm", {**shape, **settings, "dropout": 0.0})


def _modded_gpt(name: str, hidden: int, heads: int, layers: int, **settings: int) -> ModelSpec:
    shape = {"hidden": hidden, "intermediate": 4 * hidden, "heads": heads, "layers": layers}
    return ModelSpec(name, "htbench.models.modded_gpt:ModdedGPT", "lm", {**shape, **settings})


def _vit(name: str, hidden: int, heads: int, layers: int, **settings: int) -> ModelSpec:
    shape = {"hidden": hidden, "intermediate": 4 * hidden, "heads": heads, "layers": layers}
    return ModelSpec(name, "htbench.models.vit:ViT", "image", {**shape, **settings, "dropout": 0.0})


_ROWS = (
    _llama("llama-nano", 48, 128, 4, 2, vocabulary=320, max_length=32),
    _llama("llama-micro", 96, 256, 4, 2, vocabulary=320, max_length=32),
    # The four sizes of the paper, an eighth to a sixteenth as wide and a quarter as deep.
    _llama("llama-nano-60m", 32, 86, 2, 2, vocabulary=320, max_length=32),
    _llama("llama-nano-135m", 48, 128, 3, 3, vocabulary=320, max_length=32),
    _llama("llama-nano-350m", 64, 171, 4, 6, vocabulary=320, max_length=32),
    _llama("llama-nano-1b", 128, 341, 8, 6, vocabulary=320, max_length=32),
    # The ladder: scale models for 20 tokens per parameter, heads of 16 at every width.
    _llama("llama-s1", 32, 86, 2, 2, vocabulary=320, max_length=64),
    _llama("llama-s2", 48, 128, 3, 3, vocabulary=320, max_length=64),
    _llama("llama-s3", 64, 171, 4, 4, vocabulary=320, max_length=64),
    _llama("llama-s4", 96, 256, 6, 5, vocabulary=320, max_length=64),
    _llama("llama-s5", 192, 512, 12, 8, vocabulary=320, max_length=64),
    _llama("llama-60m", 512, 1376, 8, 8),
    _llama("llama-135m", 768, 2048, 12, 12),
    _llama("llama-350m", 1024, 2736, 16, 24),
    _llama("llama-1b", 2048, 5461, 32, 24),
    _gpt2("gpt2-nano", 48, 4, 2, vocabulary=320, max_length=32),
    _gpt2("gpt2-small", 768, 12, 12, vocabulary=50257, max_length=1024),
    _modded_gpt("modded-gpt-nano", 48, 2, 2, vocabulary=320, max_length=32),
    _modded_gpt("modded-gpt-small", 768, 6, 12, vocabulary=50304, max_length=1024),
    _resnet("resnet-nano", (1, 1, 1), bottleneck=False, width=8, in_channels=1),
    _resnet("resnet-nano-50", (1, 1, 1), bottleneck=True, width=8, in_channels=1),
    _resnet("resnet18", (2, 2, 2, 2), bottleneck=False),
    _resnet("resnet50", (3, 4, 6, 3), bottleneck=True),
    _vit("vit-nano", 64, 4, 2, patch=8, image_size=16, in_channels=1, classes=100),
    _vit("vit-tiny", 192, 3, 12, patch=16, image_size=224, in_channels=3, classes=1000),
)

SIZES: dict[str, ModelSpec] = {row.name: row for row in _ROWS}


def spec(name: str) -> ModelSpec:
    """The row called `name`, or one made from "module:factory" or an entry point of `htbench.models`.

    Raises:
        ValueError: there is none, and the message names the nearest ones; or the factory can't be used, or is
            not allowed (`htbench.imported`); `build` allows it.
    """
    row = SIZES.get(name) or _outside(name)
    if row is None:
        near = difflib.get_close_matches(name, SIZES, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(sorted(SIZES))}"
        raise ValueError(f"unknown model {name!r}; {hint}")
    return row


def build(name: str, **overrides: Any) -> nn.Module:
    """A freshly initialised model; the global torch seed decides the initial weights.

    `overrides` replace settings of the row, for example `vocabulary=`, `classes=`, `max_length=`.
    Of a model from outside they are what is offered. Raises ValueError for an unknown name or setting.
    """
    imported.allowed.add(name)  # who builds a part wants its code to run
    row = spec(name)
    if row.outside:
        return _build_outside(row, overrides)
    if unknown := sorted(set(overrides) - set(row.settings)):
        raise ValueError(f"{name} has no setting {unknown[0]!r}; it has: {', '.join(row.settings)}")
    module, _, attribute = row.target.partition(":")
    model: nn.Module = getattr(importlib.import_module(module), attribute)(**{**row.settings, **overrides})
    return model


def count_parameters(name: str, **overrides: Any) -> int:
    """The number of trainable parameters of `build(name, **overrides)`, without allocating them."""
    import torch

    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build(name, **overrides).parameters())


# --- a user's own model ---


@functools.cache
def _outside(name: str) -> ModelSpec | None:
    """The row of a factory outside of the table; None if there is no entry point of this name.

    The factory may have two attributes. `kind` is "lm" if the model is for language tasks only, "image" if it
    is for images only. `batch_norm = False` says that its numbers do not depend on how a batch is divided.

    Args:
        name: "module:Class", "module:function", or an entry point of the group `htbench.models`.

    Raises:
        ValueError: one sentence: it can't be imported, or can't be called.
    """
    place = imported.target(name, GROUP)
    if place is None:
        return None
    factory = imported.load(place)
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


def _build_outside(row: ModelSpec, options: dict[str, Any]) -> nn.Module:
    """The model of a row made by `_outside`.

    Args:
        row: of a factory outside of the table.
        options: what is offered, for example `vocabulary`, `classes`; the factory gets those that it takes.

    Raises:
        ValueError: it needs something else, or returns no model.
    """
    from torch import nn

    factory: Any = imported.load(row.target)
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
