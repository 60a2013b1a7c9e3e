"""Times to a target where some runs never reach it: those count as what they are, longer than they ran."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

_MOST_EXACT = 20_000  # ways to deal the runs to two rows, up to which all of them are gone through


@dataclass(frozen=True)
class Time:
    """How long a run took to the target; if it is censored, how long it ran without reaching it."""

    value: float
    is_censored: bool = False


@dataclass(frozen=True)
class TimesVerdict:
    """Two rows compared by their times.

    Attributes:
        score: how many more pairs of runs the first row wins than it loses; without all ties 0.
        p_value: two-sided; None if no pair of runs can be told apart.
        censored: runs that did not reach the target, of each row.
        is_exact: whether all ways to deal the runs were gone through.
    """

    score: int
    p_value: float | None
    censored: tuple[int, int]
    is_exact: bool


def compare_times(first: Sequence[Time], second: Sequence[Time]) -> TimesVerdict:
    """Gehan's test: who wins a pair of runs is known unless the shorter time is censored.

    Every run gets the number of runs that it beats less those that beat it. If both rows are alike, the runs
    could have been dealt to them in any way; the p-value is the share of ways with a score as extreme, of all
    ways up to 20,000 of them, beyond that by the normal law. With three runs each it is at least .1.

    Source: Gehan, A generalized Wilcoxon test for comparing arbitrarily singly-censored samples, Biometrika
    52, 1965; Mantel, Ranking procedures for arbitrarily restricted observation, Biometrics 23, 1967.
    """
    if not first or not second:
        raise ValueError("Each row needs the time of at least one run.")
    runs = [*first, *second]
    scores = np.array([sum(_beats(run, other) - _beats(other, run) for other in runs) for run in runs])
    n, own = len(runs), len(first)
    score = int(scores[:own].sum())
    censored = sum(run.is_censored for run in first), sum(run.is_censored for run in second)
    if not scores.any():
        return TimesVerdict(0, None, censored, is_exact=True)
    if math.comb(n, own) <= _MOST_EXACT:
        dealt = scores[np.array(list(combinations(range(n), own)))].sum(axis=1)
        return TimesVerdict(score, float(np.mean(np.abs(dealt) >= abs(score))), censored, is_exact=True)
    from scipy import special

    variance = own * (n - own) / (n * (n - 1)) * float(scores @ scores)
    p_value = 2 * float(special.ndtr(-abs(score) / math.sqrt(variance)))
    return TimesVerdict(score, p_value, censored, is_exact=False)


def _beats(run: Time, other: Time) -> bool:
    """Whether a run surely reached the target before another: at the end of that one, if it never did."""
    if run.is_censored:
        return False
    return bool(run.value <= other.value if other.is_censored else run.value < other.value)
