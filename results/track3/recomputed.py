"""Each published result beside the public runs that belong to it: does its mean follow from them?"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

from results.compare.stats import Sample, Summary, summarize
from results.track3.data import PLACE, TOP, Published, Run, published, runs

# The number of a result, and why its public losses are not those that it is judged by.
ELSEWHERE = {46: "the printed loss is another readout of the weights, which is logged elsewhere"}

_PROOF = 10  # so many losses that are equal to five decimals make a copy


@dataclass(frozen=True)
class Result:
    """A published result and what its public runs say.

    Attributes:
        published: its line in the benchmark's table.
        runs: the public runs that have a loss at its step.
    """

    published: Published
    runs: tuple[Run, ...]

    @property
    def losses(self) -> list[Decimal]:
        """The loss of each run at the published step."""
        return [run.losses[self.published.steps] for run in self.runs]

    @property
    def mean(self) -> Decimal | None:
        """Mean of the losses; None without public runs."""
        return sum(self.losses, Decimal()) / len(self.losses) if self.losses else None

    @property
    def summary(self) -> Summary | None:
        """Mean and spread over the runs; None without public runs."""
        return summarize([float(loss) for loss in self.losses]) if self.losses else None

    @property
    def sample(self) -> Sample | None:
        """The losses for tests; None if there are none that the result is judged by.

        No two results share a key, so they are never paired: the logs do not name seeds.
        """
        if not self.losses or self.published.number in ELSEWHERE:
            return None
        number = self.published.number
        return Sample({(number, index): float(loss) for index, loss in enumerate(self.losses)})

    @property
    def has_mean(self) -> bool:
        """Whether the mean equals the printed one to its last digit. A half is rounded up."""
        return self._rounded(self.mean) == self.published.loss

    @property
    def reproduces(self) -> bool:
        """Whether mean and number of runs are those that are printed."""
        return self.has_mean and len(self.runs) == self.published.n

    @property
    def missing(self) -> str:
        """Why the result does not reproduce, in words; empty if it does."""
        if self.reproduces:
            return ""
        n, printed = len(self.runs), self.published
        if printed.number in ELSEWHERE:
            return ELSEWHERE[printed.number]
        if n < printed.n:
            return f"{n} of {printed.n} runs {'is' if n == 1 else 'are'} public"
        if n > printed.n:
            return f"{n} public runs for n = {printed.n}{self._of_one_gpu()}"
        return f"the {n} public runs give {self._rounded(self.mean)}, printed is {printed.loss}"

    def _of_one_gpu(self) -> str:
        """Whether the runs on one kind of GPU are those that were counted."""
        for gpu, count in Counter(run.gpu for run in self.runs).items():
            part = Result(self.published, tuple(run for run in self.runs if run.gpu == gpu))
            if count == self.published.n and part.mean is not None:
                return f"; the {count} on {gpu} give {self._rounded(part.mean)}"
        return ""

    def _rounded(self, mean: Decimal | None) -> Decimal | None:
        """A mean with as many digits as are printed."""
        return None if mean is None else mean.quantize(self.published.loss, ROUND_HALF_UP)


def results(place: Path = PLACE) -> list[Result]:
    """All results in the order of the benchmark's table.

    Args:
        place: a folder with the three CSV files.
    """
    found = runs(place)
    return [Result(one, _of(one, found)) for one in published(place)]


@functools.cache
def committed() -> tuple[Result, ...]:
    """The results from the data of this package, read once."""
    return tuple(results())


def _of(one: Published, found: Sequence[Run]) -> tuple[Run, ...]:
    """The runs of a result: those in the folder of its log and below, or in its log if that lies in none.

    A folder may hold runs of another length, which are no part of the result, and copies of a log.
    """
    own = [run for run in found if _is_of(one, run)]
    lengths = {run.total_steps for run in own if run.log == one.log}
    own = [
        run for run in own if one.steps in run.losses and run.total_steps in (lengths or {run.total_steps})
    ]
    return tuple(_without_copies(own))


def _is_of(one: Published, run: Run) -> bool:
    if one.folder == TOP:
        return run.folder == TOP and run.log == one.log
    return run.folder == one.folder or run.folder.startswith(f"{one.folder}/")


def _without_copies(own: Sequence[Run]) -> list[Run]:
    """The runs whose losses no earlier one has. Few losses prove nothing: two runs may share them."""
    seen: dict[object, Run] = {}
    for number, run in enumerate(own):
        curve = tuple(run.losses.items())
        seen.setdefault(curve if len(curve) >= _PROOF else number, run)
    return list(seen.values())
