"""The plan in the store, which a new plan of the same name extends. Torch-free.

A stored point is never forgotten. A file that lacks some is refused, unless it is to replace the plan; what
it lacks then stays in the plan as dropped. So do replicas of a setting that wins no more.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.show.numbers import counted
from harness.store import points as plans
from harness.store.points import DROPPED, REPLICATE, SEARCH, SPEC, Point
from harness.system import atomic
from harness.system.folders import make_folder
from sweeps.plan import slots
from sweeps.plan.describe import describe
from sweeps.plan.planned import Planned, by_objective, filled, objective, plan_point, replica_seeds
from sweeps.spec.sweep import SweepSpec

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
            them stay (`kept`); other stored points that are not among them are dropped.
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
        if not spec.search.is_grid:
            slots.write_studies(root, spec)
        wanted = [one.point for one in [*planned, *kept(root, spec, planned)]]
        ids = {point.id for point in wanted}
        others = {point.id: point for point in plans.sound_points(root, spec.name) if point.id not in ids}
        dropped = [dataclasses.replace(point, stage=DROPPED) for point in others.values()]
        plans.write_points(root, spec.name, [*wanted, *dropped])
        copy = folder / SPEC
        if not copy.exists() or copy.read_bytes() != spec.text.encode():
            atomic.write_text(copy, spec.text)


def refuse_losses(root: Path, spec: SweepSpec, planned: Sequence[Planned]) -> None:
    """Raise UsageError if the file lacks stored points (`lost`)."""
    if gone := lost(root, spec, planned):
        raise UsageError(
            f"The stored plan of '{spec.name}' has {counted(len(gone), 'point')} that this one lacks, "
            f"{_which(gone, planned)}. Give this one a name of its own by name=..., or replace that plan by "
            f"--replace: its runs stay in the store and in budgets."
        )


def _which(gone: Sequence[Point], planned: Sequence[Planned]) -> str:
    """What tells lost points from those planned: "with steps=4000", or the first of them."""
    known = {name: {repr(one.point.overrides.get(name)) for one in planned} for name in gone[0].overrides}
    own = [f"{name}={value}" for name, value in gone[0].overrides.items() if repr(value) not in known[name]]
    return f"with {', '.join(own)}" if own else f"such as {describe(gone[0])}"


def lost(root: Path, spec: SweepSpec, planned: Sequence[Planned]) -> list[Point]:
    """The stored points that a file lacks: other settings, fewer values, trials, blocks or fresh seeds.

    Runs under other keys are no loss if only code, data or defaults have changed. Nor are replicas of a
    setting that wins no more: the results decided that, not the file.

    Args:
        root: the store.
        spec: the sweep.
        planned: its points; those of the grid or the search matter.
    """
    search = [one for one in planned if one.point.stage == SEARCH]
    before = plans.sound_points(root, spec.name)
    return [*_lost_settings(root, spec, search, before), *_lost_replicas(spec, search, before)]


def _lost_settings(
    root: Path, spec: SweepSpec, search: Sequence[Planned], before: Sequence[Point]
) -> list[Point]:
    ids = {one.point.id for one in search}
    gone = [point for point in before if point.stage == SEARCH and point.id not in ids]
    if not gone:  # the usual case; the lines below resolve every study
        return []
    terms = _planned_terms(spec)
    names = {_name(one.point, terms) for one in search}
    terms = {point.study: _stored_terms(root, point) for point in gone}
    return [point for point in gone if _name(point, terms) not in names]


def _lost_replicas(spec: SweepSpec, search: Sequence[Planned], before: Sequence[Point]) -> list[Point]:
    groups = {objective(group[0].point, spec): group for group in by_objective(spec, search)}
    seeds = {name: replica_seeds(spec, group) for name, group in groups.items()}
    replicas = [(one, _objective(one, spec)) for one in before if one.stage == REPLICATE]
    return [
        point for point, own in replicas if own in seeds and point.overrides.get("seed") not in seeds[own]
    ]


@dataclass(frozen=True)
class Difference:
    """How the stored plan of a sweep differs from that of a file, in numbers of points.

    Attributes:
        new: the points that only the file has.
        gone: those that only the stored plan has.
    """

    new: int = 0
    gone: int = 0


def stored(root: Path, spec: SweepSpec) -> list[Point] | None:
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
    return [one for one in plans.read_points(root, spec.name) if one.block in blocks]


def difference(root: Path, spec: SweepSpec, points: Sequence[Point]) -> Difference:
    """How the stored plan differs from these points; not at all if the sweep was never planned."""
    before = {point.id for point in plans.sound_points(root, spec.name) if point.stage != DROPPED}
    now = {point.id for point in points}
    return Difference(len(now - before), len(before - now)) if before else Difference()


def kept(root: Path, spec: SweepSpec, planned: Sequence[Planned]) -> list[Planned]:
    """Stored replicas of objectives that have none among `planned`: they count until a winner is decided."""
    before = [point for point in plans.sound_points(root, spec.name) if point.stage == REPLICATE]
    decided = {objective(one.point, spec) for one in planned if one.point.stage == REPLICATE}
    waiting = [point for point in before if _objective(point, spec) not in decided]
    if not waiting:
        return []
    search = filled(root, [one for one in planned if one.point.stage == SEARCH])
    groups = {objective(group[0].point, spec): group for group in by_objective(spec, search)}
    again = [
        plan_point(spec, point.block, REPLICATE, point.overrides)
        for point in waiting
        if _fits(point, spec, groups.get(_objective(point, spec), ()))
    ]
    keys = {point.key for point in waiting}
    return [one for one in again if one.point.key in keys]  # edited code makes other runs


def _fits(replica: Point, spec: SweepSpec, group: Sequence[Planned]) -> bool:
    """Whether a stored replica may still be one: of a setting that competes, on a seed that is fresh."""
    return replica.candidate() in {one.point.candidate() for one in group} and replica.overrides.get(
        "seed"
    ) in replica_seeds(spec, group)


def _objective(point: Point, spec: SweepSpec) -> tuple[str, ...]:
    """The objective of a stored point; empty if the file lacks its block."""
    return objective(point, spec) if point.block in {block.name for block in spec.blocks} else ()


def _name(point: Point, terms: Mapping[str, str]) -> tuple[str, ...]:
    """What names a point in two plans whose keys and studies differ: its settings, or its trial.

    Args:
        point: of a grid or a search.
        terms: of each study by its name.
    """
    if point.slot:
        return (terms[point.study], point.slot.rpartition("/")[2])
    return (json.dumps(point.overrides, sort_keys=True),)


def _planned_terms(spec: SweepSpec) -> dict[str, str]:
    if spec.search.is_grid:
        return {}
    return {study.name: _terms(dataclasses.asdict(study)) for study in slots.studies(spec)}


def _stored_terms(root: Path, point: Point) -> str:
    return _terms(plans.read_study(root, point.sweep, point.study)) if point.slot else ""


def _terms(study: Mapping[str, Any]) -> str:
    return json.dumps({name: study.get(name) for name in _TERMS}, sort_keys=True)
