"""`sweep status`: one screen from files and at most one `squeue`. Torch-free, quick for ten thousand runs."""

from __future__ import annotations

import shutil
import statistics
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.data import registry as tasks
from harness.display import aligned, duration
from harness.store import Kind, RunState, Store, curve
from harness.store.points import SEARCH, SEED_FIELDS, Point
from harness.store.record import RunRecord
from sweeps.cluster import queue as jobs
from sweeps.plan.describe import describe
from sweeps.plan.planned import objective
from sweeps.plan.replicas import winner
from sweeps.plan.states import states, word
from sweeps.screens.time_left import Estimate
from sweeps.spec.sweep import SweepSpec

MOST_LINES = 12  # of runs at work and of failures each; JSON has all
OUTCOMES = ("completed", "diverged", "pruned")
COLUMNS = (*OUTCOMES, "running", "queued", "waiting", "failed")
ALWAYS = ("completed", "running", "waiting", "failed")  # the other columns only if a count is above 0
_WORDS = ("sweep", "block", "best so far")  # heads of columns that hold words


@dataclass
class Block:
    """The state of a block of a sweep.

    Attributes:
        sweep: the sweep's name.
        name: the block's.
        points: their number.
        counts: of the points by state.
        seconds: of one worker for the points that are left; None if unknown.
        best: the candidate that a table would choose now, in words; one for each objective of the block.
        at_work: the runs under way.
        failures: the runs that failed.
    """

    sweep: str
    name: str
    points: int
    counts: Counter[str]
    seconds: float | None
    best: str
    at_work: list[dict[str, Any]] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)

    @property
    def left(self) -> int:
        """The number of points without an outcome that may still get one."""
        return sum(self.counts[name] for name in ("running", "queued", "waiting"))

    def to_json(self) -> dict[str, Any]:
        """The block in plain values."""
        row = {"sweep": self.sweep, "block": self.name, "points": self.points, **self.counts}
        return row | {
            "left_seconds": self.seconds,
            "best": self.best,
            "at_work": self.at_work,
            "failures": self.failures,
        }


@dataclass
class Screen:
    """What `sweep status` shows.

    Attributes:
        blocks: of all sweeps.
        remarks: on jobs and stopped runs, a line each.
    """

    blocks: list[Block] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def settled(self) -> bool:
        """Whether nothing is left to wait for."""
        return not any(block.left for block in self.blocks)


def look(store: Store, sweeps: Sequence[tuple[SweepSpec, Sequence[Point]]]) -> Screen:
    """Collect what `sweep status` shows.

    Args:
        store: the store.
        sweeps: each with its points as planned.
    """
    known = states(store, [point for _, points in sweeps for point in points])
    estimate = Estimate(store)
    screen = Screen()
    for spec, points in sweeps:
        queue = jobs.in_queue(store, [point.id for point in points])
        found = jobs.with_queue({point.id: known[point.id] for point in points}, queue)
        for name in dict.fromkeys(point.block for point in points):
            own = [point for point in points if point.block == name]
            screen.blocks.append(_block(store, spec, name, own, found, estimate))
        screen.remarks += jobs.why_they_wait(spec, queue)
        screen.remarks += jobs.without_pickles(store, spec, queue)
        screen.remarks += jobs.ended_early(store, spec, found)
        screen.remarks += _why_they_stopped(spec, found)
    return screen


def _block(
    store: Store,
    spec: SweepSpec,
    name: str,
    points: Sequence[Point],
    found: Mapping[str, RunState],
    estimate: Estimate,
) -> Block:
    counts = Counter(word(found[point.id]) for point in points)
    at_work, failures = [], []
    for point in points:
        state = found[point.id]
        if state.kind is Kind.LIVE:
            at_work.append(_at_work(store, point, state, estimate))
        elif state.kind is Kind.FAILED:
            failures.append(
                {"key": point.key, "point": describe(point), "reason": state.reason, "message": state.message}
            )
    seconds = estimate.left([(point, found[point.id]) for point in points])
    best = _best(spec, points, found)
    return Block(spec.name, name, len(points), counts, seconds, best, at_work, failures)


def _at_work(store: Store, point: Point, state: RunState, estimate: Estimate) -> dict[str, Any]:
    owner = state.owner
    return {
        "key": point.key,
        "point": describe(point),
        "step": curve.last_step(store.files(point.key).metrics),
        "steps": estimate.steps(point),
        "host": owner.host if owner else "",
        "job": owner.job if owner else "",
        "attempt": state.attempts,
    }


def _why_they_stopped(spec: SweepSpec, found: Mapping[str, RunState]) -> list[str]:
    """Why waiting runs stopped the last time, with counts."""
    said = Counter(state.message for state in found.values() if state.kind is Kind.WAITING and state.message)
    return [f"{spec.name}: {n} waiting runs stopped before: {why}" for why, n in said.most_common(3)]


