"""Looks through the files of a store for what is damaged or left over, and changes none of them.

The store mends most of this by itself when it comes across it; here people learn of it beforehand.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness import atomic, plans
from harness.errors import UsageError
from harness.index import Index
from harness.liveness import STALE_SECONDS
from harness.record import RunRecord
from harness.store import Store

_BY_NAME = {"record.json": "record", "points.jsonl": "points", "submissions.jsonl": "submissions"}


@dataclass
class Survey:
    """What was found; paths are relative to the root.

    Attributes:
        runs: number of run folders.
        sweeps: names of the sweeps that have a plan or a file.
        records: run -> size of its sound record, in bytes.
        index: run -> size of its record as the index has it.
        torn_index_lines: lines of the index that are no JSON objects.
        damaged: record, attempt, points, slot, submissions or study -> the files that can't be read whole.
        leftovers: temporary files that nobody has touched for STALE_SECONDS.
        complete: False if the time was up before all files had been seen.
    """

    runs: int = 0
    sweeps: list[str] = field(default_factory=list)
    records: dict[str, int] = field(default_factory=dict)
    index: dict[str, int] = field(default_factory=dict)
    torn_index_lines: int = 0
    damaged: dict[str, list[str]] = field(default_factory=dict)
    leftovers: list[str] = field(default_factory=list)
    complete: bool = True


def survey(root: Path, seconds: float = 5.0) -> Survey:
    """Look at every file of the store but the caches.

    Args:
        root: the store; it need not exist.
        seconds: after these the rest is left out.
    """
    until = time.monotonic() + seconds
    found = Survey(runs=sum(1 for _ in root.glob("runs/*/*")), sweeps=_sweeps(root))
    _read_index(Store(root).index, found)
    for path in _files(root):
        if time.monotonic() > until:
            found.complete = False
            break
        try:
            _look(path, root, found)
        except FileNotFoundError:  # a live run has replaced or removed it meanwhile
            continue
    return found


def _sweeps(root: Path) -> list[str]:
    paths = [path for name in ("spec.yaml", "points.jsonl") for path in root.glob(f"sweeps/*/{name}")]
    return sorted({path.parent.name for path in paths})


def _files(root: Path) -> Iterator[Path]:
    """Files right in the root, those of sweeps and studies, then those of runs: the few before the many."""
    yield from (path for path in sorted(root.glob("*")) if path.is_file())
    for part in ("sweeps", "studies", "runs"):
        for folder, _, names in os.walk(root / part):
            yield from (Path(folder, name) for name in names)


def _look(path: Path, root: Path, found: Survey) -> None:
    if atomic.is_temporary(path.name):
        if time.time() - path.stat().st_mtime > STALE_SECONDS:
            found.leftovers.append(str(path.relative_to(root)))
        return
    kind = _kind(path)
    if kind and not _is_sound(kind, path, root):
        found.damaged.setdefault(kind, []).append(str(path.relative_to(root)))
    elif kind == "record":
        found.records[path.parent.name] = path.stat().st_size


def _kind(path: Path) -> str:
    if path.parent.name == "attempts":
        return "attempt"
    if path.parent.parent.name == "slots" and path.suffix == ".json":
        return "slot"
    return _BY_NAME.get(path.name, "study" if path.suffix == ".journal" else "")


def _is_sound(kind: str, path: Path, root: Path) -> bool:
    if kind == "record":
        record = RunRecord.from_json(atomic.read_json(path))
        return record is not None and record.key == path.parent.name
    if kind in ("attempt", "slot"):
        return isinstance(atomic.read_json(path), dict)
    if kind == "points":
        with contextlib.suppress(UsageError):
            return bool(plans.read_points(root, path.parent.name))
        return False
    return len(atomic.read_json_lines(path)) == atomic.count_lines(path)


def _read_index(index: Index, found: Survey) -> None:
    found.torn_index_lines = atomic.count_lines(index.path) - len(atomic.read_json_lines(index.path))
    found.index = {key: size for key, (size, _) in index.rows().items()}
