"""`htbench cost`: what a run costs, before it runs and without its data."""

import argparse
from pathlib import Path

from harness import tasks
from harness.commands.run import given_settings
from harness.config.settings import resolve_config
from harness.cost import estimate as costs
from harness.cost import gpus
from harness.cost.estimate import Offer, RunCost
from harness.cost.gpus import GPU_FLAGS
from harness.cost.shapes import NotEstimatedError
from harness.errors import UsageError, at_least
from harness.show.emit import emit
from harness.show.note import Note
from harness.show.report import Column, Report, table
from harness.store import Store
from harness.store.layout import cache_folder

_COLUMNS = (
    Column("gpu", kind="text"),
    Column("step", "ms/step", unit="ms", importance=8),
    Column("optimizer_percent", "optimizer's %", digits=1, importance=6),
    Column("run", "a run", unit="s", importance=8),
    Column("gpu_hours", "of GPUs", unit="GPU", importance=8),
    Column("fits", kind="text", importance=8),
    Column("basis", kind="text", least=12, importance=4),
)


def add_cost_arguments(parser: argparse.ArgumentParser) -> None:
    """CONFIG, overrides and processors."""
    parser.add_argument(
        "words", nargs="*", metavar="CONFIG | key=value", help="a YAML file and settings over it"
    )
    for flag, options in GPU_FLAGS.items():
        parser.add_argument(flag, **options)
    parser.add_argument("--gpus-per-run", type=int, metavar="N", help="data-parallel (default: processes)")
    parser.add_argument("--json", action="store_true", help="as JSON, in seconds and bytes")


def cost(args: argparse.Namespace) -> int:
    """Print the card of one run.

    Raises:
        UsageError: a bad config or processor, or a run whose cost can't be told.
    """
    named = gpus.named(args.gpu, gpus.known(args.root, args.gpus))
    settings = given_settings(args.words, "tells its cost", "plan")
    at_least(args, 1, "gpus_per_run")
    if args.gpus_per_run is not None:
        settings["processes"] = args.gpus_per_run
    config = resolve_config(settings | {"data_fingerprint": "-"})  # the data need not be here
    device = None
    if named and config.device == "auto":
        device = "cpu" if all(processor.cpu for processor in named) else "cuda"
    store, cache = Store(args.root), cache_folder(args.root)
    try:
        estimate = costs.estimate(config, cache, device)
    except NotEstimatedError as error:
        raise UsageError(f"The cost of this run can't be told: {error}.") from None
    records = [record for _, record in store.index.rows().values()] if named else []
    offers = [costs.offer(estimate, processor, records) for processor in named]
    emit(report(RunCost.of(estimate, offers, _data_bytes(config.task, cache)), config.epochs), args)
    return 0


def _data_bytes(task: str, cache: Path) -> int | None:
    """Of the prepared data set, if it is there."""
    try:
        folder = cache / f"{task}-{tasks.fingerprint(task)}"
    except UsageError:
        return None
    return sum(file.stat().st_size for file in folder.iterdir()) if folder.is_dir() else None


def report(facts: RunCost, epochs: float | None) -> Report:
    """The card of a run.

    Args:
        facts: its cost.
        epochs: that it lasts; None: it has a number of steps.
    """
    share, total, memory = facts.optimizer_share, facts.total_flops, vars(facts.memory)
    flops = {"model": facts.flops_per_step, "optimizer": facts.optimizer_flops_per_step}
    matrix, others = facts.matrix_parameters, facts.parameters - facts.matrix_parameters
    several = facts.processes if facts.processes > 1 else 0
    unit = "images" if facts.tokens is None else "tokens"
    notes = [
        Note("cost_parameters", all=facts.parameters, matrix=matrix, others=others),
        Note("cost_epochs", epochs=epochs)
        if facts.steps is None
        else Note("cost_length", steps=facts.steps, samples=getattr(facts, unit), unit=unit),
        Note("cost_operations", **flops, share=share, total=total),
        Note("cost_memory", processes=several, **memory),
        Note("cost_disk", **vars(facts.disk)),
        *([] if facts.disk.data else [Note("cost_no_data")]),
        *([facts.note] if isinstance(facts.note, Note) else []),
        Note("cost_basis"),
        *([] if facts.offers else [Note("cost_no_times")]),
    ]
    processes = f", {several} processes" if several else ""
    title = f"{facts.task}, {facts.model}, {facts.optimizer}{processes}"
    return Report("cost", title, [table(_COLUMNS, map(_row, facts.offers), above=notes)], data=facts)


def _row(offer: Offer) -> list[object]:
    share, fits = 100 * offer.optimizer_share, {None: "-", True: "yes", False: "NO"}[offer.fits]
    step = 1000 * offer.seconds_per_step
    return [offer.label, step, share, offer.seconds, offer.gpu_hours, fits, offer.basis]
