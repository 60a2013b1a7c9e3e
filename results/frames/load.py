"""The tidy frame: one row per point of the plans, finished or not. Tables and figures start from it."""

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from htbench.harness.choice.winner import grouped
from htbench.harness.config.names import canonical, settings_of
from htbench.harness.config.programs import RULE
from htbench.harness.config.yaml_text import read_yaml
from htbench.harness.errors import UsageError
from htbench.harness.show.note import Note
from htbench.harness.show.progress import Progress
from htbench.harness.show.status import ENDED
from htbench.harness.store import Store, naming
from htbench.harness.store.points import (
    DROPPED,
    ELSEWHERE,
    REPLICATE,
    SEARCH,
    SEED_FIELDS,
    Point,
    ever_planned,
    sweep_names,
)
from htbench.harness.store.study import find_study
from htbench.harness.system.machine import without_collection
from htbench.optimizers.zoo.registry import ZOO
from htbench.results.frames import identity, run_row
from htbench.results.frames.columns import DATA, FIRST, IN_PLANS, LAST
from htbench.results.frames.rows import Rows
from htbench.results.frames.run_row import EDITED, PRUNED_BY, TUNED, TWIN, Row

_NO_SEARCH = {"search": "", "ranges": ""}
_NOWHERE = Point("", "", SEARCH, "", {})  # the place of a run that no sweep plans
_NUMBERS = {int, float, type(None)}
_LOST = "a search whose terms are lost (its study.json is damaged)"


Warn = Callable[[UsageError], object]


@without_collection()
def load_rows(store: Store, sweeps: Iterable[str] | None = None, warn: Warn | None = None) -> Rows:
    """One row per point, in the order of the sweeps' names and of their plans, then the unplanned runs.

    An unplanned run was made by `htbench run`, or its sweep is gone. It has no `sweep`, and its `setting`
    says so, which makes a workload of its own: it never competes with runs of a plan.

    A run that a plan has dropped has the stage `dropped` if it belongs to the budget of others: workload,
    optimizer, code and data are those of a point that is planned. Else it is an unplanned run. So that no
    choice of sweeps hides what was tried, ended runs of searches that are left out, and unplanned runs, are
    rows once more with the stage `elsewhere` where they belong to the budget of others. Runs that no row of a
    table reports, but a reader must know of (`_find_hidden_runs`), are rows with the stage `dropped`.

    Columns: sweep, block, stage, slot, row (the name that a sweep file gives to rows of its block; empty:
    none), search (its study's terms in words), ranges (what the study searches, as JSON: {setting: {"low",
    "high", "log", "whole"} or {"choices"}}; all three are empty for a grid), key, state (completed, diverged,
    pruned, failed, damaged, running, waiting), reason, task, model, setting (what else is fixed, in words),
    replica (the word of a deliberate rerun), candidate (the same word for points that differ in their seeds
    only), score (`harness.choice.winner`; None cannot win), rule (the optimizer's name in the zoo), variant
    (the version of its code), optimizer (the rule, with the variant where there are several; where the
    block has a name for its row, that name in place of the rule), lr and every other tuned setting (None in
    a slot that has no trial yet), seed, data_seed, the metrics, and those of
    `results.frames.columns.LAST`.

    Args:
        store: where plans and runs are.
        sweeps: names; None means all, and the unplanned runs.
        warn: called for each damaged plan, whose runs then are those of no plan; None: it is an error, as is
            that of a sweep that is named.

    Raises:
        UsageError: an unknown sweep, a damaged plan, or no run at all.
    """
    planned_sweeps = set(sweep_names(store.root))
    shown_sweeps = planned_sweeps if sweeps is None else set(sweeps)
    if unknown := sorted(shown_sweeps - planned_sweeps):
        raise UsageError(naming.unknown(unknown[0], {"sweep": sorted(planned_sweeps)}, store.root))
    points = _read_points(store, shown_sweeps, None if sweeps is not None else warn)
    points += _read_points(store, planned_sweeps - shown_sweeps, warn or (lambda damaged: None))
    planned = {point.key for point in points}
    points += [replace(_NOWHERE, key=key) for key in store.keys() if key not in planned]
    searches = _describe_searches(points, store)
    rows = [
        {**row, **_place_columns(point), **searches.get(point.study, _NO_SEARCH)}
        for point, row in zip(points, _read_rows(points, store), strict=True)
        if row is not None
    ]
    names = shown_sweeps | ({""} if sweeps is None else set())  # "": unplanned runs
    shown_rows = [row for row in rows if row["sweep"] in names]
    if not shown_rows:
        raise UsageError(str(Note("no_runs", root=store.root, there=store.root.is_dir())))
    hidden = list(_find_hidden_runs(shown_rows, rows))
    elsewhere = [row for row in rows if row["sweep"] not in shown_sweeps]
    rows = _order_rows(shown_rows, elsewhere, sweeps is not None)
    for competes in (True, False):  # what nobody planned must not rename what somebody did
        _name_differences([row for row in rows if _competes(row) is competes])
    rows += [row | {name: beside[name] for name in names} for row, beside, *names in hidden]
    return _complete_rows(rows)


