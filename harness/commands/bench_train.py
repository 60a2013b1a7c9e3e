"""`htbench bench train`: a training step beside that of `transformers`, its memory, and the chunked loss."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
from typing import TYPE_CHECKING

from harness import tasks
from harness.bench import report as tables
from harness.bench.progress import Progress
from harness.commands.counts import LEAST_ROUNDS, at_least
from harness.display import document
from harness.errors import UsageError
from harness.store.layout import cache_folder
from harness.system import environment
from harness.system.folders import make_folder

if TYPE_CHECKING:
    import torch

    from harness.bench.chunked import LossRow
    from harness.bench.train import TrainRow
    from harness.bench.workloads import Precision


def add(parser: argparse.ArgumentParser) -> None:
    """What is trained, how precisely, where and how often."""
    parser.add_argument("--model", metavar="NAME", help="a llama or a gpt2 (default: three of them)")
    parser.add_argument("--batch", type=int, metavar="N", help="sequences (default: by model)")
    precisions = ("float32", "bfloat16", "autocast")
    parser.add_argument("--dtype", choices=precisions, default="float32", help="default: float32")
    parser.add_argument("--compile", action="store_true", help="both models through torch.compile")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default: cpu")
    parser.add_argument("--rounds", type=int, default=9, help="paired ratios (default: 9)")


def measure(args: argparse.Namespace) -> None:
    """Measure and print."""
    at_least(args, LEAST_ROUNDS, "rounds")
    if args.batch is not None:
        at_least(args, 1, "batch")
    from harness.bench import twin

    twin.check(args.model or "llama-nano")
    make_folder(args.root)

    import torch

    from harness.bench import chunked, train, workloads
    from harness.bench.flops import clock_of
    from harness.bench.pairs import DROPPED

    if args.device == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda needs a CUDA device, and torch sees none here.")
    try:
        works = workloads.workloads(args.model, args.batch)
    except ValueError as error:
        raise UsageError(f"The model can't be built: {error}.") from None
    torch.set_num_threads(1)
    precision = workloads.Precision(args.dtype, args.device)
    rows: list[train.TrainRow] = []
    with Progress(len(works), DROPPED + args.rounds, "round") as progress:
        for work in works:
            progress.begin(work.model)
            setup = train.Setup(work, precision, cache_folder(args.root), args.compile)
            rows.append(train.measure(setup, args.rounds, progress.advance))
    peaks = {row.work.model: _peaks(row, precision, args) for row in rows}
    losses = [_loss_row(precision.params, args)] if any(map(workloads.is_large, works)) else []
    about = {
        **{
            name: value
            for name, value in vars(args).items()
            if name not in ("root", "json", "model", "batch")
        },
        "clock": clock_of(args.device, 1)[0],
        "least_speedup": train.LEAST_SPEEDUP,
        "most_loading": train.MOST_LOADING,
        "loss_shape": (chunked.ROWS, chunked.HIDDEN, chunked.WORDS),
        "transformers": importlib.metadata.version("transformers"),
        "environment": environment.describe_with_cpu_flags(args.device, tasks.fingerprint(train.TASK)),
    }
    if args.json:
        found = {
            "rows": [row.as_json() for row in rows],
            "peak_bytes": peaks,
            "losses": list(map(dataclasses.asdict, losses)),
        }
        print(document({**about, **found}))
    else:
        print(tables.train_report(about, rows, peaks, losses))


def _peaks(row: TrainRow, precision: Precision, args: argparse.Namespace) -> tuple[int, int]:
    from harness.bench import memory, train

    setup = train.Setup(row.work, precision, cache_folder(args.root), args.compile)
    return memory.of_training(setup, "ours"), memory.of_training(setup, "theirs")


def _loss_row(dtype: torch.dtype, args: argparse.Namespace) -> LossRow:
    from harness.bench import chunked, memory

    shape = (chunked.ROWS, chunked.HIDDEN, chunked.WORDS, dtype, args.device)
    return chunked.LossRow(
        str(dtype).removeprefix("torch."),
        chunked.ratio(dtype, args.device, args.rounds),
        memory.of_loss("chunked", *shape),
        memory.of_loss("plain", *shape),
    )
