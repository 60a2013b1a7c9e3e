"""`htbench runs import` and `runs export`: other stores taken in, runs given to trackers."""

import argparse
import os
from pathlib import Path

from htbench.harness.errors import UsageError, nearest
from htbench.harness.exchange.outgoing import choose
from htbench.harness.exchange.trackers import TRACKERS, WANDB, write
from htbench.harness.show.emit import emit, say
from htbench.harness.show.note import Note
from htbench.harness.show.progress import Progress
from htbench.harness.show.report import Report
from htbench.harness.store import Store, compact, naming
from htbench.harness.store.importing import import_store
from htbench.harness.store.points import SPEC, sweep_folder
from htbench.harness.system.environment import require


def add_import_arguments(parser: argparse.ArgumentParser) -> None:
    """OTHER_ROOT ..., --dry-run."""
    parser.add_argument(
        "other",
        type=Path,
        nargs="+",
        metavar="OTHER_ROOT",
        help="other stores, archives of compact records, or folders of some; they are only read",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be taken")


def take(args: argparse.Namespace, store: Store) -> int:
    """Take other stores in. Exit status 0 even with conflicts: nothing has failed."""
    verb = "would import" if args.dry_run else "imported"
    for place in args.other:
        with compact.open_store(place) as other:
            summary = import_store(store, other, dry_run=args.dry_run)
            studies = any((sweep_folder(other, name) / SPEC).exists() for name in summary.sweeps)
        for remark in summary.remarks:
            say(remark)
        notes = [
            Note(
                "import_taken",
                place=str(place) if len(args.other) > 1 else "",
                verb=verb,
                runs=summary.imported.total(),
                taken=[f"{number} {name}" for name, number in sorted(summary.imported.items())],
                here=summary.already_here,
            )
        ]
        if summary.sweeps:
            index = "NAME" if studies else ""
            notes.append(Note("import_sweeps", verb=verb, sweeps=summary.sweeps, index=index))
        emit(Report("import", "", notes=notes), args)
    return 0


# --- to a tracker ---


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    """--to TRACKER [SWEEP ...] [--sweep SWEEP]... and where to."""
    naming.add_words(parser)
    parser.add_argument("--to", required=True, metavar="TRACKER", help=" or ".join(TRACKERS))
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder (default: the tracker's in the store)"
    )
    parser.add_argument("--project", help="wandb: the project (default: htbench)")


def give(args: argparse.Namespace, store: Store) -> int:
    """Export what the tracker lacks. Exit status 0 also if runs were left out: nothing has failed."""
    if args.to not in TRACKERS:
        raise UsageError(f"Unknown tracker '{args.to}'; {nearest(args.to, TRACKERS)}")
    if args.project and args.to != WANDB:
        raise UsageError(f"--project is not for {args.to}.")
    require(args.to, args.to)
    runs, unfinished = choose(store, naming.chosen(args))
    home = args.out or store.root / args.to
    project = args.project or os.environ.get("WANDB_PROJECT", "htbench")
    new = 0
    with Progress(len(runs), "runs") as progress:
        for run in runs:
            progress.to(progress.done, said=run.name)
            new += write(args.to, home, run, project)
            progress.advance()
    note = Note("exported", place=home, runs=new, here=len(runs) - new, unfinished=unfinished)
    emit(Report("export", "", notes=[note]), args)
    return 0
