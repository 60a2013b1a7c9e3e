"""Files of other trainers as tables of text: CSV, and what Weights & Biases and TensorBoard export.

A CSV file is UTF-8, with or without a byte order mark; commas, semicolons or tabs; any end of line. Nothing
is guessed: a file in another encoding, or with lines of different lengths, is refused with file and line.

Weights & Biases exports charts: `Step`, then for each run `NAME - METRIC`, `NAME - METRIC__MIN`,
`NAME - METRIC__MAX`; the table of runs: `Name`, `State` ...; and the history of a run (`run.history()` or
`scan_history()` as CSV): `_step`, `_runtime`, a column per metric.

TensorBoard exports CSV files of scalars, `Wall time`, `Step`, `Value`, with run and tag in the name of the
file alone, as in `run-adamw-tag-val_loss.csv`. Its folders of event files may hold a folder per run.
"""

import csv
import io
import os
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from harness.errors import UsageError
from harness.exchange.words import shown
from harness.system.environment import require

Lines = Sequence[tuple[int, Sequence[str]]]
_SEPARATORS = ",;\t"
_BETWEEN, _LEAST, _MOST = " - ", "__MIN", "__MAX"  # in a chart
_SCALARS = ["Wall time", "Step", "Value"]
_NAME_OF_SCALARS = re.compile(r"run[-_](.+)-tag-(.+?)(?: \(\d+\))?")  # browsers number a second download
_EVENTS = "events.out.tfevents."


@dataclass(frozen=True)
class Table:
    """Named columns of text.

    Attributes:
        name: the file, as sentences name it.
        header: names of the columns, without spaces around them.
        lines: number of the line in the file, and as many cells as the header has.
        run: the run that all lines are of, if the format says so.
        means: how many values of a run, by its word, are means of several.
    """

    name: str
    header: Sequence[str]
    lines: Lines
    run: str = ""
    means: Mapping[str, int] = field(default_factory=dict)


def read(path: Path) -> list[Table]:
    """The tables with curves of a file, or of a folder, by its format.

    Raises:
        UsageError: it can't be read; one sentence.
    """
    if path.is_dir():
        return _events(path)
    table = _csv(path)
    header, stem = table.header, Path(table.name).stem
    if len(header) > 1 and all(_BETWEEN in name for name in header[1:]):
        return [_chart(table)]
    if "_step" in header and not {"_runtime", "_timestamp"}.isdisjoint(header):
        return [replace(table, run=stem)]
    if list(header) != _SCALARS:
        return [table]
    if parts := _NAME_OF_SCALARS.fullmatch(stem):
        lines = [(number, [*cells[1:], *parts.groups()]) for number, cells in table.lines]
        return [Table(table.name, ["step", "value", "run", "metric"], lines)]
    return [Table(table.name, ["step", "value"], [(n, cells[1:]) for n, cells in table.lines], run=stem)]


def read_runs(path: Path) -> Table:
    """A CSV file with a line per run; in that of Weights & Biases, `Name` is the run."""
    table = _csv(path)
    if "run" in table.header or not {"Name", "State"} <= set(table.header):
        return table
    return replace(table, header=["run" if name == "Name" else name for name in table.header])


def files(path: Path) -> list[Path]:
    """The files that `read` reads.

    Raises:
        UsageError: a folder without event files.
    """
    if not path.is_dir():
        return [path]
    inside = sorted(file for file in path.rglob("*") if file.is_file() and file.name.startswith(_EVENTS))
    if not inside:
        raise UsageError(f"The folder '{path}' has no event files of TensorBoard ({_EVENTS}*).")
    return inside