def _read_points(store: Store, names: Collection[str], warn: Warn | None) -> list[Point]:
    """The points of some sweeps, and the dropped ones that have a run."""
    points: list[Point] = []
    for name in sorted(names):
        try:
            points += ever_planned(store.root, name)
        except UsageError as error:
            if warn is None:
                raise
            warn(error)
    begun = set(store.keys()) if any(point.stage == DROPPED for point in points) else set()
    return [point for point in points if point.stage != DROPPED or point.key in begun]


def _order_rows(rows: Sequence[Row], elsewhere: Iterable[Row], left_out: bool) -> list[Row]:
    """The rows with those last that are there for the budget of others only.

    Args:
        rows: of the sweeps that are shown, and of unplanned runs unless some sweeps are left out.
        elsewhere: the rows of all other sweeps, and of the unplanned runs.
        left_out: whether sweeps are left out; dropped runs in nobody's budget then are, too.
    """
    kind = itemgetter("task", "model", "setting", "rule", "variant", DATA)
    planned = [row for row in rows if row["stage"] != DROPPED]
    kinds = {kind(row) for row in planned if row["sweep"]}
    dropped = {row["key"]: row for row in rows if row["stage"] == DROPPED}.values()
    budgets = [row for row in dropped if kind(row) in kinds]
    tried = {
        row["key"]: row if row["stage"] == DROPPED else row | {"stage": ELSEWHERE}
        for row in elsewhere
        if row["state"] in ENDED and row["stage"] != REPLICATE and kind(row) in kinds
    }
    unplanned = [row | _place_columns(_NOWHERE) | _NO_SEARCH for row in dropped if kind(row) not in kinds]
    return [*planned, *budgets, *tried.values(), *([] if left_out else unplanned)]


def _find_hidden_runs(shown_rows: Sequence[Row], rows: Iterable[Row]) -> Iterator[tuple[Any, ...]]:
    """Ended runs from which those that a table reports were perhaps chosen, as dropped ones.

    They have the settings of a search that is shown, with other seeds, another word of a replica or in
    another sweep; or they are what the sweep has of an optimizer that it has dropped from a workload.

    Args:
        shown_rows: the rows of the sweeps that are shown.
        rows: those of the whole store.

    Yields:
        each with a row beside which it is told, and the columns that it must have of that one in the end.
    """
    workload = itemgetter("task", "model", "setting")
    planned = [row for row in shown_rows if row["sweep"] and row["stage"] != DROPPED]
    reported = {(row["key"], row["setting"]) for row in planned}
    searches = grouped((row for row in planned if row["stage"] == SEARCH), lambda row: row.get(TWIN))
    for row in rows:
        for beside in {search["setting"]: search for search in searches.get(row.get(TWIN, ""), ())}.values():
            is_other = row["stage"] == REPLICATE or row["setting"] != beside["setting"]
            if is_other and row["state"] in ENDED and (row["key"], beside["setting"]) not in reported:
                yield row | {"stage": DROPPED}, beside, "sweep", "setting", "optimizer", "candidate"
    rules = {(workload(row), row["rule"]) for row in planned}
    places = {(row["sweep"], workload(row)): row for row in planned}
    for row in (row for row in shown_rows if row["stage"] == DROPPED and row["state"] in ENDED):
        place = row["sweep"], workload(row)
        if place in places and (workload(row), row["rule"]) not in rules:
            yield dict(row), places[place], "setting"


def _place_columns(point: Point) -> Row:
    """Where the point stands in the plans."""
    return {name: getattr(point, name) for name in IN_PLANS}


# --- searches ---


def _describe_searches(points: Iterable[Point], store: Store) -> dict[str, Row]:
    """The columns `search` and `ranges` of the points of each study."""
    searches = {}
    for point in {point.study: point for point in points if point.slot}.values():
        study, text = find_study(store.root, point.sweep, point.study), _LOST
        if study is not None:  # "tpe in 64 trials, pruned by asha (min_resource=50, reduction_factor=3)"
            options = ", ".join(f"{name}={value}" for name, value in study.pruner_options.items())
            pruned = f", pruned by {study.pruner} ({options})" if study.pruner else ""
            text = f"{study.mode} in {study.trials} trials{pruned}"
        axes = {} if study is None else {canonical(name): axis for name, axis in study.axes.items()}
        searches[point.study] = {"search": text, "ranges": json.dumps(axes) if axes else ""}
    return searches


