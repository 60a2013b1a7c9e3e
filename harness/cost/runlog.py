"""What the log of a run tells of its time; a record counts the seconds of its steps only. Torch-free."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from harness.store import curve as metrics
from harness.store.run_folder import RunFolder

_ATTEMPT, _RESUMED = (
    ", attempt ",
    "going on from step ",
)  # as `harness/train/run.py` and `harness/train/loop.py` log


def seconds(folder: Path) -> float | None:
    """Seconds between the first and the last line of a run's log; None unless one process wrote all of it."""
    try:
        lines = RunFolder(folder).log.read_text(encoding="utf-8").splitlines()
        attempts = [line for line in lines if _ATTEMPT in line]
        if len(attempts) != 1:
            return None
        first, last = _logged(lines[0]), _logged(lines[-1])
    except (OSError, ValueError):
        return None
    return (last - first).total_seconds()


def _logged(line: str) -> datetime:
    """The time of a line of a log. Raises ValueError if it has none."""
    return datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S,%f")


def pace(folder: Path) -> float | None:
    """Seconds per step of a run since its last start."""
    curve, began, first = RunFolder(folder).metrics, 0.0, 0
    try:
        for line in RunFolder(folder).log.read_text(encoding="utf-8").splitlines():
            if _ATTEMPT in line:
                began, first = _logged(line).timestamp(), 0
            elif _RESUMED in line:
                first = int(line.rpartition(" ")[2])
        steps, seconds = metrics.last_step(curve) - first, curve.stat().st_mtime - began
    except (OSError, ValueError):
        return None
    return seconds / steps if began and steps > 0 else None