def content(path: Path) -> bytes:
    """The bytes of a file. Raises UsageError if it can't be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"There is no file '{path}'.") from None
    except OSError as error:
        raise UsageError(f"'{path}' can't be read: {error.strerror or error}.") from None


def refuse(name: str, line: int, what: object) -> NoReturn:
    """Raise UsageError: one sentence on a line of a file."""
    raise UsageError(f"'{name}', line {line}: {what}")


# --- CSV ---


def _csv(path: Path) -> Table:
    data = content(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        refuse(path.name, data.count(b"\n", 0, error.start) + 1, "it is not UTF-8; save the file as UTF-8.")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_separator(text, path), strict=True)
    header: list[str] = []
    lines: list[tuple[int, Sequence[str]]] = []
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if not header:
                header = [cell.strip() for cell in cells]
            elif len(cells) == len(header):
                lines.append((reader.line_num, cells))
            else:
                refuse(path.name, reader.line_num, f"{len(cells)} cells, but the header has {len(header)}.")
    except csv.Error as error:
        refuse(path.name, reader.line_num, f"it is no line of a CSV file ({error}).")
    if not header:
        raise UsageError(f"'{path}' is empty; a CSV file begins with the names of its columns.")
    if not lines:
        raise UsageError(f"'{path}' has a header, but no line below it.")
    for name in header:
        if not name.isprintable():
            refuse(path.name, 1, f"the column {shown(name)} has characters that can't be printed.")
        if name and header.count(name) > 1:
            refuse(path.name, 1, f"two columns are called {shown(name)}; rename one.")
    return Table(path.name, header, lines)


def _separator(text: str, path: Path) -> str:
    """The one that divides the first line into most cells."""
    head = next((line for line in text.splitlines() if line.strip()), "")
    counts = {sign: len(next(csv.reader([head], delimiter=sign), [])) for sign in _SEPARATORS}
    best = max(counts, key=lambda sign: counts[sign])
    if counts[best] > 1 and list(counts.values()).count(counts[best]) > 1:
        refuse(path.name, 1, "it has as many commas as semicolons or tabs; use one of them.")
    return best


def _chart(table: Table) -> Table:
    """A line per run, step and metric. The first column keeps its name: it need not be a step.

    Where a chart has grouped runs, or thinned a long one out, a cell is a mean with the least and the most of
    what it is the mean of.
    """
    header, means = table.header, Counter[str]()
    columns = {
        index: (
            run,
            metric,
            [header.index(end) for end in (f"{name}{_LEAST}", f"{name}{_MOST}") if end in header],
        )
        for index, name in enumerate(header)
        for run, _, metric in [name.rpartition(_BETWEEN)]
        if index and not name.endswith((_LEAST, _MOST)) and not metric.startswith("_")
    }
    metrics = list(dict.fromkeys(metric for _, metric, _ in columns.values()))
    lines: list[tuple[int, Sequence[str]]] = []
    for number, cells in table.lines:
        for index, (run, metric, ends) in columns.items():
            if value := cells[index].strip():
                lines.append(
                    (number, [cells[0], run, *(value if name == metric else "" for name in metrics)])
                )
                means[run] += any(cells[end].strip() not in ("", value) for end in ends)
    return Table(table.name, [header[0], "run", *metrics], lines, means=means)


# --- event files ---


def _events(folder: Path) -> list[Table]:
    """A table for each folder with event files, which is one run, called by its path below `folder`."""
    tables, name = [], folder.resolve().name
    for place in dict.fromkeys(path.parent for path in files(folder)):
        path = os.path.relpath(place, folder)
        rows = ([str(step), tag, repr(value)] for tag, step, value in _scalars(place))
        run = name if path == "." else path
        tables.append(Table(f"{name}/{path}", ["step", "metric", "value"], list(enumerate(rows, 1)), run=run))
    return tables


def _scalars(place: Path) -> Iterator[tuple[str, int, float]]:
    """Tag, step and value of each scalar, tags sorted, in the order in which they were written."""
    require("tensorboard", "tensorboard")  # it reads event files
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    # Steps that a restart makes again are not removed here, so that they are counted and noted.
    events: Any = EventAccumulator(
        str(place), size_guidance={"scalars": 0, "tensors": 0}, purge_orphaned_data=False
    )
    events.Reload()
    tags = events.Tags()
    for tag in sorted(tags["scalars"]):
        yield from ((tag, event.step, _shortest(event.value)) for event in events.Scalars(tag))
    for tag in sorted(tags["tensors"]):
        for event in events.Tensors(tag):
            if (value := make_ndarray(event.tensor_proto)).ndim == 0:
                yield tag, event.step, _shortest(float(value))


def _shortest(value: float) -> float:
    """The shortest decimal that is the same float32: 3.28 for 3.2799999713897705."""
    if not abs(value) < 3e38:  # not a finite float32
        return value
    shorter = (float(f"{value:.{digits}g}") for digits in range(6, 10))
    return next((short for short in shorter if struct.pack("f", short) == struct.pack("f", value)), value)
