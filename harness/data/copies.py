"""What the published copy of each data set is: where it lies, which files it has, how much is in them.

The rows are data (`copies.json`), so that a group can describe a copy of its own. A row is a part of the
task's fingerprint: runs on another copy have other keys.
"""

import abc
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from htbench.harness.errors import UsageError

VARIABLE = "HTBENCH_PUBLISHED"  # another file with rows of its own; tasks that it lacks keep ours
PUBLISHED = Path(__file__).with_name("copies.json")


def row(task: str) -> dict[str, Any]:
    """The description of the copy that `task` reads.

    Raises:
        UsageError: no file describes it, or HTBENCH_PUBLISHED names no JSON file.
    """
    rows = _rows(Path(file)) if (file := os.environ.get(VARIABLE)) else {}
    if task not in rows:
        rows = _rows(PUBLISHED)
    if task not in rows:
        raise UsageError(f"No published copy of '{task}' is known; known are: {', '.join(sorted(rows))}.")
    described: dict[str, Any] = rows[task]
    return described


def digest(task: str) -> str:
    """Sixteen hex digits of the row."""
    return _hex(json.dumps(row(task), sort_keys=True))


def _hex(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _rows(file: Path) -> dict[str, Any]:
    try:
        rows = json.loads(file.read_bytes())
    except OSError as error:
        raise UsageError(f"{VARIABLE}='{file}' can't be read: {error.strerror}.") from None
    except ValueError as error:
        raise UsageError(f"{VARIABLE}='{file}' is no JSON: {error}.") from None
    if not isinstance(rows, dict):
        raise UsageError(f"{VARIABLE}='{file}' must hold an object with a row for each task.")
    return rows


@dataclass(frozen=True)
class RawFile:
    """File `number` of a part ("train", "validation") of the published copy."""

    part: str
    number: int
    name: str  # in the repository

    @property
    def stem(self) -> str:
        """Names what is made of it."""
        return f"{self.part}-{self.number:05d}"


@dataclass(frozen=True)
class Published(abc.ABC):
    """A published data set that is prepared once, for all runs.

    Attributes:
        task: its name.
        recipe: raised when the same raw files give other bytes: prepared data then is prepared anew.
    """

    recipe: ClassVar[int] = 1
    task: str

    @property
    @abc.abstractmethod
    def prepared_by(self) -> str:
        """The settings of the preparation, for the fingerprint."""

    @property
    def published(self) -> dict[str, Any]:
        """The row of the published copy."""
        return row(self.task)

    @property
    def train_files(self) -> int:
        """How many training files the published copy has."""
        return int(self.published["parts"]["train"]["files"])

    def files(self, train_files: int) -> Iterator[RawFile]:
        """The first `train_files` training files, then all files of other parts."""
        for part, row in self.published["parts"].items():
            for number in range(min(train_files, row["files"]) if part == "train" else row["files"]):
                yield RawFile(part, number, row["pattern"].format(number + row.get("first", 0)))

    def check_total(self, part: str, kind: str, number: int, stamps: Iterable[Path]) -> None:
        """Raise UsageError unless a part has as many `kind` ("documents", "images") as the published one.

        The stamps of its raw files are removed then, so that they are read again.
        """
        published = self.published["parts"][part][kind]
        if number != published:
            for stamp in stamps:
                stamp.unlink(missing_ok=True)
            raise UsageError(
                f"The {part} {kind} of '{self.task}' are {number} instead of the published {published}: they "
                f"are of another or a partial copy; download them again."
            )

    def fingerprint(self) -> str:
        """Sixteen hex digits over the description of the copy and the recipe, not over its bytes."""
        return _hex(f"{digest(self.task)} {self.recipe} {self.prepared_by}")

    def folder(self, cache: Path) -> Path:
        """Where the prepared data lie."""
        return cache / f"{self.task}-{self.fingerprint()}"
