"""`htbench downstream`: evaluate a run's model on multiple-choice questions and keep the figures."""

import argparse
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from harness.errors import UsageError, at_least
from harness.export import results
from harness.export.results import CLOZE, Entry, Figures
from harness.show.emit import emit
from harness.show.note import Note
from harness.show.progress import Progress
from harness.show.report import Column, Report, table
from harness.store import Store
from harness.store.layout import cache_folder

_COLUMNS = (
    Column("task", kind="text"),
    Column("acc", "accuracy %", digits=2),
    Column("acc_stderr", "±", digits=2, importance=3),
    Column("acc_norm", "by length %", digits=2),
    Column("acc_norm_stderr", "±", digits=2, importance=3),
    Column("questions"),
    Column("scorer", kind="text", least=10, importance=2),
)


def add_downstream_arguments(parser: argparse.ArgumentParser) -> None:
    """KEY, which tasks, and how."""
    parser.add_argument("key", nargs="?", metavar="KEY", help="the run, or the beginning of its key")
    parser.add_argument(
        "--tasks",
        metavar="A,B",
        help=f"of lm-evaluation-harness, or {CLOZE} (default: {CLOZE} for runs on pydocs, else "
        f"{', '.join(results.SEVEN)})",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="the first N questions of each task only")
    parser.add_argument(
        "--batch-size", type=int, default=32, metavar="N", help="answers at once (default: 32)"
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: auto")
    parser.add_argument("--again", action="store_true", help="evaluate what the record has, too")
    parser.add_argument(
        "--include-path", type=Path, metavar="DIR", help="folder with local tasks of the harness"
    )
    parser.add_argument(
        "--write-task",
        type=Path,
        metavar="DIR",
        help=f"write {CLOZE} as a task of the harness, and do no more",
    )
    parser.add_argument("--json", action="store_true", help="as JSON, with all that the record keeps")


def downstream(args: argparse.Namespace) -> int:
    """Evaluate what is missing, and print all figures of the run."""
    at_least(args, 1, "batch_size", "limit")
    store = Store(args.root)
    if args.write_task is not None:
        emit(_write_task(store, args.write_task), args)
        return 0
    if args.key is None:
        raise UsageError("KEY is missing: the run, or the beginning of its key.")
    names = [name for name in (args.tasks or "").split(",") if name]
    if args.tasks is not None and not names:
        raise UsageError("--tasks names no task; for example: --tasks arc_easy,piqa.")

    from harness.export.downstream import Options, evaluate  # imports torch
    from harness.parallel.device import choose

    options = Options(names, args.limit, args.batch_size, choose(args.device), args.again, args.include_path)
    with contextlib.ExitStack() as stack:

        def begin(task: str, answers: int) -> Callable[[int], Any]:
            progress = stack.enter_context(Progress(answers, "answers"))
            progress.begin(task)
            return progress.advance

        entries = evaluate(store, args.key, options, begin).downstream
    emit(_report(entries), args)
    return 0


def _report(entries: Mapping[str, Entry]) -> Report:
    rows = []
    for task, entry in sorted(entries.items()):
        values: dict[str, Any] = {column.name: entry.get(column.name) for column in _COLUMNS[1:]}
        values |= {name: 100 * share for name, share in values.items() if isinstance(share, float)}
        if entry.get("limit") is not None:
            values["questions"] = f"first {entry.get('questions')}"
        rows.append([task, *values.values()])
    average = results.average(entries)
    if average is not None:
        note = Note("downstream_average", average=average)
    elif not entries.keys() & results.SEVEN.keys():
        note = Note("downstream_errors")
    else:
        note = Note("downstream_no_average", missing=results.missing(entries))
    facts = results.Evaluated(cast("dict[str, Figures]", entries), average)
    return Report("downstream", "", [table(_COLUMNS, rows, notes=[note])], data=facts)


@dataclass(frozen=True)
class Written:
    """A task that was written.

    Attributes:
        folder: where it is.
        task: its name.
        questions: written.
        fingerprint: the digest of the questions.
    """

    folder: str
    task: str
    questions: int
    fingerprint: str


def _write_task(store: Store, folder: Path) -> Report:
    from harness.export import cloze
    from harness.system.folders import make_folder

    make_folder(folder)
    questions, fingerprint = cloze.load(cache_folder(store.root))
    cloze.write_task(questions, folder)
    written = Written(str(folder), CLOZE, len(questions), fingerprint)
    notes = [Note("downstream_task", **vars(written)), Note("downstream_command", task=CLOZE, folder=folder)]
    return Report("downstream", "", notes=notes, data=written)
