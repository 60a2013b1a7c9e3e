"""`sweep plan`: the runs that are not finished, their cost, each point, and the job arrays for SLURM."""

import contextlib
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from htbench.harness.choice.winner import grouped
from htbench.harness.config import parts, programs
from htbench.harness.errors import UsageError
from htbench.harness.show.note import Note
from htbench.harness.show.report import Column, Report, Section, by_columns, table
from htbench.harness.show.status import LEFT, Status
from htbench.harness.store import RunState, Store
from htbench.harness.store.points import SEARCH, Point
from htbench.harness.system.machine import visible_gpus
from htbench.sweeps.cluster import queue, submit
from htbench.sweeps.plan import search_size
from htbench.sweeps.plan.planned import Planned, block_of, by_objective, describe, note_damaged, objective
from htbench.sweeps.plan.replicas import everything_with_states
from htbench.sweeps.plan.start import check_start
from htbench.sweeps.plan.stored import count_read_otherwise, lost, trained_again
from htbench.sweeps.run.stacking import stack_kind
from htbench.sweeps.screens.cost_card import Costs, Row, group_runs
from htbench.sweeps.spec import compiling
from htbench.sweeps.spec.resources import Resources, words
from htbench.sweeps.spec.search import REFINE
from htbench.sweeps.spec.sweep import SweepSpec

