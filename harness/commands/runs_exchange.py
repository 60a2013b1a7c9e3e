"""`htbench runs import` and `runs export`: other stores taken in, runs given to trackers."""

import argparse
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from htbench.harness.errors import UsageError, nearest
from htbench.harness.exchange.outgoing import choose
from htbench.harness.exchange.trackers import TRACKERS, WANDB, write
from htbench.harness.show.emit import emit, say
from htbench.harness.show.note import Note
from htbench.harness.show.progress import Progress
from htbench.harness.show.report import Report
from htbench.harness.store import Store, compact, naming
from htbench.harness.store.importing import Merged, merge
from htbench.harness.store.points import SPEC, sweep_folder
from htbench.harness.system.environment import require
from htbench.harness.system.folders import make_folder


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
    if not args.dry_run:
        make_folder(store.root)
    for place in args.other:
        with compact.opened(place) as other:
            _tell(args, *_store(args, store, other, str(place) if len(args.other) > 1 else ""))
    return 0


def _tell(args: argparse.Namespace, notes: list[Note], remarks: list[Note]) -> None:
    for remark in remarks:
        say(remark)
    emit(Report("import", "", notes=notes), args)


def _taken(args: argparse.Namespace, taken: Counter[str], here: int, place: str) -> Note:
    verb, runs = "would import" if args.dry_run else "imported", taken.total()
    return Note("import_taken", place=place, verb=verb, runs=runs, taken=_counts(taken), here=here)


def _counts(numbers: Mapping[str, int]) -> list[str]:
    return [f"{number} {name}" for name, number in sorted(numbers.items()) if number]


# --- another store ---


def _store(args: argparse.Namespace, store: Store, other: Path, place: str) -> tuple[list[Note], list[Note]]:
    """Merge another store into this one; `place` names it where there are several."""
    done = merge(store, other, dry_run=args.dry_run)
    notes = [_taken(args, done.taken, done.here, place)]
    if done.sweeps:
        studies = any((sweep_folder(other, name) / SPEC).exists() for name in done.sweeps)
        verb = "would import" if args.dry_run else "imported"
        notes.append(Note("import_sweeps", verb=verb, sweeps=done.sweeps, index="NAME" if studies else ""))
    return notes, list(_remarks(done, other))


def _remarks(done: Merged, other: Path) -> Iterable[Note]:
    for key, differences in done.conflicts.items():
        differing = [f"{it.name}={it.here} here and {it.there} there" for it in differences]
        yield Note("merge_conflict", key=key, differing=differing)
    for key, why in done.left.items():
        yield Note("merge_left", key=key, why=str(why))
    for name, why in done.refused.items():
        yield Note("merge_refused", name=name, why=str(why))
    for name in done.differing:
        yield Note("merge_other_points", sweep=name)


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
    here, kinds = len(runs) - new, _counts({str(status): number for status, number in unfinished.items()})
    note = Note("exported", place=home, runs=new, here=here, unfinished=unfinished.total(), kinds=kinds)
    emit(Report("export", "", notes=[note]), args)
    return 0
