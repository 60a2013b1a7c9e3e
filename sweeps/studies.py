"""The Optuna studies of a sweep of whichever kind: brought up to date with the run folders, or made anew."""

from __future__ import annotations

from collections.abc import Sequence

from harness.store import Store
from sweeps import study
from sweeps.plan import Planned
from sweeps.spec import SweepSpec


def refresh(store: Store, spec: SweepSpec, planned: Sequence[Planned], *, rebuild: bool = False) -> list[str]:
    """Bring the studies of a sweep up to date.

    Args:
        store: the store.
        spec: the sweep, whose plan is in the store.
        planned: its points.
        rebuild: write the studies anew.

    Returns:
        where `optuna-dashboard` finds each: a journal file or a database.
    """
    if spec.search.is_grid:
        return [str(path) for path in study.refresh(store, spec, planned, rebuild=rebuild)]
    from sweeps import trials  # imports Optuna

    names = dict.fromkeys(one.point.study for one in planned if one.point.slot)
    return [trials.reconcile(store, spec.name, name, rebuild=rebuild) for name in names]
