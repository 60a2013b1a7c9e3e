"""The weights in a file or a folder: safetensors, PyTorch, and folders as Hugging Face writes them.

Safetensors are read tensor by tensor and PyTorch files are mapped into memory, so that no more than one layer
of a large model is in memory at a time. A PyTorch file is a pickle: only its tensors are loaded, and no code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, Final

from htbench.harness.errors import UsageError
from htbench.harness.show.numbers import counted
from htbench.harness.spectra import names
from htbench.harness.spectra.selection import Stored, Tensors

if TYPE_CHECKING:
    from torch import Tensor

TORCH: Final = (".pt", ".pth", ".bin", ".ckpt")
SAFE: Final = ".safetensors"

# The files of a folder that hold a whole model; the first that is there counts.
_WHOLE: Final = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
_INSIDE: Final = ("model", "state_dict", "model_state_dict", "module")  # of a checkpoint with more in it
_DTYPES: Final = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def read(path: Path) -> Tensors:
    """The tensors of a file, or of a folder of Hugging Face, from the model's input to its output.

    Raises:
        UsageError: there is no such file, no weights are in the folder, or a file can't be read.
    """
    if not path.exists():
        raise UsageError(f"There is no file or folder '{path}'.")
    file = _of_folder(path) if path.is_dir() else path
    tensors = _read_file(file)
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    return {name: tensors[name] for name in names.in_order(shapes)}


def _of_folder(folder: Path) -> Path:
    for name in _WHOLE:
        if (folder / name).exists():
            return folder / name
    single = sorted(folder.glob(f"*{SAFE}"))
    if len(single) == 1:
        return single[0]
    if single:
        raise UsageError(f"'{folder}' has {len(single)} files of weights and no index; name one of them.")
    raise UsageError(f"The folder '{folder}' has no weights, such as model.safetensors or pytorch_model.bin.")


def _read_file(file: Path) -> dict[str, Stored | Tensor]:
    if file.name.endswith(".index.json"):
        return _read_shards(file)
    if file.suffix == SAFE:
        return {**_read_safe(file)}
    if file.suffix in TORCH:
        return {**_read_torch(file)}
    raise UsageError(f"'{file}' is no file of weights: known are {SAFE}, {', '.join(TORCH)}.")


def _read_shards(index: Path) -> dict[str, Stored | Tensor]:
    """All tensors of the files that an index names."""
    try:
        files = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, TypeError):
        raise UsageError(f"'{index}' is damaged: it must be JSON with a 'weight_map'.") from None
    missing = [file for file in files if not (index.parent / file).exists()]
    if missing:
        raise UsageError(f"'{index}' names {counted(len(missing), 'missing file')}, such as '{missing[0]}'.")
    tensors: dict[str, Stored | Tensor] = {}
    for file in files:
        tensors |= _read_file(index.parent / file)
    return tensors


# --- safetensors ---


def _read_safe(file: Path) -> dict[str, Stored]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as opened:
            return {name: _stored(file, name, opened.get_slice(name)) for name in opened.keys()}
    except (SafetensorError, OSError) as error:
        raise _damaged(file, error) from None


def _stored(file: Path, name: str, part: Any) -> Stored:
    dtype = part.get_dtype()
    return Stored(tuple(part.get_shape()), _DTYPES.get(dtype, dtype), partial(_read_one, file, name))


def _read_one(file: Path, name: str) -> Tensor:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as opened:
            tensor: Tensor = opened.get_tensor(name)
    except (SafetensorError, OSError) as error:
        raise _damaged(file, error) from None
    return tensor


# --- PyTorch ---


def _read_torch(file: Path) -> dict[str, Tensor]:
    import torch

    try:
        try:
            content: Any = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
        except RuntimeError:  # a file as PyTorch wrote them before version 1.6 can't be mapped
            content = torch.load(file, map_location="cpu", weights_only=True)
    except UnpicklingError:
        raise UsageError(
            f"'{file}' is damaged or holds Python objects, whose code isn't run; save the model's state_dict."
        ) from None
    except Exception as error:  # bytes that are no pickle can end in any
        raise _damaged(file, error) from None
    return _tensors(content)


def _tensors(content: Any) -> dict[str, Tensor]:
    """The tensors of a state_dict, or of the one in a checkpoint."""
    import torch

    if not isinstance(content, Mapping):
        return {}
    inside = (content[name] for name in _INSIDE if isinstance(content.get(name), Mapping))
    chosen = next(inside, content)
    return {str(name): value for name, value in chosen.items() if isinstance(value, torch.Tensor)}


def _damaged(file: Path, error: Exception) -> UsageError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return UsageError(f"The file '{file}' can't be read: {reason[:200].rstrip('.')}.")
