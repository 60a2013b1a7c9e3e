"""`htbench runs import`: take in the runs and sweeps of another store."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from harness.store import Store
from harness.store.record import RunRecord
from harness.system.folders import make_folder
from harness.upkeep.importing import Merged, merge


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """OTHER_ROOT [--dry-run]."""
    parser.add_argument("other", type=Path, metavar="OTHER_ROOT", help="the other store; it is only read")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be taken")


def take(args: argparse.Namespace, store: Store) -> int:
    """Merge the store `other` into this one. Exit status 0 even with conflicts: nothing has failed."""
    if not args.dry_run:
        make_folder(store.root)
    done = merge(store, args.other, dry_run=args.dry_run)
    taken = ", ".join(f"{n} {status}" for status, n in sorted(done.taken.items()))
    verb = "would import" if args.dry_run else "imported"
    print(f"{verb} {done.taken.total()} runs{f' ({taken})' if taken else ''}; {done.here} are here already")
    if done.sweeps:
        print(f"{verb} the sweeps {', '.join(done.sweeps)}; `htbench sweep index NAME` writes their studies")
    _warn(done)
    return 0


def _warn(done: Merged) -> None:
    lines = [f"conflict: run {key} {_difference(*pair)}; ours stays" for key, pair in done.conflicts.items()]
    lines += [f"left out: run {key}: {why}" for key, why in done.left.items()]
    lines += [f"refused: {name}: {why}" for name, why in done.refused.items()]
    lines += [
        f"sweep {name} has other points here, and ours stay; `htbench sweep index FILE`, with a file that "
        "has all of them, takes in the runs"
        for name in done.differing
    ]
    print("".join(f"htbench: {line}\n" for line in lines), end="", file=sys.stderr)


def _difference(ours: RunRecord, theirs: RunRecord) -> str:
    here = {"status": ours.status, "steps": ours.steps, **ours.metrics}
    there = {"status": theirs.status, "steps": theirs.steps, **theirs.metrics}
    names = [name for name in here | there if here.get(name) != there.get(name)]
    return "has " + ", ".join(f"{name}={here.get(name)} here and {there.get(name)} there" for name in names)
