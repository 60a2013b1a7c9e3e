"""The points of a sweep: `<root>/sweeps/<name>/points.jsonl`, a line per point. Sweeps write, results read.

{"sweep": "demo-digits", "block": "muon", "stage": "search", "key": "0f...",
 "overrides": {"optimizer.lr": 0.01, ...}, "plan": "5a..."}

In a search a point is at first an empty slot, `"key": "", "slot": "<study>/<number>"`. The worker that takes
it asks the study for a trial, then writes `<root>/sweeps/<name>/slots/<study>/<number>.json`.
"""

import contextlib
import dataclasses
import functools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from htbench.harness.config.programs import without_description
from htbench.harness.errors import UsageError
from htbench.harness.show.commands import write_command
from htbench.harness.store.layout import is_key, sweeps_folder
from htbench.harness.system import atomic, seal, typed
from htbench.harness.system.links import LinkError, OwnFile, leads_away

# The files of a sweep: its file as given, its points, the slots of its searches, and what SLURM was given.
SPEC, POINTS, SLOTS, SUBMISSIONS = "spec.yaml", "points.jsonl", "slots", "submissions.jsonl"
STUDY = "study.json"  # beside the slots of a study

# A dropped point is wanted no more: its sweep was changed, or another setting has won. The plan keeps it, as
# its run counts in budgets and is no orphan.
SEARCH, REPLICATE, DROPPED = "search", "replicate", "dropped"
ELSEWHERE = "elsewhere"  # of no plan, but of a frame: a run that only counts in budgets
SEED_FIELDS = ("seed", "data_seed")

# Settings that may be tuned to a workload: points that differ in these compete. Any other setting (task,
# model, length ...) defines the workload and splits a sweep into objectives with a winner each.
_TUNED = ("optimizer.", "schedule.", "average.", "grad_clip")


def is_tuned(name: str) -> bool:
    """Whether points that differ in this setting compete; the optimizer's name is what we compare."""
    return name.startswith(_TUNED) and name != "optimizer.name"


class _Filling(TypedDict):
    """What fills a slot: its trial, and the run with its settings."""

    trial: int
    key: str
    overrides: dict[str, Any]


_PLAN = "plan"  # in every line the digest of all: a line that is missing shows
_SLOT = re.compile(r"\w[\w.=-]*/[0-9]+")


@dataclass(frozen=True)
class Point:
    """One run that a sweep wants.

    Attributes:
        sweep: the sweep's name.
        block: the block of the sweep file that it comes from, usually one per optimizer.
        stage: `search` for a point of the grid, `replicate` for a winner on a fresh seed, `dropped` for one
            that was either.
        key: the run.
        overrides: its settings, dotted, as given: base, block and grid values together.
        slot: `<study>/<number>` in a search, else empty. Until a trial fills it, the key is empty and the
            overrides lack what is searched.
        look: how often the results of a winner had been there to be looked at when this replica was planned.
        allowed: how many settings its block may try in a search that ends by itself; 0: all that are planned.
        refines: the rate of which such a search finds values by itself; empty: none, or `optimizer.lr`.
        row: its row in tables; empty: that of its optimizer.
    """

    sweep: str
    block: str
    stage: str
    key: str
    overrides: dict[str, Any]
    slot: str = ""
    look: int = 0
    allowed: int = 0
    refines: str = ""
    row: str = ""

    @property
    def id(self) -> str:
        """Names the point in its sweep before and after it has a key."""
        return self.slot or self.key

    @property
    def processes(self) -> int:
        """How many processes its run has."""
        return int(self.overrides.get("processes", 1))

    @property
    def study(self) -> str:
        """The study that asked for it, if it comes from a search."""
        return self.slot.rpartition("/")[0]

    @functools.cached_property
    def candidate(self) -> tuple[tuple[str, str], ...]:
        """The settings without the seeds, hashable: equal for points that differ in their seeds only."""
        settings = without_description(self.overrides)
        return tuple(sorted((k, repr(v)) for k, v in settings.items() if k not in SEED_FIELDS))


def is_sweep_name(word: str) -> bool:
    """Whether a sweep may be called so: the name of a folder, neither ".." nor an option of a command."""
    return re.fullmatch(r"\w[\w.-]{0,99}", word) is not None


def sweep_folder(root: Path, name: str) -> Path:
    """Where the sweep's files are.

    Raises:
        LinkError: it is a link.
    """
    folder = OwnFile(sweeps_folder(root), name)
    if folder.is_symlink():
        raise LinkError(folder)
    return folder


