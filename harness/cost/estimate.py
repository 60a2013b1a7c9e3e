"""What a run costs before it runs: work, memory, disk, and its time on named processors.

Only the simulation loads torch. Every time says its basis: the data sheet, the data sheet corrected by
similar runs that have finished, or finished runs of the very class.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

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
from harness.show.numbers import plain
from harness.store.record import RunRecord

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

    def disk(self, data: int | None) -> Disk:
        """What the run writes, and so many bytes of prepared data; None: they are not here."""
        weights = self.memory.weights
        kept_weights = weights if self.config.checkpoint.keep_weights else 0
        return Disk(weights + self.states, kept_weights, _LOG_ROW * (self.steps or 0), data)


@dataclass(frozen=True)
class Disk:
    """Bytes of the run's files.

    Attributes:
        checkpoint: bytes, while it runs.
        weights: bytes, if they are kept.
        log: bytes of the curve.
        data: bytes of the prepared data; null: not here.
    """

    checkpoint: int
    weights: int
    log: int
    data: int | None


@dataclass(frozen=True)
class Offer:
    """The time of a run on a processor.

    Attributes:
        gpu: a processor that was named.
        source: where its data sheet is.
        cpu: whether it is one core of a CPU.
        memory: bytes of one; 0: it has none of its own.
        count: of them for the run.
        data_sheet: seconds of a step by what takes them, of the data sheet; `step` is their sum.
        optimizer_share: the optimizer's part of that sum, a fraction.
        seconds_per_step: of a step, by `basis`.
        seconds: of all steps; evaluations and start are not in it. Null if the steps are not known.
        gpu_hours: of all processors together.
        basis: what the time of a step comes from.
        fits: whether the tensors of a process fit into its memory; null if it has none of its own.
    """

    gpu: str
    source: str
    cpu: bool
    memory: int
    count: int
    data_sheet: Mapping[str, float]
    optimizer_share: float
    seconds_per_step: float
    seconds: float | None
    gpu_hours: float | None
    basis: Note
    fits: bool | None

    @property
    def label(self) -> str:
        """The processors of a run: "a100-80gb", "8 x a100-80gb"."""
        return f"{self.count} x {self.gpu}" if self.count > 1 else self.gpu


@dataclass(frozen=True)
class RunCost:
    """The cost of a run as programs read it.

    Attributes:
        task, model, optimizer: of the run.
        processes: of the run.
        basis: how it was counted.
        note: what was assumed; may be empty.
        parameters: of the model.
        matrix_parameters: those in matrices of the rule.
        steps: of the run; null: nothing tells the size of an epoch.
        images, tokens: that the run sees; the one that is not the task's is null.
        flops_per_step: operations of the model.
        optimizer_flops_per_step: those of the optimizer.
        total_flops: of the whole run.
        optimizer_share: of the operations, a fraction.
        memory: of one process.
        disk: of the run's files.
        offers: its time on each processor that was named.
    """

    task: str
    model: str
    optimizer: str
    processes: int
    basis: str
    note: Note | str
    parameters: int
    matrix_parameters: int
    steps: int | None
    images: int | None
    tokens: int | None
    flops_per_step: float
    optimizer_flops_per_step: float
    total_flops: float | None
    optimizer_share: float
    memory: Memory
    disk: Disk
    offers: Sequence[Offer]

    @classmethod
    def of(cls, run: Estimate, offers: Sequence[Offer], data: int | None = None) -> RunCost:
        """Of an estimate, with its time on processors and the bytes of its prepared data."""
        work, unit = run.work, tasks.spec(run.config.task).unit
        return cls(
            task=run.config.task,
            model=run.config.model,
            optimizer=run.config.optimizer.name,
            processes=run.config.processes,
            basis="counted on tensors without memory",
            note=run.note or "",
            parameters=work.parameters,
            matrix_parameters=work.matrix,
            steps=run.steps,
            images=run.samples if unit == "images" else None,
            tokens=run.samples if unit == "tokens" else None,
            flops_per_step=run.training,
            optimizer_flops_per_step=work.optimizer,
            total_flops=None if run.steps is None else run.steps * work.per_step,
            optimizer_share=work.optimizer / work.per_step,
            memory=run.memory,
            disk=run.disk(data),
            offers=offers,
        )


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
    memory = round(processor.memory * 1e9)
    return Offer(
        gpu=processor.name,
        source=processor.source,
        cpu=processor.cpu,
        memory=memory,
        count=config.processes,
        data_sheet=plain(times) | {"step": times.step},
        optimizer_share=times.optimizer / times.step,
        seconds_per_step=step,
        seconds=seconds,
        gpu_hours=None if seconds is None else config.processes * seconds / 3600,
        basis=basis,
        fits=run.memory.peak <= memory if memory else None,
    )


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
    """Whether it is a finished run on this kind of processor."""
    device = str(record.environment.get("gpu") or "")
    trained = record.status == "completed" and record.steps > 0
    return trained and bool(device) and recognised(device, {processor.name: processor}) is not None


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
