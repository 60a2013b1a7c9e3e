"""The raw files of published data sets: where they lie here, and how missing ones are fetched from a hub.

Nothing else in the harness uses the network.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from htbench.harness.errors import UsageError, reason

VARIABLE = "HTBENCH_DATA"


def folder(root: Path, task: str) -> Path:
    """The folder of a task's raw files, in the one that HTBENCH_DATA names or in `<root>/data`."""
    return Path(os.environ.get(VARIABLE) or root / "data") / task


def find(folder: Path, name: str) -> Path | None:
    """A file of the published copy, in its published place or flat; None if it is not there."""
    places = (folder / name, folder / Path(name).name)
    return next((place for place in places if place.exists()), None)


@contextlib.contextmanager
def rows(path: Path, form: str) -> Iterator[Any]:
    """The rows of a file, "json" or "parquet". Streaming them needs no second copy on the disk.

    Raises:
        UsageError: it can't be read, there or inside of the block.
    """
    os.environ.setdefault("HF_DATASETS_OFFLINE", "1")  # read by the import: a file needs no hub
    import datasets

    try:
        # The library writes a lock file; the home folder may be read-only.
        with tempfile.TemporaryDirectory(prefix="htbench-") as scratch:
            yield datasets.load_dataset(
                form, data_files=str(path), split="train", streaming=True, cache_dir=scratch
            )
    except UsageError:
        raise
    except Exception as error:  # of gzip, json, pyarrow and datasets
        raise UsageError(f"'{path}' can't be read as {form} ({reason(error)}); download it again.") from None


# --- the hub ---


def fetch(repository: str, revision: str, name: str, folder: Path, kind: str = "dataset") -> Path:
    """One file, from `folder` or downloaded into it, going on with what a killed call has left there.

    Args:
        repository: "owner/name".
        revision: a commit, a branch or a tag.
        name: of the file in the repository; its subfolder is kept.
        folder: has the file, or gets it.
        kind: "dataset" or "model".

    Raises:
        UsageError: it can't be had; the sentence has the hub's reason, and where to get it otherwise.
    """
    if (path := find(folder, name)) is not None:
        return path
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    from huggingface_hub import hf_hub_download, hf_hub_url

    try:
        return Path(
            hf_hub_download(repository, name, repo_type=kind, revision=revision, local_dir=str(folder))
        )
    except Exception as error:  # the hub has some twenty kinds
        place = hf_hub_url(repository, name, repo_type=kind, revision=revision)
        why = error.__cause__ if isinstance(error.__cause__, Exception) else error
        raise UsageError(
            f"'{name}' of {repository} can't be fetched ({reason(why)}); "
            f"the same command goes on from here. Without a network, put '{place}' and the other files "
            f"into '{folder}'."
        ) from None
