"""Bring the Optuna studies of a grid or a search up to date with the run folders, or rebuild them.

A study holds the trials of a search. The replicas of its winner are a study of their own, since only their
seeds differ; it is a journal file also where the searches are in a database.

In a grid an objective is a set of points that are compared with each other. Its study is a journal file, made
from the run folders. If the state of a run has changed, one process writes the whole journal again, under a
lock. So all trials have the same distributions, even if the grid has grown.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from htbench.harness.store import RunState, Store
from htbench.harness.store.layout import studies_folder
from htbench.harness.store.points import REPLICATE, is_tuned, sweep_folder
from htbench.harness.system import atomic
from htbench.harness.system.folders import make_folder
from htbench.sweeps.plan.planned import Planned, block_of, objective, states
from htbench.sweeps.plan.slots import replicas_of, study_name
from htbench.sweeps.spec.sweep import SweepSpec


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
    if not spec.search.has_slots:
        return [str(path) for path in refresh_grid(store, spec, planned, rebuild=rebuild)]
    from htbench.sweeps.studies import trial  # imports Optuna

    names = {objective(one.point, spec): one.point.study for one in planned if one.point.slot}
    places = [trial.reconcile(store, spec.name, name, rebuild=rebuild) for name in names.values()]
    replicated = [one for one in planned if one.point.stage == REPLICATE]
    return places + [str(path) for path in refresh_grid(store, spec, replicated, names, rebuild=rebuild)]


def refresh_grid(
    store: Store,
    spec: SweepSpec,
    planned: Sequence[Planned],
    names: Mapping[tuple[str, ...], str] | None = None,
    *,
    rebuild: bool = False,
) -> list[Path]:
    """Bring the studies of points up to date with the run folders.

    Args:
        store: the store.
        spec: the sweep.
        planned: its points that have settings.
        names: of the studies, by objective; by default each is named after its objective.
        rebuild: write the journals even if nothing has changed.

    Returns:
        the paths of the journal files, one per objective and one per winner with replicas;
        `optuna-dashboard` can open them.
    """
    run_states = states(store, [p.point for p in planned])
    groups: dict[tuple[tuple[str, ...], str], list[tuple[Planned, RunState]]] = {}
    for p in planned:
        group = (objective(p.point, spec), p.point.stage)
        groups.setdefault(group, []).append((p, run_states[p.point.id]))
    folder = studies_folder(store.root)
    make_folder(folder)
    paths: list[Path] = []
    for (parts, stage), rows in groups.items():
        name = (names or {}).get(parts) or study_name((spec.name, *parts))
        path = folder / f"{replicas_of(name) if stage == REPLICATE else name}.journal"
        while path in paths:  # names may differ in what does not belong into the name of a file
            path = path.with_stem(f"{path.stem}_")
        paths.append(path)
        searched = [axis for axis in block_of(spec, rows[0][0].point).space if is_tuned(axis)]
        with atomic.locked(sweep_folder(store.root, spec.name) / ".lock"):
            _refresh_journal(store, path, searched, rows, rebuild)
    return paths


def _refresh_journal(
    store: Store, path: Path, searched: Sequence[str], rows: Sequence[tuple[Planned, RunState]], rebuild: bool
) -> None:
    digest_path = path.with_suffix(".json")
    first = rows[0][0].point
    text = f"{first.block} {searched} {first.overrides}\n"
    text += "".join(f"{planned.point.key} {state.status.value}\n" for planned, state in rows)
    digest = hashlib.sha256(text.encode()).hexdigest()
    size = path.stat().st_size if path.exists() else -1
    if not rebuild and atomic.read_json(digest_path) == {"digest": digest, "size": size}:
        return  # nothing has changed; importing Optuna would take a second
    from htbench.sweeps.studies import study  # imports Optuna

    atomic.remove_temporaries(path.parent, digest_path.name)
    study.write_grid(store, path, searched, rows)
    atomic.write_json(digest_path, {"digest": digest, "size": path.stat().st_size})
