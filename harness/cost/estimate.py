"""What a run costs before it runs: work, memory, disk, and its time on named processors.

Only the simulation loads torch. Every time says its basis: the data sheet, the data sheet corrected by
similar runs that have finished, or finished runs of the very class.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import tasks
from harness.config import RunConfig
from harness.config.settings import resolve_config
from harness.cost import kept, price
from harness.cost.gpus import Processor, recognised
from harness.cost.kept import Memory, TrainingFlops
from harness.cost.price import Times
from harness.cost.run_class import RunClass, run_class
from harness.cost.shapes import NotEstimatedError
from harness.errors import UsageError
from harness.show.note import Note
from harness.store.record import RunRecord, is_imported

_LOOKED_AT = 5  # of similar runs, one of each class: an estimate of each is made
_LOG_ROW = 64  # bytes of a row of the curve, about


@dataclass(frozen=True)
class Estimate:
    """What one run costs, wherever it runs.

    Attributes:
        config: of the run.
        work: floating point operations of a step, over all processes.
        memory: of one process.
        states: bytes of the optimizer's state, over all processes.
        steps: of the run; None if nothing tells the size of an epoch.
        note: what was assumed; None if nothing.
        cache: the folder that it was found in, for estimates of similar runs.
    """

    config: RunConfig
    work: TrainingFlops
    memory: Memory
    states: int
    steps: int | None
    note: Note | None
    cache: Path

    @property
    def training(self) -> float:
        """Operations of a step without the optimizer."""
        return self.work.per_step - self.work.optimizer

    @property
    def samples(self) -> int | None:
        """Tokens or images that the run sees."""
        length = (self.config.seq_len or tasks.spec(self.config.task).seq_len) or 1
        return None if self.steps is None else self.steps * self.config.batch_size * length

    @property
    def disk(self) -> dict[str, int]:
        """Bytes of the run's files: the checkpoint while it runs, the weights if they are kept, the curve."""
        return {
            "checkpoint": self.memory.weights + self.states,
            "weights": self.memory.weights if self.config.checkpoint.keep_weights else 0,
            "log": _LOG_ROW * (self.steps or 0),
        }


@dataclass(frozen=True)
class Offer:
    """The time of a run on a processor.

    Attributes:
        processor: what it is.
        count: of them for the run.
        times: by data sheet.
        step: seconds of a step, by `basis`.
        seconds: of all steps; evaluations and start are not in it. None if the steps are not known.
        basis: where `step` comes from.
        fits: whether the tensors of a process fit into its memory; None if it has none of its own.
    """

    processor: Processor
    count: int
    times: Times
    step: float
    seconds: float | None
    basis: Note
    fits: bool | None

    @property
    def gpu_hours(self) -> float | None:
        """Of all processors together."""
        return None if self.seconds is None else self.count * self.seconds / 3600

    @property
    def label(self) -> str:
        """The processors of a run: "a100-80gb", "8 x a100-80gb"."""
        return f"{self.count} x {self.processor.name}" if self.count > 1 else self.processor.name

    def facts(self) -> dict[str, Any]:
        """For JSON documents, which have no more of the processor than its name."""
        return {
            "gpu": self.processor.name,
            "count": self.count,
            "seconds_per_step": self.step,
            "seconds": self.seconds,
            "gpu_hours": self.gpu_hours,
            "basis": self.basis,
            "fits": self.fits,
        }


def estimate(config: RunConfig, cache: Path, device: str | None = None) -> Estimate:
    """The cost of a run.

    Args:
        config: resolved.
        cache: folder of prepared data, which may tell the size of an epoch.
        device: "cpu" or "cuda", where optimizers may work otherwise; None: the config's.

    Raises:
        NotEstimatedError: the model or the optimizer does not work on tensors without memory.
    """
    where = device or ("cuda" if config.device == "cuda" else "cpu")
    made = kept.make(config, cache, where)
    whole = made
    if config.processes > 1 and config.shard_optimizer:
        whole = kept.make(replace(config, processes=1), cache, where)
    steps = config.steps
    if not steps:
        try:
            options = tasks.options(config.task, config)
            size = tasks.train_size(config.task, cache, config.seq_len, **options)
            steps = config.updates(size) if size else None
        except UsageError:  # the data is not here
            steps = None
    sizes = [f"{name} {size}" for name, size in made.assumed.items()]
    note = Note("cost_assumed_sizes", task=config.task, sizes=sizes) if sizes else None
    return Estimate(config, made.work, made.memory, whole.memory.states, steps, note, cache)


def offer(run: Estimate, processor: Processor, records: Sequence[RunRecord]) -> Offer:
    """The time of a run on `config.processes` processors of one kind.

    Args:
        run: its work and memory.
        processor: its kind.
        records: finished runs, of which those on this kind of processor correct the data sheet.
    """
    config = run.config
    times = price.times(run.work, config, processor, run.memory.gradients)
    step, basis = _calibrated(run, times, processor, records)
    seconds = None if run.steps is None else run.steps * step
    fits = run.memory.peak <= processor.memory * 1e9 if processor.memory else None
    return Offer(processor, config.processes, times, step, seconds, basis, fits)


# --- finished runs know better ---


def _calibrated(
    run: Estimate, times: Times, processor: Processor, records: Sequence[RunRecord]
) -> tuple[float, Note]:
    """Seconds of a step and the basis."""
    there = [record for record in records if _is_on(record, processor)]
    kind = _place_free(run_class(run.config))
    same = [record for record in there if _place_free(run_class(record.config)) == kind]
    if same:
        step = statistics.median(record.useful_seconds / record.steps for record in same)
        return step, Note("cost_basis_measured", runs=len(same))
    similar = {run_class(record.config): record for record in there if _is_similar(record, run.config)}
    ratios = []  # measured time / that of the data sheet, for the latest runs, one of each class
    for record in list(similar.values())[-_LOOKED_AT:]:
        try:
            config = resolve_config(record.settings)
            other = estimate(config, run.cache, "cuda")
        except (NotEstimatedError, UsageError):  # of other code
            continue
        by_sheet = price.times(other.work, config, processor, other.memory.gradients).step
        ratios.append(record.useful_seconds / record.steps / by_sheet)
    if ratios:
        factor = statistics.median(ratios)
        return factor * times.step, Note("cost_basis_corrected", factor=factor, runs=len(ratios))
    return times.step, Note("cost_basis_data_sheet")


def _is_on(record: RunRecord, processor: Processor) -> bool:
    """Whether it is a finished run of ours on this kind of processor."""
    device = str(record.environment.get("gpu") or "")
    ours = record.status == "completed" and record.steps > 0 and not is_imported(record.config)
    return ours and bool(device) and recognised(device, {processor.name: processor}) is not None


def _place_free(kind: RunClass) -> RunClass:
    """The class without `device`: `auto` and `cuda` are the same on a GPU."""
    return replace(kind, details=tuple(pair for pair in kind.details if pair[0] != "device"))


def _is_similar(record: RunRecord, config: RunConfig) -> bool:
    """Whether a run differs in its optimizer, batch or memory savings only."""
    alike = ("task", "model", "seq_len", "processes", "compile")
    other = record.config
    return other.get("precision") == vars(config.precision) and all(
        other.get(name) == getattr(config, name) for name in alike
    )