# --- runs ---


def _read_rows(points: Sequence[Point], store: Store) -> list[Row | None]:
    """What the run of each point says; None for an unplanned run without a readable file."""
    keys, ended = {point.key for point in points if point.key}, dict[str, Row]()
    with Progress(len(keys), "records", brief=True) as progress:
        for key, record in store.each_record(keys):
            ended[key] = run_row.finished(record)
            if len(ended) % 100 == 0:
                progress.to(len(ended))
    # A planned point has no row if its run was pruned by other studies only, or is damaged: a damaged record
    # may say other settings than the plan, and would stand in a workload of its own.
    rows: list[Row | None] = []
    for point in points:
        row = ended.get(point.key)
        if row is not None and point.sweep:
            studies = row[PRUNED_BY]
            if row["state"] == "damaged" or (studies is not None and point.study not in studies):
                row = None
        rows.append(row)
    waiting = {point.sweep for point, row in zip(points, rows, strict=True) if row is None} - {""}
    origin_values = identity.origins((point for point in points if point.sweep in waiting), store)
    return [
        _read_unfinished(point, store, origin_values) if row is None else row
        for point, row in zip(points, rows, strict=True)
    ]


def _read_unfinished(
    point: Point, store: Store, origin_values: Mapping[tuple[str, ...], identity.Values]
) -> Row | None:
    """The row of a run that has not ended. The settings of an unplanned one are in its folder only."""
    if not point.sweep:
        try:
            point = replace(point, overrides=settings_of(read_yaml(store.files(point.key).config)))
        except UsageError:
            return None
        if not {"task", "model", "optimizer.name"} <= point.overrides.keys():
            return None
    return run_row.unfinished(point, store, identity.of_plan(point, origin_values))


def _name_differences(rows: Sequence[Row]) -> None:
    """Name what runs of one task or optimizer do not share: data, and versions of the code.

    That no sweep plans a run becomes part of its `setting`, too.
    """
    of_data, of_code = _find_ambiguous(rows, "task", DATA), _find_ambiguous(rows, "rule", "variant")
    for row in rows:
        what = "program" if row["rule"] == RULE else "data"
        data = f"{what}={row[DATA] or 'unknown'}" if row["task"] in of_data else ""
        unplanned = "" if _competes(row) else "not planned"
        row["setting"] = ", ".join(filter(None, [row["setting"], data, unplanned]))
        name = row["row"] or row["rule"]
        version = row["variant"] or ("revision 1" if row["rule"] in ZOO else "code not found")
        is_shown = row["rule"] in of_code or row[EDITED]
        row["optimizer"] = f"{name} ({version})" if is_shown else name


def _competes(row: Row) -> bool:
    """Whether a row is of a plan, or counts in the budget of some that are."""
    return bool(row["sweep"]) or row["stage"] == ELSEWHERE


def _find_ambiguous(rows: Iterable[Row], name: str, of: str) -> set[str]:
    """The values of a column whose rows have several values of another."""
    partners: dict[str, set[str]] = {}
    for row in rows:
        partners.setdefault(row[name], set()).add(row[of])
    return {value for value, values in partners.items() if len(values) > 1}


# --- the frame ---


def _complete_rows(rows: Sequence[Row]) -> Rows:
    """Every row with all columns, always in the same order, whichever kind of run comes first.

    A missing value is NaN, and in a column of numbers so is None; its whole numbers then are floats.
    """
    names = {name for shape in {tuple(row) for row in rows} for name in shape}
    tuned = sorted({name for shape in {row[TUNED] for row in rows} for name in shape})
    tuned.sort(key=lambda name: (name != "lr", name != "p"))
    ordered = [*FIRST, *tuned, *SEED_FIELDS]
    more = sorted(names.difference(ordered, LAST, run_row.HIDDEN))
    ordered += [*more, *(name for name in LAST if name in names), *run_row.HIDDEN]
    blank = dict.fromkeys(ordered, math.nan)
    whole = [blank | row for row in rows]
    types = zip(*{tuple(map(type, row.values())) for row in whole}, strict=True)
    mixed = [
        name
        for name, kinds in zip(blank, types, strict=True)
        if len(set(kinds)) > 1 and _NUMBERS.issuperset(kinds)
    ]
    for row in whole:
        row |= {name: math.nan if row[name] is None else float(row[name]) for name in mixed}
        for name in run_row.HIDDEN:
            del row[name]
    return whole


def tuned_columns(frame: Rows) -> list[str]:
    """The frame's columns that hold settings that compete, lr and p first."""
    columns = list(frame[0])
    return columns[columns.index("optimizer") + 1 : columns.index(SEED_FIELDS[0])]
