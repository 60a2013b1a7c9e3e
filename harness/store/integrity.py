"""Whether a run's record agrees with its curve. Torch-free, and quick for ten thousand runs.

The curve (`metrics.jsonl`) ends with the metrics that the record repeats. Without this comparison a record
edited by hand would be believed, and a run whose record is lost would count as not begun.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.store import curve as metrics
from harness.store.record import RunRecord
from harness.store.run_folder import RunFolder
from harness.system import atomic

_HELD_OUT = ("val_", "test_")  # evaluations of the test split are made at the end only
_ROUNDING = {"rel_tol": 1e-9, "abs_tol": 1e-12}  # smaller differences are rounding
_ROW = 100  # bytes that hold the row of a step
_FEW = 64  # steps that are quick to read

AGAIN = "the same command trains the run again"
CHANGED = "record.json was changed after the run"


def contradiction(folder: Path, record: RunRecord, *, thorough: bool = False, cut_counts: bool = True) -> str:
    """What speaks against a record, in a sentence: its curve, or its own digest; empty if nothing does.

    It compares the steps, the last metrics of both held-out splits, and the mean training loss of the last
    tenth if those rows were read. A pruned run is not compared: another study may have resumed it.

    Args:
        folder: of the run.
        record: its record, from wherever it was read.
        thorough: read the last tenth of the curve, however long the run was, and the spectra.
        cut_counts: whether a curve without its end counts as a difference; no metric contradicts the record.
    """
    against = _difference_to_curve(folder, record, thorough, cut_counts)
    return against or (CHANGED if record.digest else "")


def _difference_to_curve(folder: Path, record: RunRecord, thorough: bool, cut_counts: bool) -> str:
    """Empty if they agree, or if there is no curve."""
    path = RunFolder(folder).metrics
    if record.status == "pruned":
        return ""
    tenth = record.steps // 10
    if thorough:
        rows = metrics.tail(path, metrics.TAIL + _ROW * tenth)
    else:  # what a table asks for ten thousand runs: the last tenth only if it is short
        rows = metrics.tail(path, back=tenth if tenth <= _FEW else 0)
    if not rows and not path.exists():
        return ""
    last = max((row["step"] for row in rows), default=0)
    if last < record.steps and not cut_counts:
        return ""
    if last != record.steps:
        return f"record.json says {record.steps} steps, metrics.jsonl {last}"
    curve = _held_out(rows, last)
    if record.status == "diverged" and not record.metrics and _is_finished(curve):
        return "record.json says diverged, metrics.jsonl has the figures of a completed run"
    if "train_loss" in record.metrics:
        curve |= _train_loss(rows, last)
    noted = {name: one for name, one in record.metrics.items() if name.startswith(_HELD_OUT) or name in curve}
    differences = (_difference(name, noted, curve) for name in (noted | curve if noted != curve else ()))
    return next(filter(None, differences), "") or (_spectra(RunFolder(folder), record) if thorough else "")


def lost(folder: Path) -> str:
    """Why a run that had ended has no valid record, in a sentence; empty if it has one or had not ended.

    A live run may be about to write its record: call this only for runs without a live owner.

    Args:
        folder: of the run.
    """
    files = RunFolder(folder)
    if files.record.exists():
        sound = RunRecord.from_json(atomic.read_json(files.record)) is not None
        return "" if sound else f"record.json is damaged; {AGAIN}"
    if any(_is_finished(row) for row in metrics.tail(files.metrics, back=0)):
        return f"record.json is missing, though metrics.jsonl is complete; {AGAIN}"
    if _last_outcome(files) == "finished":
        return f"record.json is missing, though the run had come to its end; {AGAIN}"
    return ""


def _held_out(rows: Sequence[Mapping[str, Any]], last: int) -> dict[str, Any]:
    """The held-out metrics after the last step."""
    found: dict[str, Any] = {}
    for row in rows:
        if row["step"] == last:
            found |= {name: value for name, value in row.items() if name.startswith(_HELD_OUT)}
    return found


def _is_finished(metrics: Mapping[str, Any]) -> bool:
    return any(name.startswith("test_") for name in metrics)


def _train_loss(rows: Sequence[Mapping[str, Any]], last: int) -> dict[str, float]:
    """As `harness/train/loop.py` makes it, if the rows go back that far."""
    losses = {row["step"]: row["loss"] for row in rows if row.get("loss") is not None}
    tenth = range(last - max(1, last // 10) + 1, last + 1)
    if not losses.keys() >= set(tenth):
        return {}
    return {"train_loss": statistics.fmean([losses[step] for step in tenth])}


def _difference(name: str, noted: Mapping[str, Any], curve: Mapping[str, Any]) -> str:
    here, there = (values.get(name, "missing") for values in (noted, curve))
    numbers = all(isinstance(value, int | float) for value in (here, there))
    if here == there or (numbers and math.isclose(here, there, **_ROUNDING)):
        return ""
    here, there = ("not finite" if value is None else value for value in (here, there))
    return f"{name} is {here} in record.json, {there} in metrics.jsonl"


def _spectra(files: RunFolder, record: RunRecord) -> str:
    """What is wrong with the spectra of a run that has ended; they are written before the record."""
    rows = atomic.read_json_lines(files.spectra)
    if len(rows) != atomic.count_lines(files.spectra):
        return "spectra.jsonl has damaged lines"
    last = max((row["step"] for row in rows if isinstance(row.get("step"), int)), default=0)
    if last > record.steps:
        return f"record.json says {record.steps} steps, spectra.jsonl {last}"
    asked = record.config.get("spectra") or {}  # older records have none
    if record.status == "completed" and (asked.get("every") or asked.get("final")) and last < record.steps:
        return "spectra.jsonl lacks the final weights, which the config asks for"
    return ""


def _last_outcome(files: RunFolder) -> str:
    """How the last attempt says that it ended; empty if it does not."""
    outcome = files.read_attempt(files.last_attempt()).get("outcome")
    return str(outcome.get("reason", "")) if isinstance(outcome, dict) else ""
