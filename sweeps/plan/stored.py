"""The plan in the store, which a new plan of the same name extends. Torch-free.

A stored point is never forgotten. A file that lacks some is refused, unless it is to replace the plan; what
it lacks then stays in the plan as dropped. So do replicas of a setting that wins no more.
"""

import contextlib
import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from htbench.harness.choice.winner import grouped
from htbench.harness.config import RunConfig
from htbench.harness.config.key import identity, run_key
from htbench.harness.config.names import settings_of
from htbench.harness.config.programs import without_description
from htbench.harness.config.settings import to_settings
from htbench.harness.errors import UsageError
from htbench.harness.show.note import Note
from htbench.harness.show.numbers import counted
from htbench.harness.show.status import LEFT
from htbench.harness.store import RunState, Store
from htbench.harness.store import points as plans
from htbench.harness.store.points import DROPPED, REPLICATE, SEARCH, SEED_FIELDS, SPEC, Point
from htbench.harness.store.record import RunRecord
from htbench.harness.store.study import Study, find_study
from htbench.harness.system import atomic
from htbench.harness.system.folders import make_folder
from htbench.sweeps.plan import slots
from htbench.sweeps.plan.planned import (
    Planned,
    describe,
    filled,
    line,
    objective,
    plan_point,
    replica_seeds,
    search_points,
)
from htbench.sweeps.spec.search import REFINE
from htbench.sweeps.spec.sweep import SweepSpec

# What the key of a program's run covers besides its settings.
_OF_PROGRAM = {f"program.{name}" for name in ("command", "code", "data_version", "metric", "report")}
# What makes two studies the same search, whatever the code and the data, which their names tell.
_TERMS = ("fixed", "axes", "mode", "seed", "pruner", "pruner_options")


def write_plan(root: Path, spec: SweepSpec, planned: Sequence[Planned], *, replace: bool = False) -> None:
    """Write a sweep's points and its file into the store, where tables and status read them.

    Slots are written empty: their contents are in files of their own. The points are the plan, so the file is
    written after them: whoever finds it there finds its points, too.

    Args:
        root: the store.
        spec: the sweep.
        planned: its points as far as they are known. Stored replicas of an objective that has none among
            them stay (`replicas_to_keep`); other stored points that are not among them are dropped.
        replace: whether stored points that the file lacks may be dropped.

    Raises:
        UsageError: they may not, and there are some; nothing is written then.
    """
    folder = plans.sweep_folder(root, spec.name)
    make_folder(folder)
    with atomic.locked(folder / ".lock"):
        if not replace:
            refuse_losses(root, spec, planned)
        atomic.remove_temporaries(folder)
        if spec.search.has_slots:
            slots.write_studies(root, spec)
        before = plans.sound_points(root, spec.name)
        # Who adds replicas after a look at the first may stop when it suits. One that is planned keeps its
        # look; a new one has one more than the last replica of its setting that has a record.
        known = [point for point in before if point.stage == REPLICATE]
        seen, looks, store = {point.id: point.look for point in known}, Counter[Any](), Store(root)
        for point in known:
            if store.record(point.key) is not None:
                looks[point.block, point.candidate] = max(looks[point.block, point.candidate], point.look + 1)
        wanted = [p.point for p in [*planned, *replicas_to_keep(root, spec, planned)]]
        wanted = [
            dataclasses.replace(point, look=seen.get(point.id, looks[point.block, point.candidate]))
            if point.stage == REPLICATE
            else point
            for point in wanted
        ]
        ids = {point.id for point in wanted}
        others = {point.id: point for point in before if point.id not in ids}
        dropped = [dataclasses.replace(point, stage=DROPPED) for point in others.values()]
        plans.write_points(root, spec.name, [*wanted, *dropped])
        copy = folder / SPEC
        if not copy.exists() or copy.read_bytes() != spec.text.encode():
            atomic.write_text(copy, spec.text)


def refuse_losses(root: Path, spec: SweepSpec, planned: Sequence[Planned]) -> None:
    """Raise UsageError if the file lacks stored points (`lost`)."""
    gone = lost(root, spec, planned)
    if not gone:
        return
    settings = gone[0].overrides.items()
    known = {name: {repr(p.point.overrides.get(name)) for p in planned} for name, _ in settings}
    only = [f"{name}={value}" for name, value in settings if repr(value) not in known[name]]
    which = f"with {', '.join(only)}" if only else f"such as {describe(gone[0])}"
    raise UsageError(
        f"The stored plan of '{spec.name}' has {counted(len(gone), 'run')} that this one lacks, {which}. "
        f"Give this one a name of its own by name=..., or replace that plan by --replace: its runs stay in "
        f"the store and in budgets."
    )


