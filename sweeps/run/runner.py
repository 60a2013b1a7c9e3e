"""Runs sweeps on this machine.

It decides which point starts next, waits for points that other processes work on, and plans replicas when all
search points of their objective are settled: before the first of them starts, they are in the store's plan. A
settled point needs no more work: it has a result, has failed, or was given up after several killed workers.

A point whose processes a signal has killed begins again, at most MOST_DEATHS times. So does one that failed
and that a person has reset by the time its processes are gone.
"""

import errno
import math
import os
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from htbench.harness import tasks
from htbench.harness.cost.from_runs import from_store
from htbench.harness.cost.run_class import run_class
from htbench.harness.data.cache import under_way
from htbench.harness.show.note import Note
from htbench.harness.show.progress import Progress
from htbench.harness.show.status import Status
from htbench.harness.store import Reason, RunState, Store
from htbench.harness.store import points as plans
from htbench.harness.store.layout import cache_folder, runs_folder
from htbench.harness.store.points import Point
from htbench.harness.store.record import RunRecord
from htbench.harness.system import atomic
from htbench.harness.system.machine import visible_gpus
from htbench.harness.train.monitor import Monitor, handle
from htbench.sweeps.plan.planned import DAMAGED, Planned, describe, filled, state, states
from htbench.sweeps.run.execute import EXIT_ENDED, EXIT_FULL
from htbench.sweeps.run.pool import PRELOAD, Pool
from htbench.sweeps.run.stacking import Kind, stack_kind
from htbench.sweeps.run.sweep import Sweep, updates_of
from htbench.sweeps.spec.sweep import SweepSpec

POLL_SECONDS = 0.2
MOST_DEATHS = 3
STUDY_SECONDS = 5.0  # least time between two refreshes of the studies while runs are active


