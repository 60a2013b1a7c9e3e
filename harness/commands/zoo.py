"""`htbench zoo`, `models` and `tasks`: the registries of optimizers, models and tasks.

Also which rule an optimizer applies to each parameter of a model, and whether it does all that training
expects.
"""

import argparse
import sys

from htbench.harness.bench import conversions
from htbench.harness.bench import zoo as reports
from htbench.harness.config import parts
from htbench.harness.config.yaml_text import read_words
from htbench.harness.errors import EXIT_OK, EXIT_RUN_FAILED, UsageError
from htbench.harness.show.emit import emit


def add_zoo_arguments(parser: argparse.ArgumentParser) -> None:
    """[NAME], --json, --routing, --check and --convert."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="the hyperparameters of this optimizer")
    parser.add_argument("--json", action="store_true", help="as JSON, with types and allowed ranges")
    parser.add_argument(
        "--check",
        nargs="+",
        metavar=("OPTIMIZER", "key=value"),
        help="whether it does what training expects, and how far it moves weights: mypkg.opt:MyOpt beta=0.9",
    )
    parser.add_argument(
        "--routing",
        nargs="+",
        metavar=("MODEL OPTIMIZER", "key=value"),
        help="show which rule each parameter of a model gets, for example: llama-60m muon routing=hidden",
    )
    parser.add_argument(
        "--convert",
        nargs="+",
        metavar=("OPTIMIZER", "key=value"),
        help="the settings of --to that make the same steps, for example: torch.optim:Muon lr=0.02 --to muon",
    )
    parser.add_argument("--to", metavar="OPTIMIZER", help="ours for --convert, or a class of another package")
    parser.add_argument(
        "--model", metavar="NAME", help="give each matrix of this model its rate in --convert"
    )


def zoo(args: argparse.Namespace) -> int:
    """Print all optimizers or the hyperparameters of one, how one divides a model, or what one does."""
    if args.check:
        parts.allow(args.check[:1])
        report = reports.check(args.check[0], read_words(args.check[1:]))
        emit(report, args)
        return EXIT_RUN_FAILED if reports.list_faults(report) else EXIT_OK
    if bool(args.convert) != bool(args.to):
        raise UsageError(
            "--convert and --to go together, such as --convert torch.optim:Muon lr=0.02 --to muon."
        )
    if args.model and not args.convert:
        raise UsageError(f"--model {args.model} goes with --convert, whose rates it gives by shape.")
    if args.convert:
        emit(conversions.convert(args.convert, args.to, args.model), args)
    elif args.routing:
        parts.allow(args.routing[:2])
        report, warning = reports.routing(args.routing)
        emit(report, args)
        if warning:
            print(warning, file=sys.stderr)  # in the words of a run
    else:
        parts.allow(filter(None, [args.name]))
        emit(reports.zoo(args.name), args)
    return EXIT_OK


def add_models_arguments(parser: argparse.ArgumentParser) -> None:
    """--json."""
    parser.add_argument("--json", action="store_true", help="as JSON")


def models(args: argparse.Namespace) -> int:
    """Print every model with its exact number of trainable parameters.

    They are counted with its own settings; a task may bring another vocabulary.
    """
    emit(reports.sizes(), args)
    return EXIT_OK


def add_tasks_arguments(parser: argparse.ArgumentParser) -> None:
    """--json."""
    parser.add_argument("--json", action="store_true", help="as JSON, with the command that fetches the data")


def tasks(args: argparse.Namespace) -> int:
    """Print every task with its data and its metric, and whether the data must be fetched first."""
    emit(reports.tasks(), args)
    return EXIT_OK
