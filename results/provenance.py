"""Where the numbers of a table come from: code, torch, machines, threads, processes, data; told below it.

What can change numbers, if only in their last digits, must not differ within a cell: such a cell is marked.
Versions of our own code cannot: code that makes other numbers makes other runs (`harness/revisions.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.record import RunRecord

Row = Mapping[str, Any]  # of the tidy frame

# Column of the frame -> what it is called; the first do not change numbers, the others can.
_HARMLESS = {"code": "code", "python": "Python"}
_CAN_CHANGE = {
    "torch": "torch",
    "machine": "machine",
    "device": "device",
    "threads": "threads",
    "processes": "processes",
    "micro_batch": "micro_batch",
    "compile": "compile",
}
COLUMNS = (
    *("began", "ended", "code", "python", "torch", "device", "threads", "processes", "micro_batch"),
    *("compile", "timed_steps", "seconds_per_step_sd", "cpu_seconds_per_step"),
)


def outcome(record: RunRecord) -> dict[str, Any]:
    """What a record says of how it was made: the columns of COLUMNS and `machine`."""
    where, config, timing = record.environment, record.config, record.timing
    return {
        "began": record.began,
        "ended": record.ended,
        "code": where.get("code"),
        "python": where.get("python"),
        "torch": where.get("torch"),
        "device": "cuda" if where.get("gpu") else "cpu",
        "threads": config.get("threads", 1),
        "processes": where.get("world_size", config.get("processes", 1)),
        "micro_batch": config.get("micro_batch"),
        "compile": config.get("compile", False),
        "machine": where.get("gpu") or where.get("cpu"),
        "timed_steps": timing.get("steps"),
        "seconds_per_step_sd": timing.get("sd"),
        "cpu_seconds_per_step": timing.get("cpu"),
    }


def mixture(runs: Sequence[Row]) -> str:
    """In which respects that can change numbers the runs of one cell differ; empty if in none."""
    differing = [
        _told(runs, column, word) for column, word in _CAN_CHANGE.items() if len(_values(runs, column)) > 1
    ]
    return f"its runs differ in {'; '.join(differing)}, which can change their numbers" if differing else ""


def _told(runs: Sequence[Row], column: str, word: str) -> str:
    counts = Counter(_text(run.get(column)) for run in runs if run["state"] == "completed")
    return f"{word} ({', '.join(f'{value}: {n}' for value, n in sorted(counts.items()))})"


def line(runs: Iterable[Row]) -> str:
    """One sentence on all runs behind a table."""
    runs = list({run["key"]: run for run in runs if run.get("code") is not None}.values())
    if not runs:
        return ""
    parts = [
        f"code {_listed(runs, 'code')}",
        f"torch {_listed(runs, 'torch')}",
        f"Python {_listed(runs, 'python')}",
        _listed(runs, "machine"),
        _counted(runs, "threads", "thread"),
        _counted(runs, "processes", "process"),
    ]
    parts += ["compiled"] if any(run["compile"] for run in runs) else []
    parts.append(f"data {_listed(runs, 'data_fingerprint')}")
    return f"Made by {len(runs)} runs: {', '.join(parts)}."


def _listed(runs: Sequence[Row], column: str) -> str:
    return " and ".join(_values(runs, column))


def _counted(runs: Sequence[Row], column: str, noun: str) -> str:
    values = _values(runs, column)
    plural = {"thread": "threads", "process": "processes"}[noun]
    return f"{' and '.join(values)} {noun if values == ['1'] else plural}"


def _values(runs: Iterable[Row], column: str) -> list[str]:
    return sorted(
        {_text(run.get(column)) for run in runs if run["state"] in ("completed", "diverged", "pruned")}
    )


def _text(value: Any) -> str:
    if value is None or value != value:  # NaN: the frame's word for none
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
