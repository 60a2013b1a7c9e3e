"""Runs that cost the same are one class, and this is what a run of a class takes. Torch-free.

The time of a run is that of its steps, of its passes over held-out data, and of everything around them.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from htbench.harness import tasks
from htbench.harness.config import RunConfig
from htbench.harness.config.settings import stored_form
from htbench.harness.errors import UsageError
from htbench.harness.store.record import RunRecord


@dataclass(frozen=True)
class RunClass:
    """What decides how long a step takes; runs that share it cost the same.

    Attributes:
        task: the task.
        model: the model.
        optimizer: the optimizer.
        details: batch size, number formats ... and those hyperparameters that are whole numbers, words or
            switches: real ones (rates, powers) change the numbers, not the work.
    """

    task: str
    model: str
    optimizer: str
    details: tuple[tuple[str, Any], ...]


_DETAILS = (
    *("batch_size", "seq_len", "micro_batch", "processes", "device", "threads", "compile", "layout"),
    *("held_out_tokens", "augment", "mixup", "protocol", "dropout", "sync_batch_norm"),
    *("activation_checkpointing", "shard_optimizer"),
)


def run_class(config: RunConfig | Mapping[str, Any]) -> RunClass:
    """The class of a run by its config, or by that in its record; one of others may lack settings."""
    values = stored_form(config) if isinstance(config, RunConfig) else config
    rule = values.get("optimizer") or {}
    details = {name: values.get(name) for name in _DETAILS} | (values.get("precision") or {})
    work = {name: value for name, value in rule.get("hyper", {}).items() if isinstance(value, int | str)}
    details |= {f"optimizer.{name}": value for name, value in work.items()}
    return RunClass(values["task"], values.get("model", ""), rule.get("name", ""), tuple(details.items()))


@dataclass(frozen=True)
class Cost:
    """What runs of a class take.

    Attributes:
        step: seconds of one update, the mean over a run: some optimizers do their dear work now and then.
        evaluation: seconds of one pass over a held-out split, with its share of all that is no step.
        startup_seconds: seconds of a fresh Python that are neither; a pool has none, as its processes are
            forked.
        peak_memory: bytes, on the GPU if there is one.
        gpu: whether it is a GPU's.
        parameters: of the model.
        processor: where it was seen.
        runs: how many finished runs say so; 0: it was measured.
    """

    step: float
    evaluation: float = 0.0
    startup_seconds: float = 0.0
    peak_memory: int = 0
    gpu: bool = False
    parameters: int = 0
    processor: str = ""
    runs: int = 0

    def seconds(self, config: RunConfig, steps: int) -> float:
        """How long a run takes from its first action to its record, without `startup_seconds`."""
        every, untrained = config.evaluation.every, config.evaluation.untrained
        return steps * self.step + passes(steps, every, untrained) * self.evaluation


@dataclass(frozen=True)
class Counted:
    """What is known of the runs of a class without a run.

    Attributes:
        parameters: numbers of the model that are trained.
        matrix_parameters: of these in matrices that the rule treats in its own way.
        flops_per_step: operations of a step for the model over all processes: forward and backward pass, and
            what is computed again.
        optimizer_flops_per_step: for the optimizer, the mean over its period, with Sophia's second pass.
        weights: bytes of parameters and buffers; this and the next three are of one process.
        gradients: bytes.
        states: bytes that the optimizer keeps from step to step; of several processes that of the one with
            most.
        peak: most bytes of tensors alive at any time.
    """

    parameters: int
    matrix_parameters: int
    flops_per_step: float
    optimizer_flops_per_step: float
    weights: int
    gradients: int
    states: int
    peak: int


def count_steps(config: RunConfig, cache: Path) -> int | None:
    """The updates of a run; None if nothing tells the size of an epoch. A program's run counts as one.

    Args:
        config: resolved.
        cache: of prepared data, which may tell that size; it need not exist.
    """
    if config.program or config.steps:
        return config.steps or 1
    with contextlib.suppress(UsageError):  # the data may not be here
        options = tasks.options(config.task, config)
        size = tasks.train_size(config.task, cache, config.seq_len, **options)
        return config.updates(size) if size else None
    return None


def passes(steps: int, every: int, untrained: bool = False) -> int:
    """How often a run goes over held-out data: both splits at the end, validation now and then before.

    Args:
        steps: of the run.
        every: steps between two evaluations; 0: there is none before the end.
        untrained: whether there is one before the first step.
    """
    return 2 + untrained + ((steps - 1) // every if every else 0)


def processor(record: RunRecord) -> str:
    """What a run computed on."""
    return str(record.environment.get("gpu") or record.environment.get("cpu") or "?")
