"""What the published copy of each data set is: where it lies, which files it has, how much is in them.

The rows are data (`copies.json`), so that a group can describe a copy of its own. A row is a part of the
task's fingerprint: runs on another copy have other keys.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from harness.errors import UsageError

VARIABLE = "HTBENCH_PUBLISHED"  # another file with rows of its own; tasks that it lacks keep ours
PUBLISHED = Path(__file__).with_name("copies.json")


def row(task: str) -> dict[str, Any]:
    """The description of the copy that `task` reads.

    Raises:
        UsageError: no file describes it, or HTBENCH_PUBLISHED names no JSON file.
    """
    found = _rows(Path(own)) if (own := os.environ.get(VARIABLE)) else {}
    if task not in found:
        found = _rows(PUBLISHED)
    if task not in found:
        raise UsageError(f"No published copy of '{task}' is known; known are: {', '.join(sorted(found))}.")
    described: dict[str, Any] = found[task]
    return described


def digest(task: str) -> str:
    """Sixteen hex digits of the row."""
    return hashlib.sha256(json.dumps(row(task), sort_keys=True).encode()).hexdigest()[:16]


def _rows(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_bytes())
    except OSError as error:
        raise UsageError(f"{VARIABLE}='{file}' can't be read: {error.strerror}.") from None
    except ValueError as error:
        raise UsageError(f"{VARIABLE}='{file}' is no JSON: {error}.") from None
    if not isinstance(found, dict):
        raise UsageError(f"{VARIABLE}='{file}' must hold an object with a row for each task.")
    return found
