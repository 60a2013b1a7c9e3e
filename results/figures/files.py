"""Folders of figures, one for each selection of runs, in which only what changed is drawn again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.paper import reported
from harness.store import Store
from harness.store.points import sweep_names
from harness.system import atomic
from harness.system.folders import check_ours, make_folder
from results.compare.ours import of_scale
from results.compare.view import BOTH, Side, View
from results.figures.declared import FIGURES, Figure, Panels
from results.figures.kinds import Panel
from results.figures.marked import Marks, marked, marks
from results.figures.of_losses import Losses
from results.frames.rows import Frame

REVISION = 1  # raised when the drawing changes, so that old pictures are drawn again
SUFFIXES = ("png", "pdf", "csv")
INDEX = "figures.json"  # of a folder: the digest of the data of each figure that was drawn into it
_LONGEST = 80  # characters of the name of a folder


@dataclass(frozen=True)
class FigureResult:
    """One figure: `drawn`, `unchanged` or why there is none; where it is; what was wrong."""

    name: str
    outcome: str
    paths: list[Path]
    warnings: list[str]


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
        for path in _paths(folder, name):
            check_ours(path, name in noted)


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
    rows = groups(FIGURES[name], frame, store, shown)
    if not rows:
        return FigureResult(name, _why_nothing(name, shown), [], [])
    paths = _paths(folder, name)
    known = marks(frame) if known is None else known
    plain = [[[panel.facts(), known.of_panel(panel)] for panel in group] for group in rows]
    digest = hashlib.sha256(json.dumps([REVISION, plain]).encode()).hexdigest()
    noted, left_out = _noted(folder).get(name, {}), _left_out(name, shown)
    if noted.get("digest") == digest and all(path.exists() for path in paths):
        return FigureResult(name, "unchanged", paths, [*left_out, *noted.get("warnings", [])])
    make_folder(folder)
    panels, warnings = read(rows, store)
    contents = render([[marked(panel, known) for panel in group] for group in panels])
    _note(folder, name, "", [])  # whatever happens now, these files are known as ours
    for path in paths:
        atomic.write_bytes(path, contents[path.suffix[1:]])
    _note(folder, name, digest, warnings)
    return FigureResult(name, "drawn", paths, [*left_out, *warnings])


def render(panels: Sequence[Sequence[Panel]]) -> dict[str, bytes]:
    """The contents of the files by suffix. Only what must be drawn loads matplotlib."""
    from results.figures import draw

    return draw.render(panels)


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
    if FIGURES[name].hint:
        return FIGURES[name].hint
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


def read(rows: Sequence[Panels], store: Store) -> tuple[list[list[Panel]], list[str]]:
    """The panels with all their values, and what was wrong with the files of the store."""
    warnings: list[str] = []
    found: list[list[Panel]] = []
    for group in rows:
        found.append([])
        for panel in group:
            ready, wrong = panel.read(store) if isinstance(panel, Losses) else (panel, [])
            found[-1].append(ready)
            warnings += wrong
    return found, warnings


def _paths(folder: Path, name: str) -> list[Path]:
    return [folder / f"{name}.{suffix}" for suffix in SUFFIXES]


def _note(folder: Path, name: str, digest: str, warnings: Sequence[str]) -> None:
    atomic.write_json(folder / INDEX, _noted(folder) | {name: {"digest": digest, "warnings": warnings}})


def _noted(folder: Path) -> dict[str, dict[str, Any]]:
    """The entries of INDEX; none if it is damaged, or a file of somebody else."""
    value = atomic.read_json(folder / INDEX)
    if not isinstance(value, dict) or not all(isinstance(one, dict) for one in value.values()):
        return {}
    return value
