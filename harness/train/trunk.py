"""Trunks: the state of a run before its cooldown, from which runs of other lengths go on.

Runs with the schedule `wsd` or `power`, equal in all but their length and their cooldown, and with a warm-up
in steps, are equal up to the first cooldown. With `checkpoint.trunk` each of them keeps its state there, and
a run that starts goes on from the longest trunk that it finds. Nobody waits for a trunk, and no number
depends on it: a run without one starts at step 0. `htbench runs gc` removes what no planned run needs.
"""

import dataclasses
import hashlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from harness.config import RunConfig
from harness.config.schema import AverageConfig
from harness.store.curve import covers, read
from harness.store.layout import trunks_folder
from harness.store.run_folder import RunFolder
from harness.system import atomic, environment
from harness.system.links import OwnFile
from harness.train import checkpoint, schedule
from harness.train.divergence import Divergence
from harness.train.progress import Progress

log = logging.getLogger("htbench")

# What may differ: the length and the cooldown, and what changes no number and no row of the curve.
_FREE, _FREE_OF_SCHEDULE = (
    ("steps", "epochs", "checkpoint", "spectra", "log_every", "device"),
    ("decay", "floor"),
)
# What decides the last digits, besides settings.
_MACHINE = ("torch", "numpy", "cpu", "device", "gpu", "cuda", "world_size")


def branch(config: RunConfig, total: int) -> int:
    """The last step before the cooldown of a run of `total` steps; 0: it shares no trunk."""
    rule, spectra = config.schedule, config.spectra
    alike = rule.name in ("wsd", "power") and not 0 < rule.warmup < 1 and not rule.hyper
    alike = alike and not any("schedule" in group for group in config.optimizer.groups.values())
    alike = alike and config.average == AverageConfig()  # a mean over a part of the run
    # Measurements on the way, at steps that may depend on the length, would be missing.
    shares = config.checkpoint.trunk and alike and not (spectra.every or spectra.updates)
    return max(0, schedule.cooldown(rule.decay, total)) if shares else 0


def digest(config: RunConfig, device: str, processes: int) -> str:
    """Twelve hex digits of all that decides the bits of the state before the cooldown, but for the step."""
    told = {name: value for name, value in dataclasses.asdict(config).items() if name not in _FREE}
    told["schedule"] = {n: value for n, value in told["schedule"].items() if n not in _FREE_OF_SCHEDULE}
    machine = environment.describe(device, config.data_fingerprint, processes)
    told["machine"] = {name: machine.get(name) for name in _MACHINE}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]


def keep(
    root: Path, name: str, files: RunFolder, loop: Progress, model: torch.nn.Module, optimizer: dict[str, Any]
) -> None:
    """Keep the state of a run and its curve so far, unless somebody has kept that of an equal one.

    Args:
        root: of the store.
        name: as `digest` gives it.
        files: of the run; its curve is on the disk.
        loop, model, optimizer: the state, as `checkpoint.save` takes it.
    """
    if any(step == loop.step for step, _ in _found(root, name)):
        return
    path = OwnFile(trunks_folder(root), f"{name}-{loop.step}-{files.path.name}.pt")
    rows = [row for row in read(files.metrics) if row["step"] <= loop.step]
    try:
        path.parent.mkdir(exist_ok=True)
        atomic.remove_temporaries(path.parent, path.name)  # of this run's own processes that have died
        state = dataclasses.asdict(loop) | {"kept": {"name": name, "rows": rows}}
        checkpoint.save(path, state, model, optimizer)
    except OSError as error:
        log.warning("no trunk is kept: %s", error)


def adopt(root: Path, name: str, files: RunFolder, most: int, total: int, config: RunConfig) -> None:
    """Give a run without a checkpoint that of the longest trunk, with its curve, as if the run had made them.

    Args:
        root, name: as in `keep`.
        files: of the run.
        most: the step of its own trunk; a longer one is of no use.
        total: its steps.
        config: its config.
    """
    if files.checkpoint.exists():
        return
    for step, path in sorted(_found(root, name), reverse=True):
        if step > most:
            continue
        try:
            state = checkpoint.load(path)
            kept, run = state["loop"].pop("kept"), path.stem.rpartition("-")[2]
            progress = Progress.of_plain(state["loop"])
            if kept["name"] != name or progress.step != step or not covers(kept["rows"], step):
                raise ValueError("it is of another run")
            progress.divergence = _judged(kept["rows"], config, total)
        except (checkpoint.UnusableCheckpointError, OSError, TypeError, KeyError, ValueError) as error:
            log.warning("the trunk %s can't be used: %s", path.name, error)
            continue
        progress.trunk = {"run": run, "steps": step, "seconds": progress.seconds}
        # The curve first, as at every checkpoint.
        atomic.write_text(files.metrics, "".join(json.dumps(row) + "\n" for row in kept["rows"]))
        atomic.crash_point("trunk.adopted")
        checkpoint.write(files.checkpoint, state | {"loop": dataclasses.asdict(progress)})
        log.info("going on from the trunk that run %s has kept", run)
        return


def _judged(rows: list[dict[str, Any]], config: RunConfig, total: int) -> Divergence:
    """The state of the rule of divergence, which depends on the length of a run, after these rows.

    Raises:
        ValueError: by the rule of this run it has diverged.
    """
    state = Divergence()
    for loss in (row["loss"] for row in rows if "loss" in row):
        diverged = state.observe(loss, config.divergence, total)
        if diverged:
            raise ValueError(f"with {total} steps the run has diverged before")
    return state


def _found(root: Path, name: str) -> Iterator[tuple[int, Path]]:
    """The trunks of this digest with their steps."""
    for path in trunks_folder(root).glob(f"{name}-*-*.pt"):
        step = path.stem.split("-")[1]
        if step.isdigit() and not path.is_symlink():
            yield int(step), path
