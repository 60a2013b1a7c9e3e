"""`htbench runs import` and `runs export`: other stores taken in, runs given to trackers."""

import argparse
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.errors import UsageError, nearest
from harness.exchange.destination import TRACKERS, Options, open_destination
from harness.exchange.outgoing import choose
from harness.show.emit import emit, say
from harness.show.note import Note
from harness.show.progress import Progress
from harness.show.report import Report
from harness.store import Store, compact, naming
from harness.store.importing import Merged, merge
from harness.store.points import SPEC, sweep_folder
from harness.system.folders import make_folder


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
    if done.completed:
        verb = "would complete" if args.dry_run else "completed"
        what = _counts(Counter(name for names in done.completed.values() for name in names))
        notes.append(Note("import_completed", verb=verb, runs=len(done.completed), what=what))
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
    parser.add_argument("--to", required=True, metavar="TRACKER", help=", ".join(TRACKERS))
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder (default: tensorboard or wandb in the store)",
    )
    parser.add_argument("--project", help="wandb: the project (default: htbench)")


def give(args: argparse.Namespace, store: Store) -> int:
    """Export what the destination lacks. Exit status 0 also if runs were left out: nothing has failed."""
    if args.to not in TRACKERS:
        raise UsageError(f"Unknown tracker '{args.to}'; {nearest(args.to, TRACKERS)}")
    chosen = choose(store, naming.chosen(args))
    with open_destination(args.to, Options(store.root, args.out, args.project)) as destination:
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
