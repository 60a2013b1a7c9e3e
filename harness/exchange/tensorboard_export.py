"""What TensorBoard exports, as tables with our columns: CSV files of scalars, and folders of event files.

A CSV file has `Wall time`, `Step`, `Value`; run and tag are in the name of the file alone, as in
`run-adamw-tag-val_loss.csv`. A folder may hold a folder per run. An event file keeps values as float32.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.exchange.csv_file import Table

_HEADER = ["Wall time", "Step", "Value"]
_NAME = re.compile(r"run[-_](.+)-tag-(.+?)(?: \(\d+\))?")  # browsers number a second download
_EVENTS = "events.out.tfevents."


def is_scalars(table: Table) -> bool:
    """Whether this is the CSV file of one run's scalar."""
    return list(table.header) == _HEADER


def scalars(table: Table) -> Table:
    """The values with run and metric, as the file's name has them; a file of another name is one run."""
    found = _NAME.fullmatch(Path(table.name).stem)
    values = [(number, [*cells[1:], *(found.groups() if found else ())]) for number, cells in table.lines]
    if found:
        return Table(table.name, ["step", "value", "run", "metric"], values)
    return Table(table.name, ["step", "value"], values, run=Path(table.name).stem)


def event_files(folder: Path) -> list[Path]:
    """The event files below a folder, sorted.

    Raises:
        UsageError: there are none.
    """
    found = sorted(path for path in folder.rglob("*") if path.is_file() and path.name.startswith(_EVENTS))
    if not found:
        raise UsageError(f"The folder '{folder}' has no event files of TensorBoard ({_EVENTS}*).")
    return found


def events(folder: Path) -> list[Table]:
    """A table for each folder with event files, which is one run, called by its path below `folder`.

    Raises:
        UsageError: there is no event file, or TensorBoard is not installed.
    """
    places = list(dict.fromkeys(path.parent for path in event_files(folder)))
    return [_run(place, os.path.relpath(place, folder), folder.resolve().name) for place in places]


def _run(place: Path, path: str, folder: str) -> Table:
    name = folder if path == "." else path
    rows = [[str(step), tag, repr(value)] for tag, step, value in _scalars(place)]
    lines = [(number, row) for number, row in enumerate(rows, 1)]
    return Table(f"{folder}/{path}", ["step", "metric", "value"], lines, run=name)


def _scalars(place: Path) -> Iterator[tuple[str, int, float]]:
    """Tag, step and value of each scalar, tags sorted, in the order in which they were written."""
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        from tensorboard.util.tensor_util import make_ndarray
    except ImportError:
        raise UsageError(
            "Event files are read by TensorBoard, which is not installed: `pip install htbench[tensorboard]`."
        ) from None
    # Steps that a restart makes again are not removed here, so that they are counted and noted.
    events: Any = EventAccumulator(
        str(place), size_guidance={"scalars": 0, "tensors": 0}, purge_orphaned_data=False
    )
    events.Reload()
    tags = events.Tags()
    for tag in sorted(tags["scalars"]):
        yield from ((tag, one.step, _shortest(one.value)) for one in events.Scalars(tag))
    for tag in sorted(tags["tensors"]):
        told = ((one.step, make_ndarray(one.tensor_proto)) for one in events.Tensors(tag))
        yield from ((tag, step, _shortest(float(value))) for step, value in told if value.ndim == 0)


def _shortest(value: float) -> float:
    """The shortest decimal that is the same float32: 3.28 for 3.2799999713897705."""
    if value != value or value in (float("inf"), float("-inf")):
        return value
    for digits in range(6, 10):
        short = float(f"{value:.{digits}g}")
        if struct.pack("f", short) == struct.pack("f", value):
            return short
    return value
