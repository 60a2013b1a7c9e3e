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
from htbench.harness.system import atomic
from htbench.reporting import LOST, append

Row = dict[str, Any]

STEP, DIVERGED = "step", "diverged"
_LONGEST, _SHOWN = 1 << 20, 500  # characters of a line that is read, and that is shown of it
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
                values = {name: _number(text) for name, text in match.groupdict().items() if text is not None}
                self._step = int(values.pop(STEP, None) or self._step)
                yield {STEP: self._step, **values}


def _number(text: str) -> float | None:
    """A number as programs print it; None: it is not finite, or none."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def read(path: Path) -> list[Row]:
    """The rows of a curve to which a program may have written, in the order of the file.

    Python writes NaN where JSON has none; it is read as null. Lines that are no objects are left out.
    """
    rows = []
    with contextlib.suppress(FileNotFoundError):
        for line in path.read_bytes().splitlines():
            with contextlib.suppress(ValueError, RecursionError):
                rows.append(json.loads(line, parse_constant=lambda _: None))
    return [row for row in rows if isinstance(row, dict)]


def from_results(folder: Path, results: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """The rows of files that a program leaves; of a file that is not there none.

    Args:
        folder: of the run.
        results: of each the `path` in it, maybe `list` (where in a JSON object the rows stand), `step` (the
            name of that column) and `names` (of metrics, each with that of its column).
    """
    for result in results:
        path = folder / str(result["path"])
        names, step = dict(result.get("names") or {}), str(result.get("step") or STEP)
        for row in _read(path, str(result.get("list") or "")) if path.is_file() else ():
            told = {name: row.get(column) for name, column in names.items()} if names else dict(row)
            values = {name: _value(value) for name, value in told.items() if name != step}
            at = _value(row.get(step))
            yield {
                STEP: int(at or 0),
                **{name: x for name, x in values.items() if name in row or x is not None},
            }


def _read(path: Path, within: str) -> list[Row]:
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    if path.suffix == ".jsonl":
        return atomic.read_json_lines(path)
    content = atomic.read_json(path)
    for name in filter(None, within.split(".")):
        content = content.get(name) if isinstance(content, dict) else None
    rows = content if isinstance(content, list) else [content]
    return [row for row in rows if isinstance(row, dict)]


def _value(value: Any) -> float | None:
    if isinstance(value, str):
        return _number(value)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


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
