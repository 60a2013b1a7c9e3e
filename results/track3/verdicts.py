"""The benchmark's rules, and our tests of the same questions.

The rules assume a standard deviation of 0.0013 over seeds: 0.004 is about three of them, one-sided p = 0.001.
Ours take the spread of the runs at hand.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from results.compare.stats import SIGNIFICANCE, Summary, summarize
from results.track3.recomputed import Result, pooled
from results.track3.ties import adjusted, p_value

TARGET = Decimal("3.28")  # nats per token
THRESHOLD = 0.004  # of both rules
ASSUMED_SD = 0.0013  # of the loss over seeds, behind the threshold
LOSS_PER_STEP = Decimal("0.0045") / 100  # what a step is worth, by the benchmark

NO_SPREAD, NOT_PUBLIC, NOT_SHOWN = "no spread", "not public", "not shown"


@dataclass(frozen=True)
class Verdict:
    """What the benchmark's rule and our test say.

    Attributes:
        printed: the figure of the rule from the printed numbers.
        rule: the same from the public runs; None without runs that the result is judged by.
        p: of our two-sided t-test after Holm's correction; None: there is no test.
        ours: the verdict of our test in one or two words.
    """

    printed: float
    rule: float | None
    p: float | None
    ours: str

    @property
    def published(self) -> bool:
        """Whether the printed numbers pass the rule."""
        return self.printed >= THRESHOLD

    @property
    def passes(self) -> bool | None:
        """Whether the public runs pass the rule."""
        return None if self.rule is None else self.rule >= THRESHOLD


# --- is the mean below 3.28? ---


def margin(mean: Decimal, n: int) -> float:
    """The figure that the benchmark wants to be 0.004 or more: (3.28 - mean) sqrt(n)."""
    return float(TARGET - mean) * math.sqrt(n)


def below_target(results: Sequence[Result]) -> list[Verdict]:
    """Whether each mean lies below 3.28. All results are one family for Holm's correction."""
    p_values = adjusted([_p_of_target(result) for result in results])
    return [
        Verdict(
            margin(result.published.loss, result.published.n),
            margin(result.mean, len(result.runs)) if result.is_judged and result.mean is not None else None,
            p,
            _word(result.is_judged, p, ("below", "above"), _is_below(result)),
        )
        for result, p in zip(results, p_values, strict=True)
    ]


def _p_of_target(result: Result) -> float | None:
    """One-sample t-test: that of two samples against 3.28 without spread."""
    if not result.is_judged or result.summary is None:
        return None
    return p_value(result.summary, replace(result.summary, mean=float(TARGET), std=None))


def _is_below(result: Result) -> bool:
    return result.mean is not None and result.mean < TARGET


def below_if_pooled(results: Sequence[Result]) -> set[int]:
    """The numbers of the results that our test would find below 3.28 if all had the same spread."""
    from scipy import special

    tested = [result for result in results if _p_of_target(result) is not None]
    if not tested:
        return set()
    shared = pooled([result.summary for result in tested if result.summary is not None])
    margins = [margin(one.mean, len(one.runs)) / shared.sd for one in tested if one.mean is not None]
    p_values: list[float | None] = [float(2 * special.stdtr(shared.freedom, -abs(t))) for t in margins]
    p_values += [None] * (len(results) - len(tested))
    found = zip(tested, adjusted(p_values), strict=False)
    return {one.published.number for one, p in found if p is not None and p < SIGNIFICANCE and _is_below(one)}


# --- is it better than the record before? ---


@dataclass(frozen=True)
class Pair:
    """A record and the one before it."""

    new: Result
    old: Result

    @property
    def gain(self) -> Decimal | None:
        """How much lower the new loss is, by what a step is worth; None if a mean is missing."""
        if self.new.mean is None or self.old.mean is None:
            return None
        return self._gain(self.new.mean, self.old.mean)

    @property
    def printed_gain(self) -> Decimal:
        """The same from the printed numbers."""
        return self._gain(self.new.published.loss, self.old.published.loss)

    def _gain(self, new: Decimal, old: Decimal) -> Decimal:
        return old - new + LOSS_PER_STEP * (self.old.published.steps - self.new.published.steps)


def records(results: Sequence[Result]) -> list[Pair]:
    """Each record with the one before it. A record has fewer steps than all results before it."""
    found: list[Result] = []
    for result in results:
        if not found or result.published.steps < found[-1].published.steps:
            found.append(result)
    return [Pair(new, old) for old, new in zip(found, found[1:], strict=False)]


def pair_margin(gain: Decimal, n: int, other: int) -> float:
    """The figure that the benchmark wants to be 0.004 or more to call one of two results better."""
    return float(gain) / math.sqrt(1 / n + 1 / other)


def compare(pairs: Sequence[Pair]) -> list[Verdict]:
    """Whether each record is better than the one before it. All pairs are one family for Holm."""
    p_values = adjusted([_p_of_pair(pair) for pair in pairs])
    return [_compared(pair, p) for pair, p in zip(pairs, p_values, strict=True)]


def _compared(pair: Pair, p: float | None) -> Verdict:
    new, old, gain = pair.new, pair.old, pair.gain
    known = new.is_judged and old.is_judged
    return Verdict(
        pair_margin(pair.printed_gain, new.published.n, old.published.n),
        pair_margin(gain, len(new.runs), len(old.runs)) if known and gain is not None else None,
        p,
        _word(known, p, ("better", "worse"), gain is not None and gain > 0),
    )


def _p_of_pair(pair: Pair) -> float | None:
    new, old = scaled(pair.new), scaled(pair.old)
    return None if new is None or old is None else p_value(new, old)


# --- all results on one scale ---


def steps_to_target(loss: Decimal | float, steps: int) -> float:
    """The step at which a loss would be 3.28, by what a step is worth."""
    return steps + (float(loss) - float(TARGET)) / float(LOSS_PER_STEP)


def scaled(result: Result) -> Summary | None:
    """A result's runs in steps to 3.28. Tests of these are tests of the losses at one step.

    Returns:
        None without runs that the result is judged by.
    """
    steps = result.published.steps
    return summarize([steps_to_target(loss, steps) for loss in result.losses]) if result.is_judged else None


def _word(is_judged: bool, p: float | None, words: tuple[str, str], is_first: bool) -> str:
    """The verdict: the first word if the test agrees with it, the second one for its contrary."""
    if not is_judged:
        return NOT_PUBLIC
    if p is None:
        return NO_SPREAD
    if p >= SIGNIFICANCE:
        return NOT_SHOWN
    return words[0] if is_first else words[1]