def lost(root: Path, spec: SweepSpec, planned: Sequence[Planned]) -> list[Point]:
    """The stored points that a file lacks: other settings, fewer values, trials, blocks or fresh seeds.

    Runs under other keys are no loss if only code, data or defaults have changed. Nor are replicas of a
    setting that wins no more: the results decided that, not the file.

    Args:
        root: the store.
        spec: the sweep.
        planned: its points; those of the grid or the search matter.
    """
    search = [p for p in planned if p.point.stage == SEARCH]
    ids = {p.point.id for p in search}
    before = plans.sound_points(root, spec.name)
    gone = [point for point in before if point.stage == SEARCH and point.id not in ids]
    if gone:  # seldom; this resolves every study
        terms = {s.name: _terms(s) for s in slots.studies(spec)} if spec.search.has_slots else {}
        names = {_name(p.point, terms) for p in search}
        for point in gone:
            if point.slot:
                terms[point.study] = _terms(find_study(root, point.sweep, point.study))
        gone = [point for point in gone if _name(point, terms) not in names]
    groups = grouped(search, lambda p: objective(p.point, spec))
    seeds = {name: replica_seeds(spec, group) for name, group in groups.items()}
    for point in before:
        name = _objective(point, spec)
        if point.stage == REPLICATE and name in seeds and point.overrides.get("seed") not in seeds[name]:
            gone.append(point)
    return gone


def _name(point: Point, terms: Mapping[str, str]) -> tuple[str, ...]:
    """What names a point in two plans whose keys and studies differ: its settings, or its trial.

    Args:
        point: of a grid or a search.
        terms: of each study by its name.
    """
    if point.slot:
        return (terms[point.study], point.slot.rpartition("/")[2])
    return (json.dumps(without_description(point.overrides), sort_keys=True),)


def _terms(study: Study | None) -> str:
    """What two studies of one search have alike; empty for a lost one."""
    if study is None:
        return ""
    terms = {name: getattr(study, name) for name in _TERMS}
    return json.dumps(terms | {"fixed": without_description(study.fixed)}, sort_keys=True)


def _objective(point: Point, spec: SweepSpec) -> tuple[str, ...]:
    """The objective of a stored point; empty if the file lacks its block."""
    return objective(point, spec) if point.block in {block.name for block in spec.blocks} else ()


@dataclass(frozen=True)
class Difference:
    """How the stored plan of a sweep differs from that of a file, in numbers of points.

    Attributes:
        new: the points that only the file has.
        gone: those that only the stored plan has.
    """

    new: int = 0
    gone: int = 0


def read_plan(root: Path, spec: SweepSpec) -> list[Point] | None:
    """The points that a sweep wants as last planned, if that was the plan of the same file.

    Nothing is resolved for it, so jobs at work are seen under the keys that they were submitted with,
    whatever has become of the code.

    Returns:
        None: it was of another file, or never.

    Raises:
        UsageError: the stored plan is damaged.
    """
    copy = plans.sweep_folder(root, spec.name) / SPEC
    if not copy.exists() or copy.read_bytes() != spec.text.encode():
        return None
    # A writer that was killed has perhaps left the points of the next file beside this one.
    blocks = {block.name for block in spec.blocks}
    return [point for point in plans.read_points(root, spec.name) if point.block in blocks]


def difference(root: Path, spec: SweepSpec, points: Sequence[Point]) -> Difference:
    """How the stored plan differs from these points; not at all if the sweep was never planned."""
    before = {point.id for point in plans.sound_points(root, spec.name) if point.stage != DROPPED}
    now = {point.id for point in points}
    return Difference(len(now - before), len(before - now)) if before else Difference()


def replicas_to_keep(root: Path, spec: SweepSpec, planned: Sequence[Planned]) -> list[Planned]:
    """Stored replicas of objectives that have none among `planned`: they count until a winner is decided."""
    before = [point for point in plans.sound_points(root, spec.name) if point.stage == REPLICATE]
    decided = {objective(p.point, spec) for p in planned if p.point.stage == REPLICATE}
    waiting = [point for point in before if _objective(point, spec) not in decided]
    if not waiting:
        return []
    search = filled(root, [p for p in planned if p.point.stage == SEARCH])
    rivals = grouped(search, lambda p: objective(p.point, spec))
    again = []
    for point in waiting:  # of a setting that still competes, on a seed that is still fresh
        group = rivals.get(_objective(point, spec), [])
        competes = point.candidate in {p.point.candidate for p in group}
        if competes and point.overrides.get("seed") in replica_seeds(spec, group):
            again.append(plan_point(spec, point.block, REPLICATE, point.overrides))
    keys = {point.key for point in waiting}
    return [p for p in again if p.point.key in keys]  # edited code makes other runs


