"""The best setting of each search so far, and the edges at which it lies, for `sweep status`."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from htbench.harness import tasks
from htbench.harness.choice.edge import Edge, numbers, of_range, of_values
from htbench.harness.config.settings import FIELDS
from htbench.harness.show.note import Note
from htbench.harness.show.numbers import pairs
from htbench.harness.store import RunState
from htbench.harness.store.points import SEARCH, Point, is_tuned
from htbench.sweeps.plan.planned import block_of
from htbench.sweeps.plan.replicas import Course
from htbench.sweeps.spec.search import REFINE, Range
from htbench.sweeps.spec.sweep import SweepSpec


@dataclass(frozen=True)
class Objective:
    """How far the search of an objective is, and the runs of its winner on fresh seeds.

    Attributes:
        fixed: its values on the axes that are not tuned; empty: the block has no other objective.
        search, searched: the runs of its search as far as they are known; those of them that have a result.
        replicas, replicated: the same of the runs on fresh seeds, with those that are not planned yet.
        setting: what was searched, of the best so far; empty: there is none yet, or nothing to search.
        metric: of the validation split, by which it is the best; empty: there is none yet.
        higher_is_better: its direction.
        value: its mean over the seeds of the search; None: there is none yet.
        seeds: of the search.
        edges: the searched values beyond which nothing was tried; none until the search is over.
    """

    fixed: Mapping[str, Any] = field(default_factory=dict)
    search: int = 0
    searched: int = 0
    replicas: int = 0
    replicated: int = 0
    setting: Mapping[str, Any] = field(default_factory=dict)
    metric: str = ""
    higher_is_better: bool = False
    value: float | None = None
    seeds: int = 0
    edges: Sequence[Edge] = ()

    def text(self) -> str:
        """The value as people read it; empty if there is none yet."""
        return "" if self.value is None else tasks.metric_text(self.metric, self.value)

    def advise(self) -> str:
        """The values to add beside the best ones, in words; empty if there are none."""
        missing = [edge for edge in self.edges if edge.following is not None]
        values = [pairs({_shorten(e.setting): e.following}) for e in missing if not e.is_searched]
        trials = max((edge.trials for edge in missing), default=0)
        option = "--replace" if any(edge.is_drawn for edge in missing) else ""
        kind = "to_add" if values else "to_raise"
        return str(Note(kind, values=values, trials=trials, option=option)) if values or trials else ""


def describe_objective(spec: SweepSpec, course: Course, run_states: Mapping[str, RunState]) -> Objective:
    """The facts of an objective.

    Args:
        spec: its sweep.
        course: its points, and the best of them.
        run_states: the states of its points, by their ids.
    """
    point = course.search[0]
    searched, replicated = [
        sum(run_states[p.id].status.has_ended for p in part) for part in (course.search, course.replicas)
    ]
    rounds = sum(point.stage == SEARCH for point in course.to_come)
    untuned = [axis for axis in _list_axes(spec, point) if not is_tuned(axis)]
    facts: dict[str, Any] = {
        "fixed": _select_settings(point, untuned),
        "search": len(course.search) + rounds,
        "searched": searched,
        "replicas": len(course.replicas) + len(course.to_come) - rounds,
        "replicated": replicated,
    }
    if not course.best:
        return Objective(**facts)
    records = [record for p in course.best if (record := run_states[p.id].record) is not None]
    task = tasks.recorded(records[0].config["task"], records[0].environment)
    return Objective(
        **facts,
        setting=select_searched(spec, course.best[0]),
        metric=task.metric,
        higher_is_better=task.higher_is_better,
        value=statistics.fmean(float(record.metrics[f"val_{task.metric}"] or 0) for record in records),
        seeds=len(records),
        edges=_find_edges(spec, course) if course.settled else (),
    )


def select_searched(spec: SweepSpec, point: Point) -> dict[str, Any]:
    """The values of a point that were searched, without the group of the optimizer in their names."""
    return _select_settings(point, [axis for axis in _list_axes(spec, point) if is_tuned(axis)])


def _list_axes(spec: SweepSpec, point: Point) -> dict[str, list[Any] | Range]:
    """The axes of its block on which points differ."""
    space = block_of(spec, point).space
    return {axis: tried for axis, tried in space.items() if isinstance(tried, Range) or len(tried) > 1}


def _select_settings(point: Point, axes: Sequence[str]) -> dict[str, Any]:
    return {_shorten(axis): point.overrides[axis] for axis in axes if axis in point.overrides}


def _shorten(axis: str) -> str:
    return axis.removeprefix("optimizer.")


def _find_edges(spec: SweepSpec, course: Course) -> list[Edge]:
    """The edges and holes at which the winner lies, of the grid or the ranges of this sweep alone."""
    best, search = course.best[0].overrides, spec.search
    rule = str(best.get("optimizer.name", FIELDS["optimizer.name"].default))
    axes = {axis: tried for axis, tried in _list_axes(spec, course.best[0]).items() if is_tuned(axis)}
    candidates = len({point.candidate for point in course.search})
    edges: list[Edge] = []
    for axis, tried in axes.items():
        drawn = numbers(p.overrides.get(axis) for p in course.search)
        if isinstance(tried, Range):
            beside = of_range(rule, axis, best[axis], (tried.low, tried.high), drawn, log=tried.log)
            edges += [e.beside_trials(search.trials, candidates) if e.place == "hole" else e for e in beside]
            continue
        rest = [other for other in axes if other != axis]
        near = [p for p in course.search if all(p.overrides.get(other) == best[other] for other in rest)]
        every = numbers([*tried, *drawn])  # `refine` adds some
        refines, is_rate = search.mode == REFINE, axis == search.rate
        whole = search.has_slots or (refines and not is_rate)
        tried_there = every if whole else numbers(p.overrides.get(axis) for p in near)
        grid = () if refines else every
        beside = of_values(rule, axis, best[axis], tried_there if len(tried_there) > 1 else every, grid)
        values = 0 if is_rate else len(every)
        edges += [e.beside_trials(search.trials, candidates, values) if refines else e for e in beside]
    return [replace(edge, is_drawn=search.has_slots) for edge in edges]
