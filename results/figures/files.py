"""Folders of figures, one for each selection of runs, in which only what changed is drawn again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from htbench.harness.paper import reported
from htbench.harness.store import Store
from htbench.harness.store.points import sweep_names
from htbench.harness.system import atomic
from htbench.harness.system.folders import check_ours, make_folder
from htbench.results.compare.ours import of_scale
from htbench.results.compare.view import BOTH, Side, View
from htbench.results.figures.declared import FIGURES, Figure, Panels
from htbench.results.figures.kinds import csv_text
from htbench.results.figures.marked import Marks, marked, marks
from htbench.results.figures.pictures import Picture, pictures
from htbench.results.frames.rows import Frame

REVISION = 4  # raised when the drawing changes, so that old pictures are drawn again
PNG, CSV = ".png", ".csv"
SUFFIXES = (PNG, ".pdf")  # of each picture
INDEX = "figures.json"  # of a folder: of each figure drawn into it, the digest of its data and its files
_LONGEST = 80  # characters of the name of a folder


@dataclass(frozen=True)
class FigureResult:
    """One figure: `drawn`, `unchanged` or why there is none; where it is; what was wrong.

    Attributes:
        name: of the figure.
        outcome: in words.
        paths: its files: the PNG and the PDF of each picture, and one CSV file.
        warnings: what was wrong with its data.
        captions: of each picture by its PNG, in their order.
    """

    name: str
    outcome: str
    paths: list[Path]
    warnings: list[str]
    captions: dict[Path, str] = field(default_factory=dict)


def views(
    frame: Frame | None, store: Store, source: str = BOTH, scales: Sequence[str] | None = None
) -> list[Side]:
    """The views of a store.

    Published numbers are shown if they are asked for, and with `both` if something is planned at a scale.

    Args:
        frame: the tidy frame; None for an empty store.
        store: where curves and spectra are.
        source: one of SOURCES.
        scales: those to show, planned or not; None for all that are planned.
    """
    sides = View(frame, source, scales, store).sides
    return [
        side if side.ours is None or side.ours else Side(published=True)
        for side in sides
        if side.published or side.ours
    ]


def of_selection(
    folder: Path,
    root: Path,
    sweeps: Collection[str] | None,
    source: str = BOTH,
    scales: Collection[str] | None = None,
) -> Path:
    """The place for figures of some runs: `folder` for all of the store, else one in it.

    So no figure takes the place of one that shows other runs.

    Args:
        folder: of the figures of all runs.
        root: the store.
        sweeps: names; None means all.
        source: one of `results.compare.view.SOURCES`.
        scales: of the paper's experiments; None means all that are planned.
    """
    some = sorted({*sweeps} if sweeps and not {*sweeps} >= {*sweep_names(root)} else ())
    parts = ["+".join(some), f"source={source}" if source != BOTH else ""]
    name = ",".join(filter(None, [*parts, *(f"scale={scale}" for scale in sorted({*(scales or ())}))]))
    if len(name) > _LONGEST:
        name = f"{len(some)}-sweeps-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return folder / name


def check_folder(folder: Path, names: Iterable[str]) -> None:
    """Raise UsageError if figures of these names would replace files that were not drawn here."""
    noted = _noted(folder)
    check_ours(folder / INDEX, bool(noted))
    for name in names:
        ours = noted.get(name, {}).get("files", [])
        for path in (*folder.glob(f"{name}.*"), *folder.glob(f"{name}-[0-9]*.*")):
            check_ours(path, path.name in ours)


def update(
    name: str,
    frame: Frame | None,
    store: Store,
    folder: Path,
    shown: Sequence[Side] | None = None,
    known: Marks | None = None,
) -> FigureResult:
    """Bring one figure up to date: two pictures and the CSV file of its values.

    The digest of its data is kept in INDEX; matplotlib is not even imported if that is the same.

    Args:
        name: one of `FIGURES`.
        frame: the tidy frame; None shows published numbers only.
        store: where the curves are.
        folder: for the files; made if missing.
        shown: the views of the paper's figures; None for all that the store has.
        known: the marks of the frame's runs; None: they are found.

    Raises:
        UsageError: the folder can't be made or written to.
    """
    shown = views(frame, store) if shown is None else shown
    found = pictures_of(name, frame, store, shown, marks(frame) if known is None else known)
    if not found:
        return FigureResult(name, _why_nothing(name, shown), [], [])
    paths = [folder / f"{one.name}{suffix}" for one in found for suffix in SUFFIXES] + [
        folder / f"{name}{CSV}"
    ]
    captions = {folder / f"{one.name}{PNG}": one.caption for one in found}
    plain = [[one.caption, [panel.facts() for panel in one.panels]] for one in found]
    digest = hashlib.sha256(json.dumps([REVISION, plain], default=repr).encode()).hexdigest()
    noted, left_out = _noted(folder).get(name, {}), _left_out(name, shown)
    if noted.get("digest") == digest and all(path.exists() for path in paths):
        warnings = [*left_out, *noted.get("warnings", [])]
        return FigureResult(name, "unchanged", paths, warnings, captions)
    make_folder(folder)
    ready, warnings = read(found, store)
    contents = {
        folder / f"{one.name}.{suffix}": file for one in ready for suffix, file in render(one).items()
    }
    contents[paths[-1]] = csv_text({one.name: one.panels for one in ready}).encode()
    note: dict[str, Any] = {"digest": "", "warnings": warnings, "files": [path.name for path in paths]}
    note["captions"] = {path.name: caption for path, caption in captions.items()}
    old = {*noted.get("files", [])} - {*note["files"]}
    _note(folder, name, note | {"files": [*note["files"], *old]})  # whatever happens now, these are ours
    for path, content in contents.items():
        atomic.write_bytes(path, content)
    for left in old:
        (folder / left).unlink(missing_ok=True)
    _note(folder, name, note | {"digest": digest})
    return FigureResult(name, "drawn", paths, [*left_out, *warnings], captions)


def render(picture: Picture) -> dict[str, bytes]:
    """The contents of the files of a picture by suffix. Only what must be drawn loads matplotlib."""
    from htbench.results.figures import draw

    return draw.render(picture)


def unpublished(figure: str) -> list[str]:
    """The panels of a figure of the paper that are pictures only: the paper has no table of their values."""
    rows = [row for row in reported.rows("figures") if row["figure"] == figure]
    return [row["panels"] for row in rows if not row["data_published"].startswith("yes")]


def _left_out(name: str, shown: Sequence[Side]) -> list[str]:
    """A sentence on panels that only our runs could fill."""
    panels = unpublished(name)
    if not panels or not shown or any(view.ours is not None for view in shown):
        return []
    return [f"Panel {', '.join(panels)} of {name} is left out: the paper has it as a picture only."]


def _why_nothing(name: str, shown: Sequence[Side]) -> str:
    if not shown or any(view.ours is not None for view in shown):
        return "nothing to draw yet"
    if FIGURES[name].paper is None or not unpublished(name):
        return "not in the paper, so nothing of it is published"
    return "the paper has it as a picture only: no values of it are published"


def groups(figure: Figure, frame: Frame | None, store: Store, shown: Sequence[Side]) -> list[Panels]:
    """The panels of a figure: a group for each view of the paper, then one for all other sweeps."""
    found = [figure.paper(view) for view in shown] if figure.paper else []
    if figure.sweeps and frame is not None:
        found.append(figure.sweeps(of_scale(frame, ""), store))
    return [group for group in found if group]


def pictures_of(
    name: str, frame: Frame | None, store: Store, shown: Sequence[Side], known: Marks
) -> list[Picture]:
    """The pictures of a figure; curves of losses are not read yet."""
    found = groups(FIGURES[name], frame, store, shown)
    return pictures(name, [[marked(panel, known) for panel in group] for group in found]) if found else []


def read(found: Iterable[Picture], store: Store) -> tuple[list[Picture], list[str]]:
    """The pictures with all their values, and what was wrong with the files of the store."""
    ready = [one.read(store) for one in found]
    return [one for one, _ in ready], [warning for _, wrong in ready for warning in wrong]


def _note(folder: Path, name: str, note: Mapping[str, Any]) -> None:
    atomic.write_json(folder / INDEX, _noted(folder) | {name: note})


def _noted(folder: Path) -> dict[str, dict[str, Any]]:
    """The entries of INDEX; none if it is damaged, or a file of somebody else."""
    value = atomic.read_json(folder / INDEX)
    if not isinstance(value, dict) or not all(isinstance(one, dict) for one in value.values()):
        return {}
    return value
