"""Runs that others made, as rows of the frame: marked, and with no value that their file does not tell.

Their file has one evaluation set, as a rule. What was measured there stands in the columns of both splits,
and the tables say so.
"""

from collections.abc import Mapping
from typing import Any

from harness.store.points import SEED_FIELDS
from harness.store.record import IMPORTED, RUN, RunRecord, is_imported
from results.frames.rows import Frame, Rows, rows

GONE = "its record is gone or damaged; `htbench runs import --curves` with the same file writes it again"

_VAL, _TEST = "val_", "test_"


def settings(key: str, told: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run by dotted names, with seeds in any case.

    If its file tells none, the seed is a number made of its key, which no other run has: statistics pair runs
    that have the same seed, and these must not agree by chance.

    Args:
        key: the run.
        told: its settings as stored.
    """
    seeds = {name: int(key, 16) for name in SEED_FIELDS if told.get(name) is None}
    return {"replica": "", "data_fingerprint": "", **told, **seeds}


def metrics(record: RunRecord) -> dict[str, float | None]:
    """The metrics of a record; of a run with a single evaluation set they stand as `val` and as `test`."""
    if not is_imported(record.config) or any(name.startswith(_TEST) for name in record.metrics):
        return record.metrics
    found = {name: value for name, value in record.metrics.items() if name.startswith(_VAL)}
    return record.metrics | {_TEST + name.removeprefix(_VAL): value for name, value in found.items()}


def columns(values: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that mark a row: its source, and for such a run their own word for it."""
    marks = {IMPORTED: values.get(IMPORTED, "")}
    return marks | {RUN: values[RUN]} if marks[IMPORTED] else marks


def has_one_split(found: Rows, metric: str) -> bool:
    """Whether what stands as `test` in some rows of others' runs is what stands as `val`."""
    return all(
        (row[IMPORTED] or row.get("file")) and row.get(_TEST + metric) == row.get(_VAL + metric)
        for row in found
    )


def source(part: Frame) -> str:
    """The name under which the runs of a workload were imported; empty for our own."""
    return next((str(row[IMPORTED]) for row in rows(part) if row[IMPORTED]), "")
