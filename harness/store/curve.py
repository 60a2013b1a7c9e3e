"""The curve of a run, `metrics.jsonl`: one row per step and per evaluation. Resuming cuts later rows off.

Rows: {"step": 17, "loss": 3.2, "lr": 0.01} after update 17 (losses in nats), and
{"step": 50, "val_loss": ...} after an evaluation. JSON has no NaN: a loss that is not finite is null.
The rows of a thinned curve (`docs/reproduction_records.py`) have the mean loss of several updates, of which
the one after `step` is the last, and tell how many: "updates".

`spectra.jsonl` is a second file of this kind, so that the last bytes of the first hold the last steps. Its
rows are about one layer each: {"step": 50, "layer": "layers.0.q_proj", "alpha": 2.4, ...} for its weights and
{"step": 50, "layer": ..., "rows": 48, "cols": 48, "update": [1.1, ...], "momentum": [...]} for the singular
values of its update, which is a matrix of that shape, also for a convolution.
"""

import contextlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

from htbench.harness.system import atomic, typed

TAIL = 4096  # bytes that hold some rows
_NUMBERS = frozenset({int, float, type(None)})


def read(path: Path, name: str = "") -> list[dict[str, Any]]:
    """All valid rows, sorted by step. Of two with the same step, layer and names the later one counts.

    Args:
        path: the file.
        name: only the rows in which this word stands; of evaluations that takes a tenth of the time.
    """
    rows: dict[tuple[int, str, frozenset[str]], dict[str, Any]] = {}
    for row in atomic.json_objects(atomic.read_lines(path, name.encode())):
        if is_row(row):
            rows[row["step"], row.get("layer", ""), frozenset(row)] = row
    return sorted(rows.values(), key=lambda row: int(row["step"]))


def is_row(row: Mapping[str, Any]) -> bool:
    """Whether an object is a row: of numbers after a step, or of what is known of a layer."""
    if "layer" in row:
        return typed.fits(_OfLayer, row)
    return type(row.get("step")) is int and _NUMBERS.issuperset(map(type, row.values()))


class _Layer(TypedDict):
    step: int
    layer: str


class _OfLayer(_Layer, total=False):
    """What our code reads of the row of a layer; there is more."""

    block: int | None
    kind: str
    rows: int
    cols: int
    kernel: int
    alpha: float | None
    alpha_random: float | None
    sigma_max: float | None
    fro: float | None
    flags: list[str]
    method: str
    update: list[float | None]
    momentum: list[float | None]


def head(path: Path, size: int = TAIL) -> list[dict[str, Any]]:
    """The valid rows in the first lines, about `size` bytes of them; none if there is no file."""
    try:
        with path.open("rb") as file:
            return [row for row in atomic.json_objects(file.readlines(size)) if is_row(row)]
    except FileNotFoundError:
        return []


def tail(path: Path, size: int = TAIL) -> list[dict[str, Any]]:
    """The valid rows in the last `size` bytes, in the order of the file; none if there is no file."""
    return list(filter(is_row, atomic.json_objects(_last_lines(path, size))))


def last_step(path: Path) -> int:
    """The step of the last valid row, without reading the whole file; 0 if there is none."""
    for line in reversed(_last_lines(path, TAIL)):
        for row in filter(is_row, atomic.json_objects([line])):
            return int(row["step"])
    return 0


def _last_lines(path: Path, size: int) -> list[bytes]:
    try:
        with path.open("rb", buffering=0) as file:
            start = max(0, file.seek(0, os.SEEK_END) - size)
            file.seek(start)
            return file.read().splitlines()[bool(start) :]  # of the first a part is missing
    except (FileNotFoundError, NotADirectoryError):
        return []


def covers(rows: list[dict[str, Any]], step: int) -> bool:
    """Whether the rows hold the training loss of every update up to `step`."""
    return {row["step"] for row in rows if "loss" in row} >= set(range(1, step + 1))


def finite(values: Mapping[str, float]) -> dict[str, float | None]:
    """`values` with None for those that are not finite: JSON has no NaN."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def rounded(value: Any) -> Any:
    """A value of a row of spectra as JSON takes it: numbers with six digits, None for those not finite."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return [rounded(entry) for entry in value] if isinstance(value, list | tuple) else value


class Metrics(contextlib.AbstractContextManager["Metrics"]):
    """A writer of rows that writes nothing: of the processes of a run only the main one writes."""

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Append a row of numbers."""

    def add_layer(self, step: int, layer: str, values: Mapping[str, Any]) -> None:
        """Append a row of spectra."""

    def flush(self, *, durable: bool = False) -> None:
        """Write buffered rows."""

    def __exit__(self, *_: object) -> None:
        pass


class MetricsFile(Metrics):
    """The open `metrics.jsonl`, or `spectra.jsonl`, of the run that this process owns.

    Args:
        path: the file; rows after `step` are cut off first.
        step: updates made so far.
    """

    def __init__(self, path: Path, step: int) -> None:
        rows = [row for row in read(path) if step and row["step"] <= step]
        atomic.write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
        self._file = path.open("a", encoding="utf-8")

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Append a row of numbers; `flush` writes it at the latest."""
        self._write({"step": step, **finite(values)})

    def add_layer(self, step: int, layer: str, values: Mapping[str, Any]) -> None:
        """Append a row of spectra; `flush` writes it at the latest."""
        self._write({"step": step, "layer": layer} | {name: rounded(value) for name, value in values.items()})

    def _write(self, row: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(row) + "\n")

    def flush(self, *, durable: bool = False) -> None:
        """Write buffered rows to the file; `durable`: wait until they are on the disk."""
        self._file.flush()
        if durable:
            os.fsync(self._file.fileno())

    def __exit__(self, *_: object) -> None:
        self._file.close()
