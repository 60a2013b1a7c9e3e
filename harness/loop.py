"""The training loop, in the order of a run's life: data, model, optimizer, resume, steps, result."""

from __future__ import annotations

import dataclasses
import logging
import math
import statistics
import time
from pathlib import Path
from typing import Any

import torch

import models
import optimizers
from harness import atomic, checkpoint, curvature, device, environment, schedule, tasks
from harness.config import RunConfig
from harness.data.task import Batch, Task
from harness.divergence import Divergence
from harness.errors import StoppedError, UsageError
from harness.metrics import MetricsFile, covers, finite, read
from harness.monitor import Monitor
from harness.record import RunRecord
from harness.store import Attempt
from optimizers.base import UpdateRule

log = logging.getLogger("htbench")


@dataclasses.dataclass
class Progress:
    """Where a run stands: plain values that go into the checkpoint.

    Attributes:
        step: updates made.
        seconds: time spent in them.
        windows: mean seconds per step of each look at the loss.
        divergence: what the divergence rule has seen.
        untrained_loss: validation loss before the first update, if asked for.
    """

    step: int = 0
    seconds: float = 0.0
    windows: list[float] = dataclasses.field(default_factory=list)
    divergence: Divergence = dataclasses.field(default_factory=Divergence)
    untrained_loss: float | None = None

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Progress:
        """The progress in a checkpoint."""
        return cls(**(value | {"divergence": Divergence(**value["divergence"])}))


