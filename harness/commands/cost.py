"""`htbench cost`: what a run costs, before it runs and without its data."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from harness import tasks
from harness.commands.run import given_settings
from harness.config.settings import resolve_config
from harness.cost import estimate as costs
from harness.cost import gpus
from harness.cost.estimate import Estimate, Offer
from harness.cost.gpus import GPU_FLAGS
from harness.cost.shapes import NotEstimatedError
from harness.errors import UsageError
from harness.show.emit import emit
from harness.show.note import Note
from harness.show.numbers import plain
from harness.show.report import Column, Report, table
from harness.store import Store
from harness.store.layout import cache_folder

_COLUMNS = (
    Column("gpu", kind="text"),
    Column("step", "a step", unit="s", importance=8),
    Column("optimizer_percent", "optimizer's %", digits=1, importance=6),
    Column("run", "a run", unit="s", importance=8),
    Column("gpu_hours", "GPU-hours", unit="h", importance=8),
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
    settings = given_settings(args.words, "`htbench sweep plan {file}` tells its cost")
    if args.gpus_per_run is not None:
        if args.gpus_per_run < 1:
            raise UsageError(f"--gpus-per-run must be at least 1, not {args.gpus_per_run}.")
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
    emit(report(estimate, offers, _data_bytes(config.task, cache)), args)
    return 0


def _data_bytes(task: str, cache: Path) -> int | None:
    """Of the prepared data set, if it is there."""
    try:
        folder = cache / f"{task}-{tasks.fingerprint(task)}"
    except UsageError:
        return None
    return sum(file.stat().st_size for file in folder.iterdir()) if folder.is_dir() else None


def report(estimate: Estimate, offers: Sequence[Offer], data: int | None) -> Report:
    """The card of a run.

    Args:
        estimate: its cost.
        offers: its time on each processor that was named.
        data: bytes of its prepared data; None: it is not here.
    """
    config, work, steps, samples = estimate.config, estimate.work, estimate.steps, estimate.samples
    unit, share = tasks.spec(config.task).unit, work.optimizer / work.per_step
    total = None if steps is None else steps * work.per_step
    memory, disk = plain(estimate.memory), estimate.disk
    facts = {
        "task": config.task,
        "model": config.model,
        "optimizer": config.optimizer.name,
        "processes": config.processes,
        "basis": "counted on tensors without memory",
        "note": str(estimate.note or ""),
        "parameters": work.parameters,
        "matrix_parameters": work.matrix,
        "steps": steps,
        unit: samples,
        "flops_per_step": estimate.training,
        "optimizer_flops_per_step": work.optimizer,
        "total_flops": total,
        "optimizer_share": share,
        "memory": memory,
        "disk": disk | {"data": data},
        "offers": [
            offer.facts()
            | {
                "data_sheet": plain(offer.times) | {"step": offer.times.step},
                "source": offer.processor.source,
            }
            for offer in offers
        ],
    }
    others = work.parameters - work.matrix
    flops = {"model": estimate.training, "optimizer": work.optimizer, "share": share, "total": total}
    notes = [
        Note("cost_parameters", all=work.parameters, matrix=work.matrix, others=others),
        Note("cost_epochs", epochs=config.epochs)
        if samples is None
        else Note("cost_length", steps=steps, samples=samples, unit=unit),
        Note("cost_operations", **flops),
        Note("cost_memory", processes=config.processes > 1 and config.processes, **memory),
        Note("cost_disk", **disk, data=data),
        *([] if data else [Note("cost_no_data")]),
        *([estimate.note] if estimate.note else []),
        Note("cost_basis"),
        *([] if offers else [Note("cost_no_times")]),
    ]
    processes = f", {config.processes} processes" if config.processes > 1 else ""
    title = f"{config.task}, {config.model}, {config.optimizer.name}{processes}"
    return Report("cost", title, [table(_COLUMNS, map(_row, offers), above=notes)], data=facts)


def _row(offer: Offer) -> list[object]:
    share = offer.times.optimizer / offer.times.step
    fits = {None: "-", True: "yes", False: "NO"}[offer.fits]
    return [offer.label, offer.step, 100 * share, offer.seconds, offer.gpu_hours, fits, offer.basis]
