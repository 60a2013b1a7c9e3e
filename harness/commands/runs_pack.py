"""`htbench runs pack` and `unpack`: a thousand finished runs in one file, for sites that count files."""

from __future__ import annotations

import argparse
import sys

from harness.display import counted
from harness.errors import UsageError
from harness.show.progress import Progress
from harness.store import Store, listing, packing, unpacking
from harness.store.packing import Choice

_DAY = 86400.0


def add_pack_arguments(parser: argparse.ArgumentParser) -> None:
    """--dry-run, --older-than, --sweep."""
    add = parser.add_argument
    add("--dry-run", action="store_true", help="only say what would be packed")
    add("--older-than", type=float, default=0.0, metavar="DAYS", help="only runs that ended so long ago")
    add("--sweep", action="append", metavar="NAME", help="only runs that this sweep wants; may be repeated")


def add_unpack_arguments(parser: argparse.ArgumentParser) -> None:
    """KEY ... or --all."""
    parser.add_argument("keys", nargs="*", metavar="KEY", help="a run, or the first digits of its key")
    parser.add_argument("--all", action="store_true", help="all runs; of damaged archives what can be read")


def pack(args: argparse.Namespace, store: Store) -> int:
    """Pack what can be packed."""
    if not args.older_than >= 0:
        raise UsageError(f"--older-than takes a number of days from 0, not {args.older_than:g}.")
    keys = None if args.sweep is None else listing.keys_of(store, args.sweep)
    if not store.root.exists():
        raise UsageError(f"There are no runs in '{store.root}'; --root names another store.")
    if args.dry_run:
        choice = packing.choose(store, keys, args.older_than * _DAY)
        print(_told("would pack", len(choice.keys), choice, packing.plan(store, choice.keys)))
        return 0
    with packing.packing(store, _wait):
        choice = packing.choose(store, keys, args.older_than * _DAY)
        todo = packing.plan(store, choice.keys)
        with Progress(
            max(len(todo.runs), 1) * packing.RUNS, "runs", parts=max(len(todo.runs), 1)
        ) as progress:
            packing.pack(store, todo, progress.begin, progress.advance)
    print(_told("packed", len(choice.keys), choice, todo))
    return 0


def _told(verb: str, number: int, choice: Choice, todo: packing.Packing) -> str:
    """One line: "packed 2000 runs into 2 archives; 3 stay in their folders (2 unfinished, 1 pruned)"."""
    text = f"{verb} {counted(number, 'run')}"
    if todo.runs:
        text += f" into {counted(len(todo.runs), 'archive')}"
        old = sum(map(len, todo.runs)) + len(todo.gone) - number
        text += f", with {old} that were packed before" if old > 0 else ""
    if total := choice.left.total():
        kinds = ", ".join(f"{n} {why}" for why, n in sorted(choice.left.items()))
        text += f"; {total} stay in their folders ({kinds})"
    return text


def _wait() -> None:
    print("htbench: another process packs or unpacks this store; waiting for it", file=sys.stderr)


def unpack(args: argparse.Namespace, store: Store) -> int:
    """Bring packed runs back into their folders."""
    if bool(args.keys) == args.all:
        raise UsageError("Say which runs: their keys, or --all.")
    wanted = {store.find(word) for word in args.keys}
    if not store.packed.look().archives and not store.packed.look().damaged:
        print("unpacked 0 runs: none is packed")
        return 0
    with packing.packing(store, _wait):
        for saved in unpacking.salvage(store) if args.all else ():
            print(f"brought back {counted(saved.runs, 'run')} from the damaged archive {saved.path}")
            if saved.lost:
                print(f"{counted(saved.lost, 'run')} of it lack the record; the sweep trains them again")
        packed = store.packed.now()
        keys = set(packed.runs) if args.all else wanted
        if elsewhere := sorted(key for key in keys if key not in packed.runs):
            raise UsageError(
                f"Run {elsewhere[0]} is not packed; its files are in '{store.run_folder(elsewhere[0])}'."
            )
        parts = len({packed.runs[key].path for key in keys})
        with Progress(parts * packing.RUNS, "runs", parts=parts) as progress:
            unpacking.unpack(store, keys, progress.begin, progress.advance)
    print(f"unpacked {counted(len(keys), 'run')}")
    return 0
