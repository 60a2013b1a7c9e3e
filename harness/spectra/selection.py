"""Which tensors of a model are layers that have a spectrum, each once, with kind and block."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeAlias, Union

import numpy as np

from htbench.harness.spectra import names
from htbench.harness.spectra.esd import Weight

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class Stored:
    """One tensor of a file: its shape is known, its numbers are read when they are needed.

    Attributes:
        shape: of the tensor.
        dtype: its name, such as "bfloat16".
        read: return the tensor.
    """

    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], Tensor]


Tensors = Mapping[str, Weight | Stored]
Weights: TypeAlias = Union[Tensors, "nn.Module"]

# What has two dimensions and is no weight: biases, the masks of GPT-2, scales of quantised weights.
_NOT_WEIGHTS = re.compile(r"(^|[._])(bias|scales?|scale_inv|zeros|qweight|qzeros)$")


@dataclass(frozen=True)
class Layer:
    """A weight that has a spectrum.

    Attributes:
        name: without what wrappers of the model put before it.
        aliases: its other names, if it is tied.
        block, kind: as `names` finds them.
    """

    name: str
    aliases: tuple[str, ...]
    block: int | None
    kind: str
    weight: Weight | Stored

    def read(self) -> Weight:
        """The weight as `esd` takes it: (out, in), or (out, in, ...) for a kernel or a stack of matrices."""
        weight = self.weight.read() if isinstance(self.weight, Stored) else self.weight
        if self.kind == "embed":  # positions may have a batch dimension: (1, tokens, width)
            return weight.reshape(weight.shape[-2:])
        if self.kind != "conv" and weight.ndim == 3:  # experts: (experts, out, in)
            return weight.reshape(weight.shape[0], -1).T.reshape(*weight.shape[1:], weight.shape[0])
        return weight


def select_layers(
    weights: Weights, include: str | None = "hidden", exclude: str | Iterable[str] | None = None
) -> list[Layer]:
    """The layers in the order of the weights.

    Args:
        weights: a module, or its weights by name.
        include: "hidden", the matrices and kernels without embeddings and heads; "all"; or a pattern of
            names, such as "*.q_proj.weight". None: "hidden".
        exclude: patterns of names to leave out.

    Raises:
        ValueError: the weights of several layers are in one vector, as FSDP keeps them.
    """
    unwanted = (exclude,) if isinstance(exclude, str) else tuple(exclude or ())
    layers = _list_layers(weights if isinstance(weights, Mapping) else weights.state_dict())
    if not include or include == "hidden":
        layers = [layer for layer in layers if layer.kind not in ("embed", "head")]
    elif include != "all":
        layers = [layer for layer in layers if fnmatchcase(layer.name, include)]
    return [layer for layer in layers if not any(fnmatchcase(layer.name, name) for name in unwanted)]


def _list_layers(tensors: Tensors) -> list[Layer]:
    same: dict[object, list[str]] = {}
    for name, weight in tensors.items():
        if _has_spectrum(name, weight):
            same.setdefault(_storage(name, weight), []).append(name)
    blocks = names.number_blocks(names.strip_wrappers(name) for name in tensors)
    layers = []
    for first, *aliases in same.values():
        name, weight = names.strip_wrappers(first), tensors[first]
        kind = names.classify(name, tuple(weight.shape))
        layers.append(Layer(name, tuple(map(names.strip_wrappers, aliases)), blocks[name], kind, weight))
    return layers


def _has_spectrum(name: str, weight: Weight | Stored) -> bool:
    if name.endswith("_flat_param"):
        raise ValueError(f"'{name}' is a vector with the weights of several layers (FSDP); gather them first")
    dtype, shape = str(weight.dtype), tuple(weight.shape)
    if "float" not in dtype or "float8" in dtype or _NOT_WEIGHTS.search(name):  # float8 is scaled by blocks
        return False
    if names.classify(name, shape) == "embed":
        return 2 <= len(shape) <= 3 and 0 < min(shape) and (len(shape) == 2 or shape[0] == 1 < shape[1])
    return 2 <= len(shape) <= 4 and min(shape) > 0


def _storage(name: str, weight: Weight | Stored) -> object:
    """Equal for two names of one weight."""
    if isinstance(weight, np.ndarray):
        return weight.__array_interface__["data"][0], weight.shape, weight.strides
    if isinstance(weight, Stored) or weight.is_meta or hasattr(weight, "full_tensor"):
        return name
    return weight.data_ptr(), weight.device, tuple(weight.shape), weight.stride()
