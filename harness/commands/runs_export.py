"""`htbench runs export`: finished runs, after the fact, to the tracker that a group looks at."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from harness.display import counted
from harness.errors import UsageError, nearest
from harness.exchange import export
from harness.exchange.choose import Chosen, choose
from harness.exchange.destination import TRACKERS, Options, open_destination
from harness.show.progress import Progress
from harness.store import Store


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--to TRACKER [SWEEP ...] and where to."""
    parser.add_argument("sweeps", nargs="*", metavar="SWEEP", help="runs of these sweeps (default: all runs)")
    parser.add_argument("--to", required=True, metavar="TRACKER", help=", ".join(TRACKERS))
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder (default: tensorboard, wandb or trackio in the store; trackio: $TRACKIO_DIR first)",
    )
    parser.add_argument(
        "--uri", help="mlflow: sqlite:///PATH or a server (default: sqlite:///, mlflow.db in the store)"
    )
    parser.add_argument("--project", help="wandb, trackio: the project (default: htbench)")


def give(args: argparse.Namespace, store: Store) -> int:
    """Export what the destination lacks. Exit status 0 also if runs were left out: nothing has failed."""
    if args.to not in TRACKERS:
        raise UsageError(f"Unknown tracker '{args.to}'; {nearest(args.to, TRACKERS)}")
    chosen = choose(store, args.sweeps)
    with open_destination(args.to, Options(store.root, args.out, args.uri, args.project)) as destination:
        work = export.needed(chosen.runs, destination)
        with Progress(len(work.runs), "runs", parts=len(work.runs)) as progress:
            export.write(work, destination, progress.begin, progress.advance)
        print(_told(work, chosen, destination.place), flush=True)
    for key, what in chosen.refused.items():
        print(f"htbench: left out: run {key}: {what}", file=sys.stderr)
    return 0


def _told(work: export.Needed, chosen: Chosen, place: str) -> str:
    """One line: "exported 12 runs to 'here', 30 were there already, 3 unfinished left out (3 running)"."""
    number = len(work.runs)
    parts = [f"exported {counted(number, 'run')} to {place}"]
    parts[0] += f" ({work.replaced} in place of older content)" if work.replaced else ""
    parts.append(f"{work.here} were there already")
    if left := chosen.unfinished.total():
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(chosen.unfinished.items()) if n)
        parts.append(f"{left} unfinished left out ({kinds})")
    if chosen.refused:
        parts.append(f"{len(chosen.refused)} damaged left out")
    return ", ".join(parts)
