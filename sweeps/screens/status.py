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
from htbench.sweeps.plan.planned import note_damaged, states
from htbench.sweeps.plan.replicas import Course, courses
from htbench.sweeps.plan.stored import Difference, difference
from htbench.sweeps.screens.objectives import Objective, describe_objective
from htbench.sweeps.screens.runs import AtWork, Failed, RunReader, note_failures
from htbench.sweeps.screens.spent import Spent, sum_hours
from htbench.sweeps.spec.search import REFINE
from htbench.sweeps.spec.sweep import SweepSpec

MOST_LINES = 8  # of runs at work and of failures each; JSON has all
OUTCOMES = ("completed", "diverged", "pruned")
COLUMNS = (*OUTCOMES, "running", "queued", "waiting", "failed", "damaged")


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
        completed, diverged, pruned, running, queued, waiting, failed, damaged: of these.
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
    damaged: int = 0
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
    """The screen of `sweep status`: the blocks of all sweeps, and notes on jobs and stopped runs of each."""

    blocks: Sequence[Block] = ()
    remarks: Sequence[Note] = ()

    @property
    def settled(self) -> bool:
        """Whether nothing is left to wait for, runs on fresh seeds included."""
        return not any(block.left for block in self.blocks)


def read_screen(store: Store, sweeps: Sequence[tuple[SweepSpec, Sequence[Point]]]) -> Screen:
    """Collect what `sweep status` shows.

    Args:
        store: the store.
        sweeps: each with its points as planned.
    """
    all_states = states(store, [point for _, points in sweeps for point in points])
    reader = RunReader(store)
    blocks: list[Block] = []
    remarks: list[Note] = []
    for spec, points in sweeps:
        jobs = queue.find_jobs(store.root, [point.id for point in points])
        run_states = queue.mark_queued({point.id: all_states[point.id] for point in points}, jobs)
        job_troubles = troubles.find_troubles(store, spec, points, run_states)
        plan_difference = difference(store.root, spec, points)
        block_points = grouped(points, lambda point: point.block)
        hours = sum_hours(store, spec, block_points, run_states)
        block_courses = grouped(courses(spec, points, run_states), lambda course: course.search[0].block)
        sweep_blocks = [
            _make_block(reader, spec, name, block_courses.get(name, []), run_states) for name in block_points
        ]
        on_cluster = (sweep_folder(store.root, spec.name) / SUBMISSIONS).exists()
        command = _choose_command(spec.name, sweep_blocks, on_cluster=on_cluster)
        for block in sweep_blocks:
            spent = hours[block.block]
            blocks.append(replace(block, jobs=job_troubles, plan=plan_difference, spent=spent, next=command))
        if plan_difference != Difference():
            remarks.append(Note("other_plan", sweep=spec.name, **vars(plan_difference)))
        remarks += queue.note_pending(spec.name, jobs)
        remarks += [*job_troubles.make_notes(spec.name), *note_damaged(run_states, sweep=spec.name)]
        waiting = (state.message for state in run_states.values() if state.status is Status.WAITING)
        stops = Counter(message for message in waiting if message).most_common(3)
        remarks += [Note("stopped_before", sweep=spec.name, runs=n, why=why) for why, n in stops]
    return Screen(blocks, remarks)


