"""Bring the Optuna studies of a grid or a search up to date with the run folders, or rebuild them.

A study holds the trials of a search. The replicas of its winner are a study of their own, since only their
seeds differ; it is a journal file also where the searches are in a database.

If the state of a run has changed, one process writes the whole study again, under a lock. So all trials have
the same distributions, even if a grid has grown. In a grid an objective is a set of points that are compared
with each other.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from htbench.harness.show.status import Status
from htbench.harness.store import RunState, Store
from htbench.harness.store.layout import STUDIES
from htbench.harness.store.points import REPLICATE, is_tuned, sweep_folder
from htbench.harness.store.study import Study
from htbench.harness.system import atomic
from htbench.harness.system.folders import make_folder
from htbench.sweeps.plan import slots
from htbench.sweeps.plan.planned import Planned, block_of, objective, states
from htbench.sweeps.plan.slots import replicas_of, study_name
from htbench.sweeps.spec import database
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
    names = {objective(p.point, spec): p.point.study for p in planned if p.point.slot}
    studies = [slots.read_study(store.root, spec.name, name) for name in names.values()]
    places = [refresh_search(store, study, rebuild=rebuild) for study in studies]
    listed = [p for p in planned if not p.point.slot]
    return places + [str(path) for path in refresh_grid(store, spec, listed, names, rebuild=rebuild)]


def refresh_search(store: Store, study: Study, *, rebuild: bool = False) -> str:
    """Bring the study of a search up to date with its slots and run folders.

    Args:
        store: the store.
        study: which study.
        rebuild: write it anew even if nothing has changed.

    Returns:
        where `optuna-dashboard` finds it.

    Raises:
        UsageError: its database does not answer.
    """

    def write() -> None:
        from htbench.sweeps.studies.study import write_search  # imports Optuna

        write_search(store, study, filled, path, rebuild)

    path = store.root / STUDIES / f"{study.name}.journal"
    with atomic.locked(path.with_suffix(".lock")):  # not that of the slots: jobs do not wait for a database
        filled = slots.read_slots(store.root, study)
        if study.storage:
            write()
            return database.masked(database.with_driver(study.storage))
        text = ""
        for content in filled.values():
            record = store.record(content["key"])
            status = record.status if record is not None and record.ends(study.name) else Status.RUNNING
            text += f"{content['trial']} {content['key']} {status.value}\n"
        _write_if_changed(path, text, write, rebuild)
    return str(path)


def refresh_grid(
    store: Store,
    spec: SweepSpec,
    planned: Sequence[Planned],
    names: Mapping[tuple[str, ...], str] = MappingProxyType({}),
    *,
    rebuild: bool = False,
) -> list[Path]:
    """Bring the studies of points up to date with the run folders.

    Args:
        store: the store.
        spec: the sweep.
        planned: its points of a grid, or the replicas of winners.
        names: of the studies, by objective; by default each is named after its objective.
        rebuild: write the journals even if nothing has changed.

    Returns:
        the paths of the journal files, one per objective and one per winner with replicas;
        `optuna-dashboard` can open them.
    """
    run_states = states(store, [p.point for p in planned])
    groups: dict[tuple[tuple[str, ...], str], list[tuple[Planned, RunState]]] = {}
    for p in planned:
        groups.setdefault((objective(p.point, spec), p.point.stage), []).append((p, run_states[p.point.id]))
    folder = store.root / STUDIES
    paths: list[Path] = []
    for (parts, stage), rows in groups.items():
        name = names.get(parts) or study_name((spec.name, *parts))
        path = folder / f"{replicas_of(name) if stage == REPLICATE else name}.journal"
        while path in paths:  # names may differ in what does not belong into the name of a file
            path = path.with_stem(f"{path.stem}_")
        paths.append(path)
        with atomic.locked(sweep_folder(store.root, spec.name) / ".lock"):
            _refresh_journal(store, spec, path, rows, rebuild)
    return paths


def _refresh_journal(
    store: Store, spec: SweepSpec, path: Path, rows: Sequence[tuple[Planned, RunState]], rebuild: bool
) -> None:
    def write() -> None:
        from htbench.sweeps.studies.study import write_grid  # imports Optuna

        write_grid(store, path, searched, rows)

    first = rows[0][0].point
    searched = [axis for axis in block_of(spec, first).space if is_tuned(axis)]
    text = f"{first.block} {searched} {first.overrides}\n"
    text += "".join(f"{planned.point.key} {state.status.value}\n" for planned, state in rows)
    _write_if_changed(path, text, write, rebuild)


def _write_if_changed(path: Path, text: str, write: Callable[[], None], rebuild: bool) -> None:
    """Let `write()` write a journal if what it is made of, told by a text, or its size has changed."""
    digest_path = path.with_suffix(".json")
    make_folder(path.parent)
    digest = hashlib.sha256(text.encode()).hexdigest()
    size = path.stat().st_size if path.exists() else -1
    if rebuild or atomic.read_json(digest_path) != {"digest": digest, "size": size}:
        atomic.remove_temporaries(path.parent, digest_path.name)
        write()
        atomic.write_json(digest_path, {"digest": digest, "size": path.stat().st_size})
