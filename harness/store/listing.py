"""The runs of a store as rows: finished ones from the index, others from their folders."""

import contextlib
import heapq
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from htbench.harness.config import Value
from htbench.harness.config.names import canonical, settings_of
from htbench.harness.config.settings import FIELDS, field_value, is_setting, known_settings
from htbench.harness.errors import UsageError, nearest
from htbench.harness.show.status import ENDED, Status
from htbench.harness.store import Store, integrity
from htbench.harness.store.layout import RECORD
from htbench.harness.store.record import RunRecord

# A waiting run has a folder, but neither record nor live owner. The record of a damaged one can't be read, is
# gone, or was changed: it has no figures.
UNFINISHED = (Status.RUNNING, Status.WAITING, Status.FAILED)
STATUSES = (*ENDED, *UNFINISHED, Status.DAMAGED)


@dataclass(frozen=True)
class Row:
    """A run.

    Attributes:
        key: 12 hex digits.
        status: `completed`, `diverged`, `pruned`, `running`, `waiting`, `failed`, `damaged`.
        reason: why, if it did not complete.
        time: when it ended or was last touched, in seconds since 1970.
        host: where it ran; empty if not known.
        code: with which code; empty if not known.
        steps: updates made; null for an unfinished run.
        seconds_per_step: mean after a warm-up.
        metrics: of the record; null: not finite.
        settings: by dotted names.
    """

    key: str
    status: Status
    reason: str
    time: float
    settings: Mapping[str, Value]
    host: str = ""
    code: str = ""
    steps: int | None = None
    seconds_per_step: float | None = None
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    _task: Mapping[str, Any] = field(default_factory=dict)  # what its record says of a task of others


def rows(
    store: Store,
    statuses: Collection[Status],
    settings: Mapping[str, Value],
    keys: Collection[str] | None = None,
    limit: int | None = None,
) -> tuple[list[Row], int]:
    """The runs, the newest first, and how many there are without the limit.

    Args:
        store: where they are.
        statuses: some of STATUSES; the folders of unfinished runs are only read if wanted.
        settings: what their settings must be, as `read_filters` gives it.
        keys: of which runs; None means all.
        limit: keep no more of them; all the others are never in memory together.
    """
    number = 0

    def matching() -> Iterator[Row]:
        nonlocal number
        for row in _iterate_rows(store, statuses, keys):
            if row.status in statuses and all(_agrees(row.settings, *each) for each in settings.items()):
                number += 1
                yield row

    most = sys.maxsize if limit is None else limit
    return heapq.nsmallest(most, matching(), lambda row: (-row.time, row.key)), number


def _iterate_rows(store: Store, statuses: Collection[Status], keys: Collection[str] | None) -> Iterator[Row]:
    """Every run; the unfinished ones only if they are wanted."""
    candidates = [key for key in store.keys() if keys is None or key in keys]
    ended = set()
    for key, record in store.each_record(candidates):
        ended.add(key)
        yield _make_finished_row(store, record)
    every = not set(UNFINISHED).isdisjoint(statuses)
    for key in candidates:
        if key not in ended and (every or (Status.DAMAGED in statuses and store.files(key).record.exists())):
            yield _make_unfinished_row(store, key)


def _make_finished_row(store: Store, record: RunRecord) -> Row:
    file = store.look(record.key, RECORD)
    time = file.st_mtime if file is not None else 0.0
    if record.digest:
        return Row(record.key, Status.DAMAGED, str(integrity.CHANGED), time, record.settings)
    return Row(
        record.key,
        record.status,
        record.note,
        time,
        record.settings,
        host=str(record.environment.get("host", "")),
        code=str(record.environment.get("code", "")),
        steps=record.steps,
        seconds_per_step=record.seconds_per_step,
        metrics=record.metrics,
        _task={"task": record.environment.get("task")},
    )


def _make_unfinished_row(store: Store, key: str) -> Row:
    files, state = store.files(key), store.state(key)
    if state.record is not None:  # it has finished meanwhile
        return _make_finished_row(store, state.record)
    last, settings = files.attempt(state.attempts), dict[str, Any]()
    with contextlib.suppress(UsageError):
        settings = settings_of(files.read_config())
    return Row(
        key,
        status=Status.DAMAGED if state.lost_record is not None else state.status,
        reason=str(state.lost_record or state.reason or ""),
        time=os.stat(last if last.exists() else files.path).st_mtime,
        settings=settings,
        host=state.owner.host if state.owner is not None else "",
    )


# --- filters ---


def read_filters(words: Mapping[str, Value]) -> dict[str, Value]:
    """The settings of a filter, names checked and values coerced.

    Raises:
        UsageError: no run has such a setting, or none can have such a value.
    """
    settings = {canonical(name): value for name, value in words.items()}
    rules = [settings["optimizer.name"]] if "optimizer.name" in settings else []
    for name, value in settings.items():
        if not is_setting(name, rules):
            raise UsageError(f"Unknown setting '{name}' in a filter; {nearest(name, known_settings())}")
        if name in FIELDS and value is not None:
            settings[name] = field_value(name, value)
    return settings


def _agrees(settings: Mapping[str, Value], name: str, value: Value) -> bool:
    if name in settings:
        return bool(settings[name] == value)
    is_older = name in FIELDS  # than the field
    return is_older and bool(FIELDS[name].before == value)
