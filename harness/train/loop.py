"""The training loop, in the order of a run's life: data, model, optimizer, resume, steps, result."""

from __future__ import annotations

import dataclasses
import errno
import functools
import logging
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from harness.config import RunConfig
from harness.data.task import Task
from harness.errors import PrunedError, StoppedError
from harness.parallel import device
from harness.parallel.group import ALONE, Group
from harness.show.note import Note
from harness.show.status import Status
from harness.store import Attempt
from harness.store.curve import Metrics, MetricsFile, read
from harness.store.record import RunRecord
from harness.train import checkpoint, compiling, outcome, timing
from harness.train.learner import Learner, load_task
from harness.train.monitor import Monitor
from harness.train.resume import Progress, sound_checkpoint
from harness.train.spectra import Recorder
from harness.train.timing import Moment
from optimizers import reach

log = logging.getLogger("htbench")


@dataclasses.dataclass
class Training:
    """One run in this process, which is one of `group`; the main process writes what comes out.

    Attributes:
        config: resolved.
        attempt: the right to work on the run.
        monitor: stop requests in, progress out.
        group: the processes of the run.
        task: the data and the loss.
        total: updates of the whole run.
        learner: model and optimizer.
        recorder: of spectra.
        progress: how far the run has come.
        first_step: the first step that this process makes.
        warm_from: the step from which it times its steps.
        saved_at: when it saved last, by time.monotonic().
        compiled: the file for what torch.compile makes; None if the model is not compiled.
    """

    config: RunConfig
    attempt: Attempt
    monitor: Monitor
    group: Group
    task: Task
    total: int
    learner: Learner
    recorder: Recorder
    progress: Progress = dataclasses.field(default_factory=Progress)
    first_step: int = 1
    warm_from: int = 0
    saved_at: float = dataclasses.field(default_factory=time.monotonic)
    compiled: Path | None = None

    # --- set-up ---

    @classmethod
    def start(
        cls, config: RunConfig, attempt: Attempt, cache: Path, monitor: Monitor, group: Group = ALONE
    ) -> Training:
        """Load the data, build model and optimizer, and resume from the checkpoint if there is one.

        Args:
            config: resolved.
            attempt: the right to work on the run.
            cache: folder of prepared data.
            monitor: stop requests in, progress out.
            group: the processes of the run.

        Raises:
            UsageError: there is no such device, or the data is not that of the config.
        """
        place = torch.device(device.choose(config.device, group))
        task = load_task(config, attempt.key, cache)
        total = config.updates(task.epoch_size)
        learner = Learner(config, task, total, place, group)
        recorder = Recorder(config, total)
        training = cls(config, attempt, monitor, group, task, total, learner, recorder)
        if config.compile:
            training.compiled = compiling.artifacts(config, place)
            compiling.load(training.compiled)
        training._resume()
        training._warn_if_little_is_reached()
        training.saved_at = time.monotonic()
        return training

    def _resume(self) -> None:
        """Restore the checkpoint if it can be used. Every process reads it; the main one notes the start."""
        files, learner = self.attempt.files, self.learner
        progress, saved = sound_checkpoint(files.checkpoint, files.metrics)
        if not self.group.same(progress.step):
            raise OSError(errno.ESTALE, "the processes of the run see different checkpoints")
        if saved is not None:
            try:
                checkpoint.restore(saved, learner.model, learner.shards)
                log.info("going on from step %d", progress.step)
            except checkpoint.UnusableCheckpointError as error:
                log.warning("%s; starting from the first step", error)
                progress = Progress()
                self.learner = Learner(self.config, self.task, self.total, learner.device, self.group)
        if self.group.is_main:
            written = max((row["step"] for row in read(files.metrics)), default=0)
            self.attempt.note_start(progress.step, max(0, written - progress.step))
        self.progress = progress
        self.first_step = progress.step + 1
        self.warm_from = progress.step + timing.warm_up(self.total)

    def _warn_if_little_is_reached(self) -> None:
        note = reach.little_reach(self.config.optimizer.name, self.learner.optimizer)
        if note and self.group.is_main and self.progress.step == 0:
            log.warning("%s", note)

    # --- steps ---

    def result(self) -> RunRecord:
        """Train what is left and write the record."""
        files, recorder = self.attempt.files, self.recorder
        with (
            MetricsFile(files.metrics, self.progress.step) if self.group.is_main else Metrics() as metrics,
            recorder.recording(files.spectra, self.progress.step, self.learner),
        ):
            if self.config.evaluation.untrained and self.progress.step == 0:
                self.progress.untrained_loss = self._evaluate(0, metrics)["val_loss"]
            try:
                diverged = self._train(metrics)
            except PrunedError:
                self._save(metrics)  # another study can resume from here
                return self._finish({}, Status.PRUNED)
            values = {} if diverged else self._final_metrics(metrics)
            if not diverged and recorder.is_due(self.progress.step):
                recorder.measure(self.progress.step)
            metrics.flush(durable=True)
            recorder.flush()
        if not math.isfinite(values.get("val_loss", 0.0)):
            # The last update caused it, after the last training loss.
            diverged = Note("metric_not_finite", metric="val_loss")
        return self._finish(values, Status.DIVERGED if diverged else Status.COMPLETED, diverged)

    def _train(self, metrics: Metrics) -> Note | None:
        """Train; return why the run has diverged, if so."""
        progress = self.progress
        # Losses stay on the device until `_read_losses`, so that a GPU does not wait for the CPU.
        losses: list[torch.Tensor] = []
        rates: list[float] = []
        self._report(self._report_again)
        began = Moment.now()

        while progress.step < self.total:
            with self.recorder.watching(progress.step + 1):
                losses.append(self.learner.update(progress.step))
            rates.append(self.learner.lr)
            progress.step += 1

            stop, evaluate, measure, save = self._due()
            if not (stop or evaluate or measure or save or self._reads_losses()):
                continue
            diverged = self._read_losses(losses, rates, metrics, began)
            losses, rates = [], []
            if diverged:
                return diverged
            if measure:
                self.recorder.measure(progress.step)
            if evaluate:
                values = self._evaluate(progress.step, metrics)
                metrics.flush()  # a study that is rebuilt meanwhile reads it there
                self._report(functools.partial(self.monitor.report, progress.step, values))
            if save or stop:
                self._save(metrics)
            if stop:
                self.group.broadcast(None)  # wait until the main process has saved
                raise StoppedError(f"Run {self.attempt.key} stopped at step {progress.step} of {self.total}.")
            began = Moment.now()
        return None

    def _due(self) -> tuple[bool, bool, bool, bool]:
        """Whether to stop, evaluate, measure, save after this step. `result` does so after the last step."""
        step, config = self.progress.step, self.config
        if step == self.total:
            return False, False, False, False
        every = config.checkpoint.every_steps
        old, *stop_flags = self.group.any(
            [time.monotonic() - self.saved_at > config.checkpoint.every_seconds, *self.monitor.stop_flags]
        )
        stop = self.monitor.adopt(stop_flags)
        save = old or bool(every and step % every == 0)
        evaluate = bool(config.evaluation.every and step % config.evaluation.every == 0)
        return stop, evaluate, self.recorder.is_due(step), save

    def _reads_losses(self) -> bool:
        """Whether it is time to transfer the losses from the device."""
        step, marks = self.progress.step, [self.warm_from, self.total, *self.recorder.marks]
        if self.compiled is not None:
            marks.append(self.first_step)
        return step % self.config.log_every == 0 or step in marks

    def _read_losses(
        self, losses: list[torch.Tensor], rates: list[float], metrics: Metrics, began: Moment
    ) -> Note | None:
        """Write the rows of the steps since the last call; return why the run has diverged, if so."""
        progress = self.progress
        first = progress.step - len(losses) + 1
        values = torch.stack(losses).tolist()  # waits until a GPU has done all of these steps
        ended = Moment.now()
        *values, cpu = self.group.all_reduce_sum([*values, ended.cpu - began.cpu])
        if self.compiled is not None and progress.step == self.first_step:
            progress.times.compile += ended.wall - began.wall
            compiling.keep(self.compiled)
        if progress.step not in self.recorder.watched:
            progress.seconds += ended.wall - began.wall
            if progress.step > self.warm_from:
                progress.times.add(len(losses), ended.wall - began.wall, cpu)
        self.monitor.progress(progress.step)
        for step, loss, rate in zip(range(first, progress.step + 1), values, rates, strict=True):
            metrics.add(step, {"loss": loss, "lr": rate})
            diverged = progress.divergence.observe(loss, self.config.divergence, self.total)
            if diverged:
                progress.step = step
                return diverged
        metrics.flush()
        return None

    def _save(self, metrics: Metrics) -> None:
        optimizer = self.learner.shards.state_dict()  # all processes together
        if self.group.is_main:
            self.attempt.check()
            # Rows first: resuming cuts rows after the checkpoint, but can't restore missing rows before it.
            metrics.flush(durable=True)
            self.recorder.flush()
            progress = dataclasses.asdict(self.progress)
            checkpoint.save(self.attempt.files.checkpoint, progress, self.learner.model, optimizer)
        self.saved_at = time.monotonic()

    # --- result ---

    def _evaluate(self, step: int, metrics: Metrics, split: str = "val") -> dict[str, float]:
        named = {f"{split}_{name}": value for name, value in self.learner.evaluate(split).items()}
        metrics.add(step, named)
        return named

    def _final_metrics(self, metrics: Metrics) -> dict[str, float]:
        values = {}
        if self.group.is_main:
            metrics.flush()
            losses = [row["loss"] for row in read(self.attempt.files.metrics) if "loss" in row]
            values["train_loss"] = statistics.fmean(losses[-max(1, self.total // 10) :])  # of the last tenth
        if self.progress.untrained_loss is not None:
            values["untrained_val_loss"] = self.progress.untrained_loss
        for split in ("val", "test"):
            values |= self._evaluate(self.progress.step, metrics, split)
        return values

    def _report(self, report: Callable[[], None]) -> None:
        """Let the main process report, and raise PrunedError in all processes if its study prunes the run."""
        enough = None
        if self.group.is_main:
            try:
                report()
            except PrunedError as why:
                enough = str(why)
        enough = self.group.broadcast(enough)
        if enough is not None:
            raise PrunedError(enough)

    def _report_again(self) -> None:
        """Repeat the last report: the process that saved may have died before the study answered."""
        for row in read(self.attempt.files.metrics):
            if 0 < row["step"] == self.progress.step and "val_loss" in row:
                self.monitor.report(row["step"], row)

    def _finish(self, values: dict[str, float], status: Status, diverged: Note | None = None) -> RunRecord:
        """The record, made by the main process and broadcast."""
        record = self._record(values, status, diverged) if self.group.is_main else None
        written = self.group.broadcast(record)
        assert written is not None
        return written

    def _record(self, values: dict[str, float], status: Status, diverged: Note | None) -> RunRecord:
        if self.config.checkpoint.keep_weights and status is Status.COMPLETED:
            self.attempt.check()
            checkpoint.save_weights(self.attempt.files.weights, self.learner.model)
        study = self.monitor.study if status is Status.PRUNED else ""
        record = outcome.record(
            self.attempt, self.learner, self.progress, values, status=status, diverged=diverged, study=study
        )
        shown = ", ".join(
            f"{name} {value:.6g}" for name, value in record.metrics.items() if value is not None
        )
        log.info("%s after %d steps: %s", record.status, record.steps, shown)
        return self.attempt.finish(record)
