"""Folders of figures, one for each selection of runs: pictures, and the values behind them as CSV."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from htbench.harness.paper import reported
from htbench.harness.store import Store
from htbench.harness.store.points import sweep_names
from htbench.harness.system import atomic
from htbench.harness.system.folders import check_ours, make_folder
from htbench.results.compare.paper_runs import select_scale
from htbench.results.compare.view import BOTH, Side, View
from htbench.results.figures.caveats import Caveats, add_caveats, find_caveats
from htbench.results.figures.kinds import CSV_START, csv_text
from htbench.results.figures.pictures import Picture, arrange_pictures
from htbench.results.figures.registry import FIGURES
from htbench.results.figures.style import DRAWN_BY
from htbench.results.frames.rows import Rows

PNG, PDF, CSV = ".png", ".pdf", ".csv"
_LONGEST = 80  # characters of the name of a folder


@dataclass(frozen=True)
class FigureResult:
    """One figure: `drawn`, or why there is none; where it is; what was wrong.

    Attributes:
        name: of the figure.
        outcome: in words.
        paths: its files: the PNG and the PDF of each picture, and one CSV file.
        warnings: what is left out.
        captions: of each picture by its PNG, in their order.
    """

    name: str
    outcome: str
    paths: list[Path] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    captions: dict[Path, str] = field(default_factory=dict)


def list_views(
    frame: Rows | None, store: Store, source: str = BOTH, scales: Sequence[str] | None = None
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


def choose_folder(
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
    for path in (path for name in names for path in _list_files(folder, name)):
        check_ours(path, _is_drawn_here(path))


def draw_figure(
    name: str,
    frame: Rows | None,
    store: Store,
    folder: Path,
    sides: Sequence[Side] | None = None,
    caveats: Caveats | None = None,
) -> FigureResult:
    """Draw one figure: a PNG and a PDF of each of its pictures, and the CSV file of its values.

    Args:
        name: one of `FIGURES`.
        frame: the tidy frame; None shows published numbers only.
        store: where the curves are.
        folder: for the files; made if missing.
        sides: the views of the paper's figures; None for all that the store has.
        caveats: the marks of the frame's runs; None: they are found.

    Raises:
        UsageError: the folder can't be made or written to.
    """
    sides = list_views(frame, store) if sides is None else sides
    drawn = make_pictures(name, frame, store, sides, find_caveats(frame) if caveats is None else caveats)
    has_runs = not sides or any(view.ours is not None for view in sides)
    rows = [row for row in reported.rows("figures") if row["figure"] == name]
    pictures_only = [row["panels"] for row in rows if not row["data_published"].startswith("yes")]
    if not drawn:
        outcome = "nothing to draw yet"
        if not has_runs and (FIGURES[name].paper is None or not pictures_only):
            outcome = "not in the paper, so nothing of it is published"
        elif not has_runs:
            outcome = "the paper has it as a picture only: no values of it are published"
        return FigureResult(name, outcome)
    make_folder(folder)
    before = {path for path in _list_files(folder, name) if _is_drawn_here(path)}
    contents: dict[Path, bytes] = {}
    for picture in drawn:
        contents |= {folder / f"{picture.name}.{suffix}": file for suffix, file in render(picture).items()}
    contents[folder / f"{name}{CSV}"] = csv_text({picture.name: picture.panels for picture in drawn}).encode()
    for path, content in contents.items():
        atomic.write_bytes(path, content)
    for path in before - contents.keys():  # there were more pictures
        path.unlink(missing_ok=True)
    captions = {folder / f"{picture.name}{PNG}": picture.caption for picture in drawn}
    warnings = []
    if pictures_only and not has_runs:
        panels = ", ".join(pictures_only)
        warnings.append(f"Panel {panels} of {name} is left out: the paper has it as a picture only.")
    return FigureResult(name, "drawn", [*contents], warnings, captions)


def render(picture: Picture) -> dict[str, bytes]:
    """The contents of the files of a picture by suffix. Only what must be drawn loads matplotlib."""
    from htbench.results.figures import draw

    return draw.render(picture)


def make_pictures(
    name: str, frame: Rows | None, store: Store, sides: Sequence[Side], caveats: Caveats
) -> list[Picture]:
    """The pictures of a figure: its panels for each view of the paper, then those for all other sweeps."""
    figure = FIGURES[name]
    groups = [figure.paper(view) for view in sides] if figure.paper else []
    if figure.sweeps and frame is not None:
        groups.append(figure.sweeps(select_scale(frame, ""), store))
    panel_groups = [[add_caveats(panel, caveats) for panel in group] for group in groups if group]
    return arrange_pictures(name, panel_groups) if panel_groups else []


def _list_files(folder: Path, name: str) -> list[Path]:
    """The files of a figure that are in a folder."""
    patterns = [f"{name}{more}{suffix}" for more in ("", "-[0-9]*") for suffix in (PNG, PDF, CSV)]
    return [path for pattern in patterns for path in folder.glob(pattern)]


def _is_drawn_here(path: Path) -> bool:
    """Whether a file was drawn here: pictures say so, and a file of values begins with our columns."""
    content = path.read_bytes() if path.is_file() else b""
    return content.startswith(CSV_START.encode()) if path.suffix == CSV else DRAWN_BY.encode() in content
