"""Bring the Optuna studies of a grid or a search up to date with the run folders, or rebuild them.

A study holds what was searched. The replicas of its winner are a study of their own, since only their seeds
differ; it is a journal file also where the searches are in a database.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.store import Store
from harness.store.points import REPLICATE
from sweeps.plan.planned import Planned, objective
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

    names = {objective(one.point, spec): one.point.study for one in planned if one.point.slot}
    places = [trial.reconcile(store, spec.name, name, rebuild=rebuild) for name in names.values()]
    replicated = [one for one in planned if one.point.stage == REPLICATE]
    return places + [str(path) for path in grid.refresh(store, spec, replicated, names, rebuild=rebuild)]