class Training:
    """The parts of one run that this process owns."""

    def __init__(self, config: RunConfig, attempt: Attempt, cache: Path, monitor: Monitor) -> None:
        self.config, self.attempt, self.monitor = config, attempt, monitor
        self.device = torch.device(device.choose(config))

        # --- data ---
        if config.data_fingerprint != tasks.fingerprint(config.task):
            raise UsageError(
                f"The data of '{config.task}' has changed since run {attempt.key} was planned "
                f"(fingerprint {config.data_fingerprint}, now {tasks.fingerprint(config.task)}); "
                f"plan the sweep anew."
            )
        self.task: Task = tasks.build(
            config.task,
            cache=cache,
            batch_size=config.batch_size,
            seq_len=config.seq_len,
            data_seed=config.data_seed,
        )
        steps = (config.epochs or 0) * self.task.epoch_size / config.batch_size
        self.total = config.steps or max(1, round(steps))
        self.micro_batch = config.micro_batch or config.batch_size

        # --- model ---
        torch.set_num_threads(config.threads)
        torch.backends.cuda.matmul.allow_tf32 = config.precision.tf32
        torch.manual_seed(config.seed)
        self.model = models.build(config.model, **self.task.model_options)
        self.model.to(self.device, getattr(torch, config.precision.params))
        self.forward: torch.nn.Module = torch.compile(self.model) if config.compile else self.model  # type: ignore[assignment]
        self.autocast = torch.autocast(
            self.device.type, torch.bfloat16, enabled=config.precision.autocast != "none"
        )

        # --- optimizer ---
        rule = config.optimizer
        self.optimizer = optimizers.build(
            rule.name,
            self.model,
            lr=rule.lr,
            weight_decay=rule.weight_decay,
            routing=rule.routing,
            aux_lr=rule.aux_lr,
            **rule.hyper,
        )
        for group in self.optimizer.param_groups:
            group["initial_lr"] = group["lr"]

        # --- resume ---
        self.checkpoint_path = attempt.folder / "checkpoint.pt"
        self.metrics_path = attempt.folder / "metrics.jsonl"
        self.progress = self._resume() if self.checkpoint_path.exists() else Progress()
        self.saved_at = time.monotonic()

    def _resume(self) -> Progress:
        """Put the checkpoint back. If it or the curve is damaged, start anew: same numbers, later."""
        try:
            saved = checkpoint.load(self.checkpoint_path)
        except checkpoint.CorruptCheckpointError as error:
            log.warning("%s; starting from the first step", error)
            return Progress()
        progress = Progress.from_json(saved["loop"])
        if not covers(read(self.metrics_path), progress.step):
            log.warning("metrics.jsonl lacks steps before %d; starting from the first step", progress.step)
            return Progress()
        checkpoint.restore(saved, self.model, self.optimizer)
        log.info("going on from step %d", progress.step)
        return progress

    # --- steps ---

    def result(self) -> RunRecord:
        """Train what is left and write the record."""
        with MetricsFile(self.metrics_path, self.progress.step) as metrics:
            if self.config.evaluation.untrained and self.progress.step == 0:
                self.progress.untrained_loss = self._evaluate(0, metrics)["val_loss"]
            diverged = self._train(metrics)
            figures = {} if diverged else self._final_figures(metrics)
            metrics.flush(durable=True)
        if not math.isfinite(figures.get("val_loss", 0.0)):
            # The last update did it: no training loss has seen it.
            diverged = f"the validation loss was not finite after step {self.progress.step}"
        return self._finish(figures, diverged)

    def _train(self, metrics: MetricsFile) -> str:
        config, progress = self.config, self.progress
        # Losses stay on the device until the next look, so that a GPU is not kept waiting.
        losses: list[torch.Tensor] = []
        rates: list[float] = []
        began = time.perf_counter()

        while progress.step < self.total:
            self._set_learning_rate(progress.step)
            batch = self.task.batch(progress.step)
            self._observe_curvature(batch)
            losses.append(self._step(batch))
            rates.append(self.optimizer.param_groups[0]["lr"])
            progress.step += 1

            stop, evaluate, save = self._due()
            quiet = progress.step % config.log_every and progress.step < self.total
            if quiet and not (stop or evaluate or save):
                continue
            diverged = self._look(losses, rates, metrics, time.perf_counter() - began)
            losses, rates = [], []
            if diverged:
                return diverged
            if evaluate:
                self.monitor.report(progress.step, self._evaluate(progress.step, metrics))
            if save or stop:
                self._save(metrics)
            if stop:
                raise StoppedError(f"Run {self.attempt.key} stopped at step {progress.step} of {self.total}.")
            began = time.perf_counter()
        return ""

    def _set_learning_rate(self, step: int) -> None:
        rule = self.config.schedule
        factor = schedule.multiplier(rule.name, step, self.total, rule.warmup, rule.floor, rule.decay)
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor

    def _observe_curvature(self, batch: Batch) -> None:
        """Before the updates for which Sophia wants it, a second backward pass on the coming batch."""
        rule, step = self.optimizer, self.progress.step
        if isinstance(rule, UpdateRule) and rule.wants_curvature(step):
            curvature.observe(
                rule,
                self.task,
                self.forward,
                batch,
                seed=self.config.seed,
                step=step,
                micro_batch=self.micro_batch,
                device=self.device,
                autocast=self.autocast,
            )

    def _step(self, batch: Batch) -> torch.Tensor:
        """One update from one global batch; returns its mean loss per counted target, before the update."""
        total = torch.zeros((), device=self.device)
        for micro in batch.split(self.micro_batch):
            with self.autocast:
                loss = self.task.loss(self.forward, micro.to(self.device))
            # Divided by the count of the whole batch, so that micro-batches of unequal count weigh rightly.
            mean = loss / batch.count
            torch.autograd.backward(mean)
            total += mean.detach()
        if self.config.grad_clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.grad_clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return total

    def _due(self) -> tuple[bool, bool, bool]:
        """Whether after this step to stop, to evaluate, to save. The last step does its own."""
        step, config = self.progress.step, self.config
        if step == self.total:
            return False, False, False
        every = config.checkpoint.every_steps
        old = time.monotonic() - self.saved_at > config.checkpoint.every_seconds
        save = old or bool(every and step % every == 0)
        evaluate = bool(config.evaluation.every and step % config.evaluation.every == 0)
        return self.monitor.stop_requested, evaluate, save

    def _look(
        self, losses: list[torch.Tensor], rates: list[float], metrics: MetricsFile, seconds: float
    ) -> str:
        """Write the rows of the steps since the last look; say so if the run has diverged at one of them."""
        progress = self.progress
        first = progress.step - len(losses) + 1
        values = torch.stack(losses).tolist()
        progress.seconds += seconds
        progress.windows.append(seconds / len(losses))
        self.monitor.progress(progress.step)
        for step, loss, rate in zip(range(first, progress.step + 1), values, rates, strict=True):
            metrics.add(step, {"loss": loss, "lr": rate})
            diverged = progress.divergence.observe(loss, self.config.divergence)
            if diverged:
                progress.step = step
                return f"{diverged} at step {step}"
        metrics.flush()
        return ""

    def _save(self, metrics: MetricsFile) -> None:
        self.attempt.check()
        # Rows first: a row beyond the checkpoint is cut on resuming, a row missing before it is lost.
        metrics.flush(durable=True)
        checkpoint.save(self.checkpoint_path, dataclasses.asdict(self.progress), self.model, self.optimizer)
        self.saved_at = time.monotonic()

    # --- result ---

    def _evaluate(self, step: int, metrics: MetricsFile, split: str = "val") -> dict[str, float]:
        with self.autocast:
            figures = self.task.evaluate(self.forward, split, self.micro_batch, self.device)
        named = {f"{split}_{name}": value for name, value in figures.items()}
        metrics.add(step, named)
        return named

    def _final_figures(self, metrics: MetricsFile) -> dict[str, float]:
        metrics.flush()
        tail = [row["loss"] for row in read(self.metrics_path) if "loss" in row][-max(1, self.total // 10) :]
        figures = {"train_loss": statistics.fmean(tail)}  # over the last tenth of the run
        if self.progress.untrained_loss is not None:
            figures["untrained_val_loss"] = self.progress.untrained_loss
        for split in ("val", "test"):
            figures |= self._evaluate(self.progress.step, metrics, split)
        return figures

    def _finish(self, figures: dict[str, float], diverged: str) -> RunRecord:
        config, progress = self.config, self.progress
        if config.checkpoint.keep_weights and not diverged:
            self.attempt.check()
            _save_weights(self.attempt.folder / "weights.pt", self.model)
        record = RunRecord(
            key=self.attempt.key,
            config=dataclasses.asdict(config),
            status="diverged" if diverged else "completed",
            metrics=finite(figures),
            steps=progress.step,
            useful_seconds=progress.seconds,
            seconds_per_step=statistics.median(progress.windows) if progress.windows else None,
            peak_memory=device.peak_memory(self.device.type),
            cost={
                "parameters": sum(p.numel() for p in self.model.parameters()),
                "samples": progress.step * config.batch_size,
                "tokens": progress.step * config.batch_size * (config.seq_len or 0),
            },
            attempts=self.attempt.number,
            environment=environment.describe(self.device.type, config.data_fingerprint),
            note=diverged,
        )
        log.info("%s after %d steps: %s", record.status, record.steps, record.metrics)
        return self.attempt.finish(record)


def _save_weights(path: Path, model: torch.nn.Module) -> None:
    atomic.write_with(path, lambda file: torch.save(model.state_dict(), file))
