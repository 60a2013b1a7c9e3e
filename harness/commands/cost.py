"""`htbench cost`: what a run costs, before it runs and without its data."""

from __future__ import annotations

import argparse
import dataclasses
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness import display, tasks
from harness.commands import one_run
from harness.config import RunConfig
from harness.config.settings import resolve_config
from harness.cost import estimate as costs
from harness.cost import gpus
from harness.cost.estimate import Estimate, Offer
from harness.cost.gpus import GPU_FLAGS
from harness.cost.shapes import NotEstimatedError
from harness.display import Column
from harness.errors import UsageError
from harness.store import Store
from harness.store.layout import cache_folder

_WIDTH = 80  # of the card's lines, at most
_COLUMNS = {
    "gpu": Column(words=True, rank=0),
    "optimizer's": Column(rank=3),
    "fits": Column(words=True, rank=1),
    "basis": Column(words=True, least=12, rank=4),
}


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
    config = _config(args)
    store = Store(args.root)
    try:
        found = costs.estimate(config, cache_folder(args.root), _device(config, named))
    except NotEstimatedError as error:
        raise UsageError(f"The cost of this run can't be told: {error}.") from None
    records = [record for _, record in store.index.rows().values()] if named else []
    offers = [costs.offer(found, one, records) for one in named]
    data = _data_bytes(config, cache_folder(args.root))
    if args.json:
        print(display.document(_plain(found, offers, data)))
    else:
        print(_card(found, offers, data))
    return 0


def _config(args: argparse.Namespace) -> RunConfig:
    settings = one_run.settings(args.words, "`htbench sweep plan {file}` tells its cost")
    if args.gpus_per_run is not None:
        if args.gpus_per_run < 1:
            raise UsageError(f"--gpus-per-run must be at least 1, not {args.gpus_per_run}.")
        settings["processes"] = args.gpus_per_run
    return resolve_config(settings | {"data_fingerprint": "-"})  # the data need not be here


def _device(config: RunConfig, named: Sequence[gpus.Processor]) -> str | None:
    if named and config.device == "auto":
        return "cpu" if all(one.cpu for one in named) else "cuda"
    return None


def _data_bytes(config: RunConfig, cache: Path) -> int | None:
    """Of the prepared data set, if it is there."""
    try:
        folder = cache / f"{config.task}-{tasks.fingerprint(config.task)}"
    except UsageError:
        return None
    return sum(one.stat().st_size for one in folder.iterdir()) if folder.is_dir() else None


# --- as JSON ---


def _plain(found: Estimate, offers: Sequence[Offer], data: int | None) -> dict[str, Any]:
    config, work, steps = found.config, found.work, found.steps
    return {
        "task": config.task,
        "model": config.model,
        "optimizer": config.optimizer.name,
        "processes": config.processes,
        "basis": "counted on tensors without memory",
        "note": str(found.note or ""),
        "parameters": work.parameters,
        "matrix_parameters": work.matrix,
        "steps": steps,
        tasks.spec(config.task).unit: found.samples,
        "flops_per_step": found.training,
        "optimizer_flops_per_step": work.optimizer,
        "total_flops": None if steps is None else steps * work.per_step,
        "optimizer_share": work.optimizer / work.per_step,
        "memory": dataclasses.asdict(found.memory) | {"peak": found.memory.peak},
        "disk": found.disk | {"data": data},
        "offers": [_offer(one) for one in offers],
    }


def _offer(one: Offer) -> dict[str, Any]:
    return {
        "gpu": one.processor.name,
        "count": one.count,
        "seconds_per_step": one.step,
        "seconds": one.seconds,
        "gpu_hours": one.gpu_hours,
        "basis": str(one.basis),
        "fits": one.fits,
        "data_sheet": dataclasses.asdict(one.times) | {"step": one.times.step},
        "source": one.processor.source,
    }


# --- as a card ---


def _card(found: Estimate, offers: Sequence[Offer], data: int | None) -> str:
    config = found.config
    on = f", {config.processes} processes" if config.processes > 1 else ""
    head = f"{config.task}, {config.model}, {config.optimizer.name}{on}"
    lines = [
        ("parameters", _parameters(found)),
        ("length", _length(found)),
        ("operations", _operations(found)),
        ("memory", _memory(found)),
        ("disk", _disk(found, data)),
    ]
    width = min(_WIDTH, display.terminal_width() or _WIDTH)
    rows = [
        textwrap.fill(text, width, initial_indent=f"  {name:12}", subsequent_indent=14 * " ")
        for name, text in lines
    ]
    notes = [f"  note: {found.note}"] if found.note else []
    basis = "  basis: operations and bytes counted on tensors without memory; times see below"
    table = [display.aligned(_table(offers), _COLUMNS, display.terminal_width())] if offers else []
    at_cost = [] if offers else ["  times: name processors by --gpu"]
    return "\n".join([head, *rows, *notes, basis, *at_cost, *table])


def _parameters(found: Estimate) -> str:
    count, matrix = found.work.parameters, found.work.matrix
    return f"{count:,}: {matrix:,} in matrices of the rule, {count - matrix:,} others"


def _length(found: Estimate) -> str:
    if found.steps is None or found.samples is None:
        return f"{found.config.epochs:g} epochs of data that are not prepared here"
    return f"{found.steps:,} steps, {display.count(found.samples)} {tasks.spec(found.config.task).unit}"


def _operations(found: Estimate) -> str:
    work, steps = found.work, found.steps
    share = work.optimizer / work.per_step
    whole = f", {flops(steps * work.per_step)} in all" if steps else ""
    return (
        f"{flops(found.training)} a step for the model, {flops(work.optimizer)} for the optimizer "
        f"({share:.1%}){whole}"
    )


def flops(number: float) -> str:
    """A number of operations: `3.3 TFLOP`, `120 PFLOP`."""
    for unit, size in (("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9)):
        if number >= size:
            return f"{number / size:.3g} {unit}FLOP"
    return f"{number / 1e6:.3g} MFLOP"


def _memory(found: Estimate) -> str:
    memory = found.memory
    parts = ("weights", "gradients", "states", "activations", "logits", "workspace")
    said = ", ".join(f"{name} {display.memory(getattr(memory, name))}" for name in parts)
    each = " in each process" if found.config.processes > 1 else ""
    return f"{display.memory(memory.peak)} of tensors at the peak{each} ({said})"


def _disk(found: Estimate, data: int | None) -> str:
    said = [f"{name} {display.memory(size)}" for name, size in found.disk.items() if size]
    return ", ".join([*said, f"prepared data {display.memory(data) if data else 'not here'}"])


def _table(offers: Sequence[Offer]) -> list[list[object]]:
    rows: list[list[object]] = [["gpu", "a step", "optimizer's", "a run", "GPU-hours", "fits", "basis"]]
    for one in offers:
        fits = {None: "-", True: "yes", False: "NO"}[one.fits]
        hours = "-" if one.gpu_hours is None else f"{one.gpu_hours:.3g}"
        share = f"{one.times.optimizer / one.times.step:.1%}"
        name = f"{one.count} x {one.processor.name}" if one.count > 1 else one.processor.name
        times = [display.duration(one.step), share, display.duration(one.seconds), hours]
        rows.append([name, *times, fits, one.basis])
    return rows
