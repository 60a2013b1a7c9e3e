"""How often a search of a size finds the right order: docs/ladder.md, "How many settings and seeds?"."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MEASURED = Path(__file__).with_name("searches.csv")  # written by `docs/search_section.py`


@dataclass(frozen=True)
class Chance:
    """What searches of one size come to.

    Attributes:
        settings: of each row, or all that a row has, if these are fewer.
        seeds: on which each setting runs.
        right: the share of searches that put the rows in the right order.
        given_away: test loss of a row's choice beyond that of the search which has everything, in nats; a
            mean over searches and rows.
    """

    settings: int
    seeds: int
    right: float
    given_away: float


def read_chances() -> list[Chance]:
    """The sizes that were measured, by settings and seeds."""
    with MEASURED.open(encoding="utf-8", newline="") as file:
        return [
            Chance(int(row["settings"]), int(row["seeds"]), float(row["right"]), float(row["given_away"]))
            for row in csv.DictReader(file)
        ]


def closest(measured: Sequence[Chance], settings: int, seeds: int) -> Chance | None:
    """The largest measured size within that of a search: first by seeds, then by settings."""
    smaller = [one for one in measured if one.settings <= settings and one.seeds <= seeds]
    return max(smaller, key=lambda one: (one.seeds, one.settings), default=None)