def _make_block(
    reader: RunReader,
    spec: SweepSpec,
    name: str,
    block_courses: Sequence[Course],
    run_states: Mapping[str, RunState],
) -> Block:
    """A block by its objectives; runs that are to come wait like the others."""
    searched = [point for course in block_courses for point in course.search]
    points = [point for course in block_courses for point in (*course.search, *course.replicas)]
    runs = [(point, run_states[point.id]) for point in points]
    following = [point for course in block_courses for point in course.to_come]
    counts = Counter(state.status.value for _, state in runs)
    counts[Status.WAITING.value] += len(following)
    numbers: dict[str, Any] = {name: counts[name] for name in COLUMNS}
    rounds, search = None, spec.search
    if search.mode == REFINE:
        tried = {point.candidate for point in searched if run_states[point.id].status.is_settled}
        candidates = [*searched, *(point for point in following if point.stage == SEARCH)]
        new = [point for point in candidates if point.candidate not in tried]
        rates = sorted({float(point.overrides[search.rate]) for point in new})
        rounds = Rounds(spec.shown_rate, len(tried), search.trials * len(block_courses), rates)
    return Block(
        spec.name,
        name,
        len(runs) + len(following),
        **numbers,
        left_seconds=reader.estimator.sum_seconds(
            [*runs, *((point, RunState(Status.WAITING)) for point in following)]
        ),
        objectives=[describe_objective(spec, course, run_states) for course in block_courses],
        at_work=[reader.read_at_work(spec, p, state) for p, state in runs if state.status is Status.RUNNING],
        failures=[reader.read_failure(p, state) for p, state in runs if state.status is Status.FAILED],
        rounds=rounds,
    )


def _choose_command(sweep: str, blocks: Sequence[Block], *, on_cluster: bool) -> str:
    """The command that goes on with a sweep: with waiting runs, with failed ones, or with results."""
    failed = any(block.failed for block in blocks) and not any(block.left for block in blocks)
    waits = any(block.waiting or block.damaged for block in blocks) and not any(
        b.running or b.queued for b in blocks
    )
    if not (failed or waits):
        return write_command("table", sweep)
    if on_cluster:
        return write_command("sweep", "submit", sweep, *(["--retry"] if failed else []))
    return write_command("sweep", "retry" if failed else "run", sweep)


# --- on the screen ---


def make_overview(screen: Screen, root: Path) -> Report:
    """All sweeps of the store `root`, a line for each, as a report with the same facts."""
    sweeps = grouped(screen.blocks, lambda block: block.sweep)
    runs = [(_add_up(blocks, *OUTCOMES), _add_up(blocks, "points")) for blocks in sweeps.values()]
    columns: dict[Column, list[Any]] = {
        Column("sweep", kind="text", least=8): [*sweeps],
        Column("done", kind="text", importance=8): [f"{bar(*pair)} {pair[0]}/{pair[1]}" for pair in runs],
        **{
            Column(name, importance=7): [_add_up(blocks, name) or None for blocks in sweeps.values()]
            for name in ("running", "queued", "failed")
        },
        Column("next", kind="text", importance=9): [blocks[0].next for blocks in sweeps.values()],
    }
    none = Note("no_sweeps", root=root, there=root.is_dir())
    return Report("sweep status", "", [by_columns(columns)] if sweeps else [], data=screen.blocks, empty=none)


def make_report(screen: Screen, when: float | None = None) -> Report:
    """The screen as a report: a section for each sweep.

    Args:
        screen: the facts.
        when: the time to show above, in seconds since 1970.
    """
    sweeps = grouped(screen.blocks, lambda block: block.sweep)
    sections = [_make_section(name, blocks, screen.remarks, when) for name, blocks in sweeps.items()]
    return Report("sweep status", "", sections, data=screen.blocks)


def _make_section(
    sweep: str, blocks: Sequence[Block], remarks: Sequence[Note], when: float | None
) -> Section:
    """A sweep: its bars, a row for each objective, runs at work and failed ones, and what to do next."""
    rows = [row for block in blocks for row in block.objectives]
    names = [f"{block.block} {pairs(row.fixed)}".rstrip() for block in blocks for row in block.objectives]
    metrics = {tasks.metric_label(row.metric, row.higher_is_better) for row in rows if row.metric}
    columns: dict[Column, list[Any]] = {
        Column("block", kind="text", least=8): names,
        Column("search", importance=6): [f"{row.searched}/{row.search}" for row in rows],
        Column("seeds", importance=5): [
            f"{row.replicated}/{row.replicas}" if row.replicas else "" for row in rows
        ],
        Column("best setting", kind="text", least=12, importance=8): [pairs(row.setting) for row in rows],
        Column("val", importance=7): _show_values(rows),
        Column("edge", kind="text", importance=9, doubts=True): [row.advise() for row in rows],
    }
    head = {
        "metrics": sorted(metrics),
        "clock": time.strftime("%H:%M:%S", time.localtime(when)) if when else "",
        **{name: _add_up(blocks, name) for name in ("running", "queued")},
    }
    return by_columns(
        columns,
        title=str(Note("status_head", sweep=sweep, **head)),
        above=_make_bars(blocks),
        notes=_make_notes(blocks, [remark for remark in remarks if remark["sweep"] == sweep]),
    )


