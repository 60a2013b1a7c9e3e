"""Whether a run's record and its own curve tell the same story. Torch-free, and quick for ten thousand runs.

The curve (`metrics.jsonl`) ends with the figures that the record repeats. Unless they are compared, a record
edited by hand is believed, and a run whose record is gone is called not begun.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import atomic, metrics
from harness.record import RunRecord

_FINAL = ("val_", "test_")  # rows of the held-out splits; those of the test split are written at the end only
_ROUNDING = 1e-9  # relative: nobody cheats with less


def contradiction(folder: Path, record: RunRecord, *, whole: bool = False) -> str:
    """What the record says otherwise than its curve, in a sentence; empty if nothing, or without a curve.

    Args:
        folder: of the run.
        record: its record, from wherever it was read.
        whole: read all of the curve, and check the mean training loss and the untrained model's loss, too.
    """
    path = folder / "metrics.jsonl"
    if record.status == "pruned" or not path.exists():  # what was pruned may go on for somebody else
        return ""
    rows = metrics.read(path) if whole else metrics.tail(path)
    last = max((row["step"] for row in rows), default=0)
    if last != record.steps:
        return f"record.json says {record.steps} steps and metrics.jsonl {last}"
    curve = _final(rows, last) | (_from_start(rows, record) if whole else {})
    if record.status == "diverged" and _is_finished(curve) and not record.metrics:
        return "record.json says diverged and metrics.jsonl has the figures of a completed run"
    told = {name: one for name, one in record.metrics.items() if name.startswith(_FINAL) or name in curve}
    return next((what for name in told | curve if (what := _difference(name, told, curve))), "")


def lost(folder: Path) -> str:
    """In one sentence what became of the record of a run that had one; empty if it is sound or not due yet.

    A live run may be about to write it: ask only where nobody is at work.

    Args:
        folder: of the run.
    """
    again = "the same command trains the run again"
    if (folder / "record.json").exists():
        sound = RunRecord.from_json(atomic.read_json(folder / "record.json")) is not None
        return "" if sound else f"record.json is damaged; {again}"
    finished = any(_is_finished(row) for row in metrics.tail(folder / "metrics.jsonl"))
    return f"record.json is missing though metrics.jsonl is complete; {again}" if finished else ""


def _final(rows: Sequence[Mapping[str, Any]], last: int) -> dict[str, Any]:
    """The held-out figures after the last step."""
    found: dict[str, Any] = {}
    for row in rows:
        if row["step"] == last:
            found |= {name: value for name, value in row.items() if name.startswith(_FINAL)}
    return found


def _is_finished(figures: Mapping[str, Any]) -> bool:
    return any(name.startswith("test_") for name in figures)


def _from_start(rows: Sequence[Mapping[str, Any]], record: RunRecord) -> dict[str, float]:
    """The figures for which all of the curve is needed, as `harness/loop.py` makes them."""
    losses = [row["loss"] for row in rows if row.get("loss") is not None]
    before = [row["val_loss"] for row in rows if row["step"] == 0 and "val_loss" in row]
    made = {"untrained_val_loss": before[-1]} if before else {}
    if losses:
        made["train_loss"] = statistics.fmean(losses[-max(1, record.steps // 10) :])
    return {name: value for name, value in made.items() if name in record.metrics}


def _difference(name: str, told: Mapping[str, Any], curve: Mapping[str, Any]) -> str:
    here, there = (figures.get(name, "missing") for figures in (told, curve))
    numbers = all(isinstance(value, int | float) for value in (here, there))
    if here == there or (numbers and math.isclose(here, there, rel_tol=_ROUNDING)):
        return ""
    here, there = ("not finite" if value is None else value for value in (here, there))
    return f"{name} is {here} in record.json and {there} in metrics.jsonl"
