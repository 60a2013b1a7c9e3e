"""`htbench cost`: what a run costs, before it runs and without its data."""

import argparse

from htbench.harness.commands.run import given_settings
from htbench.harness.config.settings import resolve_config
from htbench.harness.cost.estimate import RunCost, estimate
from htbench.harness.cost.shapes import NotEstimatedError
from htbench.harness.errors import UsageError
from htbench.harness.show.emit import emit
from htbench.harness.show.note import Note
from htbench.harness.show.report import Report
from htbench.harness.store import Store
from htbench.harness.system.machine import visible_gpus


def add_cost_arguments(parser: argparse.ArgumentParser) -> None:
    """CONFIG and overrides."""
    parser.add_argument(
        "words", nargs="*", metavar="CONFIG | key=value", help="a YAML file and settings over it"
    )
    parser.add_argument("--json", action="store_true", help="as JSON, in seconds and bytes")


def cost(args: argparse.Namespace) -> int:
    """Print the card of one run.

    Raises:
        UsageError: a bad config, or a run whose cost can't be told.
    """
    settings = given_settings(args.words, "tells its cost", "plan")
    config = resolve_config(settings | {"data_fingerprint": "-"})  # the data need not be here
    on_gpu = config.device == "cuda" or (config.device == "auto" and visible_gpus())
    try:
        facts = estimate(config, Store(args.root), "cuda" if on_gpu else "cpu")
    except NotEstimatedError as error:
        raise UsageError(f"The cost of this run can't be told: {error}.") from None
    emit(report(facts, config.epochs), args)
    return 0


def report(facts: RunCost, epochs: float | None) -> Report:
    """The card of a run.

    Args:
        facts: its cost.
        epochs: that it lasts; None: it has a number of steps.
    """
    several = facts.processes if facts.processes > 1 else 0
    others = facts.parameters - facts.matrix_parameters
    of_cost = vars(facts.cost) if facts.cost else {}
    about = {**of_cost, **vars(facts), "several": several, "others": others, "epochs": epochs}
    kinds = ["cost_time" if facts.cost else "cost_no_time", "cost_memory", "cost_operations"]
    kinds += ["cost_epochs" if facts.steps is None else "cost_length", "cost_parameters", "cost_basis"]
    notes = [Note(kind, **about) for kind in kinds] + ([facts.note] if isinstance(facts.note, Note) else [])
    processes = f", {several} processes" if several else ""
    title = f"{facts.task}, {facts.model}, {facts.optimizer}{processes}"
    return Report("cost", title, notes=notes, data=facts)
