"""The sentences under the table `track3`: what its columns are, how its runs were read, what rules assume."""

from __future__ import annotations

from collections.abc import Sequence

from results.compare.stats import MIN_SEEDS, SIGNIFICANCE
from results.track3 import verdicts
from results.track3.recomputed import Result
from results.track3.spread import pooled
from results.track3.verdicts import ASSUMED_SD, NO_SPREAD, NOT_SHOWN, THRESHOLD, Verdict

_ORIGIN = (
    "Runs that others made, none of ours: public logs of KellerJordan/modded-nanogpt, state of 2026-08-01."
)
_READ = (
    "The runs of a result are those in its folder and below, with an evaluation at its step. A log holds one "
    "run or several, one after the other; copies count once."
)
_REPRODUCES = "reproduces: mean and n are those that are printed, to the last printed digit."
_RULE = (
    f"rule, benchmark: (3.28 - mean) sqrt(n) of the public runs, which the benchmark wants to be {THRESHOLD} "
    f"or more. It assumes a standard deviation of {ASSUMED_SD} over seeds."
)
_OURS = (
    f"our test: two-sided one-sample t-test against 3.28 with the spread of the result's own runs, at "
    f"{SIGNIFICANCE:.0%} after Holm's correction over the table. {NO_SPREAD}: fewer than {MIN_SEEDS} runs. "
    f"{NOT_SHOWN}: the runs are too few or too far apart; it may be true all the same."
)
_RECORDS = (
    "A record has fewer steps than all results before it.",
    "gain: how much lower its loss is than that of the record before, moved to its step. By the benchmark "
    "100 steps are worth 0.0045; we take that over.",
    f"rule, benchmark: gain / sqrt(1/n + 1/n before), which the benchmark wants to be {THRESHOLD} or more.",
    f"our test: Welch's t-test of the same losses, two-sided, at {SIGNIFICANCE:.0%} after Holm's correction "
    f"over the records.",
)
OF_SCALE = (
    "steps to 3.28: where the loss of each run would be 3.28 if 100 steps are worth 0.0045, as the benchmark "
    "has it; mean ± sample standard deviation over runs. Losses at a common step would compare runs at "
    "different places of their learning-rate schedules; and runs that end above 3.28 never cross it.",
    f"Rows that share a letter (ties) can't be told apart by Welch's t-tests of all pairs, at "
    f"{SIGNIFICANCE:.0%} after Holm's correction; fewer than {MIN_SEEDS} runs have no letter. These are far "
    f"more pairs than those of the records, so that two records may tie here and differ there.",
)


def of_results(results: Sequence[Result], found: Sequence[Verdict]) -> tuple[str, ...]:
    """Those under the section of all results."""
    same = sum(result.reproduces for result in results)
    count = f"{same} of {len(results)} results reproduce."
    return (_ORIGIN, _READ, f"{_REPRODUCES} {count}", _RULE, _OURS, seeds(results), if_pooled(results, found))


def of_records() -> tuple[str, ...]:
    """Those under the section of records."""
    return _RECORDS


def seeds(results: Sequence[Result]) -> str:
    """The spread over seeds that was measured, beside the one that the benchmark's rules assume."""
    summaries = [one.summary for one in results if one.sample is not None and one.summary is not None]
    known = [pooled([one]) for one in summaries if one.n >= MIN_SEEDS]
    if not known:
        return f"No result has {MIN_SEEDS} runs, so the spread over seeds is not known."
    found = pooled(summaries)
    apart = sum(not one.low <= ASSUMED_SD <= one.high for one in known)
    return (
        f"Standard deviation over seeds, pooled over the {len(known)} results with {MIN_SEEDS} runs or more: "
        f"{found.sd:.5f} (95 % interval {found.low:.5f} to {found.high:.5f}), where the rules assume "
        f"{ASSUMED_SD}. The intervals of {apart} results alone leave {ASSUMED_SD} out."
    )


def if_pooled(results: Sequence[Result], found: Sequence[Verdict]) -> str:
    """What our test would say if the spread of all results were that of each."""
    unsure = [one for one, verdict in zip(results, found, strict=True) if verdict.ours == NOT_SHOWN]
    shown = verdicts.below_if_pooled(results)
    count = sum(one.published.number in shown for one in unsure)
    return (
        f"With the pooled standard deviation in place of each one's own, {count} of the {len(unsure)} that "
        f"are {NOT_SHOWN} would be below."
    )
