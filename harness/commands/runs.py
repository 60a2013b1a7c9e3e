"""`htbench runs`: list the runs of a store, remove leftovers, import, export to a tracker."""

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from htbench.harness import tasks
from htbench.harness.commands import runs_exchange
from htbench.harness.config.yaml_text import read_words
from htbench.harness.errors import UsageError, at_least, nearest
from htbench.harness.show.emit import emit
from htbench.harness.show.note import Note
from htbench.harness.show.numbers import memory, setting
from htbench.harness.show.report import Column, Report, Section, by_columns, table
from htbench.harness.show.status import ENDED, Status
from htbench.harness.store import Store, listing, naming
from htbench.harness.store.gc import garbage, remove
from htbench.harness.store.listing import STATUSES, Row
from htbench.harness.store.points import read_points

NEWEST = 50  # the default limit of the table; JSON has all


def add_runs_arguments(parser: argparse.ArgumentParser) -> None:
    """ls, gc, import, export."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    ls = actions.add_parser("ls", help="list the finished runs, the newest first")
    ls.add_argument(
        "words",
        nargs="*",
        metavar="SWEEP | key=value",
        help="runs that this sweep wants; runs with this setting: optimizer.name=muon",
    )
    naming.add_option(ls)
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
    runs_exchange.add_import_arguments(take)
    give = actions.add_parser("export", help="write finished runs to TensorBoard or W&B")
    runs_exchange.add_export_arguments(give)


def runs(args: argparse.Namespace) -> int:
    """Carry out one action."""
    actions = {"ls": _ls, "gc": _gc, "import": runs_exchange.take, "export": runs_exchange.give}
    status: int = actions[args.action](args, Store(args.root))
    return status


# --- ls ---


def _ls(args: argparse.Namespace, store: Store) -> int:
    settings = [word for word in args.words if "=" in word]
    filters = listing.read_filters(read_words(settings))
    at_least(args, 1, "limit")
    sweep_words = [word for word in args.words if word not in settings]
    sweeps = naming.chosen(args, sweep_words, {"setting key=value": ()})
    points = [point for name in sweeps for point in read_points(store.root, name)]
    keys = {point.key for point in points if point.key} if sweeps else None
    limit = args.limit or (None if args.all or args.json else NEWEST)
    status_by_word = {str(status): status for status in STATUSES}
    statuses: Sequence[Status] = STATUSES if args.all else (*ENDED, Status.DAMAGED)
    if args.status is not None:
        if unknown := [word for word in args.status.split(",") if word not in status_by_word]:
            raise UsageError(f"Unknown status '{unknown[0]}'; {nearest(unknown[0], status_by_word)}")
        statuses = [status_by_word[word] for word in args.status.split(",")]
    rows, number = listing.rows(store, statuses, filters, keys, limit)
    sections = [_write_section(rows)] if rows and not args.json else []
    title = Note("runs_listed", runs=number, shown=len(rows) if len(rows) < number else 0)
    empty = Note("no_such_run", root=store.root, there=store.root.is_dir())
    emit(Report("runs ls", str(title) if rows else "", sections, data=rows, empty=empty), args)
    return 0


_SHOWN = ("task", "model", "optimizer.name", "optimizer.lr", "steps")  # in columns of their own


def _write_section(rows: Sequence[Row]) -> Section:
    """The runs with the settings that tell them apart: always the seed, p where there is one."""
    words_by_setting: dict[tuple[str, ...], set[str]] = {}  # within runs of one task, model and optimizer
    for row in rows:
        group = [setting(row.settings.get(name, "")) for name in _SHOWN[:3]]
        for name, value in row.settings.items():
            words_by_setting.setdefault((*group, name), set()).add(setting(value))
    varying = (name for (*_, name), words in words_by_setting.items() if len(words) > 1)
    names = [name for name in dict.fromkeys(["optimizer.p", "seed", *varying]) if name not in _SHOWN]

    def words(name: str, missing: str = "") -> list[str]:
        return [setting(row.settings.get(name, missing)) for row in rows]

    columns: dict[Column, Sequence[Any]] = {
        Column("key", kind="text"): [row.key for row in rows],
        Column("task", kind="text", least=6, importance=7): words("task", "?"),
        Column("model", kind="text", least=8, importance=7): words("model", "?"),
        Column("optimizer", kind="text", least=8, importance=9): words("optimizer.name", "?"),
        Column("lr", importance=9): words("optimizer.lr", "?"),
        **{Column(name.removeprefix("optimizer."), importance=8): words(name) for name in names},
        Column("status", kind="text", importance=9): [
            f"{row.status} ({row.reason})" if row.status is Status.FAILED else str(row.status) for row in rows
        ],
        Column("steps", importance=4): [row.steps for row in rows],
        Column("val", kind="text", importance=9): [_write_value(row) for row in rows],
        Column("ms/step", unit="ms", importance=3): [
            row.seconds_per_step and 1000 * row.seconds_per_step for row in rows
        ],
        Column("age", kind="text", unit="s", importance=5): [
            max(1.0, time.time() - row.time) for row in rows
        ],
    }
    return by_columns(columns)


def _write_value(row: Row) -> str:
    metric = tasks.recorded(str(row.settings.get("task")), row._task).metric
    value = row.metrics.get(f"val_{metric}")
    return "" if value is None else tasks.metric_figure(metric, value)


# --- gc ---

_GARBAGE = (Column("kind", kind="text"), Column("size", unit="B"), Column("path", kind="text"))


def _gc(args: argparse.Namespace, store: Store) -> int:
    items = [
        item
        for item in garbage(store, pruned=args.pruned, orphans=args.orphans)
        if args.dry_run or remove(store, item)
    ]
    counts, sizes = Counter(item.kind for item in items), Counter[str]()
    for item in items:
        sizes[item.kind] += item.size
    totals = [f"{n} {kind} ({memory(sizes[kind])})" for kind, n in counts.items()] or ["nothing"]
    rows = [[item.kind, item.size, str(item.path.relative_to(store.root))] for item in items]
    above = [Note("garbage" if args.dry_run else "garbage_removed", what=totals)]
    emit(Report("runs gc", "", [table(_GARBAGE, rows, above=above)]), args)
    return 0
