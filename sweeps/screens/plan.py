"""`sweep plan`: the runs that are left, their cost, each point, and the job arrays for SLURM."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace

from htbench.harness.choice.winner import grouped
from htbench.harness.config import RunConfig, parts
from htbench.harness.show.note import Note
from htbench.harness.show.report import Column, Report, Section, table
from htbench.harness.show.status import Status
from htbench.harness.store import RunState, Store
from htbench.harness.store.points import SEARCH, Point
from htbench.sweeps.cluster import queue, submit
from htbench.sweeps.plan import search_size
from htbench.sweeps.plan.planned import Planned, block_of, by_objective, describe, objective
from htbench.sweeps.plan.replicas import everything_with_states
from htbench.sweeps.plan.start import check_start
from htbench.sweeps.plan.stored import lost, trained_again
from htbench.sweeps.screens import cost_card
from htbench.sweeps.screens.cost_card import Costs, Row
from htbench.sweeps.spec.resources import Resources, words
from htbench.sweeps.spec.search import REFINE
from htbench.sweeps.spec.sweep import SweepSpec

Line = tuple[Row, str]  # of the card, and what to call its optimizer

# Facts for programs: times are in seconds, memory is in bytes.


@dataclass(frozen=True, kw_only=True)
class PointFacts(Point):
    """A point of the plan. A slot that nobody has asked for has an empty key.

    Attributes:
        state: of its run.
        resources: of its job.
    """

    state: Status
    resources: Resources


@dataclass(frozen=True)
class PlanFacts:
    """A sweep.

    Attributes:
        sweep: its name.
        states: points by state.
        replicas_to_come: replicas whose winners are not known yet.
        to_run: runs that are left, these among them.
        seconds: of one worker for them, as far as known.
        card: the runs that are left, by class.
        trained_again: runs that are trained again, by what has changed.
        edited: finished runs by each file that they ran, that is in no key, and that has been edited since.
        lost: stored points that the file lacks; `run` and `submit` drop them with `--replace` only.
        points: all of them.
        sbatch: scripts, with `--sbatch`.
        answers: of SLURM, with `--test-only`.
    """

    sweep: str
    states: Mapping[str, int]
    replicas_to_come: int
    to_run: int
    seconds: float
    card: Sequence[Row]
    trained_again: Mapping[Note, int]
    edited: Mapping[str, int]
    lost: int
    points: Sequence[PointFacts]
    sbatch: list[str] = field(default_factory=list)
    answers: list[Note] = field(default_factory=list)


@dataclass(frozen=True)
class Preview:
    """What `sweep plan` shows of a sweep.

    Attributes:
        facts: for programs.
        spec: the sweep.
        planned: its points, with the replicas that are known.
        found: the states of the points, by id.
    """

    facts: PlanFacts
    spec: SweepSpec
    planned: list[Planned]
    found: Mapping[str, RunState]


def preview(store: Store, spec: SweepSpec, costs: Costs) -> Preview:
    """Collect what `sweep plan` shows of a sweep. Raises UsageError if it can't be run.

    Args:
        store: with its finished runs.
        spec: the sweep.
        costs: finds what was measured.
    """
    planned, known = everything_with_states(store, spec)
    check_start(spec, planned, store.root, action="plan")
    found = queue.with_queue(known, queue.jobs_for(store.root, known))
    left = [
        (one.config, _resources(spec, one)) for one in planned if not found[one.point.id].status.is_settled
    ]
    to_come = _to_come(spec, planned, found)
    rows = costs.rows(cost_card.gather(left + to_come))
    facts = PlanFacts(
        sweep=spec.name,
        states=dict(Counter(found[one.point.id].status.value for one in planned)),
        replicas_to_come=len(to_come),
        to_run=sum(row.runs for row in rows),
        seconds=sum(row.seconds or 0.0 for row in rows),
        card=rows,
        trained_again=trained_again(store, spec, planned, found),
        edited=Counter(name for one in planned for name in _edited(one.config, found[one.point.id])),
        lost=len(lost(store.root, spec, planned)),
        points=[
            PointFacts(
                **{own.name: getattr(one.point, own.name) for own in fields(Point)},
                state=found[one.point.id].status,
                resources=_resources(spec, one),
            )
            for one in planned
        ],
    )
    return Preview(facts, spec, planned, found)


def _edited(config: RunConfig, state: RunState) -> list[str]:
    """The files that a finished run executed, that are in no key, and that were edited since."""
    ran = state.record.environment.get("imports") if state.record is not None else None
    return parts.edited_since(config, ran) if isinstance(ran, dict) else []


def _resources(spec: SweepSpec, one: Planned) -> Resources:
    return block_of(spec, one.point).resources


def _to_come(
    spec: SweepSpec, planned: Sequence[Planned], found: Mapping[str, RunState]
) -> list[tuple[RunConfig, Resources]]:
    """The replicas of unknown winners, each with the config and resources of a point that may win."""
    groups = by_objective(spec, [one for one in planned if one.point.stage == SEARCH])
    open_groups = [
        group for group in groups if not all(found[one.point.id].status.is_settled for one in group)
    ]
    return [(group[0].config, _resources(spec, group[0])) for group in open_groups] * spec.fresh_seeds


# --- on the screen ---


def report(views: Sequence[Preview], *, with_arrays: bool = False, with_points: bool = False) -> Report:
    """Sweeps as a report: of each a summary; then every point and the scripts for `sbatch`, if wanted."""
    sections = []
    for view in views:
        sections += _sections(view, with_arrays=with_arrays, with_points=with_points)
    notes = []
    if len(views) > 1:  # a run of two sweeps counts twice
        left, seconds = sum(view.facts.to_run for view in views), sum(view.facts.seconds for view in views)
        notes = [Note("together_to_run", runs=left, seconds=seconds)]
    return Report("sweep plan", "", sections, notes, data=[view.facts for view in views])


def _sections(view: Preview, *, with_arrays: bool, with_points: bool) -> list[Section]:
    counts = view.facts.states
    finished = sum(state.record is not None for state in view.found.values())
    numbers = {name: counts.get(name, 0) for name in ("failed", "running", "queued")}
    numbers |= {
        "points": len(view.planned),
        "replicas": view.facts.replicas_to_come,
        "finished": finished,
        "left": view.facts.to_run,
    }
    head = Note("plan_counts", sweep=view.spec.name, **numbers)
    lines = _lines(view.facts.card)
    classes = Counter(point.resources for point in view.facts.points if not point.state.is_settled)
    notes = _rounds(view) + _search_size(view) + _sums(view) + _others(view) + _trouble(lines)
    if [*classes] != [Resources()]:
        notes += [Note("jobs_ask", runs=n, asked=words(asked.asked())) for asked, n in classes.items()]
    parts = [replace(_card(lines), notes=tuple(notes), above=(head,))]
    if with_points:
        parts.append(_points(view))
    scripts = enumerate(view.facts.sbatch if with_arrays else [], 1)
    for number, script in scripts:
        head = Note("script", sweep=view.spec.name, n=number, left_out=submit.CHECK)
        parts.append(replace(table([], [], above=[head]), verbatim=submit.without_check(script)))
    answers = [Note("answer", n=n, answer=answer) for n, answer in enumerate(view.facts.answers, 1)]
    return [*parts, *([table([], [], notes=answers)] if answers else [])]


# Which runs a line is of; these columns stay longest.
_WHICH = (
    Column("to run", importance=12),
    Column("task", kind="text", least=6, importance=11),
    Column("model", kind="text", importance=11),
    Column("optimizer", kind="text", least=20, importance=11),
)


def _card(rows: Sequence[Line]) -> Section:
    """What finished runs and measurements say of the time and the memory of the runs."""
    columns = [
        *_WHICH,
        Column("steps", importance=4),
        Column("ms/step", unit="ms", importance=3),
        Column("a run", unit="s", importance=6),
        Column("all", unit="s", importance=7),
        Column("memory", unit="B", importance=5),
    ]
    lines = []
    for row, name in rows:
        cost = row.cost
        step, memory = (1000 * cost.step, cost.peak_memory) if cost else ("-", "-")
        times = ["-" if seconds is None else seconds for seconds in (row.seconds_per_run, row.seconds)]
        lines.append([row.runs, row.task, row.model, name, row.steps or "-", step, *times, memory])
    return table(columns, lines)


def _points(view: Preview) -> Section:
    columns = [Column("key", kind="text"), Column("state", kind="text"), Column("stage", kind="text")]
    rows = [[p.key or "not asked", p.state.value, p.stage, describe(p)] for p in view.facts.points]
    return table([*columns, Column("run", kind="text", least=20)], rows)


def _lines(rows: Sequence[Row]) -> list[Line]:
    """Each row with its name: the optimizer, and the details that differ between rows of one optimizer."""
    lines = []
    for row in rows:
        twins = [other.details.items() for other in rows if _workload(other) == _workload(row)]
        telling = [pair for pair in row.details.items() if any(pair not in twin for twin in twins)]
        details = [f"{name.removeprefix('optimizer.')}={value}" for name, value in telling]
        lines.append((row, " ".join([row.optimizer, *details])))
    return lines


def _workload(row: Row) -> tuple[str, str, str]:
    return row.task, row.model, row.optimizer


def _rounds(view: Preview) -> list[Note]:
    """How many settings a search that refines a rate has so far, and may have; nothing once it is over."""
    search, points = view.spec.search, [point for point in view.facts.points if point.stage == SEARCH]
    if search.mode != REFINE or all(point.state.is_settled for point in points):
        return []
    objectives = len({objective(point, view.spec) for point in points})
    known = len({point.candidate() for point in points})
    return [Note("plan_rounds", rate=search.rate, known=known, most=objectives * search.trials)]


def _search_size(view: Preview) -> list[Note]:
    """How often a search of this size finds the order of its rows; nothing for one, or once it is over."""
    spec, points = view.spec, [point for point in view.facts.points if point.stage == SEARCH]
    rows = {point.row or point.overrides.get("optimizer.name") for point in points}
    if len(rows) < 2 or all(point.state.is_settled for point in points):
        return []
    tried = grouped(points, lambda point: objective(point, spec)).values()
    settings = spec.search.trials or min(len({point.candidate() for point in own}) for own in tried)
    chance = search_size.closest(search_size.read_chances(), settings, len(spec.seeds))
    return [Note("search_size", **asdict(chance))] if chance else []


def _sums(view: Preview) -> list[Note]:
    """The total time, and on which processor it was measured."""
    rows = view.facts.card
    unknown = sum(row.seconds is None for row in rows)
    if unknown == len(rows):
        return []
    seen = list(dict.fromkeys(row.cost.processor for row in rows if row.cost is not None))
    told = {"seconds": view.facts.seconds, "seen": seen, "unknown": unknown, "lines": len(rows)}
    return [Note("time_of_worker", **told)]


def _others(view: Preview) -> list[Note]:
    kept = sum(state.record is not None for state in view.found.values())
    notes = [Note("trained_again", runs=n, why=why, kept=kept) for why, n in view.facts.trained_again.items()]
    notes += [Note("plan_edited", runs=n, name=name) for name, n in view.facts.edited.items()]
    return [*notes, *([Note("plan_lacks", points=view.facts.lost)] if view.facts.lost else [])]


def _trouble(lines: Sequence[Line]) -> list[Note]:
    """Why costs are unknown, each reason once, and warnings by class."""
    reasons: dict[Note, list[str]] = {}
    notes = []
    for row, name in lines:
        who = f"{row.task} {row.model} {name}"
        if isinstance(row.why, Note):
            reasons.setdefault(row.why, []).append(who)
        notes += [Note("warning_of", who=who, warning=warning) for warning in row.warnings]
    several = {why: who[0] if len(who) == 1 else f"{len(who)} lines" for why, who in reasons.items()}
    return [Note("not_known_why", who=who, why=why) for why, who in several.items()] + notes
