"""Bring the Optuna studies of a grid or a search up to date with the run folders, or rebuild them."""

from __future__ import annotations

from collections.abc import Sequence

from harness.store import Store
from sweeps.plan.planned import Planned
from sweeps.spec.sweep import SweepSpec
from sweeps.studies import grid


def refresh(store: Store, spec: SweepSpec, planned: Sequence[Planned], *, rebuild: bool = False) -> list[str]:
    """Bring the studies of a sweep up to date.

    Args:
        store: the store.
        spec: the sweep, whose plan is in the store.
        planned: its points.
        rebuild: write the studies anew in any case.

    Returns:
        where `optuna-dashboard` finds each: a journal file or a database.
    """
    if spec.search.is_grid:
        return [str(path) for path in grid.refresh(store, spec, planned, rebuild=rebuild)]
    from sweeps.studies import trial  # imports Optuna

    names = dict.fromkeys(one.point.study for one in planned if one.point.slot)
    return [trial.reconcile(store, spec.name, name, rebuild=rebuild) for name in names]
