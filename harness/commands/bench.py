"""`htbench bench`: what the harness costs on this machine."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from harness import environment, tasks
from harness.errors import UsageError
from harness.store import make_folder

if TYPE_CHECKING:
    from harness.bench import Figure

SUBJECTS = {"loop": "the training loop against bare PyTorch, and the start-up of a run"}
TORCH_STARTS = 3  # seconds each, and only for comparison


def add_bench_arguments(parser: argparse.ArgumentParser) -> None:
    """SUBJECT and how often to measure."""
    explained = "; ".join(f"{name}: {text}" for name, text in SUBJECTS.items())
    parser.add_argument("subject", choices=SUBJECTS, metavar="SUBJECT", help=explained)
    parser.add_argument("--rounds", type=int, default=120, help="paired ratios, 40 steps each (default: 120)")
    parser.add_argument("--starts", type=int, default=15, help="runs started from the pool (default: 15)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def bench(args: argparse.Namespace) -> int:
    """Measure and print."""
    for name in ("rounds", "starts"):
        if getattr(args, name) < 1:
            raise UsageError(f"--{name} must be at least 1, not {getattr(args, name)}.")
    # Below the root, so that it is the store's disk that runs write to.
    make_folder(args.root)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=args.root) as folder:
        figures = _loop(Path(folder), args.rounds, args.starts)
    (_print_json if args.json else _print_table)(args.subject, figures)
    return 0


def _loop(root: Path, rounds: int, starts: int) -> list[Figure]:
    from harness import bench  # imports torch

    print(f"{40 * (rounds + 1)} steps, then {starts} starts: some minutes ...", file=sys.stderr)
    stepping = bench.step_figures(bench.interleave(root, rounds))
    return stepping + bench.start_figures(bench.start_up(root, starts), bench.torch_alone(TORCH_STARTS))


def _print_json(subject: str, figures: list[Figure]) -> None:
    from harness.bench import SETTINGS, TASK

    report = {
        "subject": subject,
        "settings": SETTINGS,
        "threads": 1,
        "environment": environment.describe("cpu", tasks.fingerprint(TASK)),
        "figures": [dataclasses.asdict(figure) for figure in figures],
    }
    print(json.dumps(report, indent=1))


def _print_table(subject: str, figures: list[Figure]) -> None:
    import torch

    from harness.bench import BATCH_SIZE, MODEL, TASK

    print(f"{MODEL} on {TASK}, {BATCH_SIZE} x {tasks.spec(TASK).seq_len} tokens per step, 1 thread")
    print(f"{environment.cpu_model()}, torch {torch.__version__}\n")
    print(f"{subject:30} {'n':>4} {'median':>8}  {'95 % interval':^18}  {'unit':8} at most")
    for row in figures:
        interval = f"{row.low:8.3f} ..{row.high:8.3f}"
        target = "" if row.target is None else f"{row.target:g}"
        print(f"{row.name:30} {row.n:4} {row.median:8.3f}  {interval:18}  {row.unit:8} {target}".rstrip())
