"""The tidy frame: one row per point of the plans, finished or not. Tables and figures start from it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from harness.config.names import canonical
from harness.errors import UsageError, nearest
from harness.store import Kind, Store, integrity
from harness.store.points import SEED_FIELDS, Point, is_tuned, read_points, search_of, sweep_names
from harness.store.record import RunRecord
from harness.store.score import score
from optimizers.zoo.registry import ZOO
from results.analysis import cost, downstream, identity, metrics, provenance

_FIRST = (
    *("sweep", "block", "stage", "slot", "search", "ranges", "key", "state", "reason"),
    *("task", "model", "setting", "replica", "candidate", "score", "rule", "variant", "optimizer"),
)
_LAST = (
    *(identity.DATA, *provenance.COLUMNS, *cost.COLUMNS),
    *("steps", "seconds_per_step", "useful_seconds", "machine"),
)
_STATES = {Kind.LIVE: "running", Kind.FAILED: "failed", Kind.WAITING: "waiting"}
_TUNED = "tuned"  # key of a row before it enters the frame: the names of its tuned settings
_TAKEN = {*_FIRST, *_LAST, *SEED_FIELDS, *metrics.TASK, _TUNED}


def load(store: Store, sweeps: Iterable[str] | None = None) -> pd.DataFrame:
    """One row per point, in the order of the sweeps' names and of their plans.

    Columns: sweep, block, stage, slot, search (its study's terms in words), ranges (what the study searches,
    as JSON: {setting: {"low", "high", "log", "whole"} or {"choices"}}; all three are empty for a grid), key,
    state (completed, diverged, pruned, failed, damaged, running, waiting), reason, task, model, setting (what
    else is fixed, in words), replica (the word of a deliberate rerun), candidate (the same word for points
    that differ in their seeds only), score (`harness.store.score`; None cannot win), rule (the optimizer's
    name in the zoo), variant (the version of its code), optimizer (the rule, with the variant where there are
    several), lr and every other tuned setting (None in a slot that has no trial yet), seed, data_seed, the
    metrics, data_fingerprint, the columns of `results.analysis.provenance`, steps, seconds_per_step,
    useful_seconds, machine, and those of `results.analysis.cost` and `results.analysis.downstream`.

    Args:
        store: where plans and runs are.
        sweeps: names; None means all.

    Raises:
        UsageError: an unknown sweep, or nothing planned at all.
    """
    points = [point for name in _names(store, sweeps) for point in read_points(store.root, name)]
    if not points:
        raise UsageError(f"No run is planned in '{store.root}'; 'htbench demo' plans and trains some.")
    records = store.records({point.key for point in points if point.key})
    made = identity.origins(points, records)
    terms = {point.study: search_of(store.root, point) for point in _one_per_study(points)}
    rows = [
        {
            "search": _search(found := terms.get(point.study)),
            "ranges": _ranges(found),
            **_row(point, records.get(point.key), store, made),
        }
        for point in points
    ]
    _tell_data_apart(rows)
    _tell_variants_apart(rows)
    return _in_order(pd.DataFrame(rows), {name for row in rows for name in row[_TUNED]})


def _one_per_study(points: Iterable[Point]) -> Iterable[Point]:
    return {point.study: point for point in points if point.slot}.values()


def _search(terms: dict[str, Any] | None) -> str:
    """ "tpe in 64 trials, pruned by asha (min_resource=50, reduction_factor=3)"."""
    if not terms:
        return ""
    options = ", ".join(f"{name}={value}" for name, value in terms["pruner_options"].items())
    pruned = f", pruned by {terms['pruner']} ({options})" if terms["pruner"] else ""
    return f"{terms['mode']} in {terms['trials']} trials{pruned}"


def _ranges(terms: dict[str, Any] | None) -> str:
    axes = (terms or {}).get("axes") or {}
    return json.dumps({canonical(name): axis for name, axis in axes.items()}) if axes else ""


def _names(store: Store, wanted: Iterable[str] | None) -> list[str]:
    known = sweep_names(store.root)
    for name in wanted or ():
        if name not in known:
            hint = nearest(name, known) if known else "the store has none"
            raise UsageError(f"Unknown sweep '{name}'; {hint}")
    return known if wanted is None else sorted(set(wanted))


def _tell_data_apart(rows: Sequence[dict[str, Any]]) -> None:
    """If runs of one task have seen different data, the data's fingerprint becomes part of `setting`."""
    several = _several(rows, "task", identity.DATA)
    for row in rows:
        if row["task"] in several:
            data = f"data={row[identity.DATA] or 'unknown'}"
            row["setting"] = ", ".join(filter(None, [row["setting"], data]))


