"""`sweep status`: one screen from files and at most one `squeue`. Torch-free, quick for ten thousand runs."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from harness import tasks
from harness.display import Column, aligned, duration, terminal_width, wrapped
from harness.show.numbers import plain
from harness.store import Kind, RunState, Store
from harness.store.points import SEARCH, SEED_FIELDS, Point
from harness.store.record import RunRecord
from harness.system import streams
from sweeps.cluster import queue as jobs
from sweeps.cluster import troubles
from sweeps.plan.describe import describe
from sweeps.plan.planned import objective
from sweeps.plan.replicas import due, winner
from sweeps.plan.states import states, word
from sweeps.plan.stored import Difference, difference
from sweeps.screens import failures
from sweeps.screens.at_work import Watch, is_silent, line
from sweeps.screens.failures import Failures
from sweeps.screens.spent import Bill, Spent
from sweeps.screens.time_left import Estimate
from sweeps.spec.sweep import SweepSpec

MOST_LINES = 12  # of runs at work and of failures each; JSON has all
OUTCOMES = ("completed", "diverged", "pruned")
COLUMNS = (*OUTCOMES, "running", "queued", "waiting", "failed")
ALWAYS = ("completed", "running", "waiting", "failed")  # the other columns only if a count is above 0
_COLUMNS = {
    "block": Column(words=True, least=8, rank=0),
    "running": Column(rank=1),
    "failed": Column(rank=1),
    "waiting": Column(rank=2),
    "work left": Column(rank=3),
    "completed": Column(rank=4),
    "queued": Column(rank=5),
    "diverged": Column(rank=6),
    "pruned": Column(rank=7),
    "points": Column(rank=8),
    "best so far": Column(words=True),
}


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
        jobs: what is wrong with jobs of the sweep; the same for each of its blocks.
        plan: how the stored plan of the sweep differs; the same for each of its blocks.
        warming_up: whether the time is unknown because no run at work is past its warm-up.
        spent: the hours that its runs have taken so far.
    """

    sweep: str
    name: str
    points: int
    counts: Counter[str]
    seconds: float | None
    best: str
    at_work: list[dict[str, Any]] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)
    jobs: dict[str, Any] = field(default_factory=dict)
    plan: Difference = field(default_factory=Difference)
    warming_up: bool = False
    spent: Spent = field(default_factory=Spent)

    @property
    def left(self) -> int:
        """The number of points without an outcome that may still get one."""
        return sum(self.counts[name] for name in ("running", "queued", "waiting"))

    def to_json(self) -> dict[str, Any]:
        """The block in plain values."""
        row = {"sweep": self.sweep, "block": self.name, "points": self.points}
        row |= {name: self.counts[name] for name in COLUMNS}
        return row | {
            "left_seconds": self.seconds,
            "best": self.best,
            "at_work": self.at_work,
            "failures": self.failures,
            "jobs": self.jobs,
            "plan": asdict(self.plan),
            "warming_up": self.warming_up,
            "spent": self.spent.to_json(),
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
    eyes = _Eyes(estimate := Estimate(store), Watch(store, estimate), Failures(store))
    screen = Screen()
    for spec, points in sweeps:
        queue = jobs.jobs_for(store.root, [point.id for point in points])
        bill = Bill(store, spec)
        found = jobs.with_queue({point.id: known[point.id] for point in points}, queue)
        wrong, to_come = troubles.look(store, spec, points, found), due(spec, points, found)
        other = difference(store.root, spec, points)
        for name in dict.fromkeys(point.block for point in points):
            own = [point for point in points if point.block == name]
            block = _block(eyes, spec, own, [point for point in to_come if point.block == name], found)
            screen.blocks.append(replace(block, jobs=plain(wrong), plan=other, spent=bill.of(own, found)))
        screen.remarks += _of_another_plan(spec, other)
        screen.remarks += map(str, jobs.waiting(store, spec.name, queue))
        screen.remarks += map(str, wrong.notes(spec.name))
        screen.remarks += _why_they_stopped(spec, found)
    return screen


@dataclass(frozen=True)
class _Eyes:
    """What looks at runs, with what each has read already."""

    estimate: Estimate
    watch: Watch
    failures: Failures


def _block(
    eyes: _Eyes,
    spec: SweepSpec,
    points: Sequence[Point],
    to_come: Sequence[Point],
    found: Mapping[str, RunState],
) -> Block:
    """The block of some points; replicas that are to come, each given by its winner, wait like the others."""
    counts = Counter(word(found[point.id]) for point in points)
    counts[Kind.WAITING.value] += len(to_come)
    at_work, failed = [], []
    for point in points:
        state = found[point.id]
        if state.kind is Kind.LIVE:
            at_work.append(eyes.watch.row(point, state))
        elif state.kind is Kind.FAILED:
            failed.append(eyes.failures.row(point, state))
    pairs = [(point, found[point.id]) for point in points]
    pairs += [(point, RunState(Kind.WAITING)) for point in to_come]
    return Block(
        spec.name,
        points[0].block,
        len(pairs),
        counts,
        seconds=eyes.estimate.left(pairs),
        best=_best(spec, points, found),
        at_work=at_work,
        failures=failed,
        warming_up=eyes.estimate.is_warming_up(pairs),
    )


def _of_another_plan(spec: SweepSpec, other: Difference) -> list[str]:
    """A line if tables, which go by the stored plan, know of other points than this screen."""
    if other == Difference():
        return []
    return [f"{spec.name}: the stored plan lacks {other.new} of these points and has {other.gone} besides"]


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
    """Print the screen. A terminal gets lines of its width, and is cleared before it shows a screen again."""
    width = terminal_width()
    if again:
        streams.clear_screen() if width else print()
        print(time.strftime("%Y-%m-%d %H:%M:%S"))
    lines = _table(screen, width) + _sweeps(screen)
    at_work = [run for block in screen.blocks for run in block.at_work]
    at_work.sort(key=is_silent, reverse=True)  # what has stalled is not what is left out
    lines += [line(run) for run in at_work[:MOST_LINES]]
    lines += [f"... and {len(at_work) - MOST_LINES} more at work"] if len(at_work) > MOST_LINES else []
    lines += failures.lines((one for block in screen.blocks for one in block.failures), MOST_LINES)
    lines += screen.remarks
    print("\n".join(part for line in lines for part in wrapped(line, width)), flush=True)


def _table(screen: Screen, width: int | None) -> list[str]:
    """The blocks; where there is no room for the best so far, each has a line of its own below."""
    rows = _rows(screen)
    several = len({block.sweep for block in screen.blocks}) > 1  # else the lines below name the sweep
    columns = _COLUMNS | {"sweep": Column(words=True, least=8, rank=0 if several else 9)}
    lines = aligned(rows, columns).splitlines()
    if width is None or max(map(len, lines)) <= width:
        return lines
    lines = aligned(_told([row[:-1] for row in rows]), columns, width).splitlines()
    return lines + [f"best of {b.sweep} {b.name}: {b.best}" for b in screen.blocks if b.best]


def _told(rows: Sequence[Sequence[object]]) -> list[list[object]]:
    """A table without the columns that say nothing: their room is needed for names."""
    kept = [n for n, column in enumerate(zip(*rows, strict=True)) if any(cell != "" for cell in column[1:])]
    return [[row[n] for n in kept] for row in rows]


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
    """Of each sweep its progress, its end if as many workers go on as now, and what it has taken."""
    lines = []
    for name in dict.fromkeys(block.sweep for block in screen.blocks):
        blocks = [block for block in screen.blocks if block.sweep == name]
        left, at_work = sum(b.left for b in blocks), [run for b in blocks for run in b.at_work]
        silent = sum(map(is_silent, at_work))
        ended = sum(block.counts[outcome] for block in blocks for outcome in OUTCOMES)
        said = f"{name}: {ended} of {sum(b.points for b in blocks)} points have a result"
        if left:
            said += f", {left} to go, {len(at_work)} at work"
            said += f" ({silent} without a sign of life)" if silent else ""
            said += _eta([block for block in blocks if block.left], len(at_work) - silent)
        lines.append(said)
        spent = Spent.sum([block.spent for block in blocks])
        lines += [f"{name}: {spent}"] if spent.runs else []
    return lines


def _eta(blocks: Sequence[Block], at_work: int) -> str:
    """The time that is left. The first runs of a kind take long to start, so they tell nothing yet."""
    seconds = [block.seconds for block in blocks]
    total = sum(value for value in seconds if value is not None)
    least = "at least " if None in seconds else ""
    work = f"; {least}{duration(total)} of one worker" if total else ""
    if any(block.warming_up for block in blocks):
        return f"{work}{',' if work else ';'} ETA after warm-up"
    return f"{work}, ETA {least}{duration(total / at_work)}" if work and at_work else work
