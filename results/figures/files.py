"""Folders of figures, one for each selection of runs: pictures, and the values behind them as CSV."""

import hashlib
from collections.abc import Collection, Iterable
from pathlib import Path

from htbench.harness.store.points import sweep_names
from htbench.harness.system import atomic
from htbench.harness.system.folders import check_ours, make_folder
from htbench.results.compare.view import BOTH, View
from htbench.results.figures.caveats import add_caveats
from htbench.results.figures.kinds import CSV_START, csv_text
from htbench.results.figures.pictures import Picture, arrange_pictures
from htbench.results.figures.registry import FIGURES
from htbench.results.figures.style import DRAWN_BY

PNG, PDF, CSV = ".png", ".pdf", ".csv"
_LONGEST = 80  # characters of the name of a folder


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


def draw_figure(name: str, view: View, folder: Path) -> dict[Path, str]:
    """Draw one figure: a PNG and a PDF of each of its pictures, and the CSV file of its values.

    Args:
        name: one of `FIGURES`.
        view: what is shown; with the store where the curves are.
        folder: for the files; made if missing.

    Returns:
        the caption of each picture by its PNG, in their order; none: there is nothing to draw.

    Raises:
        UsageError: the folder can't be made or written to.
    """
    drawn = make_pictures(name, view)
    if not drawn:
        return {}
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
    return {folder / f"{picture.name}{PNG}": picture.caption for picture in drawn}


def render(picture: Picture) -> dict[str, bytes]:
    """The contents of the files of a picture by suffix. Only what must be drawn loads matplotlib."""
    from htbench.results.figures import draw

    return draw.render(picture)


def make_pictures(name: str, view: View) -> list[Picture]:
    """The pictures of a figure: its panels for each side of the paper, then those for all other sweeps."""
    figure = FIGURES[name]
    groups = [figure.paper(side) for side in view.drawn_sides] if figure.paper else []
    groups += [figure.sweeps(view)] if figure.sweeps else []
    panel_groups = [[add_caveats(panel, view.caveats) for panel in group] for group in groups if group]
    return arrange_pictures(name, panel_groups) if panel_groups else []


def _list_files(folder: Path, name: str) -> list[Path]:
    """The files of a figure that are in a folder."""
    patterns = [f"{name}{more}{suffix}" for more in ("", "-[0-9]*") for suffix in (PNG, PDF, CSV)]
    return [path for pattern in patterns for path in folder.glob(pattern)]


def _is_drawn_here(path: Path) -> bool:
    """Whether a file was drawn here: pictures say so, and a file of values begins with our columns."""
    content = path.read_bytes() if path.is_file() else b""
    return content.startswith(CSV_START.encode()) if path.suffix == CSV else DRAWN_BY.encode() in content
