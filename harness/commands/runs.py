"""`htbench runs`: list the runs of a store, remove leftovers, import, export to a tracker, pack."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness import tasks
from harness.commands import runs_export, runs_import, runs_pack
from harness.config import Value
from harness.config.yaml_text import read_words
from harness.display import Column, aligned, document, duration, memory, terminal_width
from harness.errors import UsageError, nearest
from harness.show.status import ENDED, Status
from harness.store import Store, listing
from harness.store.gc import garbage, remove
from harness.store.listing import STATUSES, Row
from harness.store.record import RunRecord

NEWEST = 50  # the default limit of the table; JSON has all


def add_runs_arguments(parser: argparse.ArgumentParser) -> None:
    """ls, gc, import, export, pack, unpack."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    ls = actions.add_parser("ls", help="list the finished runs, the newest first")
    ls.add_argument(
        "words", nargs="*", metavar="key=value", help="only runs with this setting: optimizer.name=muon"
    )
    ls.add_argument("--sweep", metavar="NAME", help="only runs that this sweep wants")
    ls.add_argument("--status", help=f"some of {','.join(STATUSES)}")
    ls.add_argument("--all", action="store_true", help=f"unfinished runs, too, and more than {NEWEST}")
    ls.add_argument("--limit", type=int, metavar="N", help=f"at most so many (default: {NEWEST})")
    ls.add_argument("--json", action="store_true", help="as JSON, with all settings and figures")
    gc = actions.add_parser("gc", help="remove leftovers of dead processes; results and runs at work stay")
    gc.add_argument("--dry-run", action="store_true", help="only say what would go")
    gc.add_argument(
        "--pruned", action="store_true", help="checkpoints of pruned runs, too; others then start them anew"
    )
    gc.add_argument("--orphans", action="store_true", help="unfinished runs that no sweep wants, too")
    take = actions.add_parser("import", help="take in the runs and sweeps of another store")
    runs_import.add_arguments(take)
    give = actions.add_parser("export", help="write finished runs to TensorBoard, mlflow, W&B or trackio")
    runs_export.add_arguments(give)
    pack = actions.add_parser("pack", help="put finished runs into archives: a thousand runs in one file")
    runs_pack.add_pack_arguments(pack)
    unpack = actions.add_parser("unpack", help="bring packed runs back into their folders")
    runs_pack.add_unpack_arguments(unpack)
    for action in (ls, gc, take, give, pack, unpack):  # before or after the action's name
        action.add_argument("--root", type=Path, default=argparse.SUPPRESS, help="folder of the stored runs")


def runs(args: argparse.Namespace) -> int:
    """Carry out one action."""
    actions = {
        "ls": _ls,
        "gc": _gc,
        "import": runs_import.take,
        "export": runs_export.give,
        "pack": runs_pack.pack,
        "unpack": runs_pack.unpack,
    }
    status: int = actions[args.action](args, Store(args.root))
    return status


# --- ls ---


def _ls(args: argparse.Namespace, store: Store) -> int:
    wanted = listing.filters(read_words(args.words))
    if args.limit is not None and args.limit < 1:
        raise UsageError(f"--limit must be at least 1, not {args.limit}.")
    keys = None if args.sweep is None else listing.keys_of(store, [args.sweep])
    found = listing.rows(store, _statuses(args), wanted, keys)
    limit = args.limit or (None if args.all or args.json else NEWEST)
    shown = found[:limit]
    if args.json:
        print(document([_plain(row) for row in shown]))
    elif shown:
        print(_table(shown))
    else:
        print(f"No such run in '{store.root}'.", file=sys.stderr)
    if len(found) > len(shown) and args.limit is None:
        hidden = len(found) - len(shown)
        print(
            f"htbench: {hidden} older runs are left out; `htbench runs ls --all` has them.", file=sys.stderr
        )
    return 0


def _statuses(args: argparse.Namespace) -> Sequence[Status]:
    if args.status is None:
        return STATUSES if args.all else (*ENDED, Status.DAMAGED)
    known = {str(status): status for status in STATUSES}
    for word in args.status.split(","):
        if word not in known:
            raise UsageError(f"Unknown status '{word}'; {nearest(word, known)}")
    return [known[word] for word in args.status.split(",")]


