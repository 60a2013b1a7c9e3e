"""`htbench bench optimizers`: the time of a step of each optimizer here."""

import argparse

from htbench.harness.errors import EXIT_OK, at_least
from htbench.harness.show.emit import emit

LEAST_ROUNDS = 6  # fewer give no 95 % interval


def add_bench_arguments(parser: argparse.ArgumentParser) -> None:
    """SUBJECT, of which there is one, and how to measure it."""
    subjects = parser.add_subparsers(dest="subject", metavar="SUBJECT", required=True)
    text = "a step of each optimizer, beside muon and beside its peers"
    added = subjects.add_parser("optimizers", help=text, description=f"Measure {text}.")
    add = added.add_argument
    add("--model", default="llama-60m", metavar="NAME", help="whose shapes (default: llama-60m)")
    add("--vocab", type=int, metavar="N", help="tokens of its vocabulary (default: the model's)")
    optimizers_help = "optimizers, with settings that differ from the defaults (default: all)"
    add("--only", help=optimizers_help, metavar="NAME[:key=value,...],...")
    add("--against", default="muon", metavar="NAME[:...]", help="the unit (default: muon)")
    add("--rounds", type=int, default=9, help="paired ratios, 2 steps each (default: 9)")
    limit = "begin no round of a pair after this long, apart from one (default: 3600)"
    add("--limit", type=float, default=3600, metavar="SECONDS", help=limit)
    add("--device", choices=("cpu", "cuda"), default="cpu", help="default: cpu")
    add("--threads", type=int, default=1, help="default: 1, timed by CPU time; else wall clock")
    add("--dtype", choices=("float32", "bfloat16"), default="float32", help="of parameters")
    iterations = "of Newton-Schulz (default: the optimizer's)"
    add("--ns-dtype", choices=("float32", "bfloat16"), help=iterations)
    peers = "measure other implementations, as far as they are installed (default: yes)"
    add("--peers", action=argparse.BooleanOptionalAction, default=True, help=peers)
    add("--json", action="store_true", help="print JSON")


def bench(args: argparse.Namespace) -> int:
    """Measure optimizers and print them."""
    from htbench.harness.bench.subjects import count_parameters, entries, entry

    at_least(args, 1, "threads")
    at_least(args, LEAST_ROUNDS, "rounds")
    chosen, against = entries(args.only, args.ns_dtype), entry(args.against, args.ns_dtype)
    overrides = {} if args.vocab is None else {"vocabulary": args.vocab}
    parameters = count_parameters(args.model, overrides)

    from htbench.harness.bench import optimizers

    apart = ("subject", "root", "json", "only", "vocab")
    options = {name: value for name, value in vars(args).items() if name not in apart}
    settings = optimizers.Settings(overrides=overrides, **options)
    emit(optimizers.measure(settings, parameters, chosen, against), args)
    return EXIT_OK
