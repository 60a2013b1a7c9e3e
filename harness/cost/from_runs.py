"""What runs of a class take, by the records and attempts of finished runs or of runs at work. Torch-free."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from datetime import datetime

from harness.cost.run_class import Cost, RunClass, passes, processor, run_class
from harness.store import Store, curve
from harness.store.record import RunRecord
from harness.store.run_folder import RunFolder

LOOKED_AT = 20  # so many of the latest runs of a class are enough


def from_records(store: Store, records: Iterable[RunRecord]) -> dict[RunClass, Cost]:
    """What finished runs tell, by class. Of several processors the one with most runs counts."""
    known: dict[tuple[RunClass, str], list[RunRecord]] = {}
    for record in records:
        if record.status == "completed" and record.steps and "parameters" in record.cost:
            known.setdefault((run_class(record.config), processor(record)), []).append(record)
    costs: dict[RunClass, Cost] = {}
    for (kind, where), seen in sorted(known.items(), key=lambda item: len(item[1])):
        costs[kind] = _from_runs(store, where, seen)
    return costs


def _from_runs(store: Store, where: str, records: Sequence[RunRecord]) -> Cost:
    latest = records[-LOOKED_AT:]
    last = latest[-1]
    epochs = last.config.get("epochs")
    return Cost(
        parameters=int(last.cost["parameters"]),
        step=statistics.median(record.useful_seconds / record.steps for record in records),
        evaluation=_evaluation(store, latest),
        overhead_seconds=0.0,
        startup_seconds=0.0,
        peak_memory=max(record.peak_memory for record in records),
        gpu="gpu" in last.environment,
        epoch_size=last.steps * last.config["batch_size"] / epochs if epochs else None,
        processor=where,
        runs=len(records),
    )


def _evaluation(store: Store, records: Sequence[RunRecord]) -> float:
    """Seconds per pass over held-out data, with its share of all that is no step.

    A record counts the seconds of steps only; how long its run took stands in its attempt.
    """
    rests = []
    for record in records:
        wall = wall_seconds(store.files(record.key), record)
        if wall is not None:
            rests.append((wall - record.useful_seconds) / passes(record.config, record.steps))
    return max(0.0, statistics.median(rests)) if rests else 0.0


def wall_seconds(files: RunFolder, record: RunRecord) -> float | None:
    """Seconds between the begin and the end of a finished run; None unless one attempt made all of it.

    Without an attempt that trained it (older code, or an import) the record tells them in whole seconds.
    """
    if record.attempts != 1:
        return None
    attempt = files.read_attempt(1)
    if attempt.get("start_step") is not None and attempt.get("ended") is not None:
        return float(attempt["ended"] - attempt["began"])
    if not (record.began and record.ended):  # version 0.1
        return None
    return (datetime.fromisoformat(record.ended) - datetime.fromisoformat(record.began)).total_seconds()


def from_pace(runs: Iterable[RunFolder], warm_up: int = 0) -> Cost | None:
    """The time of a step, with its share of all the rest, by runs at work; None if they have just begun.

    Args:
        runs: at work.
        warm_up: the first steps of a process; one that has made no more tells nothing.
    """
    paces = [seconds for seconds in (pace(files, warm_up) for files in runs) if seconds is not None]
    if not paces:
        return None
    return Cost(0, statistics.median(paces), 0.0, 0.0, 0.0, 0, False, None, "", len(paces))


def pace(files: RunFolder, warm_up: int = 0) -> float | None:
    """Seconds per step of the last attempt at a run; None if it has made no step after its warm-up."""
    number = files.last_attempt()
    attempt = files.read_attempt(number)
    start = attempt.get("start_step", 0 if number == 1 else None)  # older code does not note it
    if start is None or "began" not in attempt or not files.metrics.exists():
        return None
    steps = curve.last_step(files.metrics) - int(start)
    seconds = files.metrics.stat().st_mtime - float(attempt["began"])
    return seconds / steps if steps > warm_up else None