_COLUMNS = {
    "key": Column(words=True, rank=0),
    "optimizer": Column(words=True, least=8, rank=1),
    "status": Column(words=True, rank=1),
    "val": Column(words=True, rank=1),
    "lr": Column(rank=1),
    "task": Column(words=True, least=6, rank=3),
    "model": Column(words=True, least=8, rank=3),
    "age": Column(words=True, rank=5),
    "steps": Column(rank=6),
    "s/step": Column(rank=7),
    "host": Column(words=True, least=8, rank=8),
    "code": Column(words=True, rank=9),
}
_SHOWN = ("task", "model", "optimizer.name", "optimizer.lr", "steps")  # in columns of their own


def _table(rows: Sequence[Row]) -> str:
    """The runs with the settings that tell them apart: always the seed, p where there is one."""
    names = ["optimizer.p"] if any("optimizer.p" in row.settings for row in rows) else []
    names += ["seed"]
    names += [name for name in _varying(rows) if name not in (*names, *_SHOWN)]
    columns = [name.removeprefix("optimizer.") for name in names]
    head = ["key", "task", "model", "optimizer", "lr", *columns]
    head += ["status", "steps", "val", "s/step", "code", "age", "host"]
    kinds = dict.fromkeys(columns, Column(rank=2)) | _COLUMNS
    return aligned([head, *(_cells(row, names) for row in rows)], kinds, terminal_width())


def _varying(rows: Sequence[Row]) -> list[str]:
    """The settings in which runs of one task, model and optimizer differ."""
    seen: dict[tuple[Value, ...], set[str]] = {}
    for row in rows:
        group = tuple(row.settings.get(name) for name in _SHOWN[:3])
        for name, value in row.settings.items():
            seen.setdefault((*group, name), set()).add(_word(value))
    return list(dict.fromkeys(str(group[-1]) for group, values in seen.items() if len(values) > 1))


def _word(value: Value) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return ",".join(map(_word, value)) if isinstance(value, list | tuple) else str(value)


def _cells(row: Row, names: Sequence[str]) -> list[str]:
    record, config = row.record, row.settings
    reason = row.state.reason if row.state is not None else None
    return [
        row.key,
        *(_word(config.get(name, "?")) for name in _SHOWN[:4]),
        *(_word(config.get(name, "")) for name in names),
        row.status + (f" ({reason})" if reason else ""),
        "" if record is None else str(record.steps),
        "" if record is None else _metric(record),
        "" if record is None or record.seconds_per_step is None else f"{record.seconds_per_step:.3g}",
        *("" if record is None else str(record.environment.get("code", ""))[:24],),
        duration(max(1.0, time.time() - row.time)),
        _host(row),
    ]


def _metric(record: RunRecord) -> str:
    """The validation metric of the task, in words."""
    metric = tasks.recorded(str(record.config.get("task")), record.environment).metric
    value = record.metrics.get(f"val_{metric}")
    return "" if value is None else f"{metric} {value:.4g}"


def _host(row: Row) -> str:
    if row.record is not None:
        return str(row.record.environment.get("host", ""))
    return row.state.owner.host if row.state is not None and row.state.owner is not None else ""


def _reason(row: Row) -> str:
    """Why a run did not complete."""
    failure = row.state.reason if row.state is not None else None
    return str(row.reason or failure or (row.record.note if row.record is not None else ""))


def _plain(row: Row) -> dict[str, Any]:
    record = row.record
    return {
        "key": row.key,
        "status": row.status,
        "reason": _reason(row),
        "time": row.time,
        "host": _host(row),
        "code": record.environment.get("code", "") if record is not None else "",
        "steps": record.steps if record is not None else None,
        "seconds_per_step": record.seconds_per_step if record is not None else None,
        "metrics": record.metrics if record is not None else {},
        "settings": row.settings,
    }


# --- gc ---


def _gc(args: argparse.Namespace, store: Store) -> int:
    counts, sizes = Counter[str](), Counter[str]()
    for item in garbage(store, pruned=args.pruned, orphans=args.orphans):
        if not args.dry_run and not remove(store, item):
            continue
        print(f"{item.kind:10}  {memory(item.size):>12}  {item.path.relative_to(store.root)}")
        counts[item.kind] += 1
        sizes[item.kind] += item.size
    verb = "would go" if args.dry_run else "removed"
    told = ", ".join(f"{n} {kind} ({memory(sizes[kind])})" for kind, n in counts.items())
    print(f"{verb}: {told or 'nothing'}")
    return 0
