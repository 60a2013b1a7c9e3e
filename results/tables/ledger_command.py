"""`htbench ledger`."""

from __future__ import annotations

import argparse

import pandas as pd

from harness.paper.scales import SCALES
from harness.store import Store
from harness.store.points import sweep_names
from results.compare.select import OPTIMIZER
from results.formats.render import FORMATS, render_all
from results.frames.load import load, tell
from results.tables.ledger import ledger as tables

_COLUMNS = ("sweep", "stage", *OPTIMIZER, "rule", "replica", "lr")  # that a search in an empty frame asks for


def add_ledger_arguments(parser: argparse.ArgumentParser) -> None:
    """Add [--scale SCALE]... [--format FORMAT] [--json]."""
    parser.add_argument(
        "--scale",
        action="append",
        choices=SCALES,
        default=[],
        help="paper: the 329 published numbers; nano, quick: the orderings that the paper states, tested in "
        "miniature; may be repeated (default: every scale that the store has planned, else paper)",
    )
    parser.add_argument(
        "--format", choices=FORMATS, default="md", help="how to print it (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="--format json")


def ledger(args: argparse.Namespace) -> int:
    """Print the ledger. Its exit status is 0 whatever the verdicts."""
    store = Store(args.root)
    frame = load(store, warn=tell) if sweep_names(args.root) else pd.DataFrame(columns=list(_COLUMNS))
    print(render_all(tables(frame, store, args.scale), args.format), end="")
    return 0
