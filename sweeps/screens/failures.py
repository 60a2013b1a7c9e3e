"""The runs that failed, for `sweep status`: why, on which node, in which job, and where the log is."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.display import counted
from harness.store import RunState, Store, submissions
from harness.store.owner import Owner
from harness.store.points import Point
from harness.store.submissions import Submission
from sweeps.cluster import early_ends
from sweeps.plan.describe import describe

MOST_NODES = 4  # in a line


class Failures:
    """Looks at runs that failed.

    Args:
        store: the store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def row(self, point: Point, state: RunState) -> dict[str, Any]:
        """A failed run in plain values; `log` is what it printed to in its job, else its own."""
        attempt = self._store.attempt(point.key, state.attempts)
        owner = Owner.from_json(attempt.get("owner"))
        job = owner.job if owner else ""
        return {
            "key": point.key,
            "point": describe(point),
            "reason": str(state.reason),
            "message": state.message,
            "host": owner.host if owner else "",
            "job": job,
            "attempt": state.attempts,
            "log": str(self._log_of(point, job)),
        }

    def _log_of(self, point: Point, job: str) -> Path:
        array = self._arrays.get(job.partition("_")[0]) if job else None
        logs = early_ends.log_paths(self._store.root, array, job, point.id) if array else []
        return next((log for log in logs if log.exists()), self._store.files(point.key).log)

    @functools.cached_property
    def _arrays(self) -> dict[str, Submission]:
        """The arrays by their ids; read only if a job has failed."""
        return {one.job: one for one in submissions.read_all(self._store.root) if one.job}


def lines(failures: Iterable[Mapping[str, Any]], most: int) -> list[str]:
    """Failures in words. Those that differ in their numbers only share a line, most frequent first.

    Args:
        failures: as `Failures.row` gives them.
        most: lines, at most.
    """
    alike: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for one in failures:
        alike.setdefault((one["reason"], re.sub(r"\d+", "#", one["message"])), []).append(one)
    groups = sorted(alike.values(), key=len, reverse=True)
    hidden = sum(map(len, groups[most:]))
    return [*map(_line, groups[:most]), *([f"... and {hidden} more failed"] if hidden else [])]


def _line(group: Sequence[Mapping[str, Any]]) -> str:
    first = group[0]
    message = " ".join(first["message"].split())
    run = f"{first['key']} {first['point']}"
    where = f"{_nodes(group)}{', job ' + first['job'] if first['job'] else ''}, log {first['log']}"
    if len(group) == 1:
        return f"failed ({first['reason']}): {run}: {message}; on {where}"
    return f"failed ({first['reason']}), {len(group)} runs: {message}; on {where}; the first is {run}"


def _nodes(group: Sequence[Mapping[str, Any]]) -> str:
    """The nodes, each with its number of failures if there are several."""
    nodes = Counter(one["host"] or "an unknown host" for one in group).most_common()
    if len(nodes) == 1:
        return nodes[0][0]
    rest = f" and {counted(len(nodes) - MOST_NODES, 'more node')}" if len(nodes) > MOST_NODES else ""
    return ", ".join(f"{node} ({n})" for node, n in nodes[:MOST_NODES]) + rest
