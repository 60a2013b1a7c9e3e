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
from htbench.results.figures.declared import FIGURES
from htbench.results.figures.kinds import CSV_START, csv_text
from htbench.results.figures.marked import Marks, marked, marks
from htbench.results.figures.pictures import Picture, pictures
from htbench.results.figures.style import DRAWN_BY
from htbench.results.frames.rows import Frame

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
    for path in (path for name in names for path in _files(folder, name)):
        check_ours(path, _is_ours(path))


def update(
    name: str,
    frame: Frame | None,
    store: Store,
    folder: Path,
    shown: Sequence[Side] | None = None,
    known: Marks | None = None,
) -> FigureResult:
    """Draw one figure: a PNG and a PDF of each of its pictures, and the CSV file of its values.

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
        return FigureResult(name, _why_nothing(name, shown))
    make_folder(folder)
    before = {path for path in _files(folder, name) if _is_ours(path)}
    contents = {
        folder / f"{one.name}.{suffix}": file for one in found for suffix, file in render(one).items()
    }
    contents[folder / f"{name}{CSV}"] = csv_text({one.name: one.panels for one in found}).encode()
    for path, content in contents.items():
        atomic.write_bytes(path, content)
    for path in before - contents.keys():  # there were more pictures
        path.unlink(missing_ok=True)
    captions = {folder / f"{one.name}{PNG}": one.caption for one in found}
    return FigureResult(name, "drawn", [*contents], _left_out(name, shown), captions)


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


def pictures_of(
    name: str, frame: Frame | None, store: Store, shown: Sequence[Side], known: Marks
) -> list[Picture]:
    """The pictures of a figure: its panels for each view of the paper, then those for all other sweeps."""
    figure = FIGURES[name]
    groups = [figure.paper(view) for view in shown] if figure.paper else []
    if figure.sweeps and frame is not None:
        groups.append(figure.sweeps(select_scale(frame, ""), store))
    found = [[marked(panel, known) for panel in group] for group in groups if group]
    return pictures(name, found) if found else []


def _files(folder: Path, name: str) -> list[Path]:
    """The files of a figure that are in a folder."""
    patterns = [f"{name}{more}{suffix}" for more in ("", "-[0-9]*") for suffix in (PNG, PDF, CSV)]
    return [path for pattern in patterns for path in folder.glob(pattern)]


def _is_ours(path: Path) -> bool:
    """Whether a file was drawn here: pictures say so, and a file of values begins with our columns."""
    content = path.read_bytes() if path.is_file() else b""
    return content.startswith(CSV_START.encode()) if path.suffix == CSV else DRAWN_BY.encode() in content
