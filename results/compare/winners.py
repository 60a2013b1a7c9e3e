"""What a figure reports of each optimizer: the runs of its best setting."""

from collections.abc import Sequence
from dataclasses import dataclass

from htbench.harness.show.status import Status
from htbench.results.compare.select import OPTIMIZER, Choice, Row, choose, find_searched_columns
from htbench.results.frames.metrics import is_missing
from htbench.results.frames.rows import Rows, parts


@dataclass(frozen=True)
class Winner:
    """An optimizer and what was selected of it.

    Attributes:
        optimizer: its name.
        choice: its best setting on the validation split, among all that was searched and is not fixed.
        runs: rows of the frame that are reported: the setting's replicas on fresh seeds. With protocol=paper
            and without replicas they are the search runs, as in the paper.
    """

    optimizer: str
    choice: Choice
    runs: list[Row]

    @property
    def state(self) -> Status:
        """Why there may be no value: the state of the choice, `waiting` before its first replica."""
        if self.choice.winner is None:
            return self.choice.state
        return Status.COMPLETED if self.runs else Status.WAITING


def winners(part: Rows) -> list[Winner]:
    """The winner of each optimizer of one workload, in the order of the plan."""
    return list(map(_make_winner, choose(part, OPTIMIZER)))


def winners_along(part: Rows, column: str) -> list[Winner]:
    """As `winners`, but one per value of a column for each optimizer that was searched along it."""
    chosen: list[Winner] = []
    for rows in parts(part, ["optimizer"]):
        if column in rows[0] and find_searched_columns(rows, [column]):
            with_value = [row for row in rows if not is_missing(row[column])]
            chosen += map(_make_winner, choose(with_value, (*OPTIMIZER, column)))
        else:
            chosen += winners(rows)
    return chosen


def _make_winner(choice: Choice) -> Winner:
    runs = choice.replicas
    if not runs and choice.winner is not None and choice.winner.value("protocol") == "paper":
        runs = choice.winner.runs
    return Winner(choice.optimizer, choice, runs)


def format_span(numbers: Sequence[int]) -> str:
    """The least and the greatest of some numbers: "3", or "1-3"."""
    return "-".join(map(str, dict.fromkeys((min(numbers), max(numbers)))))
