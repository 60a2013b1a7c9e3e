"""What a program reports: rows of its metrics file, lines of its output, files that it leaves. Torch-free.

All of it becomes rows of the run's curve, `{"step": 100, "val_loss": 3.21}`. A value that is not finite is
null, as in every curve. Of a step the last report counts, which after a resume is that of the last attempt.
"""

import contextlib
import csv
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from htbench.harness.config.programs import Program
from htbench.harness.system import environment
from htbench.reporting import LOST, append

Row = dict[str, Any]

STEP, DIVERGED = "step", "diverged"
_LONGEST, _SHOWN = 1 << 20, 500  # characters of a line that is read, and that is shown of it
_NOT_FINITE = re.compile(r"(?i)\b(nan|inf|infinity)\b")  # as in `tensor(nan)` or `-nan(ind)`
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


class Reader:
    """Reads the lines of a program's output and appends what they report to a file.

    Args:
        expressions: regular expressions; the name of a group is that of a metric, or `step`.
        path: the curve.

    Attributes:
        last: the last lines, for people.
        lost: whether `htbench.log` said that it could not write.
    """

    def __init__(self, expressions: Sequence[str], path: Path) -> None:
        self._expressions, self._path = [re.compile(text) for text in expressions], path
        self._step, self._rest = 0, ""
        self.last: list[str] = []
        self.lost = False

    def read(self, text: str, *, ended: bool = False) -> None:
        """Take a piece of output; a line ends at a line feed or at a carriage return."""
        *lines, self._rest = re.split(r"[\r\n]", self._rest + text)
        if ended:
            lines.append(self._rest)
        lines = [_COLOURS.sub("", line) for line in lines]
        self._rest = self._rest[-_LONGEST:]
        if rows := [json.dumps(row) for line in lines for row in self._rows(line)]:
            append(self._path, rows)
        self.last = [*self.last, *(line[:_SHOWN] for line in lines if line.strip())][-20:]

    def _rows(self, line: str) -> Iterator[Row]:
        self.lost = self.lost or line.startswith(LOST)
        for expression in self._expressions:
            for match in expression.finditer(line):
                values = {name: _read_value(text) for name, text in match.groupdict().items() if text}
                self._step = _whole(values.pop(STEP, None)) or self._step
                yield {STEP: self._step, **values}


def _read_value(value: Any) -> float | str | None:
    """A number as programs write it, None for one that is not finite, or a text that is no number."""
    if isinstance(value, str):
        try:
            value = float(value.replace(",", ""))
        except ValueError:
            return None if _NOT_FINITE.search(value) else str(value)
    with contextlib.suppress(OverflowError):  # an integer may be larger than any float
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
    return None


def _whole(value: float | str | None) -> int:
    """A step; 0 if it is no number."""
    return int(value) if isinstance(value, float) else 0


def read(path: Path) -> list[Row]:
    """The rows of a curve to which a program may have written, in the order of the file.

    Lines that are no objects are left out.
    """
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [row for row in map(_parse, lines) if isinstance(row, dict)]


def _parse(text: bytes) -> Any:
    """The JSON of a program; null if it is none, and for NaN, which Python writes where JSON has none."""
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(text, parse_constant=lambda _: None)
    return None


def from_results(folder: Path, results: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """The rows of files that a program leaves; of a file that is not there none.

    A column that a row lacks, or an empty cell of a CSV file, was not reported there.

    Args:
        folder: of the run.
        results: of each the `path` in it (of TensorBoard: its folder), maybe `list` (where in a JSON object
            the rows stand), `step` (the name of that column) and `names` (of metrics, each with its column).
    """
    for result in results:
        path, step = folder / str(result["path"]), str(result.get("step") or STEP)
        for row in _read(path, str(result.get("list") or "")) if path.exists() else ():
            names = (name for name in row if isinstance(name, str) and name not in (STEP, step))
            columns = result.get("names") or {name: name for name in names}
            values = {name: _read_value(row[at]) for name, at in columns.items() if row.get(at, "") != ""}
            yield {STEP: _whole(_read_value(row.get(step))), **values}


def _read(path: Path, within: str) -> list[Row]:
    if path.is_dir():
        return [row for file in sorted(path.glob("*tfevents*")) for row in _read_events(file)]
    if path.suffix == ".csv":
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            return list(csv.DictReader(file, restval=""))
    if path.suffix == ".jsonl":
        return read(path)
    content = _parse(path.read_bytes())
    for name in filter(None, within.split(".")):
        content = content.get(name) if isinstance(content, dict) else None
    rows = content if isinstance(content, list) else [content]
    return [row for row in rows if isinstance(row, dict)]


def _read_events(path: Path) -> Iterator[Row]:
    """The scalars of an events file of TensorBoard.

    Its loader gives the scalars of all writers (torch's `simple_value`, TensorFlow's tensors) as tensors. Its
    `EventAccumulator` would keep a random sample of 10,000 of them, and of TensorFlow's 10.
    """
    environment.require("tensorboard", "tensorboard")
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util.tensor_util import make_ndarray

    for event in EventFileLoader(str(path)).Load():
        for value in event.summary.value:
            if value.metadata.plugin_data.plugin_name == "scalars":
                yield {STEP: event.step, value.tag: make_ndarray(value.tensor).item()}


class Reported:
    """All that a run has reported.

    Args:
        rows: in the order in which they were reported.

    Attributes:
        series: of each metric the values by step, None for one that is not finite.
        words: metrics that were reported as text, each with that.
        diverged: whether the program said so.
        last_step: the highest.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self.series: dict[str, dict[int, float | None]] = {}
        self.words: dict[str, str] = {}
        self.diverged, self.last_step = False, 0
        for row in rows:
            step = row.get(STEP)
            self.last_step = max(self.last_step, step) if type(step) is int else self.last_step
            self.diverged = self.diverged or row.get(DIVERGED) is True
            for name, value in row.items():
                if isinstance(value, str):
                    self.words[name] = value
                elif name not in (STEP, DIVERGED) and type(value) in (int, float, type(None)):
                    at = step if type(step) is int else self.last_step
                    self.series.setdefault(name, {})[at] = value

    def curve(self, program: Program) -> list[Row]:
        """The rows of numbers by step, with the metric that settings are chosen by as that of validation."""
        rows: dict[int, Row] = {}
        for name, values in self.series.items():
            for step, value in values.items():
                rows.setdefault(step, {STEP: step})[name] = value
                if name == program.metric:
                    rows[step][f"val_{program.shown_metric}"] = value
        return [rows[step] for step in sorted(rows)]

    def value(self, name: str, program: Program) -> float | None:
        """The last value of a metric, or the best of the one that settings are chosen by; None: not finite.

        Raises:
            KeyError: it was not reported.
        """
        values = self.series[name]
        if name == program.metric and program.take == "best":
            finite = [value for value in values.values() if value is not None]
            best = max if program.higher_is_better else min
            return best(finite, default=None)
        return values[max(values)]
