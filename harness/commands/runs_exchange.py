"""`htbench runs import` and `runs export`: other stores and trainers taken in, runs given to trackers."""

import argparse
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.errors import UsageError, nearest
from harness.exchange.outgoing import choose
from harness.exchange.trackers import TRACKERS, WANDB, write
from harness.show.emit import emit, say
from harness.show.note import Note
from harness.show.progress import Progress
from harness.show.report import Report
from harness.store import Store, compact, naming
from harness.store.importing import Merged, merge
from harness.store.points import SOURCE, SPEC, sweep_folder
from harness.system.environment import require
from harness.system.folders import make_folder

_SHOWN = 10  # sentences on runs that were not taken
_OF_FILES = ("name", "runs", "map", "set", "drop", "restarts", "metric", "higher_is_better")


def add_import_arguments(parser: argparse.ArgumentParser) -> None:
    """OTHER_ROOT, or --curves with what tells the meaning of the files; --dry-run."""
    add = parser.add_argument
    add(
        "other",
        type=Path,
        nargs="*",
        metavar="OTHER_ROOT",
        help="other stores, archives of compact records, or folders of some; they are only read",
    )
    add("--dry-run", action="store_true", help="only say what would be taken")
    foreign = parser.add_argument_group("results of other trainers").add_argument
    foreign("--runs", type=Path, metavar="FILE", help="a CSV file with a line per run, joined to the curves")
    foreign("--name", metavar="NAME", help="of the import; tables show its runs under this name")
    for flag, kind, metavar, text in (
        ("--curves", Path, "FILE", "CSV files with a line per run and step"),
        ("--map", str, "OURS=THEIRS", "which column is ours: seconds_per_step=ms/1000"),
        ("--set", str, "OURS=VALUE", "what holds for all runs: task=fineweb"),
        ("--drop", str, "COLUMN", "columns that are left out"),
    ):
        foreign(flag, type=kind, nargs="+", action="extend", metavar=metavar, help=text)
    foreign(
        "--restarts",
        choices=("runs", "last"),
        help="a log that returns to its first step: several runs, or one of which the last lines count",
    )
    foreign("--metric", metavar="NAME", help="the metric that is reported, such as val_loss")
    ways = parser.add_mutually_exclusive_group()
    for flag, value in (("--lower-is-better", False), ("--higher-is-better", True)):
        ways.add_argument(
            flag, dest="higher_is_better", action="store_const", const=value, help="its direction, if unknown"
        )


def take(args: argparse.Namespace, store: Store) -> int:
    """Carry out either. Exit status 0 even with conflicts: nothing has failed."""
    if args.curves:
        if args.other:
            raise UsageError(f"Give a store or --curves, not both: '{args.other[0]}'.")
        _tell(args, *_foreign(args, store))
        return 0
    given = [f"--{name.replace('_', '-')}" for name in _OF_FILES if getattr(args, name) is not None]
    if given:
        raise UsageError(f"{given[0]} goes with --curves FILE.")
    if not args.other:
        raise UsageError("Name another store, or the files of another trainer by --curves.")
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


def _taken(
    args: argparse.Namespace, taken: Counter[str], here: int, *, name: str = "", place: str = ""
) -> Note:
    verb, runs = "would import" if args.dry_run else "imported", taken.total()
    return Note("import_taken", place=place, verb=verb, runs=runs, taken=_counts(taken), name=name, here=here)


def _counts(numbers: Mapping[str, int]) -> list[str]:
    return [f"{number} {name}" for name, number in sorted(numbers.items()) if number]


# --- results of other trainers ---


def _foreign(args: argparse.Namespace, store: Store) -> tuple[list[Note], list[Note]]:
    """What was done, and what there is to say besides."""
    from harness.exchange import gather
    from harness.exchange.foreign import assemble
    from harness.exchange.foreign_store import check_name, write
    from harness.exchange.ours import MODEL, RESULT, TASK, meaning

    if not args.name:
        raise UsageError("Give the import a name: --name NAME; its runs are shown under it.")
    check_name(store.root, args.name)
    words: dict[str, Any] = {name: getattr(args, name) or [] for name in ("map", "set", "drop")}
    restarts = args.restarts or ""
    read = gather.read(args.curves, args.runs, meaning(words["map"], words["set"], words["drop"]), restarts)
    runs, remarks = assemble(args.name, read.runs, args.metric or "", args.higher_is_better)
    source = {"files": read.files, **words, "restarts": restarts}
    done = write(store, args.name, runs, source, dry_run=args.dry_run)
    remarks = [*read.remarks, *remarks, *done.refused[:_SHOWN]]
    if done.refused:
        remarks.append(Note("import_not_taken", more=max(0, len(done.refused) - _SHOWN)))
    notes = [Note("text", text=text) for text in read.meanings if args.dry_run]
    notes.append(_taken(args, done.taken, done.here, name=args.name))
    results = {tuple(run.facts[name] for name in (TASK, MODEL, RESULT)) for run in runs}
    metric, way = f"val_{runs[0].metric}", "higher" if runs[0].higher_is_better else "lower"
    notes.append(Note("import_files", runs=len(runs), results=len(results), metric=metric, way=way))
    return notes, remarks


# --- another store ---


def _store(args: argparse.Namespace, store: Store, other: Path, place: str) -> tuple[list[Note], list[Note]]:
    """Merge another store into this one; `place` names it where there are several."""
    done = merge(store, other, dry_run=args.dry_run)
    notes = [_taken(args, done.taken, done.here, place=place)]
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
        is_foreign = (sweep_folder(other, name) / SOURCE).exists()
        yield Note("merge_other_files" if is_foreign else "merge_other_points", sweep=name)


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
    with Progress(len(runs), "runs", parts=len(runs)) as progress:
        for run in runs:
            progress.begin(run.name)
            new += write(args.to, home, run, project)
            progress.advance()
    here, kinds = len(runs) - new, _counts({str(status): number for status, number in unfinished.items()})
    note = Note("exported", place=home, runs=new, here=here, unfinished=unfinished.total(), kinds=kinds)
    emit(Report("export", "", notes=[note]), args)
    return 0
