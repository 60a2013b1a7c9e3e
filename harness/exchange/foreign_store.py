"""Writes imported runs into a store: run folders as if they had been trained here, then their sweep.

After a crash the same import is run again: it leaves out what is here already. The sweep's points are written
last, so that no table sees a part of a file.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.exchange.foreign import ForeignRun
from harness.paper.experiments import scale_of
from harness.show.note import Note
from harness.store import Attempt, Store
from harness.store.layout import sweeps_folder
from harness.store.points import SEARCH, SOURCE, Point, is_sweep_name, read_points, sweep_folder, write_points
from harness.store.record import IMPORTED, RUN, RunRecord
from harness.system import atomic
from harness.system.environment import HOME
from harness.system.folders import make_folder

_NAMES = ("task", "model", "optimizer.name", RUN)  # which run a point is


@dataclass
class Stored:
    """What an import did.

    Attributes:
        taken: number of new runs by status.
        here: number of runs that are here already.
        refused: why a run was not taken, a note for each.
    """

    taken: Counter[str] = field(default_factory=Counter)
    here: int = 0
    refused: list[Note] = field(default_factory=list)


def check_name(root: Path, name: str) -> None:
    """Raise UsageError unless an import into this store can be called so."""
    if not is_sweep_name(name):
        raise UsageError(
            f"--name takes letters, digits, '.', '_' and '-', at most 100 of them, not {name!r}."
        )
    if scale_of(name) or any(HOME.joinpath("sweeps").glob(f"*/{name}.yaml")):
        raise UsageError(f"'{name}' is a sweep that htbench brings along; import under another --name.")
    folder = sweep_folder(root, name)
    if folder.exists() and not (folder / SOURCE).exists():
        raise UsageError(f"'{name}' is a sweep of your own in '{root}'; import under another --name.")


def write(
    store: Store, name: str, runs: Sequence[ForeignRun], source: Mapping[str, Any], *, dry_run: bool = False
) -> Stored:
    """Write the runs that are not here yet, and the sweep `name` with all of them.

    Args:
        store: where they go.
        name: of the import.
        runs: of this source.
        source: what they were read from and how, kept in the sweep's folder; plain values.
        dry_run: only say what would be done.

    Raises:
        UsageError: the name can't be taken.
    """
    check_name(store.root, name)
    if dry_run:
        return _take(store, name, runs, dry_run=True)[0]
    make_folder(sweeps_folder(store.root))
    with atomic.locked(sweeps_folder(store.root) / f".{name}.lock"):
        done, points = _take(store, name, runs)
        if points:
            _write_sweep(store.root, name, points, source if done.taken.total() or not done.refused else None)
    return done


def _take(
    store: Store, name: str, runs: Sequence[ForeignRun], *, dry_run: bool = False
) -> tuple[Stored, list[Point]]:
    """Write what is new; also gives the points of the sweep with all runs that are here now."""
    done, points = Stored(), {point.key: point for point in _points(store, name)}
    alike: dict[tuple[Any, ...], list[Point]] = defaultdict(list)
    for point in points.values():
        alike[_name(point)].append(point)
    for run in runs:
        record = run.record()
        point, before = _point(record), store.record(record.key)
        wrong = _difference(store, before, record, run) or _other_settings(point, alike[_name(point)])
        if before is None and not wrong and not dry_run:
            wrong = _write_run(store, record, run)
        if wrong:
            word, of, seed = (point.overrides[name] for name in (RUN, "optimizer.name", "seed"))
            seed_word = None if seed is None else str(seed)  # 0 is one, too
            done.refused.append(Note("import_refused", run=word, of=of, seed=seed_word, why=str(wrong)))
            continue
        done.here += before is not None
        done.taken[str(record.status)] += before is None
        if points.setdefault(record.key, point) is point:
            alike[_name(point)].append(point)
    return done, list(points.values())


def _points(store: Store, name: str) -> list[Point]:
    """The points of an import, made again from its runs if their file is damaged."""
    try:
        return read_points(store.root, name)
    except UsageError:
        records = store.records(store.keys()).values()
        return [_point(record) for record in records if record.config.get(IMPORTED) == name]


def _point(record: RunRecord) -> Point:
    settings = record.settings
    return Point(settings[IMPORTED], settings["optimizer.name"], SEARCH, record.key, settings)


def _name(point: Point) -> tuple[Any, ...]:
    return tuple(point.overrides.get(name) for name in _NAMES)


# --- what is here already ---


def _difference(store: Store, before: RunRecord | None, record: RunRecord, run: ForeignRun) -> Note | None:
    """How the stored record of a run differs from the file's."""
    if before is None:
        return None
    path = store.files(before.key).metrics
    if path.exists() and path.read_bytes() != _curve(run).encode():
        return _conflict(_facts(before), _facts(record)) or Note("import_other_curve")
    return _conflict(_facts(before), _facts(record))


def _facts(record: RunRecord) -> dict[str, Any]:
    facts = {"metric": record.environment["task"], "hardware": record.environment.get("gpu")}
    facts |= {"seconds_per_step": record.seconds_per_step, "note": record.note}
    return {"status": str(record.status), "steps": record.steps, **record.metrics, **facts}


def _other_settings(point: Point, stored: Iterable[Point]) -> Note | None:
    """How a stored run of the same name has other settings.

    Runs without a word of their own are the same if no setting that both tell differs.
    """
    here = point.overrides
    for other in stored:
        there = other.overrides
        both = here.keys() & there.keys()
        if here[RUN] or all(here[name] == there[name] for name in both):
            if conflict := _conflict(there, here):
                return conflict
    return None


def _conflict(here: Mapping[str, Any], there: Mapping[str, Any]) -> Note | None:
    names = [name for name in sorted(here.keys() | there.keys()) if here.get(name) != there.get(name)]
    differing = [f"{name}={here.get(name)} here and {there.get(name)} in the file" for name in names]
    return Note("import_conflict", differing=differing) if differing else None


# --- files ---


def _write_run(store: Store, record: RunRecord, run: ForeignRun) -> Note | None:
    """Write the run's folder; returns why that can't be done."""
    import yaml

    make_folder(store.run_folder(record.key).parent)
    store.reset_failure(record.key)  # an import that was killed twice
    claim = store.claim(record.key, yaml.safe_dump(record.config, sort_keys=False, allow_unicode=True))
    if not isinstance(claim, Attempt):
        return Note("import_at_work")
    atomic.write_text(claim.files.metrics, _curve(run))
    claim.finish(record)
    return None


def _curve(run: ForeignRun) -> str:
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in run.curve)


def _write_sweep(root: Path, name: str, points: list[Point], source: Mapping[str, Any] | None) -> None:
    folder = sweep_folder(root, name)
    make_folder(folder)
    atomic.remove_temporaries(folder)
    imports = sources(root, name)
    if source is not None and source not in imports:
        atomic.write_json(folder / SOURCE, {IMPORTED: [*imports, dict(source)]})
    write_points(root, name, points)


def sources(root: Path, name: str) -> list[dict[str, Any]]:
    """What the runs of an import were read from, the first file first; none if that is not known."""
    content = atomic.read_json(sweep_folder(root, name) / SOURCE)
    imports = content.get(IMPORTED) if isinstance(content, dict) else None
    return [source for source in imports if isinstance(source, dict)] if isinstance(imports, list) else []