def read_points(root: Path, name: str) -> list[Point]:
    """The points of a sweep as last planned, slots as far as filled by now; none if it never was.

    Raises:
        UsageError: the file is damaged.
    """
    return [point for point in ever_planned(root, name) if point.stage != DROPPED]


def ever_planned(root: Path, name: str) -> list[Point]:
    """As `read_points`, then the dropped points.

    Raises:
        UsageError: the file is damaged.
    """
    path = sweep_folder(root, name) / POINTS
    points, whole = _sound(root, path)
    if not whole and (path.exists() or path.with_name(SPEC).exists()):
        what = "damaged" if path.exists() else "missing"
        raise UsageError(f"'{path}' is {what}; {writes_anew(path.parent)}.")
    return points


def sound_points(root: Path, name: str) -> list[Point]:
    """As `ever_planned`, but of a damaged file the points that can be read."""
    return _sound(root, sweep_folder(root, name) / POINTS)[0]


def _sound(root: Path, path: Path) -> tuple[list[Point], bool]:
    """The points of a plan that can be read, and whether they are all that were written."""
    rows = atomic.read_json_lines(path)
    digests = [row.pop(_PLAN, "") for row in rows]
    points = [point for row in rows if (point := typed.make(Point, row)) is not None and _is_sound(point)]
    unchanged = not any(digests) or digests == [seal.digest(rows)] * len(rows)  # older code set no digest
    whole = unchanged and 0 < len(points) == len(atomic.read_lines(path))
    return [filled(root, point) for point in points], whole


def _is_sound(point: Point) -> bool:
    """Whether a point is a run or a slot, of a stage that there is."""
    is_identified = is_key(point.key) if point.key else _SLOT.fullmatch(point.slot) is not None
    return point.stage in (SEARCH, REPLICATE, DROPPED) and is_identified


def writes_anew(folder: Path) -> str:
    """The end of a sentence on a sweep without sound points: which command makes them again."""
    return f"`{write_command('sweep', 'index', folder.name)}` writes it anew"


@contextlib.contextmanager
def submitting(root: Path) -> Iterator[None]:
    """Hold the lock for submitting and clearing, and see what other nodes wrote before."""
    with atomic.locked(root / ".submit.lock"):
        atomic.refresh_file_cache(sweeps_folder(root))
        for folder in sweeps_folder(root).glob("*"):
            atomic.refresh_file_cache(folder)
        yield


def slot_path(root: Path, sweep: str, slot: str) -> Path:
    """The file of a slot, a `_Filling`.

    Raises:
        LinkError: its folder is a link.
    """
    path = OwnFile(sweeps_folder(root), sweep, SLOTS, f"{slot}.json")
    if leads_away(str(path.parent), levels=3):
        raise LinkError(path.parent)
    return path


def read_slot(root: Path, sweep: str, slot: str) -> dict[str, Any] | None:
    """What fills a slot; None if it is empty, or its file is damaged."""
    content = read_sealed(slot_path(root, sweep, slot))
    return content if typed.fits(_Filling, content) and is_key(content["key"]) else None


def read_sealed(path: Path) -> dict[str, Any]:
    """The object in a file, without its seal; empty if there is none that is whole."""
    content = atomic.read_json(path)
    return seal.opened(content) if isinstance(content, dict) and not seal.is_broken(content) else {}


def filled(root: Path, point: Point) -> Point:
    """A point with key and settings from its slot's file; unchanged if it has a key or the slot is empty."""
    content = None if point.key else read_slot(root, point.sweep, point.slot)
    if content is None:
        return point
    return dataclasses.replace(point, key=content["key"], overrides=content["overrides"])


def write_points(root: Path, name: str, points: list[Point]) -> None:
    """Replace the plan of a sweep. The caller holds the sweep's lock. Slots are written empty."""
    rows = [dataclasses.asdict(point) for point in points]
    rare = ("slot", "look", "allowed", "refines", "row")
    rows = [{name: value for name, value in row.items() if name not in rare or value} for row in rows]
    digest = {_PLAN: seal.digest(rows)}
    text = "".join(json.dumps(row | digest) + "\n" for row in rows)
    path = sweep_folder(root, name) / POINTS
    if not path.exists() or path.read_bytes() != text.encode():
        atomic.write_text(path, text)


def sweep_names(root: Path) -> list[str]:
    """The names of all sweeps that were planned in this store."""
    files = (path for name in (SPEC, POINTS) for path in sweeps_folder(root).glob(f"*/{name}"))
    return sorted({path.parent.name for path in files})
