"""`htbench downstream`: evaluate a run's model on multiple-choice questions and keep the figures."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.commands.counts import at_least
from harness.display import Column, aligned, document, terminal_width
from harness.errors import UsageError
from harness.export import results
from harness.export.results import CLOZE, Entry
from harness.store import Store
from harness.store.layout import cache_folder


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
    at_least(args, 1, "batch_size", *(["limit"] if args.limit is not None else []))
    store = Store(args.root)
    if args.write_task is not None:
        return _write_task(store, args.write_task, args.json)
    if args.key is None:
        raise UsageError("KEY is missing: the run, or the beginning of its key.")
    names = [name for name in (args.tasks or "").split(",") if name]
    if args.tasks is not None and not names:
        raise UsageError("--tasks names no task; for example: --tasks arc_easy,piqa.")
    record = _evaluate(store, args, names)
    print(document(_plain(record)) if args.json else _report(record))
    return 0


def _evaluate(store: Store, args: argparse.Namespace, names: list[str]) -> Mapping[str, Entry]:
    from tqdm import tqdm

    from harness.export.downstream import Options, evaluate  # imports torch

    bars: list[Any] = []

    def begin(task: str, answers: int) -> Callable[[int], Any]:
        bars.append(
            tqdm(
                total=answers,
                desc=task,
                unit="answer",
                disable=None,
                dynamic_ncols=True,
            )
        )
        return bars[-1].update  # type: ignore[no-any-return]

    options = Options(names, args.limit, args.batch_size, args.device, args.again, args.include_path)
    try:
        return evaluate(store, args.key, options, begin).downstream
    finally:
        for bar in bars:
            bar.close()


def _plain(downstream: Mapping[str, Entry]) -> dict[str, Any]:
    return {"tasks": downstream, "average_of_seven": results.average(downstream)}


def _report(downstream: Mapping[str, Entry]) -> str:
    head = ("task", "acc", "+-", "acc_norm", "+-", "questions", "scorer")
    lines = [head, *(_cells(task, entry) for task, entry in sorted(downstream.items()))]
    columns = {
        "task": Column(words=True, rank=0),
        "+-": Column(rank=2),
        "scorer": Column(words=True, least=10, rank=3),
    }
    return f"{aligned(lines, columns, terminal_width())}\n{_average(downstream)}"


def _cells(task: str, entry: Entry) -> tuple[str, ...]:
    names = ("acc", "acc_stderr", "acc_norm", "acc_norm_stderr")
    figures = [entry.get(name) for name in names]
    shown = ["" if value is None else f"{value:.4f}" for value in figures]
    first = "" if entry.get("limit") is None else "first "
    return (task, *shown, f"{first}{entry.get('questions')}", str(entry.get("scorer")))


def _average(downstream: Mapping[str, Entry]) -> str:
    found = results.average(downstream)
    if found is not None:
        return f"average of the seven accuracies: {found:.4f}"
    if not downstream.keys() & results.SEVEN.keys():
        return "+- is the standard error over questions; it says nothing about other seeds."
    return f"no average of the seven: {', '.join(results.missing(downstream))} missing"


def _write_task(store: Store, folder: Path, as_json: bool) -> int:
    from harness.export import cloze
    from harness.system.folders import make_folder

    make_folder(folder)
    questions, fingerprint = cloze.load(cache_folder(store.root))
    cloze.write_task(questions, folder)
    if as_json:
        about = {"folder": str(folder), "task": CLOZE}
        print(document({**about, "questions": len(questions), "fingerprint": fingerprint}))
        return 0
    print(f"{folder}: {CLOZE}, {len(questions)} questions, fingerprint {fingerprint}")
    print(f"lm_eval --model hf --model_args pretrained=EXPORT --tasks {CLOZE} --include_path {folder}")
    return 0
