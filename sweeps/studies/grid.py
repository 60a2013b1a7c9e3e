"""Writes each objective of a grid as an Optuna study, for Optuna's dashboard and plots.

An objective is a set of points that are compared with each other. Its study is a journal file, made from the
run folders. If the state of a run has changed, one process writes the whole journal again, under a lock.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from harness.store import RunState, Store
from harness.store.layout import studies_folder
from harness.store.points import sweep_folder
from harness.system import atomic
from harness.system.folders import make_folder
from sweeps.plan.planned import Planned, objective
from sweeps.plan.states import states, word
from sweeps.plan.study_name import study_name
from sweeps.spec.sweep import SweepSpec


def refresh(
    store: Store, spec: SweepSpec, planned: Sequence[Planned], *, rebuild: bool = False
) -> list[Path]:
    """Bring the studies of a sweep up to date with the run folders.

    Args:
        store: the store.
        spec: the sweep.
        planned: the points of the sweep.
        rebuild: write the journals even if nothing has changed.

    Returns:
        the paths of the journal files, one per objective; `optuna-dashboard` can open them.
    """
    known = states(store, [one.point for one in planned])
    groups: dict[str, list[tuple[Planned, RunState]]] = {}
    for one in planned:
        name = study_name((spec.name, *objective(one.point, spec)))
        groups.setdefault(name, []).append((one, known[one.point.id]))
    folder = studies_folder(store.root)
    make_folder(folder)
    paths = []
    for name, rows in groups.items():
        path = folder / f"{name}.journal"
        paths.append(path)
        with atomic.locked(sweep_folder(store.root, spec.name) / ".lock"):
            _refresh(store, path, name, rows, rebuild)
    return paths


def _refresh(
    store: Store, path: Path, name: str, rows: Sequence[tuple[Planned, RunState]], rebuild: bool
) -> None:
    digest_path = path.with_suffix(".json")
    digest = hashlib.sha256(
        "".join(f"{planned.point.key} {word(state)}\n" for planned, state in rows).encode()
    ).hexdigest()
    size = path.stat().st_size if path.exists() else -1
    if not rebuild and atomic.read_json(digest_path) == {"digest": digest, "size": size}:
        return  # nothing has changed; importing Optuna would take a second
    from sweeps.studies import grid_study  # imports Optuna

    atomic.remove_temporaries(path.parent, digest_path.name)
    grid_study.write(store, path, name, rows)
    atomic.write_json(digest_path, {"digest": digest, "size": path.stat().st_size})
