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
from dataclasses import dataclass, field
from pathlib import Path

import torch

from htbench.harness import tasks
from htbench.harness.config import RunConfig
from htbench.harness.config.key import ResolvedRun
from htbench.harness.data.task import Scores, Task
from htbench.harness.errors import PrunedError, StoppedError
from htbench.harness.parallel import device
from htbench.harness.parallel.group import ALONE, Group
from htbench.harness.show.note import Note
from htbench.harness.show.status import Status
from htbench.harness.store import Attempt
from htbench.harness.store.curve import Metrics, MetricsFile, read
from htbench.harness.train import checkpoint, compiling
from htbench.harness.train.learner import Learner
from htbench.harness.train.monitor import Monitor
from htbench.harness.train.progress import Moment, Progress, warm_up
from htbench.harness.train.spectra import Recorder
from htbench.optimizers import reach

log = logging.getLogger("htbench")

MakeLearner = Callable[[ResolvedRun, Task, int, torch.device, Group], Learner]


@dataclass(frozen=True)
class Outcome:
    """How a run has ended.

    Attributes:
        status: completed, diverged or pruned.
        learner, progress: as they are at the end.
        timing: of its steps, as `StepTimes.summary` gives it.
        metrics: the final ones by name.
        diverged: why it has diverged.
        scores: of the items of the test split, if it has completed and the task tells them.
    """

    status: Status
    learner: Learner
    progress: Progress
    timing: dict[str, float]
    metrics: dict[str, float]
    diverged: Note | None
    scores: Scores | None


