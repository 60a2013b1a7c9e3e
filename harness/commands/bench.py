"""`htbench bench`: the time of optimizers and training steps here, and how exact maps are."""

import argparse
from pathlib import Path

from harness.errors import EXIT_OK, UsageError, at_least
from harness.show.emit import emit
from harness.show.report import Report
from harness.store.layout import cache_folder
from harness.system.folders import make_folder

LEAST_ROUNDS = 6  # fewer give no 95 % interval
SUBJECTS = {
    "optimizers": "a step of each optimizer, beside muon and beside its peers",
    "train": "a training step of our language models, beside those of transformers",
    "maps": "how exact each map of the singular values is",
}


def add_bench_arguments(parser: argparse.ArgumentParser) -> None:
    """SUBJECT and how to measure it."""
    subjects = parser.add_subparsers(dest="subject", metavar="SUBJECT", required=True)
    added = {
        name: subjects.add_parser(name, help=text, description=f"Measure {text}.")
        for name, text in SUBJECTS.items()
    }

    def add(names: str, flag: str, **options: object) -> None:
        for name in names.split():
            added[name].add_argument(flag, **options)  # type: ignore[arg-type]

    number, name = {"type": int, "metavar": "N"}, {"metavar": "NAME"}
    add("optimizers", "--model", default="llama-60m", help="whose shapes (default: llama-60m)", **name)
    add("optimizers", "--vocab", help="tokens of its vocabulary (default: the model's)", **number)
    entries = {"metavar": "NAME[:key=value,...],..."}
    others = "optimizers, with settings that differ from the defaults (default: all)"
    add("optimizers", "--only", help=others, **entries)
    add("optimizers", "--against", default="muon", metavar="NAME[:...]", help="the unit (default: muon)")
    add("optimizers", "--rounds", type=int, default=9, help="paired ratios, 2 steps each (default: 9)")
    limit = "begin no round of a pair after this long, apart from one (default: 3600)"
    add("optimizers", "--limit", type=float, default=3600, metavar="SECONDS", help=limit)
    add("train", "--model", help="a llama or a gpt2 (default: three of them)", **name)
    add("train", "--batch", help="sequences (default: by model)", **number)
    precisions = ("float32", "bfloat16", "autocast")
    add("train", "--dtype", choices=precisions, default="float32", help="default: float32")
    add("train", "--compile", action="store_true", help="both models through torch.compile")
    add("optimizers train", "--device", choices=("cpu", "cuda"), default="cpu", help="default: cpu")
    threads = "default: 1, timed by CPU time; else wall clock"
    add("optimizers", "--threads", type=int, default=1, help=threads)
    add("optimizers", "--dtype", choices=precisions[:2], default="float32", help="of parameters")
    iterations = "of Newton-Schulz (default: the optimizer's)"
    add("optimizers", "--ns-dtype", choices=precisions[:2], help=iterations)
    yes = argparse.BooleanOptionalAction
    peers = "measure other implementations, as far as they are installed (default: yes)"
    add("optimizers", "--peers", action=yes, default=True, help=peers)
    add("maps", "--p", type=float, default=0.125, help="power of the singular values (default: 0.125)")
    captured = "of the run whose momentum matrices are taken; 0: none (default: 100)"
    add("maps", "--captured", type=int, default=100, metavar="STEPS", help=captured)
    add("train", "--rounds", type=int, default=9, help="paired ratios (default: 9)")
    everywhere = " ".join(SUBJECTS)
    add(everywhere, "--json", action="store_true", help="print JSON")
    # May also stand before SUBJECT, with its default there.
    add(everywhere, "--root", type=Path, default=argparse.SUPPRESS, help="folder of the stored runs")


def bench(args: argparse.Namespace) -> int:
    """Measure a subject and print it."""
    subjects = {
        "optimizers": _optimizers,
        "train": _train,
        "maps": _maps,
    }
    emit(subjects[args.subject](args), args)
    return EXIT_OK


def _optimizers(args: argparse.Namespace) -> Report:
    from harness.bench.subjects import entries, entry, parameters_of

    at_least(args, 1, "threads")
    at_least(args, LEAST_ROUNDS, "rounds")
    chosen, against = entries(args.only, args.ns_dtype), entry(args.against, args.ns_dtype)
    overrides = {} if args.vocab is None else {"vocabulary": args.vocab}
    parameters = parameters_of(args.model, overrides)

    from harness.bench import optimizers

    apart = ("subject", "root", "json", "only", "vocab")
    given = {name: value for name, value in vars(args).items() if name not in apart}
    settings = optimizers.Settings(overrides=overrides, **given)
    return optimizers.measure(settings, parameters, chosen, against)


def _train(args: argparse.Namespace) -> Report:
    at_least(args, LEAST_ROUNDS, "rounds")
    at_least(args, 1, "batch")
    from harness.bench import twin

    twin.check(args.model or "llama-nano")
    make_folder(args.root)

    from harness.bench import train

    try:
        works = train.workloads(args.model, args.batch)
    except ValueError as error:
        raise UsageError(f"The model can't be built: {error}.") from None
    precision = train.Precision(args.dtype, args.device)
    return train.measure(works, precision, args.rounds, cache_folder(args.root), args.compile)


def _maps(args: argparse.Namespace) -> Report:
    at_least(args, 0, "captured")
    if not 0 < args.p < 1:
        raise UsageError(f"--p must be a number between 0 and 1, not {args.p}.")
    make_folder(args.root)

    from harness.bench import maps

    return maps.measure(args.captured, cache_folder(args.root), args.p)
