"""`sweep plan`: the runs that are left, their cost, each point, and the job arrays for SLURM."""

from __future__ import annotations

import contextlib
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from harness import display
from harness.config import RunConfig
from harness.display import Column
from harness.errors import UsageError
from harness.store import Kind, RunState, Store
from harness.store.points import SEARCH
from harness.system import environment
from sweeps.cluster import queue, snapshot, submit
from sweeps.cluster.submit import Array
from sweeps.plan.again import trained_again
from sweeps.plan.describe import describe
from sweeps.plan.planned import Planned, block_of, by_objective
from sweeps.plan.replicas import everything_with_states
from sweeps.plan.start import check_start
from sweeps.plan.states import settled, word
from sweeps.plan.stored import lost
from sweeps.screens import cost_card, estimates
from sweeps.screens.cost_card import Costs, Row
from sweeps.screens.estimates import Priced, Prices
from sweeps.spec.resources import Resources, words
from sweeps.spec.sweep import SweepSpec

WIDTH = 118


@dataclass
class Preview:
    """What `sweep plan` shows of a sweep.

    Attributes:
        spec: the sweep.
        planned: its points, with the replicas that are known.
        found: the states of the points, by id.
        to_come: number of replicas whose winners are not known yet.
        rows: the cost card of the runs that are left, with the replicas to come.
        other_code: finished runs of other versions of the code: version -> number.
        again: runs that are trained again: what has changed since their results -> number.
        lost: stored points that the file lacks, which `run` and `submit` drop with `--replace` only.
        estimated: of each row; None where something was measured, or no estimate is possible.
        jobs: the arrays that `submit` would make of the points that wait.
        arrays: the scripts for `sbatch`, if asked for.
        answers: SLURM's answer to each, if asked for.
    """

    spec: SweepSpec
    planned: list[Planned]
    found: Mapping[str, RunState]
    to_come: int
    rows: list[Row]
    other_code: dict[str, int]
    again: dict[str, int]
    lost: int = 0
    estimated: list[Priced | None] = field(default_factory=list)
    jobs: list[Array] = field(default_factory=list)
    arrays: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)

    @property
    def left(self) -> int:
        """The number of runs to run."""
        return sum(row.work.runs for row in self.rows)

    @property
    def seconds(self) -> float:
        """Seconds of one worker for the runs that are left, as far as known."""
        return sum(row.total or 0.0 for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """All of it in plain values."""
        return {
            "sweep": self.spec.name,
            "states": dict(Counter(word(self.found[one.point.id]) for one in self.planned)),
            "replicas_to_come": self.to_come,
            "to_run": self.left,
            "seconds": self.seconds,
            "card": [row.to_json() for row in self.rows],
            "estimated": [one.to_json() for one in self.estimated if one],
            "jobs": [_job_row(array) for array in self.jobs],
            "other_code": self.other_code,
            "trained_again": self.again,
            "lost": self.lost,
            "points": [self._point(one) for one in self.planned],
            "sbatch": self.arrays,
            "answers": self.answers,
        }

    def _point(self, one: Planned) -> dict[str, Any]:
        point = one.point
        return {
            "block": point.block,
            "stage": point.stage,
            "key": point.key,
            "slot": point.slot,
            "state": word(self.found[point.id]),
            "overrides": point.overrides,
            "resources": asdict(block_of(self.spec, point).resources),
        }


def preview(store: Store, spec: SweepSpec, costs: Costs, prices: Prices | None = None) -> Preview:
    """Collect what `sweep plan` shows of a sweep. Raises UsageError if it can't be run.

    Args:
        store: with its finished runs.
        spec: the sweep.
        costs: finds what was measured.
        prices: estimates the rest; None: nothing does.
    """
    planned, known = everything_with_states(store, spec)
    check_start(spec, planned, store.root, action="plan")
    found = queue.with_queue(known, queue.jobs_for(store.root, known))
    left = [(one.config, _resources(spec, one)) for one in planned if not settled(found[one.point.id])]
    waiting = [one.point for one in planned if found[one.point.id].kind is Kind.WAITING]
    to_come = _to_come(spec, planned, found)
    codes = Counter(
        str(record.environment.get("code", "unknown"))
        for record in (state.record for state in found.values())
        if record is not None
    )
    now = _versions_now(store, planned) if codes else []
    rows = costs.rows(cost_card.gather(left + to_come))
    return Preview(
        spec=spec,
        planned=planned,
        found=found,
        to_come=len(to_come),
        rows=rows,
        other_code={code: n for code, n in sorted(codes.items()) if code not in now},
        again=trained_again(store, spec, planned, found),
        lost=len(lost(store.root, spec, planned)),
        estimated=prices.rows(rows) if prices else [None] * len(rows),
        jobs=submit.group_into_arrays(spec, waiting, submit.USUAL_ARRAY_SIZE),
    )


def _job_row(array: Array) -> dict[str, Any]:
    """An array in plain values."""
    return {
        "blocks": list(dict.fromkeys(point.block for point in array.points)),
        "jobs": array.jobs,
        "runs": len(array.points),
        "runs_per_job": array.resources.runs_per_job,
        "runs_at_once": array.resources.side_by_side(array.processes),
    }


def _versions_now(store: Store, planned: Sequence[Planned]) -> list[str]:
    """The versions of the code: the names that runs here and jobs would store."""
    versions = [environment.code_version()]
    with contextlib.suppress(UsageError):  # then there can be no job of this code
        versions.append(snapshot.version(store.root, [one.config for one in planned]).folder.name)
    return versions


def _resources(spec: SweepSpec, one: Planned) -> Resources:
    return block_of(spec, one.point).resources


def _to_come(
    spec: SweepSpec, planned: Sequence[Planned], found: Mapping[str, RunState]
) -> list[tuple[RunConfig, Resources]]:
    """The replicas of unknown winners, each with the config and resources of a point that may win."""
    groups = by_objective(spec, [one for one in planned if one.point.stage == SEARCH])
    open_groups = [group for group in groups if not all(settled(found[one.point.id]) for one in group)]
    return [(group[0].config, _resources(spec, group[0])) for group in open_groups] * spec.fresh_seeds


# --- on the screen ---

_COLUMNS = {
    "to run": Column(rank=0),
    "task": Column(words=True, least=6),
    "model": Column(words=True),
    "optimizer": Column(words=True, least=20),
    "all": Column(rank=2),
    "a run": Column(rank=3),
    "memory": Column(rank=4),
    "steps": Column(rank=5),
    "a step": Column(rank=6),
    "params": Column(rank=8),
    "seen in": Column(words=True, rank=9),
}


def show(view: Preview, *, with_arrays: bool = False, with_points: bool = False) -> None:
    """Print the summary; then every point and the scripts for `sbatch`, if wanted."""
    print("\n".join(display.wrapped(f"{view.spec.name}: {_counts(view)}", display.terminal_width())))
    if not all(one and one.offers for one in view.estimated):  # else the estimates say it all
        units = {row.unit: Column(rank=7) for row in view.rows} | {_unit(view.rows): Column(rank=7)}
        print(display.aligned(_table(view.rows), _COLUMNS | units, display.terminal_width()))
    _show_estimated(view)
    for line in [*_sums(view), *_jobs(view), *_others(view), *_trouble(view)]:
        print(textwrap.fill(line, _width(), initial_indent="  ", subsequent_indent="    "))
    letters = _letters(view)
    for resources, letter in letters.items():
        print("\n".join(display.wrapped(f"  {letter}: {words(resources.asked())}", display.terminal_width())))
    if with_points:
        _show_points(view, letters)
    for number, text in enumerate(view.arrays if with_arrays else [], 1):
        print(f"\n# --- {view.spec.name}, array {number} ---\n{text}")


def _show_estimated(view: Preview) -> None:
    """A table of what nothing has measured, below that of the runs."""
    pairs = zip(view.estimated, _optimizers(view.rows), strict=True)
    if named := [(one, name) for one, name in pairs if one]:
        print("estimated, because nothing was measured:")
        print(estimates.table(named))


def _show_points(view: Preview, letters: Mapping[Resources, str]) -> None:
    room = display.terminal_width()
    for one in view.planned:
        point, state = one.point, word(view.found[one.point.id])
        letter = f"  {letters[_resources(view.spec, one)]}" if letters else ""
        line = f"{point.key or 'not asked':12}  {state:9}  {point.stage:9}{letter}  {describe(point)}"
        print("\n".join(display.wrapped(line, room)))


def together(views: Sequence[Preview]) -> str:
    """The sum of several sweeps; a run of two sweeps counts twice."""
    left, seconds = sum(view.left for view in views), sum(view.seconds for view in views)
    measured = f", about {display.duration(seconds)} of one worker" if seconds else ""
    lines = [f"together {left} to run{measured}"]
    lines += estimates.sums([one for view in views for one in view.estimated if one])
    return "\n".join(textwrap.fill(line, _width(), subsequent_indent="    ") for line in lines)


def _width() -> int:
    """The width of sentences."""
    return min(WIDTH, display.terminal_width() or WIDTH)


def show_answers(view: Preview) -> None:
    """Print SLURM's answers about the arrays."""
    for number, answer in enumerate(view.answers, 1):
        print(f"  array {number}: {answer}")


def _letters(view: Preview) -> dict[Resources, str]:
    """A letter for each resource class; empty if all points have the default resources."""
    classes = list(dict.fromkeys(_resources(view.spec, one) for one in view.planned))
    return {} if classes == [Resources()] else {one: _letter(i) for i, one in enumerate(classes)}


def _letter(number: int) -> str:
    return chr(ord("a") + number) if number < 26 else str(number)


def _counts(view: Preview) -> str:
    counts = Counter(word(view.found[one.point.id]) for one in view.planned)
    finished = sum(state.record is not None for state in view.found.values())
    others = {name: n for name, n in counts.items() if name in ("failed", "running", "queued")}
    coming = f" and {display.counted(view.to_come, 'replica')} of winners to come" if view.to_come else ""
    parts = [f"{display.counted(len(view.planned), 'point')}{coming}", f"{finished} finished"]
    parts += [f"{n} {name}" for name, n in others.items()]
    return ", ".join([*parts, f"{view.left} to run"])


def _table(rows: Sequence[Row]) -> list[list[object]]:
    names = _optimizers(rows)
    head = [
        "to run",
        "task",
        "model",
        "optimizer",
        "params",
        _unit(rows),
        "steps",
        "a step",
        "a run",
        "all",
        "memory",
    ]
    lines: list[list[object]] = [[*head, "seen in"]]
    for row, name in zip(rows, names, strict=True):
        kind, cost = row.work.kind, row.cost
        start = [row.work.runs, kind.task, kind.model, name]
        length = [display.count(row.samples) if row.samples else "-", row.steps or "-"]
        times = [display.duration(row.seconds), display.duration(row.total)]
        if cost is None:
            lines.append([*start, "-", *length, "-", *times, "-", "-"])
            continue
        seen = display.counted(cost.runs, "run") if cost.runs else "measured"
        memory = display.memory(cost.peak_memory)
        step = display.duration(cost.step)
        lines.append([*start, display.count(cost.parameters), *length, step, *times, memory, seen])
    return lines


def _unit(rows: Sequence[Row]) -> str:
    return "/".join(dict.fromkeys(row.unit for row in rows))


def _optimizers(rows: Sequence[Row]) -> list[str]:
    """The name of each row: the optimizer, and the details that differ between rows of one optimizer."""
    names = []
    for row in rows:
        kind = row.work.kind
        twins = [r.work.kind for r in rows if r.work.kind != kind and _triple(r) == _triple(row)]
        telling = [pair for pair in kind.details if any(pair not in twin.details for twin in twins)]
        words = [f"{name.removeprefix('optimizer.')}={value}" for name, value in telling]
        names.append(" ".join([kind.optimizer, *words]))
    return names


def _triple(row: Row) -> tuple[str, str, str]:
    kind = row.work.kind
    return kind.task, kind.model, kind.optimizer


def _sums(view: Preview) -> list[str]:
    """The total time, and on which processor it was measured."""
    costs = [row.cost for row in view.rows if row.cost is not None]
    known = [row for row in view.rows if row.total is not None]
    lines = []
    if known:
        seen = ", ".join(dict.fromkeys(cost.processor for cost in costs))
        unknown = len(view.rows) - len(known)
        rest = f", without what is not known ({unknown} of {len(view.rows)} lines)" if unknown else ""
        lines.append(f"about {display.duration(view.seconds)} of one worker, as seen on {seen}{rest}")
    cold = max((cost.startup_seconds for cost in costs), default=0.0)
    if cold:
        lines.append(f"a job on SLURM takes {display.duration(cold)} more, for the start of Python")
    return lines + estimates.sums([one for one in view.estimated if one])


def _jobs(view: Preview) -> list[str]:
    """How many jobs have several runs; where each has one, their number is that of the runs."""
    jobs = Counter[tuple[int, int]]()
    for array in view.jobs:
        wants = array.resources
        if wants.runs_per_job > 1:
            jobs[wants.runs_per_job, wants.side_by_side(array.processes)] += array.jobs
    return [
        f"{display.counted(n, 'job')} of up to {runs} runs, "
        f"{f'{at_once} at once' if at_once > 1 else 'one after another'}"
        for (runs, at_once), n in jobs.items()
    ]


def _others(view: Preview) -> list[str]:
    again = [
        f"{display.counted(n, 'run has results and is', 'runs have results and are')} trained again: {why}"
        for why, n in view.again.items()
    ]
    codes = (
        f"{display.counted(n, 'finished run is', 'finished runs are')} of other code: {code}"
        for code, n in view.other_code.items()
    )
    points = display.counted(view.lost, "point")
    lost = f"the stored plan has {points} that this one lacks; name=... keeps both plans, --replace this one"
    return [*again, *codes, *([lost] if view.lost else [])]


def _trouble(view: Preview) -> list[str]:
    """Why costs are unknown, each reason once, and warnings by class."""
    reasons: dict[str, list[str]] = {}
    found = []
    for row, name, priced in zip(view.rows, _optimizers(view.rows), view.estimated, strict=True):
        who = f"{row.work.kind.task} {row.work.kind.model} {name}"
        if row.why:
            reasons.setdefault(row.why, []).append(who)
        sentences = cost_card.warnings(row) + (estimates.warnings(priced) if priced else [])
        found += [f"warning: {who}: {sentence}" for sentence in sentences]
    several = {why: who[0] if len(who) == 1 else f"{len(who)} lines" for why, who in reasons.items()}
    return [f"{who}: {why}" for why, who in several.items()] + found