def _tell_variants_apart(rows: Sequence[dict[str, Any]]) -> None:
    """If an optimizer's code has several versions, the version becomes part of the optimizer's name."""
    several = _several(rows, "rule", "variant")
    for row in rows:
        shown = row["rule"] in several or row["variant"].startswith("edited")
        word = row["variant"] or ("revision 1" if row["rule"] in ZOO else "code not found")
        row["optimizer"] = f"{row['rule']} ({word})" if shown else row["rule"]


def _several(rows: Iterable[dict[str, Any]], name: str, of: str) -> set[str]:
    """The values of a column whose rows have several values of another."""
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row[name], set()).add(row[of])
    return {value for value, others in found.items() if len(others) > 1}


def _in_order(frame: pd.DataFrame, tuned: Collection[str]) -> pd.DataFrame:
    """The columns always in the same order, whichever kind of run comes first."""
    first = [name for name in ("lr", "p") if name in tuned]
    known = [*_FIRST, *first, *sorted(set(tuned).difference(first)), *SEED_FIELDS]
    last = [name for name in _LAST if name in frame]
    others = sorted(set(frame.columns).difference(known, last, [_TUNED]))
    return frame[[*known, *others, *last]]


def tuned_columns(frame: pd.DataFrame) -> list[str]:
    """The frame's columns that hold settings that compete, lr and p first."""
    columns = list(frame.columns)
    return columns[columns.index(_FIRST[-1]) + 1 : columns.index(SEED_FIELDS[0])]


def _row(
    point: Point, record: RunRecord | None, store: Store, made: Mapping[tuple[str, ...], identity.Values]
) -> dict[str, Any]:
    record, found = _state(point, record, store)
    values = identity.of_record(record) if record is not None else identity.of_plan(point, made)
    counts = record is not None and found["state"] != "damaged"
    return {
        **_place(point),
        **found,
        **_settings(point, values),
        "score": score(record) if record is not None and counts else None,
        **(_outcome(record) if record is not None and counts else {}),
    }


def _place(point: Point) -> dict[str, Any]:
    """Where the point stands in the plans."""
    names = ("sweep", "block", "stage", "slot")
    return {name: getattr(point, name) for name in names} | {"key": point.key or point.slot}


def _settings(point: Point, values: identity.Values) -> dict[str, Any]:
    """The columns of the settings. Those of an empty slot are not sampled yet.

    Each part of a schedule has a column (`schedule.p.to`), and what follows the schedule has no value.
    """
    competing = {
        identity.column(name, _TAKEN): None if identity.is_scheduled(name, values) else values[name]
        for name in values
        if is_tuned(name)
    }
    tuned = competing if point.key else dict.fromkeys(competing)
    return {
        "task": values["task"],
        "model": values["model"],
        "setting": identity.setting(values),
        "replica": values["replica"],
        "candidate": identity.candidate(values) if point.key else point.slot,
        "rule": values["optimizer.name"],
        "variant": identity.variant(values),
        "optimizer": values["optimizer.name"],
        **tuned,
        _TUNED: tuned.keys(),
        **{name: values[name] for name in SEED_FIELDS},
        identity.DATA: values[identity.DATA],
    }


def _state(point: Point, record: RunRecord | None, store: Store) -> tuple[RunRecord | None, dict[str, str]]:
    """The record that counts for the point, if there is one, and the columns `state` and `reason`."""
    found = {"state": "waiting", "reason": ""}
    if record is not None and not record.ends(point.study):
        record = None  # pruned, but not by the study that this point belongs to
    if record is None and point.key:
        record, found = _unfinished(point, store)
    return record, found if record is None else _finished(record, store)


def _unfinished(point: Point, store: Store) -> tuple[RunRecord | None, dict[str, str]]:
    """State and reason of a run without record; and its record, if that was written in the meantime."""
    state = store.state(point.key, point.study)
    gone = integrity.lost(store.run_folder(point.key)) if state.kind is Kind.WAITING else ""
    if gone:
        return None, {"state": "damaged", "reason": gone}
    return state.record, {"state": _STATES.get(state.kind, ""), "reason": state.reason}


def _finished(record: RunRecord, store: Store) -> dict[str, str]:
    """State and reason from the record; `damaged` if record and curve contradict each other."""
    wrong = integrity.contradiction(store.run_folder(record.key), record, cut_counts=False)
    if wrong:
        return {"state": "damaged", "reason": wrong}
    return {"state": record.status, "reason": record.note}


def _outcome(record: RunRecord) -> dict[str, Any]:
    return {
        **record.metrics,
        **metrics.columns(record),
        **provenance.outcome(record),
        **cost.outcome(record),
        **downstream.outcome(record),
        "steps": record.steps,
        "seconds_per_step": record.seconds_per_step,
        "useful_seconds": record.useful_seconds,
    }
