"""The checkpoint, from which a run resumes bit for bit on the CPU, and the weights that a run keeps."""

import logging
import zipfile
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from htbench.harness.errors import UsageError
from htbench.harness.parallel.sharding import Shards
from htbench.harness.store.curve import covers, read
from htbench.harness.store.run_folder import RunFolder
from htbench.harness.system import atomic
from htbench.harness.train.progress import Progress

log = logging.getLogger("htbench")


_ALWAYS, _SOMETIMES = {"loop", "model", "optimizer", "rng", "cuda_rng"}, {"evaluated"}


def save(
    path: Path,
    loop: dict[str, Any],
    model: torch.nn.Module,
    optimizer: dict[str, Any],
    more: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Write the state of a run, atomically.

    Args:
        path: of the file.
        loop: plain values.
        model: its weights are written; and the random state.
        optimizer: its state_dict.
        more: "evaluated", the weights to evaluate as a state_dict, where they are not those of the model.
    """
    state = {
        "loop": loop,
        "model": _own_memory(model),
        "optimizer": optimizer,
        "rng": torch.get_rng_state(),
        "cuda_rng": [torch.cuda.get_rng_state()] if torch.cuda.is_available() else [],
        **more,
    }
    write(path, state)


def save_weights(path: Path, model: torch.nn.Module) -> None:
    """Write the weights alone, atomically."""
    write(path, _own_memory(model))


def _own_memory(model: torch.nn.Module) -> dict[str, Any]:
    """The weights of a model. torch would save the whole memory in which one lies, of a stack that of all."""
    weights = model.state_dict()
    return {name: x.clone() if x.untyped_storage().nbytes() > x.nbytes else x for name, x in weights.items()}


def write(path: Path, state: dict[str, Any]) -> None:
    """Write what `load` has read, or weights, atomically."""
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
    if not isinstance(state, dict) or not _ALWAYS <= state.keys() <= _ALWAYS | _SOMETIMES:
        raise UnusableCheckpointError(f"{path.name} is no checkpoint of this program")
    return state


def load_sound(path: Path, metrics: Path) -> tuple[Progress, dict[str, Any] | None]:
    """Load the checkpoint if the run can resume from it; else return a progress at step 0 and None.

    Args:
        path: the checkpoint; it may be missing or damaged.
        metrics: the curve. It must have the loss of every update up to the checkpoint.

    Returns:
        the progress, and the state that `load` returns.

    Raises:
        OSError: the system can't read the checkpoint now; it may be valid.
    """
    if not path.exists():
        return Progress(), None
    try:
        saved = load(path)
        progress = Progress.of_plain(saved["loop"])
    except UnusableCheckpointError as error:
        log.warning("%s; starting from the first step", error)
    except (TypeError, KeyError) as error:
        log.warning("%s was written by other code (%s); starting from the first step", path.name, error)
    else:
        if covers(read(metrics), progress.step):
            return progress, saved
        log.warning("%s lacks steps before %d; starting from the first step", metrics.name, progress.step)
    return Progress(), None


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


def load_weights(files: RunFolder) -> tuple[dict[str, Tensor], int | None]:
    """The final weights of a run in the store, or those of its last checkpoint, on the CPU.

    Returns:
        the model's state_dict, and the step of the checkpoint; None: the weights are the final ones.

    Raises:
        UsageError: the run has kept neither, or the file is damaged.
    """
    if files.weights.exists():
        try:
            return dict(torch.load(files.weights, map_location="cpu", weights_only=True)), None
        except (RuntimeError, EOFError, ValueError, KeyError, UnpicklingError) as error:
            said = " ".join(str(error).split())
            raise UsageError(f"The weights '{files.weights}' are damaged: {said[:200]}.") from None
    try:
        saved = load(files.checkpoint)
        return saved.get("evaluated", saved["model"]), int(saved["loop"]["step"])
    except UnusableCheckpointError as error:
        key = files.path.name
        if files.checkpoint.exists():
            why = f"The checkpoint of run {key} can't be used: {error}."
        else:
            why = (
                f"Run {key} has kept no weights; train it again with checkpoint.keep_weights=true and, to "
                f"make it a run of its own, replica=weights."
            )
        raise UsageError(why) from None
