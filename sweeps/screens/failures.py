"""The runs that failed, for `sweep status`: why, on which node, in which job, and where the log is."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.store import RunState, Store
from harness.store.owner import Owner
from harness.store.points import Point
from sweeps.cluster import job_log, submissions
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
        """A failed run in plain values; `log` is its own if its job had several or there was none."""
        attempt = self._store.attempt(point.key, state.attempts)
        owner = Owner.from_json(attempt.get("owner"))
        job = owner.job if owner else ""
        return {
            "key": point.key,
            "point": describe(point),
            "reason": state.reason,
            "message": state.message,
            "host": owner.host if owner else "",
            "job": job,
            "attempt": state.attempts,
            "log": str(self._log_of(job, point) or self._store.files(point.key).log),
        }

    def _log_of(self, job: str, point: Point) -> Path | None:
        folder = self._folders.get(job.partition("_")[0]) if job else None
        logs = [job_log.of_run(folder, job, point.id), job_log.of_job(folder, job)] if folder else []
        return next((log for log in logs if log.exists()), None)

    @functools.cached_property
    def _folders(self) -> dict[str, Path]:
        """Where the logs of each array are; read only if a job has failed."""
        from sweeps.cluster.job_array import log_folder  # imports submitit

        root = self._store.root
        return {one.job: log_folder(root, one) for one in submissions.read_all(root) if one.job}


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
    rest = f" and {len(nodes) - MOST_NODES} more nodes" if len(nodes) > MOST_NODES else ""
    return ", ".join(f"{node} ({n})" for node, n in nodes[:MOST_NODES]) + rest
