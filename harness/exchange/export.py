"""The export of runs to one destination: what is new is written, what is there stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.exchange.destination import Destination
from harness.exchange.outgoing import Outgoing


@dataclass(frozen=True)
class Needed:
    """What an export has to do.

    Attributes:
        runs: to be written.
        replaced: how many of them are there with other content.
        here: how many others are there already.
    """

    runs: Sequence[Outgoing]
    replaced: int
    here: int


def needed(runs: Sequence[Outgoing], destination: Destination) -> Needed:
    """Compare the runs with what the destination says that it has."""
    present = destination.present()
    new = [run for run in runs if present.get(run.key) != run.digest]
    return Needed(new, sum(run.key in present for run in new), len(runs) - len(new))


def write(
    work: Needed, destination: Destination, begin: Callable[[str], object], done: Callable[[], object]
) -> None:
    """Write one run after the other, calling `begin(name)` before and `done()` after each."""
    for run in work.runs:
        begin(run.name)
        destination.write(run)
        done()
