"""A folder of figures, in which only what changed is drawn again."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from harness.store import Store
from harness.system import atomic
from harness.system.folders import make_folder
from results.figures.kinds import AnyPanel
from results.figures.registry import FIGURES, Figure, Panels
from results.figures.render import REVISION, render
from results.figures.view import View, unpublished, views
from results.paper.ours import of_scale

SUFFIXES = ("png", "pdf", "csv")


@dataclass(frozen=True)
class FigureResult:
    """One figure: `drawn`, `unchanged` or why there is none; where it is; what was wrong."""

    name: str
    outcome: str
    paths: list[Path]
    warnings: list[str]


def update(
    name: str, frame: pd.DataFrame | None, store: Store, folder: Path, shown: Sequence[View] | None = None
) -> FigureResult:
    """Bring one figure up to date: two pictures and the CSV file of its values.

    The digest of its data is kept in `figures.json`; matplotlib is not even imported if that is the same.

    Args:
        name: one of `FIGURES`.
        frame: the tidy frame; None shows published numbers only.
        store: where the curves are.
        folder: for the files; made if missing.
        shown: the views of the paper's figures; None for all that the store has.

    Raises:
        UsageError: the folder can't be made or written to.
    """
    shown = views(frame, store) if shown is None else shown
    rows = groups(FIGURES[name], frame, store, shown)
    if not rows:
        return FigureResult(name, _why_nothing(name, shown), [], [])
    paths = [folder / f"{name}.{suffix}" for suffix in SUFFIXES]
    digest = _digest(rows)
    known, left_out = _known(folder).get(name, {}), _left_out(name, shown)
    if known.get("digest") == digest and all(path.exists() for path in paths):
        return FigureResult(name, "unchanged", paths, [*left_out, *known.get("warnings", [])])
    make_folder(folder)
    panels, warnings = read(rows, store)
    contents = render(panels)
    for path in paths:
        atomic.write_bytes(path, contents[path.suffix[1:]])
    entry = {name: {"digest": digest, "warnings": warnings}}
    atomic.write_json(folder / "figures.json", _known(folder) | entry)
    return FigureResult(name, "drawn", paths, [*left_out, *warnings])


def _left_out(name: str, shown: Sequence[View]) -> list[str]:
    """A sentence on panels that only our runs could fill."""
    panels = unpublished(name)
    if not panels or not shown or any(view.ours is not None for view in shown):
        return []
    return [f"Panel {', '.join(panels)} of {name} is left out: the paper has it as a picture only."]


def _why_nothing(name: str, shown: Sequence[View]) -> str:
    if FIGURES[name].hint:
        return FIGURES[name].hint
    if not shown or any(view.ours is not None for view in shown):
        return "nothing to draw yet"
    if FIGURES[name].paper is None or not unpublished(name):
        return "not in the paper, so nothing of it is published"
    return "the paper has it as a picture only: no values of it are published"


def groups(figure: Figure, frame: pd.DataFrame | None, store: Store, shown: Sequence[View]) -> list[Panels]:
    """The panels of a figure: a group for each view of the paper, then one for all other sweeps."""
    found = [figure.paper(view) for view in shown] if figure.paper else []
    if figure.sweeps and frame is not None:
        found.append(figure.sweeps(of_scale(frame, ""), store))
    return [group for group in found if group]


def read(rows: Sequence[Panels], store: Store) -> tuple[list[list[AnyPanel]], list[str]]:
    """The panels with all their values, and what was wrong with the files of the store."""
    warnings: list[str] = []
    found: list[list[AnyPanel]] = []
    for group in rows:
        found.append([])
        for panel in group:
            ready, wrong = panel.read(store) if hasattr(panel, "read") else (panel, [])
            found[-1].append(ready)
            warnings += wrong
    return found, warnings


def _digest(rows: Sequence[Panels]) -> str:
    plain = [[[type(panel).__name__, dataclasses.asdict(panel)] for panel in group] for group in rows]
    return hashlib.sha256(json.dumps([REVISION, plain]).encode()).hexdigest()


def _known(folder: Path) -> dict[str, dict[str, Any]]:
    value = atomic.read_json(folder / "figures.json")
    return value if isinstance(value, dict) else {}
