"""A store as if sweeps of the paper's experiments in miniature had been run, search and replicas.

Nothing is trained: results follow a formula. The middle learning rate is the best, and so is p = 0.125.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from htbench.harness.config import RunConfig
from htbench.harness.store import Store, layout
from htbench.harness.store.points import Point, sweep_folder, write_points
from htbench.harness.store.record import RunRecord
from htbench.sweeps.plan.planned import Planned, by_objective, search_points
from htbench.sweeps.plan.replicas import replicas
from htbench.sweeps.spec.sweep_file import load
from tests.helpers import small_languages
from tests.helpers.records import record_of, write_run

# How much worse than HTMuon+NorMuon, in nats; of any other optimizer 0.3.
_WORSE = {"htmuon_normuon": 0.0, "htmuon": 0.05, "htmuon_ns": 0.06, "normuon": 0.15, "muon": 0.2}
_NOISE = 0.01  # standard deviation over seeds, in nats


class Miniature:
    """A store to be filled sweep by sweep; `write` puts the plans into it.

    Args:
        root: the store.
        scale: `nano` or `quick`.
    """

    def __init__(self, root: Path, scale: str = "quick") -> None:
        self.store = Store(root)
        self.scale = scale
        self.points: dict[str, list[Point]] = {}

    def add(self, experiments: Iterable[str]) -> Miniature:
        """Plan and finish the sweeps of some experiments."""
        for name in experiments:
            spec = load(small_languages.plan(self.scale, name))
            planned = search_points(spec)
            records = {one.point.key: self._finish(one, _middle(one, planned)) for one in planned}
            fresh = [one for group in by_objective(spec, planned) for one in replicas(spec, group, records)]
            for one in fresh:
                self._finish(one, _middle(one, planned))
            self.points[spec.name] = [one.point for one in (*planned, *fresh)]
        return self

    def write(self) -> Store:
        """Put the plans into the store; returns it."""
        for name, points in self.points.items():
            sweep_folder(self.store.root, name).mkdir(parents=True, exist_ok=True)
            write_points(self.store.root, name, points)
        return self.store

    def _finish(self, one: Planned, middle: float) -> RunRecord:
        record = _record(one, _metrics(one.config, _excess(one.config, middle)))
        self.write_record(record)
        return record

    def write_record(self, record: RunRecord) -> None:
        """Write a record, and a curve whose evaluations fall until they agree with it."""
        layout.begin(self.store.root)
        write_run(self.store.root, record, [*_on_the_way(record), {"step": record.steps, **record.metrics}])


def _middle(one: Planned, planned: Sequence[Planned]) -> float:
    """The middle one of a block's learning rates."""
    rates = sorted(
        float(other.config.optimizer.lr or 0) for other in planned if other.point.block == one.point.block
    )
    return rates[len(rates) // 2]


def _excess(config: RunConfig, middle: float) -> float:
    """The loss above the best one, in nats."""
    optimizer = config.optimizer
    p = float(optimizer.hyper.get("p") or 0.125)
    seeds = random.Random(f"{config.seed} {config.data_seed} {optimizer.name} {config.task} {config.model}")
    worse = _WORSE.get(optimizer.name, 0.3) + 0.1 * math.log(float(optimizer.lr or 1) / middle) ** 2
    return worse + abs(p - 0.125) + seeds.gauss(0, _NOISE)


def _metrics(config: RunConfig, excess: float) -> dict[str, float | None]:
    if config.task != "pydocs":
        accuracy = round(360 * (0.9 - 0.3 * excess)) / 360
        own = {"loss": 0.5 + excess, "accuracy": accuracy, "samples": 360}
    else:
        loss = 4 + excess
        own = {
            "loss": loss,
            "loss_biased": 0.9 * loss,
            "perplexity": math.exp(loss),
            "bits_per_byte": loss / 2,
        }
    return {f"{split}_{name}": value for split in ("val", "test") for name, value in own.items()}


def _record(one: Planned, metrics: Mapping[str, Any]) -> RunRecord:
    config, steps = one.config, one.config.steps or 60
    seconds = 0.05 if config.optimizer.name in ("htmuon", "htmuon_normuon") else 0.02
    return record_of(
        one,
        metrics=dict(metrics),
        steps=steps,
        useful_seconds=steps * seconds,
        seconds_per_step=seconds,
        environment={"code": "0123456789ab", "torch": "2.9.0", "python": "3.11.7", "cpu": "Testium 1"},
        timing={"mean": seconds, "steps": steps, "warmup": 10, "cpu": seconds},
    )


def _on_the_way(record: RunRecord) -> list[dict[str, float]]:
    """Two evaluations before the end."""
    if record.metrics.get("val_perplexity") is None:
        return []
    final = float(record.metrics["val_loss"] or 0)
    halfway = {"step": record.steps // 2, "val_perplexity": math.exp(final + 1)}
    late = {"step": record.steps * 9 // 10, "val_perplexity": math.exp(final + 0.05)}
    return [halfway, late]
