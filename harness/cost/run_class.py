"""Runs that cost the same are one class, and this is what a run of a class takes. Torch-free.

The time of a run is that of its steps, of its passes over held-out data, and of everything around them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.config import RunConfig
from harness.store.record import RunRecord


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


# With the values that a record of older code, which lacks the field, stands for.
_DETAILS = {
    **dict.fromkeys(("batch_size", "seq_len", "micro_batch", "processes", "device", "threads", "compile")),
    **dict.fromkeys(("layout", "held_out_tokens", "augment", "mixup")),
    **{"protocol": "honest", "dropout": 0.0, "sync_batch_norm": False},
    **{"activation_checkpointing": False, "shard_optimizer": True},
}


def run_class(config: RunConfig | Mapping[str, Any]) -> RunClass:
    """The class of a run by its config, or by that in its record."""
    values: Mapping[str, Any] = vars(config) if isinstance(config, RunConfig) else config
    rule = _plain(values.get("optimizer"))
    details = {name: values.get(name, default) for name, default in _DETAILS.items()}
    details |= _plain(values.get("precision"))
    work = {name: value for name, value in rule.get("hyper", {}).items() if isinstance(value, int | str)}
    details |= {f"optimizer.{name}": value for name, value in work.items()}
    return RunClass(values["task"], values.get("model", ""), rule.get("name", ""), tuple(details.items()))


def _plain(part: Any) -> dict[str, Any]:
    """A part of a config as a dataclass, as in a record, or missing in an older one."""
    return dict(part if isinstance(part, Mapping) else vars(part)) if part is not None else {}


@dataclass(frozen=True)
class Cost:
    """What runs of a class take.

    Attributes:
        parameters: of the model.
        step: seconds of one update, the mean over a run: some optimizers do their dear work now and then.
        evaluation: seconds of one pass over a held-out split.
        overhead_seconds: seconds before the first step and after the last evaluation.
        startup_seconds: seconds that a fresh Python takes before that; a pool has none, as its processes
            are forked.
        peak_memory: bytes, on the GPU if there is one.
        gpu: whether it is a GPU's.
        epoch_size: samples of an epoch; None if not known.
        processor: where it was seen.
        runs: how many finished runs say so; 0: it was measured.
    """

    parameters: int
    step: float
    evaluation: float
    overhead_seconds: float
    startup_seconds: float
    peak_memory: int
    gpu: bool
    epoch_size: float | None
    processor: str
    runs: int = 0

    def steps(self, config: RunConfig) -> int | None:
        """The updates of a run; None if nothing tells the size of an epoch."""
        return config.steps if self.epoch_size is None else config.updates(self.epoch_size)

    def seconds(self, config: RunConfig, steps: int) -> float:
        """How long a run takes from its first action to its record."""
        return self.overhead_seconds + steps * self.step + passes(vars(config), steps) * self.evaluation


def passes(config: Mapping[str, Any], steps: int) -> int:
    """How often a run goes over held-out data: both splits at the end, validation now and then before."""
    evaluation = _plain(config.get("evaluation"))
    every = evaluation.get("every", 0)
    return 2 + bool(evaluation.get("untrained")) + ((steps - 1) // every if every else 0)


def processor(record: RunRecord) -> str:
    """What a run computed on."""
    return str(record.environment.get("gpu") or record.environment.get("cpu") or "?")
