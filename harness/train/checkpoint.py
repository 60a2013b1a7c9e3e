"""The checkpoint: one file from which a run resumes, bit for bit on the CPU."""

from __future__ import annotations

import zipfile
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from harness.parallel.sharding import Shards
from harness.system import atomic


def save(path: Path, loop: dict[str, Any], model: torch.nn.Module, optimizer: dict[str, Any]) -> None:
    """Write weights, random state, the loop's plain values and an optimizer's state_dict, atomically."""
    state = {
        "loop": loop,
        "model": model.state_dict(),
        "optimizer": optimizer,
        "rng": torch.get_rng_state(),
        "cuda_rng": [torch.cuda.get_rng_state()] if torch.cuda.is_available() else [],
    }
    _write(path, state)


def save_weights(path: Path, model: torch.nn.Module) -> None:
    """Write the weights alone, atomically."""
    _write(path, model.state_dict())


def _write(path: Path, state: dict[str, Any]) -> None:
    try:
        atomic.write_with(path, lambda file: torch.save(state, file))
    except RuntimeError as error:
        # Torch raises a RuntimeError of its own while it handles the system's error, such as a full disk.
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise


class UnusableCheckpointError(Exception):
    """The checkpoint can't be used; the run starts at step 0 and gives the same numbers."""


def load(path: Path) -> dict[str, Any]:
    """What `save` wrote; `["loop"]` holds the loop's plain values.

    Raises:
        UnusableCheckpointError: the file is missing or damaged.
        OSError: the system can't read it now; it may be valid.
    """
    try:
        # torch.save writes a zip archive with a CRC per tensor, which torch.load itself does not verify.
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
        if broken is not None:
            raise UnusableCheckpointError(f"{path.name} is damaged in {broken}")
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (
        FileNotFoundError,
        zipfile.BadZipFile,
        RuntimeError,
        EOFError,
        ValueError,
        KeyError,
        UnpicklingError,
    ) as error:
        raise UnusableCheckpointError(f"{path.name} can't be read: {' '.join(str(error).split())}") from None
    if not isinstance(state, dict) or state.keys() != {"loop", "model", "optimizer", "rng", "cuda_rng"}:
        raise UnusableCheckpointError(f"{path.name} is no checkpoint of this program")
    return state


def restore(state: dict[str, Any], model: torch.nn.Module, optimizer: Shards) -> None:
    """Restore weights, optimizer state (this process's part of it) and random state.

    Raises:
        UnusableCheckpointError: they are those of another model or optimizer, since the code has changed.
            Some of them may have been restored.
    """
    try:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    except torch.OutOfMemoryError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        said = " ".join(str(error).split())
        raise UnusableCheckpointError(f"the checkpoint does not suit this code: {said}") from None
    torch.set_rng_state(state["rng"])
    if state["cuda_rng"]:
        torch.cuda.set_rng_state(state["cuda_rng"][0])  # of our GPU, whatever its number
