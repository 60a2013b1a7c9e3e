"""`sweep status`: one screen from files and at most one `squeue`. Torch-free, quick for ten thousand runs."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from harness import tasks
from harness.choice.winner import grouped
from harness.show import terminal
from harness.show.note import Note
from harness.show.report import Column, Report, table
from harness.show.status import Status
from harness.store import RunState, Store
from harness.store.points import SEARCH, SEED_FIELDS, Point
from harness.store.record import RunRecord
from sweeps.cluster import queue, troubles
from sweeps.cluster.troubles import Troubles
from sweeps.plan.planned import objective
from sweeps.plan.replicas import due, winner
from sweeps.plan.states import settings_of, states
from sweeps.plan.stored import Difference, difference
from sweeps.screens.runs import AtWork, Failed, Looks, failures_in_words
from sweeps.screens.spent import Bill, Spent
from sweeps.spec.search import REFINE
from sweeps.spec.sweep import SweepSpec

MOST_LINES = 12  # of runs at work and of failures each; JSON has all
OUTCOMES = ("completed", "diverged", "pruned")
COLUMNS = (*OUTCOMES, "running", "queued", "waiting", "failed")
ALWAYS = ("completed", "running", "waiting", "failed")  # the other columns only if a count is above 0
# The columns of the highest importance stay longest on a narrow terminal.
_IMPORTANCE = dict(running=8, failed=8, waiting=7, completed=5, queued=4, diverged=3, pruned=2)


@dataclass(frozen=True)
class Rounds:
    """How far the searches of a block are that refine a rate.

    Attributes:
        rate: the setting.
        tried: the settings that have an outcome.
        most: how many there may be.
        rates: at work, waiting or next in turn; none: the searches are over.
    """

    rate: str
    tried: int
    most: int
    rates: Sequence[float]


@dataclass(frozen=True)
class Block:
    """The state of a block of a sweep.

    Attributes:
        sweep, block: their names.
        points: their number, with the replicas of winners that are known.
        completed, diverged, pruned, running, queued, waiting, failed: of these.
        left_seconds: of one worker for what is left; None if unknown.
        best: what a table would choose now, in words; one for each objective of the block.
        at_work: the runs under way.
        failures: the runs that failed.
        jobs: what is wrong with jobs of the sweep; the same for each of its blocks.
        plan: how the stored plan of the sweep differs; the same for each of its blocks.
        warming_up: whether the time is unknown because no run at work is past its warm-up.
        spent: the hours that its runs have taken so far.
        rounds: of its searches; None if they refine nothing.
    """

    sweep: str
    block: str
    points: int
    completed: int = 0
    diverged: int = 0
    pruned: int = 0
    running: int = 0
    queued: int = 0
    waiting: int = 0
    failed: int = 0
    left_seconds: float | None = None
    best: str = ""
    at_work: Sequence[AtWork] = ()
    failures: Sequence[Failed] = ()
    jobs: Troubles = field(default_factory=Troubles)
    plan: Difference = field(default_factory=Difference)
    warming_up: bool = False
    spent: Spent = field(default_factory=Spent)
    rounds: Rounds | None = None

    @property
    def left(self) -> int:
        """The number of points without an outcome that may still get one."""
        return self.running + self.queued + self.waiting


@dataclass(frozen=True)
class Screen:
    """What `sweep status` shows: the blocks of all sweeps, and notes on jobs and stopped runs."""

    blocks: Sequence[Block] = ()
    remarks: Sequence[Note] = ()

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
    stored = states(store, [point for _, points in sweeps for point in points])
    looks = Looks(store)
    blocks: list[Block] = []
    remarks: list[Note] = []
    for spec, points in sweeps:
        jobs = queue.jobs_for(store.root, [point.id for point in points])
        bill = Bill(store, spec)
        known = queue.with_queue({point.id: stored[point.id] for point in points}, jobs)
        wrong, to_come = troubles.look(store, spec, points, known), due(spec, points, known)
        other = difference(store.root, spec, points)
        replicas = grouped(to_come, lambda point: point.block)
        for name, members in grouped(points, lambda point: point.block).items():
            block = _block(looks, spec, members, replicas.get(name, []), known)
            blocks.append(
                replace(
                    block,
                    jobs=wrong,
                    plan=other,
                    spent=bill.of(members, known),
                    rounds=_rounds(spec, members, replicas.get(name, []), known),
                )
            )
        if other != Difference():
            remarks.append(Note("other_plan", sweep=spec.name, new=other.new, gone=other.gone))
        remarks += queue.waiting(store, spec.name, jobs)
        remarks += wrong.notes(spec.name)
        waiting = (state.message for state in known.values() if state.status is Status.WAITING)
        stops = Counter(message for message in waiting if message).most_common(3)
        remarks += [Note("stopped_before", sweep=spec.name, runs=n, why=why) for why, n in stops]
    return Screen(blocks, remarks)


def _block(
    looks: Looks,
    spec: SweepSpec,
    points: Sequence[Point],
    to_come: Sequence[Point],
    known: Mapping[str, RunState],
) -> Block:
    """The block of some points; replicas that are to come, each given by its winner, wait like the others."""
    counts = Counter(known[point.id].status.value for point in points)
    counts[Status.WAITING.value] += len(to_come)
    pairs = [(point, known[point.id]) for point in points]
    at_work = [looks.at_work(point, state) for point, state in pairs if state.status is Status.RUNNING]
    failures = [looks.failed(point, state) for point, state in pairs if state.status is Status.FAILED]
    pairs += [(point, RunState(Status.WAITING)) for point in to_come]
    numbers: dict[str, Any] = {name: counts[name] for name in COLUMNS}
    return Block(
        spec.name,
        points[0].block,
        len(pairs),
        **numbers,
        left_seconds=looks.estimate.left(pairs),
        best=_best(spec, points, known),
        at_work=at_work,
        failures=failures,
        warming_up=looks.estimate.is_warming_up(pairs),
    )


def _rounds(
    spec: SweepSpec, points: Sequence[Point], to_come: Sequence[Point], known: Mapping[str, RunState]
) -> Rounds | None:
    if spec.search.mode != REFINE:
        return None
    searched = [point for point in points if point.stage == SEARCH]
    settled = [point for point in searched if known[point.id].status.is_settled]
    tried = {point.candidate() for point in settled}
    new = [p for p in [*searched, *to_come] if p.candidate() not in tried]
    return Rounds(
        rate=spec.search.rate,
        tried=len(tried),
        most=spec.search.trials * len({objective(point, spec) for point in searched}),
        rates=sorted({float(point.overrides[spec.search.rate]) for point in new}),
    )


def _best(spec: SweepSpec, points: Sequence[Point], known: Mapping[str, RunState]) -> str:
    searched = [point for point in points if point.stage == SEARCH]
    groups = grouped(searched, lambda point: objective(point, spec))
    records = {point.key: record for point in points if (record := known[point.id].record) is not None}
    best = {group[1:]: winner(members, records) for group, members in groups.items()}
    return "; ".join(
        (f"{', '.join(fixed)}: " if len(best) > 1 else "") + _in_words(twins, records)
        for fixed, twins in best.items()
        if twins
    )


def _in_words(twins: Sequence[Point], records: Mapping[str, RunRecord]) -> str:
    """A candidate and its mean metric: "lr=0.1: val accuracy 0.95 (n=3)"."""
    ended = [records[point.key] for point in twins]
    metric = tasks.recorded(ended[0].config["task"], ended[0].environment).metric
    mean = statistics.fmean(float(record.metrics[f"val_{metric}"] or 0) for record in ended)
    if len(ended) == 1:
        return f"{settings_of(twins[0])}: val {metric} {mean:.4g}"
    unseeded = {name: value for name, value in twins[0].overrides.items() if name not in SEED_FIELDS}
    return f"{settings_of(replace(twins[0], overrides=unseeded))}: val {metric} {mean:.4g} (n={len(ended)})"


# --- on the screen ---


def report(screen: Screen, width: int | None = None, when: float | None = None) -> Report:
    """The screen as a report.

    Args:
        screen: what was found.
        width: of the terminal; where it is too narrow for what is best so far, that has lines of its own.
        when: the time to show above, in seconds since 1970.
    """
    shown = [
        name for name in COLUMNS if name in ALWAYS or any(getattr(block, name) for block in screen.blocks)
    ]
    several = len({block.sweep for block in screen.blocks}) > 1  # else the lines below name the sweep
    columns = [
        Column("sweep", kind="text", least=8, importance=9 if several else 0),
        Column("block", kind="text", least=8, importance=9),
        Column("points", importance=1),
        *(Column(name, importance=_IMPORTANCE[name]) for name in shown),
        Column("work left", kind="text", importance=6),
        Column("best so far", kind="text", importance=8),
    ]
    rows = [
        [block.sweep, block.block, block.points, *(getattr(block, name) or "" for name in shown)]
        + [Note("duration", seconds=block.left_seconds) if block.left else "", block.best or "-"]
        for block in screen.blocks
    ]
    rounds = [
        Note("rounds", sweep=block.sweep, block=block.block, **asdict(block.rounds))
        for block in screen.blocks
        if block.rounds and block.rounds.rates
    ]
    notes = [*_progress(screen), *rounds, *_runs(screen), *screen.remarks]
    section = table(columns, rows, notes=notes)
    texts = [[column.text(cell) for column, cell in zip(columns, row, strict=True)] for row in section.rows]
    if width is not None and max(map(len, terminal.grid_lines(columns, texts, None))) > width:
        # The room of columns that say nothing is needed for names, and what is best gets lines of its own.
        cells = list(zip(*rows, strict=True))
        said = [n for n, column in enumerate(cells[:-1]) if n == 0 or any(cell != "" for cell in column)]
        best = [Note("best_of", sweep=b.sweep, block=b.block, best=b.best) for b in screen.blocks if b.best]
        rows = [[row[n] for n in said] for row in rows]
        section = table([columns[n] for n in said], rows, notes=[*best, *notes])
    title = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when)) if when else ""
    return Report("sweep status", title, [section], data=screen.blocks)


def _progress(screen: Screen) -> list[Note]:
    """Of each sweep its progress, its end if as many workers go on as now, and what it has taken."""
    notes = []
    for sweep, blocks in grouped(screen.blocks, lambda block: block.sweep).items():
        at_work = [run for block in blocks for run in block.at_work]
        silent = sum(run.is_silent for run in at_work)
        open_blocks = [block for block in blocks if block.left]
        seconds = [block.left_seconds for block in open_blocks]
        total = sum(value for value in seconds if value is not None)
        warming_up = any(block.warming_up for block in open_blocks)
        working = len(at_work) - silent
        notes.append(
            Note(
                "sweep_to_go" if open_blocks else "sweep_done",
                sweep=sweep,
                ended=sum(getattr(block, name) for block in blocks for name in OUTCOMES),
                points=sum(block.points for block in blocks),
                left=sum(block.left for block in blocks),
                at_work=len(at_work),
                silent=silent,
                seconds=total,
                least=1 if None in seconds else 2,
                eta=total / working if total and working and not warming_up else 0,
                warming_up=int(warming_up),
            )
        )
        spent = Spent.sum([block.spent for block in blocks])
        notes += [spent.note(sweep)] if spent.runs else []
    return notes


def _runs(screen: Screen) -> list[Note]:
    """The runs at work and those that failed, a line each; what has stalled is not what is left out."""
    at_work = [run for block in screen.blocks for run in block.at_work]
    at_work.sort(key=lambda run: run.is_silent, reverse=True)
    hidden = len(at_work) - MOST_LINES
    failures = failures_in_words((run for block in screen.blocks for run in block.failures), MOST_LINES)
    more = [Note("more_at_work", runs=hidden)] if hidden > 0 else []
    return [*(run.note() for run in at_work[:MOST_LINES]), *more, *failures]
