"""`htbench runs pack` and `unpack`: finished runs in archives of a thousand, where files are counted."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable, Sequence

from harness.display import memory
from harness.errors import UsageError
from harness.store import Store
from harness.upkeep import listing, packing
from harness.upkeep.packing import Done

DAY = 86400.0


def add_pack_arguments(parser: argparse.ArgumentParser) -> None:
    """--older-than, --sweep, --dry-run."""
    parser.add_argument(
        "--older-than", type=float, default=0.0, metavar="DAYS", help="only runs that ended so long ago"
    )
    parser.add_argument("--sweep", metavar="NAME", help="only runs that this sweep wants")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be packed")


def add_unpack_arguments(parser: argparse.ArgumentParser) -> None:
    """KEY ..., --sweep or --all; --dry-run."""
    parser.add_argument("keys", nargs="*", metavar="KEY", help="of runs, or how their keys begin")
    parser.add_argument("--sweep", metavar="NAME", help="the runs that this sweep wants")
    parser.add_argument("--all", action="store_true", help="all runs")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be unpacked")


def pack(args: argparse.Namespace, store: Store) -> int:
    """Carry out `runs pack`."""
    if args.older_than < 0:
        raise UsageError(f"--older-than must be a number of days, 0 or more, not {args.older_than:g}.")
    wanted = listing.keys_of(store, args.sweep)
    done = packing.pack(store, wanted, older_than=args.older_than * DAY, dry_run=args.dry_run, watch=_watched)
    print(_told("would be packed" if args.dry_run else "packed", "into", done))
    if done.left:
        print(f"left as they are: {', '.join(f'{n} {why}' for why, n in done.left.items())}")
    return 0


def unpack(args: argparse.Namespace, store: Store) -> int:
    """Carry out `runs unpack`."""
    if sum((bool(args.keys), args.sweep is not None, args.all)) != 1:
        raise UsageError("Name the runs to unpack: their keys, --sweep NAME, or --all.")
    wanted: Collection[str] | None = {store.find(word) for word in args.keys}
    if args.sweep is not None:
        wanted = listing.keys_of(store, args.sweep)
    done = packing.unpack(store, None if args.all else wanted, dry_run=args.dry_run, watch=_watched)
    print(_told("would be unpacked" if args.dry_run else "unpacked", "from", done))
    return 0


def _told(verb: str, where: str, done: Done) -> str:
    if not done.runs:
        return f"{verb}: nothing"
    number = len(done.archives)
    archives = f"{where} {number} archive{'s' * (number > 1)}"
    return f"{verb}: {len(done.runs)} runs, {done.files} files ({memory(done.size)}) {archives}"


def _watched(keys: Sequence[str]) -> Iterable[str]:
    """The keys, with a bar on a terminal."""
    from tqdm import tqdm

    bar: Iterable[str] = tqdm(keys, unit="run", disable=None, dynamic_ncols=True)
    return bar if keys else ()