def searched(root: Path, spec: SweepSpec) -> list[Planned]:
    """The points of the search: those that the file lists, and those of later rounds that refine its rates.

    A later round is in the stored plan from the moment it is decided, so that results which change afterwards
    (a failure that is tried again) take back no point. It is one with other rates, all else as in the file.
    """
    planned = search_points(spec)
    if spec.search.mode != REFINE or not root.is_dir():
        return planned
    known = {p.point.key for p in planned}
    lines = {line(spec, p.point) for p in planned}
    later = [p for p in plans.sound_points(root, spec.name) if p.stage == SEARCH and line(spec, p) in lines]
    for point in {point.candidate: point for point in later}.values():
        for seeds in spec.seed_settings:
            again = plan_point(spec, point.block, SEARCH, point.overrides | seeds)
            planned += [again] if again.point.key not in known else []
    return planned


# --- runs with a result that are trained again, since code, data or defaults have changed ---


def trained_again(
    store: Store, spec: SweepSpec, planned: Sequence[Planned], known: Mapping[str, RunState]
) -> dict[Note, int]:
    """Count the runs that are trained again by the reason: what has changed since their results.

    Args:
        store: with the results.
        spec: the sweep.
        planned: its points as this code plans them.
        known: the states of the points, by id.
    """
    keys = defaultdict[tuple[Any, ...], set[str]](set)  # under which points were planned last
    with contextlib.suppress(UsageError):  # the plan is damaged; the next one replaces it
        for point in plans.ever_planned(store.root, spec.name):
            keys[_block_and_settings(point)].add(point.key)
    earlier: list[tuple[RunConfig, set[str]]] = []
    for p in planned:
        if p.point.key and known[p.point.id].status in LEFT:
            # its key before somebody edited code or raised a revision
            before = {run_key(dataclasses.replace(p.config, revisions={}))} if p.config.revisions else set()
            earlier.append((p.config, (before | keys[_block_and_settings(p.point)]) - {p.point.key}))
    records = store.records(set().union(*(before for _, before in earlier)))
    reasons = Counter[Note]()
    for config, before in earlier:
        if results := sorted(before & records.keys()):
            reasons[_changes(records[results[-1]], config)] += 1
    return dict(reasons)


def count_read_otherwise(planned: Sequence[Planned], known: Mapping[str, RunState]) -> int:
    """The finished runs of a program that `log` or `files` read when they said something else."""
    now = planned[0].config.program  # a replica that is kept may be of an earlier one
    records = [known[p.point.id].record for p in planned if now and p.config.program == now]
    programs = [record.config["program"] for record in records if record]
    return sum(any(then.get(name) != now[name] for name in ("log", "results")) for then in programs)


def _block_and_settings(point: Point) -> tuple[Any, ...]:
    """What names a point in two plans: not its key."""
    settings = without_description(point.overrides)
    return point.block, tuple(sorted((name, repr(value)) for name, value in settings.items()))


def _changes(record: RunRecord, config: RunConfig) -> Note:
    """The settings in the key that differ from those of an earlier result."""
    then, now = record.settings, to_settings(config)
    revisions = {name for name in then if name.startswith("revisions.")}
    parts = {"revisions.optimizer": config.optimizer.name, "revisions.model": config.model}
    parts |= {"revisions.task": config.task}
    changes = []
    counted = settings_of(identity(config)).keys() if not config.program else _OF_PROGRAM
    for name in sorted((counted | revisions) - {*SEED_FIELDS}):
        first = 1 if name.startswith("revisions.") else Note("not_set")
        old, new = (
            list(v) if isinstance(v, tuple) else v for v in (then.get(name, first), now.get(name, first))
        )
        fields = {"name": parts.get(name, name), "code": int(name in parts), "was": [old], "now": [new]}
        changes += [Note("setting_changed", **fields)] if old != new else []
    return Note("settings_changed", changes=changes) if changes else Note("settings_differ")
