"""`htbench bench spectra`: what the spectra of a model's layers cost beside the least that they can."""

from __future__ import annotations

import argparse
import dataclasses

from harness.bench import report as tables
from harness.bench.progress import Progress
from harness.commands.counts import LEAST_ROUNDS, at_least
from harness.display import document
from harness.errors import UsageError
from harness.system import environment

SETS = ("hidden", "all")


def add(parser: argparse.ArgumentParser) -> None:
    """Whose layers, and how often."""
    parser.add_argument("--model", default="llama-60m", metavar="NAME", help="default: llama-60m")
    parser.add_argument("--rounds", type=int, default=9, help="paired ratios (default: 9)")


def measure(args: argparse.Namespace) -> None:
    """Measure and print."""
    at_least(args, LEAST_ROUNDS, "rounds")

    from harness.bench import memory, spectra
    from harness.bench.pairs import DROPPED

    try:
        largest = spectra.largest(args.model)
    except ValueError as error:
        raise UsageError(f"The model can't be built: {error}.") from None
    rows = []
    with Progress(len(SETS), DROPPED + args.rounds, "round") as progress:
        for include in SETS:
            progress.begin(f"{include} layers of {args.model}")
            rows.append(spectra.measure(args.model, include, args.rounds, progress.advance))
    peaks = {method: memory.of_spectra(args.model, method) for method in spectra.METHODS}
    about = {
        "subject": args.subject,
        "model": args.model,
        "rounds": args.rounds,
        "clock": "CPU time",
        "largest_bytes": largest,
        "most_memory": spectra.MOST_MEMORY,
        "environment": environment.describe_with_cpu_flags("cpu"),
    }
    if args.json:
        found = {"rows": list(map(dataclasses.asdict, rows)), "peak_bytes": peaks}
        print(document({**about, **found}))
    else:
        print(tables.spectra_report(about, rows, peaks))
