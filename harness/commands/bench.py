"""`htbench bench`: the time of the harness and the optimizers here, and the accuracy of their maps."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import itertools
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import models
from harness import tasks
from harness.bench import report as tables
from harness.bench.progress import Progress
from harness.commands import bench_spectra, bench_train
from harness.commands.counts import LEAST_ROUNDS, at_least
from harness.display import document
from harness.errors import UsageError
from harness.store.layout import cache_folder
from harness.system import environment
from harness.system.folders import make_folder

if TYPE_CHECKING:
    from harness.bench.maps import Error
    from harness.bench.optimizers import Bench
    from harness.bench.rows import PeerRow, Row
    from harness.bench.subjects import Entry

# Has `start_up`. It lies above `harness`, so it is named by a string, as commands are in `harness/cli.py`.
START_UP = "sweeps.run.start_up"
TORCH_STARTS = 3  # seconds each, and only for comparison
SYNTHETIC = {"n": 512, "wide": 1376}  # shapes of llama-60m


def add_bench_arguments(parser: argparse.ArgumentParser) -> None:
    """SUBJECT and how to measure it."""
    subjects = parser.add_subparsers(dest="subject", metavar="SUBJECT", required=True)
    for name, (text, add, _) in SUBJECTS.items():
        subject = subjects.add_parser(name, help=text, description=f"Measure {text}.")
        add(subject)
        subject.add_argument("--json", action="store_true", help="print JSON")
        # May also stand before SUBJECT, with its default there.
        subject.add_argument("--root", type=Path, default=argparse.SUPPRESS, help="folder of the stored runs")


def bench(args: argparse.Namespace) -> int:
    """Measure and print."""
    measure: Callable[[argparse.Namespace], None] = SUBJECTS[args.subject][2]
    measure(args)
    return 0


# --- loop ---


def _add_loop(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=120, help="paired ratios, 40 steps each (default: 120)")
    parser.add_argument("--starts", type=int, default=15, help="runs started from the pool (default: 15)")


def _loop(args: argparse.Namespace) -> None:
    at_least(args, 1, "rounds", "starts")

    from harness.bench import loop

    start_up = importlib.import_module(START_UP).start_up
    make_folder(args.root)
    print(f"{40 * (args.rounds + 1)} steps, then {args.starts} starts: some minutes ...", file=sys.stderr)
    # Below the root, so that it is the store's disk that runs write to.
    with tempfile.TemporaryDirectory(prefix="bench-", dir=args.root) as folder:
        stepping = loop.step_measurements(loop.interleave(Path(folder), args.rounds))
        starting = loop.start_figures(
            start_up(Path(folder), loop.SETTINGS, args.starts), loop.torch_alone(TORCH_STARTS)
        )
    report = {
        "subject": args.subject,
        "settings": loop.SETTINGS,
        "threads": 1,
        "environment": environment.describe("cpu", tasks.fingerprint(loop.TASK)),
        "figures": [dataclasses.asdict(figure) for figure in stepping + starting],
    }
    print(document(report) if args.json else tables.loop_report(report, stepping + starting))


# --- optimizers ---


def _add_optimizers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", default="llama-60m", metavar="NAME", help="whose shapes (default: llama-60m)"
    )
    parser.add_argument(
        "--vocab", type=int, metavar="N", help="tokens of its vocabulary (default: the model's)"
    )
    parser.add_argument(
        "--only",
        metavar="NAME[:key=value,...],...",
        help="optimizers, with settings that differ from the defaults (default: all)",
    )
    parser.add_argument("--against", default="muon", metavar="NAME[:...]", help="the unit (default: muon)")
    parser.add_argument("--rounds", type=int, default=9, help="paired ratios, 2 steps each (default: 9)")
    parser.add_argument(
        "--limit",
        type=float,
        default=3600,
        metavar="SECONDS",
        help="begin no round of a pair after this long, apart from one (default: 3600)",
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default: cpu")
    parser.add_argument(
        "--threads", type=int, default=1, help="default: 1, timed by CPU time; else wall clock"
    )
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="of parameters")
    parser.add_argument(
        "--ns-dtype", choices=("float32", "bfloat16"), help="of Newton-Schulz (default: the optimizer's)"
    )
    parser.add_argument(
        "--peers",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="measure other implementations, as far as they are installed (default: yes)",
    )


def _optimizers(args: argparse.Namespace) -> None:
    from harness.bench.subjects import entries, entry

    at_least(args, 1, "threads")
    at_least(args, LEAST_ROUNDS, "rounds")
    chosen, against = entries(args.only, args.ns_dtype), entry(args.against, args.ns_dtype)
    overrides = {} if args.vocab is None else {"vocabulary": args.vocab}
    try:
        parameters = models.count_parameters(args.model, **overrides)
    except (ValueError, RuntimeError) as error:
        raise UsageError(f"The model can't be built: {error}.") from None
    bench, rows, found = _measure_optimizers(args, overrides, chosen, against)
    about = {
        **{
            name: value for name, value in vars(args).items() if name not in ("root", "json", "only", "vocab")
        },
        "overrides": overrides,
        "parameters": parameters,
        "clock": bench.clock_name,
        "peak_flops_per_second": bench.peaks(),
        "environment": environment.describe_with_cpu_flags(args.device),
    }
    if args.json:
        results = {
            "rows": list(map(dataclasses.asdict, rows)),
            "beside": list(map(dataclasses.asdict, found)),
        }
        print(document({**about, **results}))
    else:
        print(tables.optimizers_report(about, rows, found))


def _measure_optimizers(
    args: argparse.Namespace, overrides: dict[str, int], chosen: list[Entry], against: Entry
) -> tuple[Bench, list[Row], list[PeerRow]]:
    import torch

    from harness.bench.optimizers import Bench, Settings
    from harness.bench.pairs import DROPPED
    from harness.bench.peers import peers_of

    if args.device == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda needs a CUDA device, and torch sees none here.")
    dtype = getattr(torch, args.dtype)
    settings = Settings(args.model, overrides, args.device, args.threads, dtype, args.rounds, args.limit)
    with_peers = chosen if args.peers else []
    besides = sum(not peer.obstacle(one.hyper) for one in with_peers for peer in peers_of(one.name))
    rows: list[Row] = []
    found: list[PeerRow] = []
    with Progress(len(chosen) + besides, DROPPED + args.rounds, "round") as progress:
        bench = Bench(settings, progress.advance)
        for row in bench.rows(chosen, against, progress.begin):
            rows.append(row)
            progress.note(f"{row.label}: {row.ratio.median:.3f} {row.ratio.unit}")
        for one in with_peers:
            for beside in bench.beside(one, progress.begin):
                found.append(beside)
                if beside.ratio is not None:
                    progress.note(f"{one.label}: {beside.ratio.median:.3f} {beside.ratio.unit}")
    return bench, rows, found


# --- maps ---


def _add_maps(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--p", type=float, default=0.125, help="power of the singular values (default: 0.125)"
    )
    parser.add_argument(
        "--captured",
        type=int,
        default=100,
        metavar="STEPS",
        help="of the run whose momentum matrices are taken; 0: none (default: 100)",
    )


def _maps(args: argparse.Namespace) -> None:
    at_least(args, 0, "captured")
    if not 0 < args.p < 1:
        raise UsageError(f"--p must be a number between 0 and 1, not {args.p}.")
    make_folder(args.root)

    import torch

    from harness.bench import maps

    torch.set_num_threads(1)
    matrices = maps.synthetic(**SYNTHETIC)
    parts = len(matrices) + len(maps.looks(args.captured))
    with Progress(parts, len(maps.MEASURED), "map") as progress:
        errors: list[Error] = []
        for one in itertools.chain(
            maps.on_synthetic(matrices, args.p),
            maps.on_captured(args.captured, cache_folder(args.root), args.p),
        ):
            if not errors or errors[-1].matrix != one.matrix:
                progress.begin(one.matrix)
            progress.advance()
            errors.append(one)
    about = {
        "subject": args.subject,
        "p": args.p,
        "captured": {"task": maps.TASK, "model": maps.MODEL, "steps": args.captured},
        "shapes": {name: list(matrix.shape) for name, matrix in matrices.items()},
        "environment": environment.describe_with_cpu_flags("cpu", tasks.fingerprint(maps.TASK)),
    }
    if args.json:
        print(document({**about, "errors": list(map(dataclasses.asdict, errors))}))
    else:
        print(tables.maps_report(about, errors))


Subject = tuple[str, Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], None]]
SUBJECTS: dict[str, Subject] = {
    "loop": ("the training loop against bare PyTorch, and the start-up of a run", _add_loop, _loop),
    "optimizers": (
        "a step of each optimizer, beside muon and beside its peers",
        _add_optimizers,
        _optimizers,
    ),
    "train": (
        "a training step of our language models, beside those of transformers",
        bench_train.add,
        bench_train.measure,
    ),
    "maps": ("how exact each map of the singular values is", _add_maps, _maps),
    "spectra": (
        "the spectra of a model's layers, beside Gram matrices and eigenvalues alone",
        bench_spectra.add,
        bench_spectra.measure,
    ),
}