def _make_notes(blocks: Sequence[Block], remarks: Sequence[Note]) -> list[Note]:
    """The rounds, the runs at work, those that failed, the sums, the remarks, and what to do next."""
    notes = [
        Note("rounds", sweep=block.sweep, block=block.block, **asdict(block.rounds))
        for block in blocks
        if block.rounds and block.rounds.rates
    ]
    at_work = sorted((run for block in blocks for run in block.at_work), key=lambda run: not run.is_silent)
    notes += [run.make_note() for run in at_work[:MOST_LINES]]  # the stalled ones are first
    hidden = len(at_work) - MOST_LINES
    notes += [Note("more_at_work", runs=hidden)] if hidden > 0 else []
    notes += note_failures((run for block in blocks for run in block.failures), MOST_LINES)
    counts = {name: _add_up(blocks, name) for name in ("failed", "diverged", "pruned", "damaged")}
    gpu = sum(block.spent.gpu_hours for block in blocks)
    core = sum(block.spent.core_hours for block in blocks)
    spent = Note("time_spent", gpu=gpu, core=core) if gpu or core else None
    notes += [Note("tally", **counts, spent=spent), *remarks]
    rows = [row for block in blocks for row in block.objectives]
    if any(row.value is not None and not row.replicas for row in rows) and not _add_up(blocks, "left"):
        notes.append(Note("add_replicas", line="replicate: {seeds: 3}"))
    provisional = any(block.running or block.queued for block in blocks)
    return [*notes, Note("next_command", command=blocks[0].next, provisional=int(provisional))]


def _show_values(rows: Sequence[Objective]) -> list[Cell]:
    """The validation metric of each best setting; the best of a workload is bold once its search is over."""
    rivals = grouped(rows, lambda row: (row.metric, pairs(row.fixed)))
    best = {}
    for workload, group in rivals.items():
        values = [row.value for row in group if row.value is not None]
        if values and len(group) > 1 and all(row.searched == row.search for row in group):
            best[workload] = max(values) if group[0].higher_is_better else min(values)
    return [
        Cell(row.text(), bold=row.value is not None and row.value == best.get((row.metric, pairs(row.fixed))))
        for row in rows
    ]


def _make_bars(blocks: Sequence[Block]) -> list[Note]:
    """How far search and runs on fresh seeds are; the last bar has the end if as many go on as now."""
    rows = [row for block in blocks for row in block.objectives]
    bars: list[dict[str, Any]] = []
    for name, ended, planned in (("search", "searched", "search"), ("fresh seeds", "replicated", "replicas")):
        if total := _add_up(rows, planned):
            done = _add_up(rows, ended)
            bars.append({"name": name, "bar": bar(done, total), "done": done, "total": total})
    seconds = [block.left_seconds for block in blocks if block.left]
    seconds_known = sum(value for value in seconds if value is not None)
    at_work = [run for block in blocks for run in block.at_work]
    silent = sum(run.is_silent for run in at_work)
    working = len(at_work) - silent
    for last in bars[-1:]:
        last |= {"silent": silent, "least": 1 if None in seconds else 2}
        last |= {"eta": seconds_known / working} if working else {"seconds": seconds_known}
    return [Note("bar", **fields) for fields in bars]


def _add_up(parts: Sequence[Block | Objective], *names: str) -> int:
    """The sum of some numbers over blocks, or over objectives."""
    return sum(getattr(part, name) for part in parts for name in names)
