"""`htbench runs import`: take in the runs and sweeps of another store, or results of other trainers."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.display import counted
from harness.errors import UsageError
from harness.store import Store
from harness.store.copies import Difference
from harness.store.importing import Merged, merge
from harness.store.points import SOURCE, SPEC, sweep_folder
from harness.system.folders import make_folder

_SHOWN = 10  # sentences on runs that were not taken
_OF_FILES = ("name", "runs", "map", "set", "drop", "restarts", "metric", "higher_is_better")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """OTHER_ROOT, or --curves with what tells the meaning of the files; --dry-run."""
    add = parser.add_argument
    add("other", type=Path, nargs="?", metavar="OTHER_ROOT", help="another store; it is only read")
    add("--dry-run", action="store_true", help="only say what would be taken")
    foreign = parser.add_argument_group("results of other trainers").add_argument
    foreign(
        "--curves",
        type=Path,
        nargs="+",
        action="extend",
        metavar="FILE",
        help="CSV files with a line per run and step",
    )
    foreign("--runs", type=Path, metavar="FILE", help="a CSV file with a line per run, joined to the curves")
    foreign("--name", metavar="NAME", help="of the import; tables show its runs under this name")
    foreign(
        "--map",
        nargs="+",
        action="extend",
        metavar="OURS=THEIRS",
        help="which column is ours: seconds_per_step=ms/1000",
    )
    foreign(
        "--set",
        nargs="+",
        action="extend",
        metavar="OURS=VALUE",
        help="what holds for all runs: task=fineweb",
    )
    foreign("--drop", nargs="+", action="extend", metavar="COLUMN", help="columns that are left out")
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
        if args.other is not None:
            raise UsageError(f"Give a store or --curves, not both: '{args.other}'.")
        return _foreign(args, store)
    given = [f"--{name.replace('_', '-')}" for name in _OF_FILES if getattr(args, name) is not None]
    if given:
        raise UsageError(f"{given[0]} goes with --curves FILE.")
    if args.other is None:
        raise UsageError("Name another store, or the files of another trainer by --curves.")
    return _store(args, store)


# --- results of other trainers ---


def _foreign(args: argparse.Namespace, store: Store) -> int:
    from harness.exchange import files
    from harness.exchange.assemble import assemble
    from harness.exchange.foreign_store import check_name, write
    from harness.exchange.mapping import meaning

    if not args.name:
        raise UsageError("Give the import a name: --name NAME; its runs are shown under it.")
    check_name(store.root, args.name)
    words = {name: getattr(args, name) or [] for name in ("map", "set", "drop")}
    found = files.read(
        args.curves, args.runs, meaning(words["map"], words["set"], words["drop"]), args.restarts or ""
    )
    runs, remarks = assemble(args.name, found.runs, args.metric or "", args.higher_is_better)
    _say([*found.remarks, *remarks])
    if args.dry_run:
        print("\n".join(found.meanings))
    told = {"files": found.files, **words, "restarts": args.restarts or ""}
    done = write(store, args.name, runs, told, dry_run=args.dry_run)
    _say_refused(done.refused)
    verb = "would import" if args.dry_run else "imported"
    taken = ", ".join(f"{n} {status}" for status, n in sorted(done.taken.items()) if n)
    results = len({(run.task, run.model, run.optimizer) for run in runs})
    count = f"{counted(done.taken.total(), 'run')}{f' ({taken})' if taken else ''}"
    print(f"{verb} {count} as '{args.name}'; {done.here} are here already")
    way = "higher" if runs[0].higher_is_better else "lower"
    held = f"{counted(len(runs), 'run')} of {counted(results, 'result')}"
    print(f"the files have {held}; val_{runs[0].metric}, {way} is better")
    return 0


def _say_refused(sentences: Sequence[str]) -> None:
    _say(sentences[:_SHOWN])
    if sentences:
        more = f"{len(sentences) - _SHOWN} more are left out likewise; " if len(sentences) > _SHOWN else ""
        _say([f"{more}another --name takes the file as it is now"])


def _say(remarks: Iterable[str]) -> None:
    print("".join(f"htbench: {remark}\n" for remark in remarks), end="", file=sys.stderr)


# --- another store ---


def _store(args: argparse.Namespace, store: Store) -> int:
    """Merge the store `other` into this one."""
    if not args.dry_run:
        make_folder(store.root)
    done = merge(store, args.other, dry_run=args.dry_run)
    taken = ", ".join(f"{n} {status}" for status, n in sorted(done.taken.items()))
    verb = "would import" if args.dry_run else "imported"
    count = f"{counted(done.taken.total(), 'run')}{f' ({taken})' if taken else ''}"
    print(f"{verb} {count}; {done.here} are here already")
    if done.completed:
        what = Counter(name for names in done.completed.values() for name in names)
        told = ", ".join(f"{n} {name}" for name, n in sorted(what.items()))
        verb_of = "would complete" if args.dry_run else "completed"
        print(f"{verb_of} {counted(len(done.completed), 'run')} of these by what is missing here ({told})")
    if done.sweeps:
        has_studies = any((sweep_folder(args.other, name) / SPEC).exists() for name in done.sweeps)
        hint = "; `htbench sweep index NAME` writes their studies" if has_studies else ""
        print(f"{verb} the sweeps {', '.join(done.sweeps)}{hint}")
    _warn(done, args.other)
    return 0


def _warn(done: Merged, other: Path) -> None:
    lines = [f"conflict: run {key} has {_told(what)}; ours stays" for key, what in done.conflicts.items()]
    lines += [f"left out: run {key}: {why}" for key, why in done.left.items()]
    lines += [f"refused: {name}: {why}" for name, why in done.refused.items()]
    for name in done.differing:
        takes = "`htbench sweep index FILE`, with a file that has all of them, takes in the runs"
        if (sweep_folder(other, name) / SOURCE).exists():
            takes = f"`htbench runs import --curves` with its files and --name {name} takes in the runs"
        lines.append(f"sweep {name} has other points here, and ours stay; {takes}")
    _say(lines)


def _told(what: Iterable[Difference]) -> str:
    return ", ".join(f"{one.name}={one.here} here and {one.there} there" for one in what)