@dataclass
class Training:
    """One run in this process, which is one of `group`; the main process writes what comes out.

    Attributes:
        run: its config and its rows.
        attempt: the right to work on the run.
        monitor: stop requests in, progress out.
        group: the processes of the run.
        task: the data and the loss.
        total: updates of the whole run.
        learner: model and optimizer.
        recorder: of spectra.
        make_learner: how the learner is made.
        progress: how far the run has come.
        began_at: the step from which this process goes on.
        saved_at: when it saved last, by time.monotonic().
        scores: of the last evaluation, if the task tells them item by item.
    """

    run: ResolvedRun
    attempt: Attempt
    monitor: Monitor
    group: Group
    task: Task
    total: int
    learner: Learner
    recorder: Recorder
    make_learner: MakeLearner
    progress: Progress = field(default_factory=Progress)
    began_at: int = 0
    saved_at: float = 0.0
    scores: Scores | None = None

    @property
    def config(self) -> RunConfig:
        """Of the run."""
        return self.run.config

    @classmethod
    def start(
        cls,
        run: ResolvedRun,
        attempt: Attempt,
        cache: Path,
        monitor: Monitor,
        group: Group = ALONE,
        make_learner: MakeLearner = Learner,
    ) -> Training:
        """Load the data, build model and optimizer, and resume from the checkpoint if there is one.

        Args:
            run: its config and its rows.
            attempt: the right to work on the run.
            cache: folder of prepared data.
            monitor: stop requests in, progress out.
            group: the processes of the run.
            make_learner: what makes its model and optimizer.

        Raises:
            UsageError: there is no such device, or the data is not that of the config.
        """
        config = run.config
        if config.compile:
            compiling.use_cache_of_user()
        place = torch.device(device.choose(config.device, group))
        task: Task = tasks.load_for(run.task, config, cache)
        total = config.updates(task.epoch_size)
        learner = make_learner(run, task, total, place, group)
        recorder = Recorder(config, total)
        training = cls(run, attempt, monitor, group, task, total, learner, recorder, make_learner)
        training._resume()
        note = reach.little_reach(run.optimizer.name, training.learner.optimizer)
        if note and group.is_main and training.began_at == 0:
            log.warning("%s", note)
        training.saved_at = time.monotonic()
        return training

    def _resume(self) -> None:
        """Restore the checkpoint if it can be used. Every process reads it; the main one notes the start."""
        files, learner = self.attempt.files, self.learner
        written = max((row["step"] for row in read(files.metrics)), default=0)
        progress, saved = checkpoint.load_sound(files.checkpoint, files.metrics)
        if not self.group.same(progress.step):
            raise OSError(errno.ESTALE, "the processes of the run see different checkpoints")
        if saved is not None:
            try:
                checkpoint.restore(saved, learner.model, learner.shards)
                log.info("going on from step %d", progress.step)
            except checkpoint.UnusableCheckpointError as error:
                log.warning("%s; starting from the first step", error)
                progress = Progress()
                self.learner = self.make_learner(self.run, self.task, self.total, learner.device, self.group)
        if self.group.is_main:
            self.attempt.note_start(progress.step, max(0, written - progress.step))
        self.progress, self.began_at = progress, progress.step

    def outcome(self) -> Outcome:
        """Train what is left, and measure the result."""
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
                return self._ended(Status.PRUNED, {})
            values = {} if diverged else self._final_metrics(metrics)
            if not diverged and recorder.is_due(self.progress.step):
                with self.learner.evaluated():
                    recorder.measure(self.progress.step)
            metrics.flush(durable=True)
            recorder.flush()
        if not math.isfinite(values.get("val_loss", 0.0)):
            # The last update caused it, after the last training loss.
            diverged = Note("metric_not_finite", metric="val_loss")
        return self._ended(Status.DIVERGED if diverged else Status.COMPLETED, values, diverged)

    def _ended(self, status: Status, metrics: dict[str, float], diverged: Note | None = None) -> Outcome:
        if self.config.checkpoint.keep_weights and status is Status.COMPLETED:
            with self.learner.evaluated():
                if self.group.is_main:
                    self.attempt.check()
                    checkpoint.save_weights(self.attempt.files.weights, self.learner.model)
        times = self.progress.times.summary(warm_up(self.total))
        scores = self.scores if status is Status.COMPLETED else None
        return Outcome(status, self.learner, self.progress, times, metrics, diverged, scores)

    # --- steps ---

    def _train(self, metrics: Metrics) -> Note | None:
        """Train; return why the run has diverged, if so."""
        progress, group = self.progress, self.group
        evaluation, checkpoints = self.config.evaluation, self.config.checkpoint
        # Losses stay on the device until they are read, so that a GPU does not wait for the CPU.
        losses: list[torch.Tensor] = []
        rates: list[float] = []
        marks = {self.began_at + warm_up(self.total), self.total, *self.recorder.marks}
        if self.config.compile:
            marks.add(self.began_at + 1)
        self._report(self._report_again)
        began = self.learner.now()

        while progress.step < self.total:
            with self.recorder.watching(progress.step + 1):
                losses.append(self.learner.update(progress.step))
            rates.append(self.learner.lr)
            progress.step += 1
            step = progress.step

            # After the last step `outcome` does all of this.
            stop = evaluate = measure = save = False
            if step < self.total:
                old = time.monotonic() - self.saved_at > checkpoints.every_seconds
                old, *flags = group.any([old, *self.monitor.stop_flags])
                stop = self.monitor.adopt(flags)
                save = old or stop or bool(checkpoints.every_steps and step % checkpoints.every_steps == 0)
                evaluate = bool(evaluation.every and step % evaluation.every == 0)
                measure = self.recorder.is_due(step)
            due = save or evaluate or measure
            if not (due or step % self.config.log_every == 0 or step in marks):
                continue
            diverged = self._read_losses(losses, rates, metrics, began)
            losses, rates = [], []
            if diverged:
                return diverged
            if measure:
                with self.learner.evaluated():
                    self.recorder.measure(step)
            if evaluate:
                values = self._evaluate(step, metrics)
                metrics.flush()  # a study that is rebuilt meanwhile reads it there
                self._report(functools.partial(self.monitor.report, step, values))
            if save:
                self._save(metrics)
            if stop:
                group.broadcast(None)  # wait until the main process has saved
                raise StoppedError(f"Run {self.attempt.key} stopped at step {step} of {self.total}.")
            began = self.learner.now()
        return None

    def _read_losses(
        self, losses: list[torch.Tensor], rates: list[float], metrics: Metrics, began: Moment
    ) -> Note | None:
        """Write the rows of the steps since the last call; return why the run has diverged, if so."""
        progress = self.progress
        progress.stack = max(progress.stack, self.learner.largest_stack)
        first = progress.step - len(losses) + 1
        values = torch.stack(losses).tolist()  # waits until a GPU has done all of these steps
        ended = self.learner.now()
        *values, cpu = self.group.all_reduce_sum([*values, ended.cpu - began.cpu])
        if self.config.compile and progress.step == self.began_at + 1:
            progress.times.compile += ended.wall - began.wall
        if progress.step not in self.recorder.watched:
            progress.seconds += ended.wall - began.wall
            if progress.step > self.began_at + warm_up(self.total):
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
        optimizer, more = self.learner.shards.state_dict(), self.learner.kept()  # all processes together
        if self.group.is_main:
            self.attempt.check()
            # Rows first: resuming cuts rows after the checkpoint, but can't restore missing rows before it.
            metrics.flush(durable=True)
            self.recorder.flush()
            progress = dataclasses.asdict(self.progress)
            checkpoint.save(self.attempt.files.checkpoint, progress, self.learner.model, optimizer, more)
        self.saved_at = time.monotonic()

    # --- evaluations ---

    def _evaluate(self, step: int, metrics: Metrics, split: str = "val") -> dict[str, float]:
        found = self.learner.evaluate(split)
        self.scores = found if isinstance(found, Scores) else None
        values = found.metrics if isinstance(found, Scores) else found
        named = {f"{split}_{name}": value for name, value in values.items()}
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
