"""The tidy frame: one row per point of the plans, whatever became of its run. All else starts from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import pandas as pd

from harness import plans
from harness.errors import UsageError, nearest
from harness.plans import SEED_FIELDS, Point, is_tuned
from harness.record import RunRecord
from harness.score import score
from harness.settings import FIELDS, canonical, declarations, flatten
from harness.store import Kind, Store
from optimizers.registry import ZOO, resolve_value

_UNKEYED = {name for name, field in declarations() if not field.metadata["key"]}
_FIRST = (
    *"sweep block stage slot search ranges key state reason".split(),
    *"task model setting candidate score optimizer".split(),
)
_LAST = "steps seconds_per_step useful_seconds machine".split()
_STATES = {Kind.LIVE: "running", Kind.FAILED: "failed", Kind.WAITING: "waiting"}


def load(store: Store, sweeps: Iterable[str] | None = None) -> pd.DataFrame:
    """One row per point, in the order of the sweeps' names and of their plans.

    Columns: sweep, block, stage, slot, search (its study's terms in words), ranges (what the study searches,
    as JSON: {setting: {"low", "high", "log", "whole"} or {"choices"}}; all three are empty for a grid), key,
    state (completed, diverged, pruned, failed, running, waiting), reason, task, model, setting (what else is
    fixed, in words), candidate (the same word for points that differ in their seeds only), score
    (`harness.score`; None cannot win), optimizer, lr and every other tuned setting (None in a slot that
    nobody has asked for), seed, data_seed, the metrics, steps, seconds_per_step, useful_seconds, machine.

    Args:
        store: where plans and runs are.
        sweeps: names; None means all.

    Raises:
        UsageError: an unknown sweep, or nothing planned at all.
    """
    points = [point for name in _names(store, sweeps) for point in plans.read_points(store.root, name)]
    if not points:
        raise UsageError(f"No run is planned in '{store.root}'; 'htbench demo' plans and trains some.")
    records = store.records({point.key for point in points if point.key})
    terms = {point.study: plans.search_of(store.root, point) for point in _one_per_study(points)}
    rows = [
        {
            "search": _search(found := terms.get(point.study)),
            "ranges": _ranges(found),
            **_row(point, records.get(point.key), store),
        }
        for point in points
    ]
    return _in_order(pd.DataFrame(rows))


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
    known = plans.sweep_names(store.root)
    for name in wanted or ():
        if name not in known:
            hint = nearest(name, known) if known else "the store has none"
            raise UsageError(f"Unknown sweep '{name}'; {hint}")
    return known if wanted is None else sorted(set(wanted))


def _in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns always in the same order, whichever kind of run comes first."""
    known = [*_FIRST, *tuned_columns(frame), *SEED_FIELDS]
    last = [name for name in _LAST if name in frame]
    metrics = sorted(set(frame.columns).difference(known, last))
    return frame[[*known, *metrics, *last]]


def _row(point: Point, record: RunRecord | None, store: Store) -> dict[str, Any]:
    planned = _planned(point)
    setting = _setting(planned)
    if record is not None and not record.ends(point.study):
        record = None  # pruned, but not by the study that this point belongs to
    found: dict[str, Any] = {"state": "", "reason": ""}
    if not point.key:
        found["state"] = "waiting"
    elif record is None:
        state = store.state(point.key, point.study)
        record = state.record  # it may have finished just now
        found = {"state": _STATES.get(state.kind, ""), "reason": state.reason}
    values = planned
    if record is not None:
        values = {canonical(name): _plain(value) for name, value in flatten(record.config).items()}
        found = {"state": record.status, "reason": record.note}
    return {
        "sweep": point.sweep,
        "block": point.block,
        "stage": point.stage,
        "slot": point.slot,
        "key": point.key or point.slot,
        **found,
        "task": planned["task"],
        "model": planned["model"],
        "setting": setting,
        "candidate": _digest(planned, setting) if point.key else point.slot,
        "score": score(record) if record else None,
        "optimizer": planned["optimizer.name"],
        # Nobody knows yet what an empty slot will be tuned to.
        **{column(name): values[name] if point.key else None for name in sorted(values) if is_tuned(name)},
        **{name: values[name] for name in SEED_FIELDS},
        **(_outcome(record) if record else {}),
    }


def _outcome(record: RunRecord) -> dict[str, Any]:
    return {
        **record.metrics,
        "steps": record.steps,
        "seconds_per_step": record.seconds_per_step,
        "useful_seconds": record.useful_seconds,
        "machine": record.environment.get("gpu") or record.environment.get("cpu"),
    }


# --- settings ---


def column(name: str) -> str:
    """The frame's column for a tuned setting: `optimizer.p` is `p`, `schedule.warmup` keeps its name."""
    return name.removeprefix("optimizer.")


def tuned_columns(frame: pd.DataFrame) -> list[str]:
    """The frame's columns that hold tuned settings, lr and p first."""
    known = {column(name) for name in FIELDS if is_tuned(name)}.union(*(row.params for row in ZOO.values()))
    first = ["lr", "p"]
    return sorted(known.intersection(frame.columns), key=lambda name: (name not in first, name))


def setting_name(column: str) -> str:
    """The inverse of `column`: how a sweep file calls it."""
    return column if is_tuned(column) else f"optimizer.{column}"


def _planned(point: Point) -> dict[str, Any]:
    """The point's settings with defaults written in as far as they are known without its data."""
    given = {canonical(name): value for name, value in point.overrides.items() if value is not None}
    planned = {name: param.default for name, param in FIELDS.items()}
    row = ZOO.get(str(given.get("optimizer.name", planned["optimizer.name"])))
    params = dict(FIELDS)
    if row is not None:
        own = {"lr": row.lr, "weight_decay": row.weight_decay, **row.params}
        params |= {f"optimizer.{name}": param for name, param in own.items()}
        planned |= {f"optimizer.{name}": param.default for name, param in own.items()}
    return planned | {name: _coerced(params, name, value) for name, value in given.items()}


def _coerced(params: dict[str, Any], name: str, value: Any) -> Any:
    try:
        return _plain(resolve_value(params[name], name, value))
    except (KeyError, ValueError):  # a setting of older or newer code
        return _plain(value)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _setting(planned: dict[str, Any]) -> str:
    """What is fixed besides task and model and differs from the default: "batch_size=64, steps=100"."""
    apart = {"task", "model", "optimizer.name", *SEED_FIELDS, *_UNKEYED}
    fixed = [name for name in sorted(planned) if name not in apart and not is_tuned(name)]
    told = [name for name in fixed if name not in FIELDS or planned[name] != FIELDS[name].default]
    return ", ".join(f"{name}={planned[name]}" for name in told)


def _digest(planned: dict[str, Any], setting: str) -> str:
    """What `Point.candidate` compares, but alike for a value that is given and one that is the default."""
    tuned = sorted((name, repr(value)) for name, value in planned.items() if is_tuned(name))
    identity = (planned["task"], planned["model"], setting, planned["optimizer.name"], tuned)
    return hashlib.sha256(repr(identity).encode()).hexdigest()[:8]
