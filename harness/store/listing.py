"""The runs of a store as rows: finished ones from the index, others from their folders."""

import contextlib
import functools
import heapq
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeVar

from htbench.harness.config import Value
from htbench.harness.config.names import canonical, settings_of
from htbench.harness.config.settings import FIELDS, field_value, is_setting, known_settings
from htbench.harness.errors import UsageError, nearest
from htbench.harness.show.note import Note
from htbench.harness.show.status import ENDED, Status
from htbench.harness.store import RunState, Store, integrity
from htbench.harness.store.record import RunRecord

# A waiting run has a folder, but neither record nor live owner. The record of a damaged one can't be read, is
# gone, or was changed: it has no figures.
T = TypeVar("T")

UNFINISHED = (Status.RUNNING, Status.WAITING, Status.FAILED)
STATUSES = (*ENDED, *UNFINISHED, Status.DAMAGED)


@dataclass(frozen=True)
class Row:
    """One run.

    Attributes:
        key: the run.
        status: one of STATUSES.
        config: nested, as stored; empty if its file is damaged.
        time: when the record was written, or when an unfinished run was last touched, in seconds since 1970.
        record: of a finished run.
        state: of an unfinished run.
        reason: why it is damaged.
    """

    key: str
    status: Status
    config: Mapping[str, Any]
    time: float
    record: RunRecord | None = None
    state: RunState | None = None
    reason: Note | None = None

    @functools.cached_property
    def settings(self) -> dict[str, Value]:
        """The config by dotted names, as people write them."""
        return settings_of(self.config)


def rows(
    store: Store,
    statuses: Collection[Status],
    wanted: Mapping[str, Value],
    take: Callable[[Row], T],
    keys: Collection[str] | None = None,
    limit: int | None = None,
) -> tuple[list[T], int]:
    """What `take` takes of each run, the newest first, and how many there are without the limit.

    Args:
        store: where they are.
        statuses: some of STATUSES; the folders of unfinished runs are only read if wanted.
        wanted: what their settings must be, as `filters` gives it.
        take: what is kept of a row: records of all runs of a store would fill the memory.
        keys: of which runs; None means all.
        limit: keep no more of them; all the others are never in memory together.
    """
    number = 0

    def matching() -> Iterator[Row]:
        nonlocal number
        for row in _all(store, statuses, keys):
            if row.status in statuses and all(_agrees(row.settings, *each) for each in wanted.items()):
                number += 1
                yield row

    if limit is None:
        shown = sorted(((-row.time, row.key, take(row)) for row in matching()), key=itemgetter(0, 1))
        return [taken for _, _, taken in shown], number
    newest = heapq.nsmallest(limit, matching(), lambda row: (-row.time, row.key))
    return [take(row) for row in newest], number


def _all(store: Store, statuses: Collection[Status], keys: Collection[str] | None) -> Iterator[Row]:
    """Every run; the unfinished ones only if they are wanted."""
    known = [key for key in store.keys() if keys is None or key in keys]
    ended = set()
    for key, record, mark in store.each_marked(known):
        ended.add(key)
        yield _finished(record, mark.modified / 1e9)
    every = not set(UNFINISHED).isdisjoint(statuses)
    for key in known:
        if key not in ended and (every or (Status.DAMAGED in statuses and store.files(key).record.exists())):
            yield _unfinished(store, key)


def _finished(record: RunRecord, time: float) -> Row:
    if record.digest:
        return Row(record.key, Status.DAMAGED, record.config, time, reason=integrity.CHANGED)
    return Row(record.key, record.status, record.config, time, record=record)


def _unfinished(store: Store, key: str) -> Row:
    files, state = store.files(key), store.state(key)
    if state.record is not None:  # it has finished meanwhile
        return _finished(state.record, files.record.stat().st_mtime)
    last, config = files.attempt(state.attempts), dict[str, Any]()
    time = os.stat(last if last.exists() else files.path).st_mtime
    with contextlib.suppress(UsageError):
        config = files.read_config()
    status = Status.DAMAGED if state.lost is not None else state.status
    return Row(key, status, config, time, state=state, reason=state.lost)


# --- filters ---


def filters(given: Mapping[str, Value]) -> dict[str, Value]:
    """The settings of a filter, names checked and values coerced.

    Raises:
        UsageError: no run has such a setting, or none can have such a value.
    """
    wanted = {canonical(name): value for name, value in given.items()}
    rules = [wanted["optimizer.name"]] if "optimizer.name" in wanted else []
    for name, value in wanted.items():
        if not is_setting(name, rules):
            raise UsageError(f"Unknown setting '{name}' in a filter; {nearest(name, known_settings())}")
        if name in FIELDS and value is not None:
            wanted[name] = field_value(name, value)
    return wanted


def _agrees(settings: Mapping[str, Value], name: str, value: Value) -> bool:
    if name in settings:
        return bool(settings[name] == value)
    is_older = name in FIELDS  # than the field
    return is_older and bool(FIELDS[name].before == value)
