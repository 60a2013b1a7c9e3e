"""`htbench report`: the whole store as one HTML page."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas as pd

from harness.display import memory
from harness.store import Store
from harness.system import atomic
from harness.system.folders import make_folder
from results.analysis.load import load
from results.figures.files import update
from results.figures.registry import FIGURES
from results.formats.cells import Table
from results.report import overview, page
from results.report.page import Part
from results.report.runs import MOST_RUNS, Behind, details
from results.report.styles import styles
from results.tables.registry import TABLES
from results.tables.view import View


def add_report_arguments(parser: argparse.ArgumentParser) -> None:
    """Add [--out FILE] [--sweep NAME]..."""
    parser.add_argument("--out", type=Path, metavar="FILE", help="the page (default: ROOT/report.html)")
    parser.add_argument(
        "--sweep",
        action="append",
        metavar="NAME[,NAME...]",
        help="only the runs of this sweep; may be repeated (default: all sweeps)",
    )


def report(args: argparse.Namespace) -> int:
    """Write the page, and the figures that have changed into the folder `figures` beside it.

    Raises:
        UsageError: nothing is planned, a sweep is unknown, or the folder can't be written to.
    """
    sweeps = [name for word in args.sweep or [] for name in word.split(",")]
    store = Store(args.root)
    frame = load(store, sweeps or None)
    out = args.out or store.root / "report.html"
    make_folder(out.parent)
    text = _page(store, frame, out.parent / "figures")
    atomic.write_text(out, text)
    print(f"{out}: {memory(len(text))}")
    return 0


def _page(store: Store, frame: pd.DataFrame, folder: Path) -> str:
    view = View(frame, store=store)
    tables = [table for make in TABLES.values() if (table := make(view)).sections]
    behind = Behind.of(tables, frame["key"])
    told = details(store, frame, behind)
    parts = [
        _summary(frame),
        _tables(tables, behind),
        _figures(store, frame, folder),
        Part("cost", "Cost", _plain(overview.cost(frame))),
        Part("runs", "Runs", page.table(overview.runs(frame, behind), behind.attributes, heading=False)),
    ]
    data = {"runs-data": told | {"styles": styles({run["optimizer"] for run in told["runs"]})}}
    return page.page("htbench report", parts, data)


def _summary(frame: pd.DataFrame) -> Part:
    tables = [overview.sweeps(frame), overview.environments(frame)]
    return Part("summary", "Summary", page.facts(overview.in_words(frame)) + _plain(tables))


def _plain(tables: list[Table]) -> str:
    return "\n".join(page.table(table, heading=False) for table in tables)


def _tables(tables: list[Table], behind: Behind) -> Part:
    body = [page.table(table, behind.attributes) for table in tables]
    hint = '<p class="script">Click a value: its runs, with curves, settings, environment and log.</p>'
    if behind.left_out:
        hint += f"<p>Only the first {MOST_RUNS} runs have their details on this page.</p>"
    return Part("tables", "Tables", "\n".join([hint, *body]), [(f"table-{t.name}", t.name) for t in tables])


def _figures(store: Store, frame: pd.DataFrame, folder: Path) -> Part:
    """The figures that have something to show; warnings on files that they were drawn from go to stderr."""
    shown = []
    for name in FIGURES:
        done = update(name, frame, store, folder)
        for warning in done.warnings:
            print(f"htbench: {warning}", file=sys.stderr)
        shown += [(name, path.read_bytes()) for path in done.paths if path.suffix == ".png"]
    body = "\n".join(page.figure(name, png) for name, png in shown)
    return Part("figures", "Figures", body, [(f"figure-{name}", name) for name, _ in shown])
