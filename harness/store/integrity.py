"""Whether a run's record agrees with its curve, which `htbench doctor` asks; tables ask the record's digest.

The curve (`metrics.jsonl`) ends with the metrics that the record repeats. Without it a run whose record is
lost would count as not begun. Torch-free.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from htbench.harness.show.note import Note
from htbench.harness.show.status import Status
from htbench.harness.store import curve as metrics
from htbench.harness.store import items
from htbench.harness.store.layout import METRICS, SPECTRA
from htbench.harness.store.record import RunRecord
from htbench.harness.store.run_folder import Reason, RunFolder
from htbench.harness.system import atomic

_HELD_OUT = ("val_", "test_")  # evaluations of the test split are made at the end only
_ROUNDING = {"rel_tol": 1e-9, "abs_tol": 1e-12}  # smaller differences are rounding
_ROW = 100  # bytes that hold the row of a step

CHANGED = Note("record_changed")
LOST = ("record_damaged", "record_missing", "record_missing_at_the_end")  # the run is trained again by itself


def contradiction(folder: Path, record: RunRecord) -> Note | None:
    """What speaks against a record: its curve, spectra, test items, or its own digest; None if nothing does.

    It compares the steps, the last metrics of both held-out splits, and the mean training loss of the last
    tenth. A pruned run is not compared: another study may have resumed it.

    Args:
        folder: of the run.
        record: its record, from wherever it was read.
    """
    files = RunFolder(folder)
    scored = items.read(files, record)
    against = _difference_to_curve(files, record)
    return against or (scored if isinstance(scored, Note) else CHANGED if record.digest else None)


def _difference_to_curve(files: RunFolder, record: RunRecord) -> Note | None:
    """None if they agree, or if there is no curve."""
    path = files.metrics
    if record.status is Status.PRUNED:
        return None
    rows = metrics.tail(path, metrics.TAIL + _ROW * (record.steps // 10))
    if not rows and not path.exists():
        return None
    last = max((row["step"] for row in rows), default=0)
    if last != record.steps:
        return Note("steps_differ", record=record.steps, other=last, file=METRICS)
    curve: dict[str, Any] = {}  # the metrics after the last step, as far as the record has them, too
    for row in rows:
        if row["step"] == last:
            curve |= {name: value for name, value in row.items() if name.startswith(_HELD_OUT)}
    if record.status is Status.DIVERGED and not record.metrics and _is_finished(curve):
        return Note("diverged_yet_complete")
    counted = max(1, last // 10)  # as `harness/train/loop.py` makes the training loss
    ends = {row["step"]: row for row in rows if row.get("loss") is not None and row["step"] > last - counted}
    updates = {step: row.get("updates") or 1 for step, row in ends.items()}
    if "train_loss" in record.metrics and sum(updates.values()) == counted:
        curve["train_loss"] = math.fsum(updates[step] * row["loss"] for step, row in ends.items()) / counted
    noted = {name: x for name, x in record.metrics.items() if name.startswith(_HELD_OUT) or name in curve}
    for name in noted | curve if noted != curve else ():
        here: Any = noted.get(name, "missing")
        there: Any = curve.get(name, "missing")
        numbers = isinstance(here, int | float) and isinstance(there, int | float)
        if here != there and not (numbers and math.isclose(here, there, **_ROUNDING)):
            here, there = ("not finite" if value is None else value for value in (here, there))
            return Note("metric_differs", name=name, record=here, other=there)
    return _spectra(files, record)


def lost(folder: Path) -> Note | None:
    """Why a run that had ended has no valid record, a kind of LOST; None if it has one or had not ended.

    A live run may be about to write its record: call this only for runs without a live owner.

    Args:
        folder: of the run.
    """
    files = RunFolder(folder)
    if files.record.exists():
        sound = RunRecord.from_json(atomic.read_json(files.record)) is not None
        return None if sound else Note("record_damaged")
    if any(_is_finished(row) for row in metrics.tail(files.metrics)):
        return Note("record_missing")
    outcome = files.read_attempt(files.last_attempt()).get("outcome")
    ended = outcome is not None and outcome.get("reason") == Reason.FINISHED
    return Note("record_missing_at_the_end") if ended else None


def _is_finished(metrics: Mapping[str, Any]) -> bool:
    return any(name.startswith("test_") for name in metrics)


def _spectra(files: RunFolder, record: RunRecord) -> Note | None:
    """What is wrong with the spectra of a run that has ended; they are written before the record."""
    rows = atomic.read_json_lines(files.spectra)
    if len(rows) != atomic.count_lines(files.spectra):
        return Note("spectra_damaged")
    last = max((row["step"] for row in rows if isinstance(row.get("step"), int)), default=0)
    if last > record.steps:
        return Note("steps_differ", record=record.steps, other=last, file=SPECTRA)
    asked = record.config.get("spectra") or {}
    wanted = record.status is Status.COMPLETED and (asked.get("every") or asked.get("final"))
    return Note("spectra_incomplete") if wanted and last < record.steps else None
