"""Where the raw files of published data sets lie on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from harness.errors import UsageError

VARIABLE = "HTBENCH_DATA"
# Hugging Face converts each data set automatically, but only its first 5 GB: the names then begin with this.
PARTIAL = "partial-"


def folder(root: Path, task: str) -> Path:
    """The folder of a task's raw files, in the one that HTBENCH_DATA names or in `<root>/data`."""
    return Path(os.environ.get(VARIABLE) or root / "data") / task


def find(folder: Path, name: str) -> Path | None:
    """A file of the published copy, in its published subfolder or flat; None if it is not there."""
    places = (folder / name, folder / Path(name).name)
    return next((place for place in places if place.is_file()), None)


def check(folder: Path) -> None:
    """Raise UsageError if some of the files come from a partial copy."""
    found = next((path for path in sorted(folder.rglob(f"{PARTIAL}*"))), None)
    if found is not None:
        raise UsageError(
            f"'{found}' is of a partial copy, which has the first 5 GB of a data set only; remove it and "
            f"take the published files."
        )
