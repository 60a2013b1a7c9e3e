"""`htbench runs export`: finished runs, after the fact, to the tracker that a group looks at."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.errors import UsageError, nearest
from harness.exchange.destination import TRACKERS, Options, open_destination
from harness.exchange.outgoing import choose
from harness.show.emit import emit, say
from harness.show.note import Note
from harness.show.progress import Progress
from harness.show.report import Report
from harness.store import Store, naming


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--to TRACKER [SWEEP ...] [--sweep SWEEP]... and where to."""
    naming.add_words(parser)
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
    chosen = choose(store, naming.chosen(args))
    with open_destination(args.to, Options(store.root, args.out, args.uri, args.project)) as destination:
        there = destination.present
        new = [run for run in chosen.runs if there.get(run.key) != run.digest]
        with Progress(len(new), "runs", parts=len(new)) as progress:
            for run in new:
                progress.begin(run.name)
                destination.write(run)
                progress.advance()
        note = Note(
            "exported",
            runs=len(new),
            place=destination.place,
            replaced=sum(run.key in there for run in new),
            here=len(chosen.runs) - len(new),
            unfinished=chosen.unfinished.total(),
            kinds=[f"{number} {status}" for status, number in sorted(chosen.unfinished.items()) if number],
            damaged=len(chosen.refused),
        )
        emit(Report("export", "", notes=[note]), args)
    for key, what in chosen.refused.items():
        say(f"left out: run {key}: {what}")
    return 0
