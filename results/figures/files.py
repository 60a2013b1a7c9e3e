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
from results.figures.registry import FIGURES
from results.figures.render import REVISION, render

SUFFIXES = ("png", "pdf")


@dataclass(frozen=True)
class FigureResult:
    """One figure: `drawn`, `unchanged` or `nothing to draw yet`; where it is; what was wrong."""

    name: str
    outcome: str
    paths: list[Path]
    warnings: list[str]


def update(name: str, frame: pd.DataFrame, store: Store, folder: Path) -> FigureResult:
    """Bring one figure up to date.

    The digest of its data is kept in `figures.json`; matplotlib is not even imported if that is the same.

    Args:
        name: one of `FIGURES`.
        frame: the tidy frame.
        store: where the curves are.
        folder: for the pictures; made if missing.

    Raises:
        UsageError: the folder can't be made or written to.
    """
    panels = FIGURES[name].panels(frame, store)
    if not panels:
        return FigureResult(name, "nothing to draw yet", [], [])
    paths = [folder / f"{name}.{suffix}" for suffix in SUFFIXES]
    digest = _digest(panels)
    known = _known(folder).get(name, {})
    if known.get("digest") == digest and all(path.exists() for path in paths):
        return FigureResult(name, "unchanged", paths, known.get("warnings", []))
    make_folder(folder)
    pictures, warnings = render(FIGURES[name], panels, store)
    for path in paths:
        atomic.write_bytes(path, pictures[path.suffix[1:]])
    entry = {name: {"digest": digest, "warnings": warnings}}
    atomic.write_json(folder / "figures.json", _known(folder) | entry)
    return FigureResult(name, "drawn", paths, warnings)


def _digest(panels: Sequence[Any]) -> str:
    plain = [dataclasses.asdict(panel) for panel in panels]
    return hashlib.sha256(json.dumps([REVISION, plain]).encode()).hexdigest()


def _known(folder: Path) -> dict[str, dict[str, Any]]:
    value = atomic.read_json(folder / "figures.json")
    return value if isinstance(value, dict) else {}
