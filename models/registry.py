"""Every model this project can train, as a literal table that can be read without torch.

A row names the class and its settings; `build` imports the class only when a model is wanted.
"""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING, Any

from models import imported, outside
from models.spec import ModelSpec

if TYPE_CHECKING:
    from torch import nn


def _llama(name: str, hidden: int, intermediate: int, heads: int, layers: int, **settings: int) -> ModelSpec:
    shape = {"hidden": hidden, "intermediate": intermediate, "heads": heads, "layers": layers}
    defaults = {"vocabulary": 32000, "max_length": 256}
    return ModelSpec(name, "models.llama:Llama", "lm", {**shape, **defaults, **settings})


def _resnet(name: str, blocks: tuple[int, ...], *, bottleneck: bool, **settings: int) -> ModelSpec:
    defaults = {"width": 64, "in_channels": 3, "classes": 10}
    settings = {**defaults, **settings}
    return ModelSpec(
        name,
        "models.resnet:ResNet",
        "image",
        {"blocks": blocks, "bottleneck": bottleneck, **settings},
        batch_norm=True,
    )


def _gpt2(name: str, hidden: int, heads: int, layers: int, **settings: int) -> ModelSpec:
    shape = {"hidden": hidden, "intermediate": 4 * hidden, "heads": heads, "layers": layers}
    return ModelSpec(name, "models.gpt2:GPT2", "lm", {**shape, **settings, "dropout": 0.0})


def _vit(name: str, hidden: int, heads: int, layers: int, **settings: int) -> ModelSpec:
    shape = {"hidden": hidden, "intermediate": 4 * hidden, "heads": heads, "layers": layers}
    return ModelSpec(name, "models.vit:ViT", "image", {**shape, **settings, "dropout": 0.0})


_ROWS = (
    _llama("llama-nano", 48, 128, 4, 2, vocabulary=320, max_length=32),
    _llama("llama-micro", 96, 256, 4, 2, vocabulary=320, max_length=32),
    # The four sizes of the paper, an eighth to a sixteenth as wide and a quarter as deep: `sweeps/nano`.
    _llama("llama-nano-60m", 32, 86, 2, 2, vocabulary=320, max_length=32),
    _llama("llama-nano-135m", 48, 128, 3, 3, vocabulary=320, max_length=32),
    _llama("llama-nano-350m", 64, 171, 4, 6, vocabulary=320, max_length=32),
    _llama("llama-nano-1b", 128, 341, 8, 6, vocabulary=320, max_length=32),
    _llama("llama-60m", 512, 1376, 8, 8),
    _llama("llama-135m", 768, 2048, 12, 12),
    _llama("llama-350m", 1024, 2736, 16, 24),
    _llama("llama-1b", 2048, 5461, 32, 24),
    _gpt2("gpt2-nano", 48, 4, 2, vocabulary=320, max_length=32),
    _gpt2("gpt2-small", 768, 12, 12, vocabulary=50257, max_length=1024),
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
            not allowed (`models.imported`); `build` allows it.
    """
    row = SIZES.get(name) or outside.spec(name)
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
        return outside.build(row, overrides)  # type: ignore[no-any-return]
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