def _best(spec: SweepSpec, points: Sequence[Point], found: Mapping[str, RunState]) -> str:
    groups: dict[tuple[str, ...], list[Point]] = {}
    for point in points:
        if point.stage == SEARCH:
            groups.setdefault(objective(point, spec), []).append(point)
    records = {point.key: record for point in points if (record := found[point.id].record) is not None}
    best = {group[1:]: winner(own, records) for group, own in groups.items()}
    if len(best) == 1:
        return "".join(_in_words(own, records) for own in best.values() if own)
    return "; ".join(f"{', '.join(fixed)}: {_in_words(own, records)}" for fixed, own in best.items() if own)


def _in_words(twins: Sequence[Point], records: Mapping[str, RunRecord]) -> str:
    """A candidate and its mean metric: "lr=0.1: val accuracy 0.95 (n=3)"."""
    own = [records[point.key] for point in twins]
    point, seeds = twins[0], ""
    if len(own) > 1:
        unseeded = {name: value for name, value in point.overrides.items() if name not in SEED_FIELDS}
        point, seeds = replace(point, overrides=unseeded), f" (n={len(own)})"
    metric = tasks.recorded(own[0].config["task"], own[0].environment).metric
    mean = statistics.fmean(float(record.metrics[f"val_{metric}"] or 0) for record in own)
    return f"{_settings(point)}: val {metric} {mean:.4g}{seeds}"


def _settings(point: Point) -> str:
    return describe(point).removeprefix(f"{point.sweep} {point.block} ")


# --- on the screen ---


def show(screen: Screen, again: bool = False) -> None:
    """Print the screen. A terminal cuts lines to its width, and is cleared before it shows a screen again."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    if again:
        print("\x1b[H\x1b[2J" if width else "", end="" if width else "\n")
        print(time.strftime("%Y-%m-%d %H:%M:%S"))
    rows = _rows(screen)
    lines = aligned(rows, words=_WORDS).splitlines()
    if (
        width and max(map(len, lines)) > width
    ):  # the last column would be cut off, so it gets lines of its own
        lines = aligned([row[:-1] for row in rows], words=_WORDS).splitlines()
        lines += [f"best of {b.sweep} {b.name}: {b.best}" for b in screen.blocks if b.best]
    lines += _sweeps(screen)
    lines += _some([_line(run) for block in screen.blocks for run in block.at_work], "at work")
    failures = [failure for block in screen.blocks for failure in block.failures]
    lines += _some(
        [
            f"failed ({f['reason']}): {f['key']} {f['point']}: {' '.join(f['message'].split())}"
            for f in failures
        ],
        "failed",
    )
    lines += screen.remarks
    print("\n".join(line[:width] for line in lines), flush=True)


def _shown(screen: Screen) -> list[str]:
    return [name for name in COLUMNS if name in ALWAYS or any(block.counts[name] for block in screen.blocks)]


def _rows(screen: Screen) -> list[list[object]]:
    shown = _shown(screen)
    rows: list[list[object]] = [["sweep", "block", "points", *shown, "work left", "best so far"]]
    for block in screen.blocks:
        counts = [block.counts[name] or "" for name in shown]
        left = duration(block.seconds) if block.left else ""
        rows.append([block.sweep, block.name, block.points, *counts, left, block.best or "-"])
    return rows


def _sweeps(screen: Screen) -> list[str]:
    """A line for each sweep: its progress, and its end if as many workers go on as now."""
    lines = []
    for name in dict.fromkeys(block.sweep for block in screen.blocks):
        blocks = [block for block in screen.blocks if block.sweep == name]
        left, at_work = sum(b.left for b in blocks), sum(len(b.at_work) for b in blocks)
        ended = sum(block.counts[outcome] for block in blocks for outcome in OUTCOMES)
        line = f"{name}: {ended} of {sum(b.points for b in blocks)} points have a result"
        if left:
            line += f", {left} to go, {at_work} at work"
            line += _eta([block.seconds for block in blocks if block.left], at_work)
        lines.append(line)
    return lines


def _eta(seconds: Sequence[float | None], at_work: int) -> str:
    total = sum(value for value in seconds if value is not None)
    if not total:
        return ""
    least = "at least " if None in seconds else ""
    eta = f", ETA {least}{duration(total / at_work)}" if at_work else ""
    return f"; {least}{duration(total)} of one worker{eta}"


def _line(run: Mapping[str, Any]) -> str:
    where = f"{run['host'] or 'an unknown host'}{', job ' + run['job'] if run['job'] else ''}"
    again = f", attempt {run['attempt']}" if run["attempt"] > 1 else ""
    return f"at work: {run['point']}: step {run['step']} of {run['steps'] or '?'} on {where}{again}"


def _some(lines: Sequence[str], what: str) -> list[str]:
    rest = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], *([f"... and {rest} more {what}"] if rest > 0 else [])]
