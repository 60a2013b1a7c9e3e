"""What a run costs before it runs: work, memory, disk, and its time on named processors.

Only the simulation loads torch.
Every time has a basis in words: the data sheet, the data sheet corrected by similar runs that have finished,
or finished runs of the very class.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness import tasks
from harness.config import RunConfig
from harness.config.settings import resolve_config
from harness.cost import kept, price
from harness.cost.flops import TrainingFlops
from harness.cost.gpus import Processor, recognised
from harness.cost.memory import Memory
from harness.cost.price import DATA_SHEET, Times
from harness.cost.run_class import RunClass, run_class
from harness.cost.shapes import NotEstimatedError
from harness.display import counted
from harness.errors import UsageError
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
        note: what was assumed; empty if nothing.
        cache: the folder that it was found in, for estimates of similar runs.
    """

    config: RunConfig
    work: TrainingFlops
    memory: Memory
    states: int
    steps: int | None
    note: str
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
        kept = self.memory.weights if self.config.checkpoint.keep_weights else 0
        found = {"checkpoint": self.memory.weights + self.states, "weights": kept}
        return found | {"log": _LOG_ROW * (self.steps or 0)}


@dataclass(frozen=True)
class Offer:
    """The time of a run on a processor.

    Attributes:
        processor: what it is.
        count: of them for the run.
        times: by data sheet.
        step: seconds of a step, by `basis`.
        seconds: of all steps; evaluations and start are not in it. None if the steps are not known.
        basis: where `step` comes from, in words.
        fits: whether the tensors of a process fit into its memory; None if it has none of its own.
    """

    processor: Processor
    count: int
    times: Times
    step: float
    seconds: float | None
    basis: str
    fits: bool | None

    @property
    def gpu_hours(self) -> float | None:
        """Of all processors together."""
        return None if self.seconds is None else self.count * self.seconds / 3600


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
    found = kept.make(config, cache, where)
    whole = found
    if config.processes > 1 and config.shard_optimizer:
        whole = kept.make(replace(config, processes=1), cache, where)
    steps, states = _steps(config, cache), whole.memory.states
    return Estimate(config, found.work, found.memory, states, steps, found.note, cache)


def _steps(config: RunConfig, cache: Path) -> int | None:
    if config.steps:
        return config.steps
    try:
        size = tasks.train_size(config.task, cache, config.seq_len, **tasks.options(config.task, config))
    except UsageError:  # the data is not here
        size = None
    return config.updates(size) if size else None


def offer(found: Estimate, processor: Processor, records: Sequence[RunRecord]) -> Offer:
    """The time of a run on `config.processes` processors of one kind, which `found` was made for.

    Args:
        found: its work and memory.
        processor: its kind.
        records: finished runs, of which those on this kind of processor correct the data sheet.
    """
    config = found.config
    times = price.times(found.work, config, processor, found.memory.gradients)
    step, basis = _calibrated(found, times, processor, records)
    seconds = None if found.steps is None else found.steps * step
    fits = found.memory.peak <= processor.memory * 1e9 if processor.memory else None
    return Offer(processor, config.processes, times, step, seconds, basis, fits)


# --- finished runs know better ---


def _calibrated(
    found: Estimate, times: Times, processor: Processor, records: Sequence[RunRecord]
) -> tuple[float, str]:
    """Seconds of a step and the basis in words."""
    there = [record for record in records if _is_on(record, processor)]
    kind = _place_free(run_class(found.config))
    same = [record for record in there if _place_free(run_class(record.config)) == kind]
    if same:
        step = statistics.median(record.useful_seconds / record.steps for record in same)
        return step, f"measured by {counted(len(same), 'run')}"
    similar = [record for record in there if _is_similar(record, found.config)]
    ratios = _ratios(similar, processor, found.cache)
    if ratios:
        factor = statistics.median(ratios)
        return factor * times.step, f"{DATA_SHEET} x {factor:.2g} by {counted(len(ratios), 'similar run')}"
    return times.step, DATA_SHEET


def _is_on(record: RunRecord, processor: Processor) -> bool:
    device = str(record.environment.get("gpu") or "")
    known = recognised(device, {processor.name: processor}) if device else None
    own = record.status == "completed" and record.steps > 0 and not is_imported(record.config)
    return known is not None and own


def _place_free(kind: RunClass) -> RunClass:
    """The class without `device`: `auto` and `cuda` are the same on a GPU."""
    return replace(kind, details=tuple(pair for pair in kind.details if pair[0] != "device"))


_ALIKE = ("task", "model", "seq_len", "processes", "compile", "precision")


def _is_similar(record: RunRecord, config: RunConfig) -> bool:
    """Whether a run differs in its optimizer, batch or memory savings only."""
    other = record.config
    plain = {"precision": vars(config.precision)}
    return all(other.get(name) == plain.get(name, getattr(config, name)) for name in _ALIKE)


def _ratios(records: Sequence[RunRecord], processor: Processor, cache: Path) -> list[float]:
    """Measured time / that of the data sheet, for the latest runs, one of each class."""
    latest = list({run_class(record.config): record for record in records}.values())[-_LOOKED_AT:]
    ratios = []
    for record in latest:
        try:
            config = resolve_config(record.settings)
            other = estimate(config, cache, "cuda")
        except (NotEstimatedError, UsageError):  # of other code
            continue
        told = price.times(other.work, config, processor, other.memory.gradients).step
        ratios.append(record.useful_seconds / record.steps / told)
    return ratios
