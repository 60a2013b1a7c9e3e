"""The raw files of published data sets: where they lie here, and how missing ones are fetched from a hub.

Nothing else in the harness uses the network.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from htbench.harness.errors import UsageError, reason
from htbench.harness.system import atomic

VARIABLE = "HTBENCH_DATA"
# Hugging Face converts each data set automatically, but only its first 5 GB: the names then begin with this.
PARTIAL = "partial-"


def folder(root: Path, task: str) -> Path:
    """The folder of a task's raw files, in the one that HTBENCH_DATA names or in `<root>/data`."""
    return Path(os.environ.get(VARIABLE) or root / "data") / task


def find(folder: Path, name: str) -> Path | None:
    """A file or a folder of the published copy, in its published place or flat; None if it is not there."""
    places = (folder / name, folder / Path(name).name)
    return next((place for place in places if place.exists()), None)


def check(folder: Path) -> None:
    """Raise UsageError if some of the files come from a partial copy."""
    partial = next((path for path in sorted(folder.rglob(f"{PARTIAL}*"))), None)
    if partial is not None:
        raise UsageError(
            f"'{partial}' is of a partial copy, which has the first 5 GB of a dataset only; remove it and "
            f"take the published files."
        )


@contextlib.contextmanager
def rows(path: Path, form: str, files: Iterable[Path], **options: Any) -> Iterator[Any]:
    """The rows of local files. Streaming them needs no second copy on the disk.

    Args:
        path: the file or the folder, as a sentence names it.
        form: "json", "parquet" or "imagefolder".
        files: what is read.
        options: of `datasets.load_dataset`.

    Raises:
        UsageError: they can't be read, there or inside of the block.
    """
    import datasets

    names = [str(file) for file in files]
    try:
        # The library writes a lock file; the home folder may be read-only.
        with tempfile.TemporaryDirectory(prefix="htbench-") as scratch:
            yield datasets.load_dataset(
                form, data_files=names, split="train", streaming=True, cache_dir=scratch, **options
            )
    except UsageError:
        raise
    except Exception as error:  # of gzip, json, pyarrow and datasets
        raise UsageError(f"'{path}' can't be read as {form} ({reason(error)}); download it again.") from None


# --- the hub ---


def fetch(repository: str, revision: str, name: str, folder: Path, kind: str = "dataset") -> Path:
    """Download one file into `folder`, going on with what a killed call has left there.

    Args:
        repository: "owner/name".
        revision: a commit, a branch or a tag.
        name: of the file in the repository; its subfolder is kept.
        folder: gets the file.
        kind: "dataset" or "model".

    Raises:
        UsageError: it can't be had; the sentence has the hub's reason, and where to get it otherwise.
    """
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


# --- what is made of them ---


class Shard:
    """A file that is hashed while it is written. It gets its name at the end; else nothing is left."""

    def __init__(self, path: Path) -> None:
        self.path, self._temporary, self._digest = path, atomic.temporary_name(path), hashlib.sha256()
        self._file = open(self._temporary, "wb")

    def __enter__(self) -> Shard:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
        self._temporary.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._file.write(data)
        self._digest.update(data)

    def finish(self) -> str:
        """Give the file its name; returns its SHA-256. The next file that is written makes that durable."""
        self._file.flush()
        os.fsync(self._file.fileno())
        os.replace(self._temporary, self.path)
        return self._digest.hexdigest()
