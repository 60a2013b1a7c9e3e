"""`htbench report`: the whole store as one HTML page."""

import argparse
from pathlib import Path

from htbench.harness.show.emit import emit, say
from htbench.harness.show.note import Note
from htbench.harness.show.progress import each
from htbench.harness.show.report import Report
from htbench.harness.store import Store, naming
from htbench.harness.system import atomic
from htbench.harness.system.folders import check_ours, make_folder
from htbench.results.compare.view import View
from htbench.results.figures.files import check_folder, choose_folder, draw_figure
from htbench.results.figures.registry import FIGURES
from htbench.results.frames.load import load_rows
from htbench.results.page.page import MARK, write

MOST_WORKLOADS = 24  # whose pictures fit on a page: each takes seconds to draw


def add_report_arguments(parser: argparse.ArgumentParser) -> None:
    """Add [SWEEP ...] [--sweep SWEEP]... [--out FILE]."""
    parser.add_argument("--out", type=Path, metavar="FILE", help="the page (default: ROOT/report.html)")
    naming.add_words(parser)


def report(args: argparse.Namespace) -> int:
    """Write the page, and the figures that have changed into the folder `figures` beside it.

    A page on more than MOST_WORKLOADS has none, and says so.

    Raises:
        UsageError: nothing is planned, a sweep is unknown, the folder can't be written to, or a file of
            somebody else is there.
    """
    store, sweeps = Store(args.root), naming.chosen(args)
    view = View(load_rows(store, sweeps or None, say), store=store)
    out = args.out or store.root / "report.html"
    check_ours(out, _is_ours(out))
    figures = choose_folder(out.parent / "figures", store.root, sweeps)
    if args.out:
        check_folder(figures, FIGURES)
    make_folder(out.parent)
    text = write(view, _draw_figures(view, figures) if len(view.workloads) <= MOST_WORKLOADS else None)
    if not out.exists() or out.read_bytes() != text.encode():
        atomic.write_text(out, text)
    emit(Report("report", "", notes=[Note("page_written", path=out, size=len(text))]), args)
    return 0


def _is_ours(page: Path) -> bool:
    if not page.is_file():
        return False
    with open(page, "rb") as file:
        return MARK.encode() in file.read(1024)


def _draw_figures(view: View, folder: Path) -> dict[str, tuple[bytes, str]]:
    """Each picture with its caption."""
    captions = dict[Path, str]()
    for name in each([*FIGURES], "figures"):
        captions |= draw_figure(name, view, folder)
    return {path.stem: (path.read_bytes(), caption) for path, caption in captions.items()}
