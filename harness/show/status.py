"""The state of a run, wherever it is told: in the store, in plans, on screens, in tables and on the page."""

from enum import Enum


class Status(str, Enum):
    """The state of a run, in the order of legends and tallies.

    The store alone never says `queued`: that takes a look at SLURM's queue.
    """

    WAITING = "waiting"
    QUEUED = "queued"
    RUNNING = "running"
    DIVERGED = "diverged"
    PRUNED = "pruned"
    FAILED = "failed"
    DAMAGED = "damaged"
    COMPLETED = "completed"

    def __str__(self) -> str:
        return self.value

    @property
    def symbol(self) -> str:
        """What stands in a cell in place of a value."""
        return _SYMBOLS.get(self, self.value)

    @property
    def has_ended(self) -> bool:
        """Whether the run has a result."""
        return self in ENDED

    @property
    def is_settled(self) -> bool:
        """Whether the run needs no more work. A failed one gets more only by `retry`."""
        return self in (*ENDED, Status.FAILED)


_SYMBOLS = {
    Status.WAITING: "–",
    Status.QUEUED: "–",
    Status.RUNNING: "…",
    Status.COMPLETED: "n/a",  # finished without a finite figure: a cell with a figure needs no symbol
    Status.DIVERGED: "div.",
}
ENDED = (Status.COMPLETED, Status.DIVERGED, Status.PRUNED)
LEFT = (Status.RUNNING, Status.QUEUED, Status.WAITING)  # runs that end without a person's decision
# Runs that may still change a choice, the most hopeful first.
UNFINISHED = (*LEFT, Status.FAILED, Status.DAMAGED)
# Several runs are in the state of the worst of them.
WORST_FIRST = (
    Status.DAMAGED,
    Status.DIVERGED,
    Status.PRUNED,
    Status.FAILED,
    Status.RUNNING,
    Status.QUEUED,
    Status.WAITING,
    Status.COMPLETED,
)
# A choice without a winner is in the state of the run that may still get a score most easily.
HOPEFUL_FIRST = (*UNFINISHED, Status.DIVERGED, Status.PRUNED, Status.COMPLETED)
