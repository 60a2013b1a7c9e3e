"""What a figure reports of each optimizer: the runs of its best setting."""

from collections.abc import Sequence
from dataclasses import dataclass

from htbench.harness.show.status import Status
from htbench.results.compare.select import OPTIMIZER, Choice, Row, choose, searched
from htbench.results.frames.metrics import is_missing
from htbench.results.frames.rows import Frame, parts


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


def winners(part: Frame) -> list[Winner]:
    """The winner of each optimizer of one workload, in the order of the plan."""
    choices = choose(part, OPTIMIZER)
    return [Winner(str(choice.fixed["optimizer"]), choice, _reported(choice)) for choice in choices]


def winners_along(part: Frame, column: str) -> list[Winner]:
    """As `winners`, but one per value of a column for each optimizer that was searched along it."""
    found = []
    for own in parts(part, ["optimizer"]):
        if column in own[0] and searched(own, [column]):
            known = [row for row in own if not is_missing(row[column])]
            choices = choose(known, (*OPTIMIZER, column))
            found += [Winner(str(one.fixed["optimizer"]), one, _reported(one)) for one in choices]
        else:
            found += winners(own)
    return found


def _reported(choice: Choice) -> list[Row]:
    if choice.replicas or choice.winner is None or choice.winner.value("protocol") != "paper":
        return choice.replicas
    return choice.winner.runs


def span(numbers: Sequence[int]) -> str:
    """The least and the greatest of some numbers: "3", or "1-3"."""
    return "-".join(map(str, dict.fromkeys((min(numbers), max(numbers)))))
