"""The scheduling loop, of `htbench sweep run` (`runner.py`) and of a job with several runs alike.

A point whose processes a signal has killed begins again, at most MOST_DEATHS times. So does one that failed
and that a person has reset by the time its processes are gone. Any other end without a result is `left`.
"""

import errno
import os
from collections import Counter, deque
from pathlib import Path

from htbench.harness.show.status import Status
from htbench.harness.store import RunState, Store
from htbench.harness.store.layout import runs_folder
from htbench.harness.store.points import Point, filled
from htbench.harness.system import atomic
from htbench.harness.train.monitor import Monitor
from htbench.sweeps.plan.planned import state
from htbench.sweeps.run.execute import EXIT_ENDED, EXIT_FULL
from htbench.sweeps.run.pool import Pool

POLL_SECONDS = 0.2
MOST_DEATHS = 3


class Schedule:
    """Runs points on a pool; who makes one says what else there is to do.

    Args:
        store: of the runs.
        monitor: asks for a stop.

    Attributes:
        todo: the points that start next, in this order.
    """

    def __init__(self, store: Store, monitor: Monitor) -> None:
        self.store, self.monitor = store, monitor
        self.todo: deque[Point] = deque()
        self._at_work: dict[str, Point] = {}
        self._attempts: dict[str, int] = {}  # at a run when it was last started here
        self._deaths: Counter[str] = Counter()

    def work(self, pool: Pool) -> None:
        """Train points until none is left, or until a stop is asked for; then all that run save first.

        Raises:
            OSError: the disk is full; so it would be for the next run.
        """
        while self.todo or self._at_work or self.expects_more():
            self.tick(pool)
            while self.todo and pool.has_room_for(self.todo[0].processes) and not self.monitor.stop_requested:
                point = self.todo.popleft()
                if self.wants(point, now := self.state(point)):
                    self._at_work[point.id], self._attempts[point.id] = point, now.attempts
                    pool.start(point, self.log(point))
            for name, status in pool.finished(timeout=POLL_SECONDS):
                if status == EXIT_FULL:
                    pool.stop()
                    place = str(runs_folder(self.store.root))
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), place)
                self.ended(self._at_work.pop(name), status)
            if self.monitor.stop_requested:
                return pool.stop()

    def ended(self, point: Point, status: int) -> None:
        """Decide what becomes of a point whose processes have ended with `status`, a signal if negative."""
        now = self.state(point)
        if self.monitor.stop_requested:
            return
        if status < 0 and now.attempts > self._attempts[point.id]:
            self.store.note_death(filled(self.store.root, point).key, now.attempts)
            now = self.state(point)
        if not self.wants(point, now):
            del self._deaths[point.id]
            return
        self._deaths[point.id] += status < 0
        failed = status == EXIT_ENDED and now.attempts > self._attempts[point.id]
        if status < 0 and self._deaths[point.id] <= MOST_DEATHS:
            self.begins_again(point, -status)
            self.todo.appendleft(point)
        elif failed and now.status is Status.WAITING and not now.said:  # no other end leaves it like this
            self.todo.append(point)
        else:
            self.left(point, now, status)

    def state(self, point: Point) -> RunState:
        """The state of a point, read from its folder: the index may be long."""
        run = filled(self.store.root, point)
        if run.key:  # another machine may have reset a failure
            atomic.refresh_file_cache(self.store.files(run.key).attempts)
        return state(self.store, run)

    # --- what differs ---

    def tick(self, pool: Pool) -> None:
        """Called in every round, before points are started."""

    def expects_more(self) -> bool:
        """Whether to go on though nothing is queued or at work."""
        return False

    def wants(self, point: Point, now: RunState) -> bool:
        """Whether a point in this state is to be trained by this process."""
        return not now.status.is_settled

    def log(self, point: Point) -> Path | None:
        """The file that the processes of a point print into; None: they print where this one does."""
        return None

    def begins_again(self, point: Point, signal: int) -> None:
        """Called when a signal has killed a point's processes and it is queued again."""

    def left(self, point: Point, now: RunState, status: int) -> None:
        """Called when a point has no result and does not begin again."""
