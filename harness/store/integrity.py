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

CHANGED = Note("record_changed")
LOST = ("record_damaged", "record_missing")  # the run is trained again by itself


def find_contradiction(folder: Path, record: RunRecord) -> Note | None:
    """What speaks against a record: its curve, spectra, test items, or its own digest; None if nothing does.

    It compares the steps and the last metrics of both held-out splits. A pruned run is not compared: another
    study may have resumed it.

    Args:
        folder: of the run.
        record: its record, from wherever it was read.
    """
    files = RunFolder(folder)
    scored = items.read(files, record)
    against = _compare_with_curve(files, record)
    return against or (scored if isinstance(scored, Note) else CHANGED if record.digest else None)


def _compare_with_curve(files: RunFolder, record: RunRecord) -> Note | None:
    """What is wrong with curve and spectra, which are written before the record; None without a curve."""
    rows = metrics.tail(files.metrics)
    if record.status is Status.PRUNED or not (rows or files.metrics.exists()):
        return None
    if record.config.get("program"):
        return _compare_program(files, record)
    last = max((row["step"] for row in rows), default=0)
    if last != record.steps:
        return Note("steps_differ", record=record.steps, other=last, file=METRICS)
    noted, curve = _select_held_out(record.metrics), dict[str, float | None]()
    for row in rows:
        curve |= _select_held_out(row) if row["step"] == last else {}
    for name in noted | curve if noted != curve else ():
        recorded: Any = noted.get(name, "missing")
        measured: Any = curve.get(name, "missing")
        numbers = isinstance(recorded, int | float) and isinstance(measured, int | float)
        if recorded != measured and not (numbers and math.isclose(recorded, measured, **_ROUNDING)):
            recorded, measured = ("not finite" if value is None else value for value in (recorded, measured))
            return Note("metric_differs", name=name, record=recorded, other=measured)
    spectra = atomic.read_json_lines(files.spectra)
    if len(spectra) != len(atomic.read_lines(files.spectra)):
        return Note("spectra_damaged")
    last = max((row["step"] for row in spectra if isinstance(row.get("step"), int)), default=0)
    if last > record.steps:
        return Note("steps_differ", record=record.steps, other=last, file=SPECTRA)
    settings = record.config.get("spectra") or {}
    are_due = record.status is Status.COMPLETED and (settings.get("every") or settings.get("final"))
    return Note("spectra_incomplete") if are_due and last < record.steps else None


def _compare_program(files: RunFolder, record: RunRecord) -> Note | None:
    """The same of a program, by the metric that chooses: others may have been reported at other steps."""
    program = record.config["program"]
    name = f"val_{program['metric'].removeprefix('val_')}"
    values = {row["step"]: row[name] for row in metrics.read(files.metrics) if name in row}
    last, recorded = max(values, default=0), record.metrics.get(name)
    if last and last != record.steps:
        return Note("steps_differ", record=record.steps, other=last, file=METRICS)
    is_last = program.get("take") != "best" and record.status is Status.COMPLETED
    if is_last and values.get(last, "missing") != recorded:
        return Note("metric_differs", name=name, record=recorded, other=values.get(last, "missing"))
    return None


def _select_held_out(values: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: value for name, value in values.items() if name.startswith(_HELD_OUT)}


def explain_loss(folder: Path) -> Note | None:
    """Why a run that had ended has no valid record, a kind of LOST; None if it has one or had not ended.

    A live run may be about to write its record: call this only for runs without a live owner.

    Args:
        folder: of the run.
    """
    files = RunFolder(folder)
    if files.record.exists():
        sound = RunRecord.from_json(atomic.read_json(files.record)) is not None
        return None if sound else Note("record_damaged")
    names = {name for row in metrics.tail(files.metrics) for name in row}
    # A program may report what it calls so long before its end.
    if any(name.startswith("test_") for name in names) and not files.program.exists():
        return Note("record_missing")
    outcome = files.read_attempt(files.last_attempt()).get("outcome") or {}
    return Note("record_missing") if outcome.get("reason") == Reason.FINISHED else None
