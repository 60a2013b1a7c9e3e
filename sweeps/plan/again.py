"""Runs with a result that a plan trains again, since code, data or defaults have changed. Torch-free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.config import RunConfig
from harness.config.key import identity, run_key
from harness.config.names import settings_of
from harness.config.settings import to_settings
from harness.errors import UsageError
from harness.store import RunState, Store
from harness.store.points import SEED_FIELDS, Point, ever_planned
from harness.store.record import RunRecord
from sweeps.plan.planned import Planned
from sweeps.plan.states import settled
from sweeps.spec.sweep import SweepSpec


def trained_again(
    store: Store, spec: SweepSpec, planned: Sequence[Planned], found: Mapping[str, RunState]
) -> dict[str, int]:
    """Count the runs that are trained again by the reason: what has changed since their results.

    Args:
        store: with the results.
        spec: the sweep.
        planned: its points as this code plans them.
        found: the states of the points, by id.
    """
    waiting = [one for one in planned if one.point.key and not settled(found[one.point.id])]
    before = _keys_of_last_plan(store, spec)
    earlier = {
        one.point.id: {*_under_other_code(one.config), *before.get(_name(one.point), ())} for one in waiting
    }
    records = store.records(set().union(*earlier.values()))
    reasons = Counter[str]()
    for one in waiting:
        results = [records[key] for key in sorted(earlier[one.point.id] - {one.point.key}) if key in records]
        if results:
            reasons[_changes(results[-1], one.config)] += 1
    return dict(reasons)


def _under_other_code(config: RunConfig) -> set[str]:
    """The keys that the run had before somebody edited code or raised a revision."""
    return {run_key(replace(config, revisions={}))} if config.revisions else set()


def _keys_of_last_plan(store: Store, spec: SweepSpec) -> dict[tuple[Any, ...], list[str]]:
    found: dict[tuple[Any, ...], list[str]] = {}
    try:
        points = ever_planned(store.root, spec.name)
    except UsageError:  # damaged; the next plan replaces it
        return {}
    for point in points:
        found.setdefault(_name(point), []).append(point.key)
    return found


def _name(point: Point) -> tuple[Any, ...]:
    """What names a point in two plans: its block and its settings, but not its key."""
    return point.block, tuple(sorted((name, repr(value)) for name, value in point.overrides.items()))


def _changes(record: RunRecord, config: RunConfig) -> str:
    """The settings in the key that differ from those of an earlier result, in words."""
    then, now = record.settings, to_settings(config)
    names = settings_of(identity(config)).keys() | {name for name in then if name.startswith("revisions.")}
    return ", ".join(_differences(sorted(names - {*SEED_FIELDS}), then, now)) or "the settings"


def _differences(names: Iterable[str], then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    changed = []
    for name in names:
        first = 1 if name.startswith("revisions.") else "not set"
        old, new = then.get(name, first), now.get(name, first)
        if _plain(old) != _plain(new):
            changed.append(f"{name} was {old}, is {new}")
    return changed


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
