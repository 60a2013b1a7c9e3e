"""What a training program reports to the sweep that has started it. The standard library is all it needs."""

import atexit
import contextlib
import errno
import json
import math
import os
import sys
from collections.abc import Iterable
from typing import Any

LOST = "htbench: metrics are lost"  # how a line of output begins that tells the sweep so

_unwritten: list[str] = []


def log(step: int | None = None, **values: Any) -> None:
    """Report metrics of a step. Outside of a run of a sweep it does nothing, so it may stay in a program.

    Of several processes of a run only the first one (RANK 0) reports. If the disk is full, the training goes
    on and the lines wait for the next call; if they can't be written at all, the run counts as failed.

    Args:
        step: updates made so far; without one the last step that was reported.
        values: numbers by the names of metrics; one-element tensors, too. `diverged=True` ends in "diverged".

    Raises:
        TypeError: a value is no number.

    Example:
        >>> import htbench
        >>> htbench.log(step=100, train_loss=3.4, val_loss=3.21)
    """
    path = os.environ.get("HTBENCH_METRICS")
    if path is None or os.environ.get("RANK", "0") != "0":
        return
    row: dict[str, Any] = {} if step is None else {"step": int(step)}
    for name, value in values.items():
        number = value if isinstance(value, bool) else float(value)
        row[name] = number if math.isfinite(number) else None  # JSON has no NaN
    _unwritten.append(json.dumps(row))
    _write(path)


def append(path: str | os.PathLike[str], lines: Iterable[str]) -> None:
    """Append lines to a file to which several processes may write, in one piece.

    Raises:
        OSError: not all of it could be written.
    """
    data = "".join(f"{line}\n" for line in lines).encode()
    place = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        if os.write(place, data) < len(data):  # a disk that is nearly full takes a part
            os.write(place, b"\n")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(path))
    finally:
        os.close(place)


def _write(path: str) -> None:
    """Append all lines that are not written yet; what can't be written waits."""
    with contextlib.suppress(OSError):
        append(path, _unwritten)
        _unwritten.clear()


@atexit.register
def _write_the_rest() -> None:
    path = os.environ.get("HTBENCH_METRICS")
    if path and _unwritten:
        _write(path)
    if _unwritten:
        print(f"{LOST}: '{path}' can't be written", file=sys.stderr, flush=True)