COMMANDS = 3  # of a program that are shown

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
        to_run: runs that are not finished, these among them.
        seconds: of one worker for them, as far as known.
        card: the runs that are not finished, by class.
        trained_again: runs that are trained again, by what has changed.
        edited: finished runs by each file that they ran, that is in no key, and that has been edited since.
        read_otherwise: finished runs of a program that another `log` or `files` has read.
        compiled: shapes of runs that are not finished and are compiled.
        stacked: runs that are not finished and that `sweep run` may train as one with others.
        lost: stored points that the file lacks; `run` and `submit` drop them with `--replace` only.
        points: all of them.
        sbatch: scripts, with `--sbatch`.
        answers: of SLURM, with `--test-only`.
        commands: of a program that is not ours, as the first runs that are left will be started.
    """

    sweep: str
    states: Mapping[str, int]
    replicas_to_come: int
    to_run: int
    seconds: float
    card: Sequence[Row]
    trained_again: Mapping[Note, int]
    edited: Mapping[str, int]
    read_otherwise: int
    lost: int
    compiled: int
    stacked: int
    points: Sequence[PointFacts]
    sbatch: list[str] = field(default_factory=list)
    answers: list[Note] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Preview:
    """What `sweep plan` shows of a sweep.

    Attributes:
        facts: for programs.
        spec: the sweep.
        planned: its points, with the replicas that are known.
        run_states: the states of the points, by id.
    """

    facts: PlanFacts
    spec: SweepSpec
    planned: list[Planned]
    run_states: Mapping[str, RunState]


def preview_sweep(store: Store, spec: SweepSpec, costs: Costs) -> Preview:
    """Collect what `sweep plan` shows of a sweep. Raises UsageError if it can't be run.

    Args:
        store: with its finished runs.
        spec: the sweep.
        costs: of each class of runs.
    """
    planned, run_states = everything_with_states(store, spec)
    check_start(spec, planned, store.root, action="plan")
    run_states = queue.mark_queued(run_states, queue.find_jobs(store.root, run_states))
    points = [
        PointFacts(
            **{field.name: getattr(p.point, field.name) for field in fields(Point)},
            state=run_states[p.point.id].status,
            resources=block_of(spec, p.point).resources,
        )
        for p in planned
    ]
    groups = by_objective(spec, [p for p in planned if p.point.stage == SEARCH])
    # A replica of an unknown winner has the config and the resources of a point that may win.
    candidates = [group[0] for group in groups if any(run_states[p.point.id].status in LEFT for p in group)]
    to_come = candidates * spec.fresh_seeds
    left = [p for p in planned if run_states[p.point.id].status in LEFT]
    missing, gpu = left + to_come, bool(visible_gpus())
    kinds = Counter(stack_kind(p.config, spec.stack, has_gpu=gpu) for p in left if not p.point.slot)
    rows = costs.make_rows(group_runs([(p.config, block_of(spec, p.point).resources) for p in missing]))
    edited = Counter[str]()  # a record has the files that its run executed, and that are in no key
    for p in planned:
        record = run_states[p.point.id].record
        imports = record.environment.get("imports") if record is not None else None
        edited.update(parts.edited_since(p.config, imports) if isinstance(imports, dict) else ())
    facts = PlanFacts(
        sweep=spec.name,
        states=dict(Counter(point.state.value for point in points)),
        replicas_to_come=len(to_come),
        to_run=sum(row.runs for row in rows),
        seconds=sum(row.seconds or 0.0 for row in rows),
        card=rows,
        trained_again=trained_again(store, spec, planned, run_states),
        edited=edited,
        read_otherwise=count_read_otherwise(planned, run_states),
        lost=len(lost(store.root, spec, planned)),
        compiled=len({compiling.shape(p.config) for p in missing if p.config.compile}),
        stacked=sum(runs for kind, runs in kinds.items() if kind and runs > 1),
        points=points,
    )
    if spec.is_program:
        for p in left[:COMMANDS]:
            with contextlib.suppress(UsageError):  # a search has not drawn its settings yet
                words, env = programs.command(p.config, {"run_dir": "RUN_DIR"})
                facts.commands.append(
                    shlex.join([*(f"{name}={value}" for name, value in env.items()), *words])
                )
    return Preview(facts, spec, planned, run_states)


# --- on the screen ---


def make_report(
    previews: Sequence[Preview], *, with_arrays: bool = False, with_points: bool = False
) -> Report:
    """Sweeps as a report: of each a summary; then every point and the scripts for `sbatch`, if wanted."""
    sections = []
    for preview in previews:
        sections += _make_sections(preview, with_arrays=with_arrays, with_points=with_points)
    facts, notes = [preview.facts for preview in previews], []
    if len(facts) > 1:  # a run of two sweeps counts twice
        runs, seconds = sum(sweep.to_run for sweep in facts), sum(sweep.seconds for sweep in facts)
        notes = [Note("together_to_run", runs=runs, seconds=seconds)]
    return Report("sweep plan", "", sections, notes, data=facts)


def _make_sections(preview: Preview, *, with_arrays: bool, with_points: bool) -> list[Section]:
    facts, name, names = preview.facts, preview.spec.name, _name_rows(preview.facts.card)
    finished = sum(state.record is not None for state in preview.run_states.values())
    numbers = {state: facts.states.get(state, 0) for state in ("failed", "running", "queued")}
    numbers |= {"points": len(facts.points), "replicas": facts.replicas_to_come, "left": facts.to_run}
    notes, unknown = list[Note](), sum(row.seconds is None for row in facts.card)
    if unknown < len(names):
        seen = list(dict.fromkeys(row.cost.processor for row in facts.card if row.cost is not None))
        notes = [Note("times_seen", seen=seen, unknown=unknown, lines=len(names))]
    notes += _note_search(preview)
    again = facts.trained_again.items()
    notes += [Note("trained_again", runs=n, why=why, kept=finished) for why, n in again]
    notes += [Note("plan_edited", runs=n, name=file) for file, n in facts.edited.items()]
    counts = [
        Note("read_otherwise", n=facts.read_otherwise),
        Note("plan_lacks", n=facts.lost),
        Note("plan_stacks", n=facts.stacked),
        Note("plan_compiles", n=facts.compiled, cpu=compiling.SECONDS),
    ]
    notes += [note for note in counts if note["n"]]
    lines = [(f"{row.task} {row.model} {name}", row) for row, name in zip(facts.card, names, strict=True)]
    for why, alike in grouped([line for line in lines if line[1].why], lambda line: line[1].why).items():
        who = alike[0][0] if len(alike) == 1 else f"{len(alike)} lines"
        notes.append(Note("not_known_why", who=who, why=why))
    notes += [Note("warning_of", who=who, warning=warning) for who, row in lines for warning in row.warnings]
    notes += note_damaged(preview.run_states)
    classes = Counter(point.resources for point in facts.points if point.state in LEFT)
    if [*classes] != [Resources()]:
        notes += [Note("jobs_ask", runs=n, asked=words(asked.asked())) for asked, n in classes.items()]
    head = Note("plan_counts", sweep=name, seconds=facts.seconds, finished=finished, **numbers)
    sections = [_show_costs(facts.card, names, notes=notes, above=[head])]
    if with_points:
        columns = [Column(title, kind="text") for title in ("key", "state", "stage")]
        rows = [[p.key or "not asked", p.state.value, p.stage, describe(p)] for p in facts.points]
        sections.append(table([*columns, Column("run", kind="text", least=20)], rows))
    for number, script in enumerate(facts.sbatch if with_arrays else [], 1):
        head = Note("script", sweep=name, n=number, left_out=submit.CHECK)
        sections.append(replace(table([], [], above=[head]), verbatim=submit.shorten_check(script)))
    if facts.commands:
        head = Note("program_commands", sweep=name)
        sections.append(replace(table([], [], above=[head]), verbatim="\n".join(facts.commands)))
    answers = [Note("answer", n=n, answer=answer) for n, answer in enumerate(facts.answers, 1)]
    return [*sections, *([table([], [], notes=answers)] if answers else [])]


def _show_costs(rows: Sequence[Row], names: Sequence[str], **parts: Sequence[Note]) -> Section:
    """The time and the memory of the runs, by finished runs and measurements."""
    columns: dict[Column, Sequence[Any]] = {
        # On a narrow screen these four stay longest.
        Column("to run", importance=12): [row.runs for row in rows],
        Column("task", kind="text", least=6, importance=11): [row.task for row in rows],
        Column("model", kind="text", importance=11): [row.model for row in rows],
        Column("optimizer", kind="text", least=20, importance=11): names,
        Column("steps", importance=4): [row.steps for row in rows],
        Column("ms/step", unit="ms", importance=3): [row.cost and 1000 * row.cost.step for row in rows],
        Column("a run", unit="s", importance=6): [row.seconds_per_run for row in rows],
        Column("all", unit="s", importance=7): [row.seconds for row in rows],
        Column("memory", unit="B", importance=5): [row.cost and row.cost.peak_memory for row in rows],
    }
    return by_columns(columns, **parts)


def _name_rows(rows: Sequence[Row]) -> list[str]:
    """The optimizer of each row, and the details that differ between rows of one optimizer."""
    twins = grouped(rows, lambda row: (row.task, row.model, row.optimizer))
    names = []
    for row in rows:
        rivals = [other.details.items() for other in twins[row.task, row.model, row.optimizer]]
        differing = [pair for pair in row.details.items() if any(pair not in rival for rival in rivals)]
        details = [f"{name.removeprefix('optimizer.')}={value}" for name, value in differing]
        names.append(" ".join([row.optimizer, *details]))
    return names


def _note_search(preview: Preview) -> list[Note]:
    """How many settings a search may have, and how often its size finds the order; none once it is over."""
    spec, points = preview.spec, [point for point in preview.facts.points if point.stage == SEARCH]
    if all(point.state.is_settled for point in points):
        return []
    searches = grouped(points, lambda point: objective(point, spec)).values()
    candidates = [len({point.candidate for point in search}) for search in searches]
    notes, search = list[Note](), spec.search
    if search.mode == REFINE:
        most = len(candidates) * search.trials
        notes = [Note("plan_rounds", rate=spec.shown_rate, known=sum(candidates), most=most)]
    rows = {point.row or point.overrides.get("optimizer.name") for point in points}
    if len(rows) > 1 and not spec.is_program:  # of which the ladder tells nothing
        chances = search_size.read_chances()
        chance = search_size.closest(chances, search.trials or min(candidates), len(spec.seeds))
        notes += [Note("search_size", **asdict(chance))] if chance else []
    return notes