class Runner:
    """Runs all points of some sweeps on a pool until every one is settled, here or by another process.

    Args:
        store: of the runs.
        specs: the sweeps.
        workers: processes at a time; None: the default of `Pool`.
        minutes: after which runs at work save and all stops; None: never.
        quiet: show no progress.
        replace: whether the sweeps may drop stored points that their files lack.

    Attributes:
        unfinished: ids of points without a result, and the reason of each.
    """

    def __init__(
        self,
        store: Store,
        specs: Sequence[SweepSpec],
        workers: int | None,
        minutes: float | None = None,
        *,
        quiet: bool = False,
        replace: bool = False,
    ) -> None:
        self.store, self.monitor = store, Monitor()
        self.workers, self.quiet, self.replace = workers, quiet, replace
        self.sweeps = [Sweep(spec, store) for spec in specs]
        self.unfinished: dict[str, Note] = {}
        self._ends = math.inf if minutes is None else time.monotonic() + 60 * minutes
        self._time_is_up = False
        self._steps_done = 0  # of the runs that have ended
        self._known: dict[str, Planned] = {}
        self._stacks: dict[str, Kind | None] = {}  # which runs may be trained as one
        self._todo: deque[Point] = deque()
        self._at_work: dict[str, Point] = {}
        self._attempts: dict[str, int] = {}  # at a run when it was last started here
        self._deaths: Counter[str] = Counter()
        self._alone: set[str] = set()  # not in a stack
        self._elsewhere: dict[str, Point] = {}  # another process works on these
        self._studies_due = 0.0

    @property
    def interrupted(self) -> bool:
        """Whether SIGINT, SIGTERM or SIGHUP has arrived, or the minutes are over."""
        return self.monitor.stop_requested or self._time_is_up

    def run(self) -> None:
        """Run all points that are not settled. Afterwards `unfinished` has the points without a result.

        Raises:
            UsageError: a sweep would drop stored points, and may not.
        """
        for sweep in self.sweeps:
            self._enqueue(sweep.search)
        for sweep in self.sweeps:
            sweep.write(replace=self.replace)
            if sweep.spec.search.has_slots:
                sweep.refresh_studies()  # so that the first trial is sampled from all results
        if self._todo:
            left = sum(sweep.steps_left() for sweep in self.sweeps)
            programs = all(sweep.spec.is_program for sweep in self.sweeps)
            unit = "run" if programs else "step"  # in updates, because runs differ in length
            with self._interruptible(), Progress(left, unit, quiet=self.quiet) as self._progress:
                searches = any(sweep.spec.search.has_slots for sweep in self.sweeps)
                # With torch._dynamo the first run of each class counts its operations.
                preload = ["htbench.harness.train.program"] if programs else [PRELOAD, "torch._dynamo"]
                preload += ["htbench.sweeps.studies.trial"] if searches else []
                compiles = any(self._known[point.id].config.compile for point in self._todo)
                preload += ["torch._inductor.compile_fx"] if compiles else []
                sharing = [runs for sweep in self.sweeps for runs in sweep.sharing()]
                least = min(sharing, default=1)  # of all: any two of these runs may meet on a GPU
                pool = Pool(self.store.root, self.workers, preload, on_cpu=not sharing, per_gpu=least)
                costs = from_store(self.store)
                configs = [self._known[point.id].config for point in self._todo]
                seen = [
                    (cost.seconds(config, config.steps), config.steps)
                    for config in configs
                    if config.steps and (cost := costs.get(run_class(config)))
                ]
                if seen:
                    self._progress.pace = sum(s for s, _ in seen) / sum(n for _, n in seen) / pool.size
                self._progress.few = pool.size
                self._work(pool)
        for sweep in self.sweeps:
            sweep.write()
            sweep.refresh_studies()

    def _enqueue(self, planned: Sequence[Planned]) -> None:
        """Queue points that are not settled. If settled ones complete an objective, queue its replicas."""
        # Two blocks may want the same run.
        new = {one.point.id: one for one in planned if one.point.id not in self._known}
        if not new:  # the usual case; the lines below read the whole index
            return
        self._known.update(new)
        known = states(self.store, [one.point for one in filled(self.store.root, list(new.values()))])
        for name, one in new.items():
            wanted = next(sweep.spec.stack for sweep in self.sweeps if sweep.spec.name == one.point.sweep)
            kind = None if one.point.slot else stack_kind(one.config, wanted, has_gpu=bool(visible_gpus()))
            self._stacks[name] = kind
            if known[name].record is not None:
                self._settle(name, known[name].record)
            elif known[name].status is Status.DAMAGED:
                self.unfinished[name] = DAMAGED
            else:
                self._todo.append(one.point)

    def _settle(self, name: str, record: RunRecord | None, why: Note | None = None) -> None:
        if why is not None:
            self.unfinished[name] = why
        for sweep in self.sweeps:
            self._enqueue(sweep.settle(name, record))

    def _work(self, pool: Pool) -> None:
        """Train points until none is left, or until a stop is asked for; then all that run save first.

        Raises:
            OSError: the disk is full; so it would be for the next run.
        """
        while self._todo or self._at_work or self._elsewhere:
            self._look_around(pool)
            self._time_is_up = time.monotonic() >= self._ends
            while self._todo and pool.has_room_for(self._todo[0].processes) and not self.interrupted:
                alike = self._take_alike(pool)
                states = {point.id: self._state(point) for point in alike}
                wanted = [point for point in alike if self._wants(point, states[point.id])]
                safe = [point for point in wanted if not self._has_died(point, states[point.id])]
                started = safe if len(safe) > 1 else wanted[:1]
                self._alone.update(point.id for point in wanted if point not in safe)
                self._todo.extendleft(point for point in reversed(wanted) if point not in started)
                for point in started:
                    self._at_work[point.id] = point
                    self._attempts[point.id] = states[point.id].attempts
                if started:
                    pool.start(started)
            for name, status in pool.finished(timeout=POLL_SECONDS):
                if status == EXIT_FULL:
                    pool.stop()
                    place = str(runs_folder(self.store.root))
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), place)
                self._decide(self._at_work.pop(name), status)
            if self.interrupted:
                return pool.stop()

    def _take_alike(self, pool: Pool) -> list[Point]:
        """Take the next point from the queue, and others whose runs may be trained as one with its run.

        They are a worker's share of the updates left, those of runs at work included, which may be few. A run
        whose process was killed goes on alone, so that it takes no others with it.
        """
        first = self._todo.popleft()
        kind = self._stacks[first.id]
        if kind is None or first.id in self._alone:
            return [first]
        waiting, at_work = [first, *self._todo], self._at_work.values()
        left = self._updates(waiting) + max(0, self._updates(at_work) - pool.steps_done())
        share = math.ceil(left / pool.size / self._updates([first]))
        alike = [x for x in self._todo if self._stacks[x.id] == kind and x.id not in self._alone]
        chosen = [first, *alike[: min(kind.most, share) - 1]]
        taken = {point.id for point in chosen}
        self._todo = deque(point for point in self._todo if point.id not in taken)
        return chosen

    def _updates(self, points: Iterable[Point]) -> int:
        # Epochs are not counted.
        return sum(updates_of(self._known[point.id].config) or 1 for point in points)

    def _has_died(self, point: Point, now: RunState) -> bool:
        """Whether a process of the run's last attempt has died, here or elsewhere."""
        key = plans.filled(self.store.root, point).key
        outcome = self.store.attempt(key, now.attempts).get("outcome") if now.attempts else {}
        return outcome is None or outcome.get("reason") == Reason.DIED

    def _decide(self, point: Point, status: int) -> None:
        """Decide what becomes of a point whose processes have ended with `status`, a signal if negative."""
        now = self._state(point)
        if self.interrupted:
            return
        if status < 0 and now.attempts > self._attempts[point.id]:
            self.store.note_death(plans.filled(self.store.root, point).key, now.attempts)
            now = self._state(point)
        if not self._wants(point, now):
            del self._deaths[point.id]
            return
        self._deaths[point.id] += status < 0
        failed = status == EXIT_ENDED and now.attempts > self._attempts[point.id]
        if status < 0 and self._deaths[point.id] <= MOST_DEATHS:
            self._todo.appendleft(point)
        elif failed and now.status is Status.WAITING and not now.error_message:
            # No other end leaves it like this.
            self._todo.append(point)
        else:
            why = now.message and Note("run_unfinished", message=now.message)
            self._settle(point.id, None, why or Note("run_died", status=status))

    def _state(self, point: Point) -> RunState:
        """The state of a point, read from its folder: the index may be long."""
        run = plans.filled(self.store.root, point)
        if run.key:  # another machine may have reset a failure
            atomic.refresh_file_cache(self.store.files(run.key).attempts)
        return state(self.store, run)

    def _look_around(self, pool: Pool) -> None:
        """Write new points into the plans, look at what others work on, show and store the progress."""
        for sweep in self.sweeps:
            sweep.write()
        for point in list(self._elsewhere.values()):
            if self._wants(point, self._state(point)):
                self._todo.append(point)
        done, total = self._steps_done + pool.steps_done(), self._progress.total or 0
        said = None
        if not done:  # the first runs may wait for data
            data = [name.rpartition("-")[0] for name in under_way(cache_folder(self.store.root))]
            said = str(Note("preparing", tasks=data) if data else Note("starting"))
        self._progress.to(min(done, total), said=said)
        if time.monotonic() >= self._studies_due:
            began = time.monotonic()
            for sweep in self.sweeps:
                sweep.refresh_studies(under_way=True)
            self._studies_due = time.monotonic() + max(STUDY_SECONDS, 20 * (time.monotonic() - began))

    def _wants(self, point: Point, now: RunState) -> bool:
        """Whether a point waits. Settle it if it has ended; remember it if another process works on it."""
        self._elsewhere.pop(point.id, None)
        if now.status is Status.RUNNING:
            self._elsewhere[point.id] = point
        elif now.status is not Status.WAITING:
            self._settle(point.id, now.record, outcome(now) if now.reason else None)
            self._show_end(plans.filled(self.store.root, point), now)
        return now.status is Status.WAITING

    def _show_end(self, point: Point, now: RunState) -> None:
        """Show how a run has ended: on a terminal only a failure, elsewhere every run.

        Less is left than was expected if replicas are there already, or an objective has no winner.
        """
        self._steps_done += updates_of(self._known[point.id].config)
        left = sum(sweep.steps_left() for sweep in self.sweeps)
        self._progress.to(self._steps_done, self._steps_done + left, f"{point.sweep} {point.block}")
        if now.reason or not sys.stderr.isatty():
            end = outcome(now)
            again = list(self.unfinished.values()).count(end) > 1
            shown = Note("run_failed_again", reason=now.reason) if again else end
            self._progress.note(f"[{self._progress.eta()}] {describe(point)}: {shown}")

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Let signals ask for a stop. The loop then stops the workers, which save first."""

        def stop(number: int, frame: FrameType | None) -> None:
            self.monitor.stop_requested = True

        previous = handle(stop, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def outcome(state: RunState) -> Note:
    """How a run ended."""
    record = state.record
    if record is None:
        return Note("run_failed", reason=state.reason, message=state.message)
    if record.status is not Status.COMPLETED:
        return Note("run_ended", status=record.status, why=record.why)
    metric = tasks.recorded(record.config["task"], record.environment).metric
    value, seconds = record.metrics.get(f"val_{metric}"), record.useful_seconds
    if value is None:
        return Note("run_not_finite", metric=metric, seconds=seconds)
    return Note("run_completed", figure=tasks.metric_figure(metric, value), seconds=seconds)
