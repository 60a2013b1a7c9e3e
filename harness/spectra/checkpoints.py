"""The weights in a file of safetensors, read layer by layer, so that a large model needs little memory."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from htbench.harness.errors import UsageError
from htbench.harness.spectra import names
from htbench.harness.spectra.selection import Stored

if TYPE_CHECKING:
    from torch import Tensor

SUFFIX: Final = ".safetensors"
_DTYPES: Final = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def read_tensors(file: Path) -> dict[str, Stored]:
    """The tensors of a file, from the model's input to its output.

    Raises:
        UsageError: it is no file of safetensors, or it can't be read.
    """
    from safetensors import SafetensorError, safe_open

    if file.suffix != SUFFIX or not file.is_file():
        raise UsageError(f"'{file}' is neither the folder of a run nor a file of weights in {SUFFIX}.")
    try:
        with safe_open(file, framework="pt") as opened:
            tensors = {}
            for name in opened.keys():
                part = opened.get_slice(name)
                dtype, shape = part.get_dtype(), tuple(part.get_shape())
                tensors[name] = Stored(shape, _DTYPES.get(dtype, dtype), partial(_read_tensor, file, name))
    except (SafetensorError, OSError) as error:
        raise _damaged(file, error) from None
    order = names.order_names({name: tensor.shape for name, tensor in tensors.items()})
    return {name: tensors[name] for name in order}


def _read_tensor(file: Path, name: str) -> Tensor:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as opened:
            tensor: Tensor = opened.get_tensor(name)
    except (SafetensorError, OSError) as error:
        raise _damaged(file, error) from None
    return tensor


def _damaged(file: Path, error: Exception) -> UsageError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return UsageError(f"The file '{file}' can't be read: {reason[:200].rstrip('.')}.")
