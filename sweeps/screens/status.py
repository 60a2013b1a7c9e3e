"""`sweep status`: one screen from files and at most one `squeue`. Torch-free, quick for ten thousand runs."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from htbench.harness import tasks
from htbench.harness.choice.winner import grouped
from htbench.harness.show.commands import write_command
from htbench.harness.show.note import Note
from htbench.harness.show.numbers import bar, pairs
from htbench.harness.show.report import Cell, Column, Report, Section, by_columns
from htbench.harness.show.status import Status
from htbench.harness.store import RunState, Store
from htbench.harness.store.points import SEARCH, SUBMISSIONS, Point, sweep_folder
from htbench.sweeps.cluster import queue, troubles
from htbench.sweeps.cluster.troubles import Troubles
from htbench.sweeps.plan.planned import states
from htbench.sweeps.plan.replicas import Course, courses
from htbench.sweeps.plan.stored import Difference, difference
from htbench.sweeps.screens.objectives import Objective, objective
from htbench.sweeps.screens.runs import AtWork, Failed, Looks, failures_in_words
from htbench.sweeps.screens.spent import Bill, Spent
from htbench.sweeps.spec.search import REFINE
from htbench.sweeps.spec.sweep import SweepSpec

MOST_LINES = 8  # of runs at work and of failures each; JSON has all
OUTCOMES = ("completed", "diverged", "pruned")
COLUMNS = (*OUTCOMES, "running", "queued", "waiting", "failed")


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
        points: its runs, with those on fresh seeds, whose winners may not be known yet.
        completed, diverged, pruned, running, queued, waiting, failed: of these.
        left_seconds: of one worker for what is left; None if unknown.
        objectives: how far each is, with the best setting so far and its edges.
        at_work: the runs under way.
        failures: the runs that failed.
        jobs: what is wrong with jobs of the sweep; the same for each of its blocks.
        plan: how the stored plan of the sweep differs; the same for each of its blocks.
        spent: the hours that its runs have taken so far.
        rounds: of its searches; None if they refine nothing.
        next: the command that goes on with the sweep; the same for each of its blocks.
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
    objectives: Sequence[Objective] = ()
    at_work: Sequence[AtWork] = ()
    failures: Sequence[Failed] = ()
    jobs: Troubles = field(default_factory=Troubles)
    plan: Difference = field(default_factory=Difference)
    spent: Spent = field(default_factory=Spent)
    rounds: Rounds | None = None
    next: str = ""

    @property
    def left(self) -> int:
        """The number of runs without an outcome that may still get one."""
        return self.running + self.queued + self.waiting


@dataclass(frozen=True)
class Screen:
    """What `sweep status` shows: the blocks of all sweeps, and notes on jobs and stopped runs of each."""

    blocks: Sequence[Block] = ()
    remarks: Sequence[Note] = ()

    @property
    def settled(self) -> bool:
        """Whether nothing is left to wait for, runs on fresh seeds included."""
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
        wrong, other = troubles.look(store, spec, points, known), difference(store.root, spec, points)
        ways = grouped(courses(spec, points, known), lambda course: course.search[0].block)
        own = [
            _block(looks, spec, name, ways.get(name, []), known)
            for name in dict.fromkeys(p.block for p in points)
        ]
        members = grouped(points, lambda point: point.block)
        on_cluster = (sweep_folder(store.root, spec.name) / SUBMISSIONS).exists()
        command = _next(spec.name, own, on_cluster=on_cluster)
        for block in own:
            spent = bill.of(members[block.block], known)
            blocks.append(replace(block, jobs=wrong, plan=other, spent=spent, next=command))
        if other != Difference():
            remarks.append(Note("other_plan", sweep=spec.name, new=other.new, gone=other.gone))
        remarks += queue.waiting(spec.name, jobs)
        remarks += wrong.notes(spec.name)
        waiting = (state.message for state in known.values() if state.status is Status.WAITING)
        stops = Counter(message for message in waiting if message).most_common(3)
        remarks += [Note("stopped_before", sweep=spec.name, runs=n, why=why) for why, n in stops]
    return Screen(blocks, remarks)


def _block(
    looks: Looks, spec: SweepSpec, name: str, ways: Sequence[Course], known: Mapping[str, RunState]
) -> Block:
    """A block by its objectives; runs that are to come wait like the others."""
    runs = [(point, known[point.id]) for way in ways for point in (*way.search, *way.replicas)]
    counts = Counter(state.status.value for _, state in runs)
    at_work = [looks.at_work(spec, point, state) for point, state in runs if state.status is Status.RUNNING]
    failures = [looks.failed(point, state) for point, state in runs if state.status is Status.FAILED]
    to_come = [(point, RunState(Status.WAITING)) for way in ways for point in way.to_come]
    counts[Status.WAITING.value] += len(to_come)
    numbers: dict[str, Any] = {name: counts[name] for name in COLUMNS}
    return Block(
        spec.name,
        name,
        len(runs) + len(to_come),
        **numbers,
        left_seconds=looks.estimate.left(runs + to_come),
        objectives=[objective(spec, way, known) for way in ways],
        at_work=at_work,
        failures=failures,
        rounds=_rounds(spec, ways, known) if spec.search.mode == REFINE else None,
    )


def _rounds(spec: SweepSpec, ways: Sequence[Course], known: Mapping[str, RunState]) -> Rounds:
    searched = [point for way in ways for point in way.search]
    tried = {point.candidate() for point in searched if known[point.id].status.is_settled}
    to_come = [point for way in ways for point in way.to_come if point.stage == SEARCH]
    new = [point for point in [*searched, *to_come] if point.candidate() not in tried]
    return Rounds(
        rate=spec.search.rate,
        tried=len(tried),
        most=spec.search.trials * len(ways),
        rates=sorted({float(point.overrides[spec.search.rate]) for point in new}),
    )


def _next(sweep: str, blocks: Sequence[Block], *, on_cluster: bool) -> str:
    """The command that goes on with a sweep: with what nobody works on, with what failed, or with results."""
    failed = any(block.failed for block in blocks) and not any(block.left for block in blocks)
    waits = any(block.waiting for block in blocks) and not any(b.running or b.queued for b in blocks)
    if not (failed or waits):
        return write_command("table", sweep)
    if on_cluster:
        return write_command("sweep", "submit", sweep, *(["--retry"] if failed else []))
    return write_command("sweep", "retry" if failed else "run", sweep)


# --- on the screen ---


def overview(screen: Screen, root: Path) -> Report:
    """All sweeps of the store `root`, a line for each, as a report with the same facts."""
    sweeps = grouped(screen.blocks, lambda block: block.sweep)
    runs = [(_total(blocks, *OUTCOMES), _total(blocks, "points")) for blocks in sweeps.values()]
    columns: dict[Column, list[Any]] = {
        Column("sweep", kind="text", least=8): [*sweeps],
        Column("done", kind="text", importance=8): [f"{bar(*pair)} {pair[0]}/{pair[1]}" for pair in runs],
        **{
            Column(name, importance=7): [_total(blocks, name) or "" for blocks in sweeps.values()]
            for name in ("running", "queued", "failed")
        },
        Column("next", kind="text", importance=9): [blocks[0].next for blocks in sweeps.values()],
    }
    columns = {column: cells for column, cells in columns.items() if any(cells)}
    none = Note("no_sweeps", root=root, there=int(root.is_dir()))
    return Report("sweep status", "", [by_columns(columns)] if sweeps else [], data=screen.blocks, empty=none)


def report(screen: Screen, when: float | None = None) -> Report:
    """The screen as a report: a section for each sweep.

    Args:
        screen: what was found.
        when: the time to show above, in seconds since 1970.
    """
    sweeps = grouped(screen.blocks, lambda block: block.sweep)
    sections = [_section(name, blocks, screen.remarks, when) for name, blocks in sweeps.items()]
    return Report("sweep status", "", sections, data=screen.blocks)


def _section(sweep: str, blocks: Sequence[Block], remarks: Sequence[Note], when: float | None) -> Section:
    """A sweep: its bars, a row for each objective, runs at work and failed ones, and what to do next."""
    rows = [(block, own) for block in blocks for own in block.objectives]
    metrics = {tasks.metric_label(own.metric, own.higher_is_better) for _, own in rows if own.metric}
    columns: dict[Column, list[Any]] = {
        Column("block", kind="text", least=8): [
            f"{block.block} {pairs(own.fixed)}".rstrip() for block, own in rows
        ],
        Column("search", importance=6): [f"{own.searched}/{own.search}" for _, own in rows],
        Column("seeds", importance=5): [
            f"{own.replicated}/{own.replicas}" if own.replicas else "" for _, own in rows
        ],
        Column("best setting", kind="text", least=12, importance=8): [pairs(own.setting) for _, own in rows],
        Column("val", importance=7): _values([own for _, own in rows]),
        Column("edge", kind="text", importance=9, doubts=True): [own.to_add() for _, own in rows],
    }
    head = {
        "metrics": sorted(metrics),
        "clock": time.strftime("%H:%M:%S", time.localtime(when)) if when else "",
        **{name: _total(blocks, name) for name in ("running", "queued")},
    }
    rounds = [
        Note("rounds", sweep=sweep, block=block.block, **asdict(block.rounds))
        for block in blocks
        if block.rounds and block.rounds.rates
    ]
    at_work = any(block.running or block.queued for block in blocks)
    lacking = any(own.value is not None and not own.replicas for _, own in rows)
    alone = lacking and not any(block.left for block in blocks)
    return by_columns(
        {
            column: cells
            for column, cells in columns.items()
            if any(cell.text() if isinstance(cell, Cell) else cell for cell in cells)
        },
        title=str(Note("status_head", sweep=sweep, **head)),
        above=_bars(blocks),
        notes=[
            *rounds,
            *_runs(blocks),
            _tally(blocks),
            *(remark for remark in remarks if remark["sweep"] == sweep),
            *([Note("add_replicas", line="replicate: {seeds: 3}")] if alone else []),
            Note("next_command", command=blocks[0].next, provisional=int(at_work)),
        ],
    )


def _values(rows: Sequence[Objective]) -> list[Cell]:
    """The validation metric of each best setting; the best of a workload is bold once its search is over."""
    rivals = grouped(rows, lambda own: (own.metric, pairs(own.fixed)))
    best = {}
    for place, group in rivals.items():
        values = [own.value for own in group if own.value is not None]
        if values and len(group) > 1 and all(own.searched == own.search for own in group):
            best[place] = max(values) if group[0].higher_is_better else min(values)
    return [
        Cell(own.text(), bold=own.value is not None and own.value == best.get((own.metric, pairs(own.fixed))))
        for own in rows
    ]


def _bars(blocks: Sequence[Block]) -> list[Note]:
    """How far search and runs on fresh seeds are; the last bar has the end if as many go on as now."""
    own = [own for block in blocks for own in block.objectives]
    counts = {
        "search": (_total(own, "searched"), _total(own, "search")),
        "fresh seeds": (_total(own, "replicated"), _total(own, "replicas")),
    }
    notes = [
        Note("bar", name=name, bar=bar(done, total), done=done, total=total)
        for name, (done, total) in counts.items()
        if total
    ]
    open_blocks = [block for block in blocks if block.left]
    seconds = [block.left_seconds for block in open_blocks]
    known = sum(value for value in seconds if value is not None)
    at_work = [run for block in blocks for run in block.at_work]
    working = sum(not run.is_silent for run in at_work)
    end = {
        "left": sum(block.left for block in blocks),
        "at_work": len(at_work),
        "silent": len(at_work) - working,
        "seconds": 0 if working else known,
        "eta": known / working if working else 0,
        "least": 1 if None in seconds else 2,
    }
    return [*notes[:-1], Note("last_bar", **notes[-1].fields, **end)] if notes else []


def _total(parts: Sequence[Block | Objective], *names: str) -> int:
    """The sum of some numbers over blocks, or over objectives."""
    return sum(getattr(part, name) for part in parts for name in names)


def _tally(blocks: Sequence[Block]) -> Note:
    """What has ended without a figure, and what all has taken."""
    counts = {name: _total(blocks, name) for name in ("failed", "diverged", "pruned")}
    gpu = sum(block.spent.gpu_hours for block in blocks)
    core = sum(block.spent.core_hours for block in blocks)
    return Note("tally", **counts, spent=Note("time_spent", gpu=gpu, core=core) if gpu or core else None)


def _runs(blocks: Sequence[Block]) -> list[Note]:
    """The runs at work and those that failed, a line each; what has stalled is not what is left out."""
    at_work = [run for block in blocks for run in block.at_work]
    at_work.sort(key=lambda run: run.is_silent, reverse=True)
    hidden = len(at_work) - MOST_LINES
    failures = failures_in_words((run for block in blocks for run in block.failures), MOST_LINES)
    more = [Note("more_at_work", runs=hidden)] if hidden > 0 else []
    return [*(run.note() for run in at_work[:MOST_LINES]), *more, *failures]
