"""Each published result beside the public runs that belong to it: does its mean follow from them?"""

import functools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

from harness.show.note import Note
from results.compare.stats import MIN_SEEDS, SIGNIFICANCE, Summary, summarize
from results.track3.data import PLACE, TOP, Published, Run, published, runs

# The numbers of results that are judged by another readout of the weights, which is logged elsewhere.
ELSEWHERE = {46}

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
    def is_judged(self) -> bool:
        """Whether there are public runs that the result is judged by."""
        return bool(self.losses) and self.published.number not in ELSEWHERE

    @property
    def printed_mean(self) -> Decimal | None:
        """The mean with as many digits as are printed. A half is rounded up."""
        return None if self.mean is None else self.mean.quantize(self.published.loss, ROUND_HALF_UP)

    @property
    def has_mean(self) -> bool:
        """Whether the mean equals the printed one to its last digit."""
        return self.printed_mean == self.published.loss

    @property
    def reproduces(self) -> bool:
        """Whether mean and number of runs are those that are printed."""
        return self.has_mean and len(self.runs) == self.published.n

    @property
    def missing(self) -> Note | None:
        """Why the result does not reproduce; None if it does."""
        n, printed = len(self.runs), self.published
        if self.reproduces:
            return None
        if printed.number in ELSEWHERE:
            return Note("track3_elsewhere")
        if n < printed.n:
            return Note("track3_few_runs", n=n, printed=printed.n)
        if n > printed.n:
            return Note("track3_more_runs", n=n, printed=printed.n, **self._of_one_gpu())
        return Note("track3_other_mean", n=n, mean=str(self.printed_mean), printed=str(printed.loss))

    def _of_one_gpu(self) -> dict[str, str]:
        """Whether the runs on one kind of GPU are those that were counted, and their mean."""
        for gpu, count in Counter(run.gpu for run in self.runs).items():
            part = Result(self.published, tuple(run for run in self.runs if run.gpu == gpu))
            if count == self.published.n and part.mean is not None:
                return {"gpu": gpu, "mean": str(part.printed_mean)}
        return {"gpu": "", "mean": ""}


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

    A folder may hold runs of another length, which are no part of the result, and copies of a log: runs whose
    losses an earlier one has. Few losses prove nothing: two runs may share them.
    """
    if one.folder == TOP:
        own = [run for run in found if (run.folder, run.log) == (TOP, one.log)]
    else:
        own = [run for run in found if f"{run.folder}/".startswith(f"{one.folder}/")]
    lengths = {run.total_steps for run in own if run.log == one.log}
    seen: dict[object, Run] = {}
    for number, run in enumerate(own):
        if one.steps in run.losses and run.total_steps in (lengths or {run.total_steps}):
            curve = tuple(run.losses.items())
            seen.setdefault(curve if len(curve) >= _PROOF else number, run)
    return tuple(seen.values())


# --- how far runs of one result lie apart ---


@dataclass(frozen=True)
class Spread:
    """A standard deviation with its 95 % interval, which supposes values from a normal law.

    Attributes:
        sd: the estimate, in the unit of the values.
        low, high: the ends of the interval.
        freedom: degrees of freedom behind it.
    """

    sd: float
    low: float
    high: float
    freedom: int


def pooled(summaries: Sequence[Summary]) -> Spread:
    """The standard deviation that results share, from those with `MIN_SEEDS` runs or more. At least one.

    One summary gives its own standard deviation with its interval, by the chi-squared law of the sum of
    squares.
    """
    from scipy import special

    known = [(one.std, one.n - 1) for one in summaries if one.std is not None and one.n >= MIN_SEEDS]
    freedom = sum(own for _, own in known)
    squares = sum(own * std**2 for std, own in known)
    tails = (SIGNIFICANCE / 2, 1 - SIGNIFICANCE / 2)  # the probabilities of more
    low, high = (math.sqrt(squares / float(special.chdtri(freedom, tail))) for tail in tails)
    return Spread(math.sqrt(squares / freedom), low, high, freedom)
