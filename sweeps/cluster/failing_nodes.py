"""Nodes that eat jobs: each job that they are given ends at once, so they are free for the next one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.display import counted, duration
from sweeps.cluster import early_ends, job_log
from sweeps.cluster.early_ends import FIRST_MINUTE, EarlyEnd

LEAST = 3  # jobs that must have ended early on a node before it is named
RECENT = 24 * 3600.0  # seconds; the node may have been repaired since
MOST_OTHERS = 300  # jobs of the same arrays whose nodes are looked up


@dataclass(frozen=True)
class FailingNode:
    """A node that ends jobs early.

    Attributes:
        node: its name in SLURM.
        early: how many jobs ended there before their run began, or failed in its first minute.
        jobs: how many of the same arrays were started there.
        seconds: the most that one of the early ones took; None if nothing tells.
        reason: the most frequent error.
    """

    node: str
    early: int
    jobs: int
    seconds: float | None
    reason: str

    def __str__(self) -> str:
        within = "" if self.seconds is None else f", each within {duration(self.seconds)}"
        reason = f" ({self.reason})" if self.reason else ""
        return f"node {self.node} ended {self.early} of its {counted(self.jobs, 'job')} early{within}{reason}"

    def to_json(self) -> dict[str, Any]:
        """The node in plain values."""
        return asdict(self)


def judge(root: Path, ended: Sequence[EarlyEnd], queued: Collection[str]) -> list[FailingNode]:
    """The nodes that fail, by the jobs of the last day; the worst first.

    A node fails if at least LEAST jobs, and at least half of those that it was given, ended early there. But
    if no other node does better, the jobs themselves are the reason, and no node is named.

    Args:
        root: the store.
        ended: the jobs that ended early.
        queued: the ids of all jobs in the queue.
    """
    recent = [one for one in ended if not one.told.cancelled and one.told.ended > time.time() - RECENT]
    early: dict[str, list[EarlyEnd]] = {}
    for one in recent:
        if one.told.node:
            early.setdefault(one.told.node, []).append(one)
    if all(len(own) < LEAST for own in early.values()):
        return []
    others = _others(root, recent, {one.job for one in ended}, queued)
    bad = {node for node, own in early.items() if len(own) >= max(LEAST, others[node])}
    if not any(n > len(early.get(node, ())) for node, n in others.items()):
        return []
    worst = sorted(bad, key=lambda node: (-len(early[node]), node))
    return [_failing(node, early[node], others[node]) for node in worst]


def _others(
    root: Path, recent: Sequence[EarlyEnd], early: Collection[str], queued: Collection[str]
) -> Counter[str]:
    """How many other jobs of the same arrays started on each node, without those that may still end early."""
    arrays = {one.array.word: one.array for one in recent}.values()
    jobs = [(array, job) for array in arrays for job in array.jobs() if job not in early]
    found = Counter[str]()
    for array, job in jobs[:MOST_OTHERS]:
        log = job_log.read(early_ends.log_path(root, array, job))
        young = job in queued and time.time() - (log and log.began or 0.0) < FIRST_MINUTE
        if log is not None and log.node and not young:
            found[log.node] += 1
    return found


def _failing(node: str, own: Sequence[EarlyEnd], others: int) -> FailingNode:
    reason = early_ends.grouped(own)[0][0].told.error
    return FailingNode(node, len(own), len(own) + others, early_ends.longest(own), reason)
