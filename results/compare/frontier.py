"""The frontier of a ladder: what its rules reach by the operations of a run, L = E + a C^-b.

Operations are those of model and optimizer. E and b are shared; that a rule needs an exponent of its own is a
test. The frontier takes from each size the run of the ratio of tokens to parameters that most rows have. It
is told where it predicts the largest size from the smaller ones, and to twice the largest compute.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.choice.winner import grouped
from results.compare.draws import Drawn, Estimate, estimate, miss
from results.compare.law import Law, Ratio, fit, separate
from results.compare.ranges import Array
from results.compare.rungs import BASELINE, Guard, Rung

SIZES = 3  # the least for a frontier
TWICE = 2.0  # times the largest compute; nothing is predicted beyond
MISSES = 2.0  # standard errors by which a law may miss what was left out


@dataclass(frozen=True)
class Forecast:
    """A rule on the frontier.

    Attributes:
        optimizer: its name.
        scale: a, as the loss above E at the frontier's reference compute.
        against: how many times its operations AdamW would need.
        largest: operations of its run at the largest size.
        twice: its loss at twice those; nothing is predicted beyond.
        next_parameters, next_flops, next_seconds: of the next size, if the last step of sizes is made again.
    """

    optimizer: str
    scale: Estimate
    against: Estimate | None
    largest: float
    twice: Estimate
    next_parameters: float
    next_flops: float
    next_seconds: float | None


@dataclass(frozen=True, eq=False)
class Frontier:
    """L = E + a C^-b over the sizes of a ladder.

    Attributes:
        ratio: tokens per parameter of its runs, about.
        floor, exponent: E and b.
        reference: the compute at which `Forecast.scale` is told.
        forecasts: of each rule that has all sizes.
        separate: the test of an exponent for each rule.
        miss: by how many standard errors the largest size is missed if it is left out, the mean over rules.
        points: of the fit.
    """

    ratio: float
    floor: Estimate
    exponent: Estimate
    reference: float
    forecasts: tuple[Forecast, ...]
    separate: Ratio | None
    miss: float | None
    points: tuple[Rung, ...]
    law: Law = field(repr=False)

    def loss(self, optimizer: str, flops: float) -> Estimate | None:
        """The loss of a rule at some compute; None beyond twice the largest of its runs."""
        at = next(at for at, own in enumerate(self.forecasts) if own.optimizer == optimizer)
        if flops > TWICE * self.forecasts[at].largest * (1 + 1e-9):
            return None
        return estimate(self.law.loss(flops, 0, at))


def frontier(
    own: Sequence[Rung], is_main: Sequence[bool], known: Drawn, ratio: float
) -> tuple[Frontier | None, tuple[Guard, ...]]:
    """The frontier of some rungs, and why there is none, or what to know about it.

    Args:
        own: by size.
        is_main: whether each is part of the ladder, no control.
        known: their losses.
        ratio: tokens per parameter of those that are taken.
    """
    at = [i for i, one in enumerate(own) if is_main[i] and one.is_at(ratio) and one.flops is not None]
    by_rule = grouped(at, lambda i: own[i].optimizer)
    sizes = max((len({own[i].model for i in group}) for group in by_rule.values()), default=0)
    if sizes < SIZES:
        return None, (Guard.FEW_SIZES,)
    whole = {name: group for name, group in by_rule.items() if len({own[i].model for i in group}) == sizes}
    rules = {name: group for name, group in whole.items() if not any(own[i].at_edge for i in group)}
    if not rules:
        return None, (Guard.EDGE,)
    rules = dict(sorted(rules.items(), key=lambda rule: known.losses[rule[1][-1], 0]))  # the best one first
    points = [i for group in rules.values() for i in group]
    groups = [at for at, group in enumerate(rules.values()) for _ in group]
    compute = np.array([own[i].flops for i in points], float)
    losses, variances = known.losses[points], known.variances[points]
    law = fit(compute, [0] * len(points), groups, losses, variances)
    if (law.scales[:, 0] <= 0).any():
        return None, (Guard.RISING,)
    largest = max(own[i].parameters for i in points)
    missed = _miss_of_largest(
        compute, np.array(groups), losses, variances, np.array([own[i].parameters < largest for i in points])
    )
    if missed is not None and abs(missed) > MISSES:
        return None, (Guard.MISSED,)
    base = list(rules).index(BASELINE) if BASELINE in rules else None
    forecasts = []
    for at_rule, (name, group) in enumerate(rules.items()):
        before, last = (own[i] for i in group[-2:])
        assert last.flops is not None and before.flops is not None
        step = last.flops / before.flops
        against = None
        if base is not None and base != at_rule:
            against = estimate((law.scales[base] / law.scales[at_rule]) ** (1 / law.exponent))
        forecasts.append(
            Forecast(
                name,
                estimate(law.scales[at_rule]),
                against,
                last.flops,
                estimate(law.loss(TWICE * last.flops, 0, at_rule)),
                last.parameters**2 / before.parameters,
                last.flops * step,
                None if last.seconds is None else last.seconds * step,
            )
        )
    found = Frontier(
        ratio,
        estimate(law.floors[0]),
        estimate(law.exponent),
        law.reference,
        tuple(forecasts),
        separate(law, compute, groups, losses[:, 0], variances),
        missed,
        tuple(own[i] for i in points),
        law,
    )
    guards = (Guard.UNCHECKED,) if missed is None else ()
    return found, (*guards, *((Guard.EDGE,) if len(rules) < len(whole) else ()))


def _miss_of_largest(
    compute: Array, groups: Array, losses: Array, variances: Array, kept: Array
) -> float | None:
    """By how many standard errors the frontier misses the largest size, fitted without it, over all rules.

    What rules differ in is the matter of `separate`. None where the smaller sizes do not make a law.
    """
    if kept.sum() < len(set(groups)) + 2:
        return None
    smaller = [int(group) for group in groups[kept]]
    law = fit(compute[kept], [0] * len(smaller), smaller, losses[kept], variances[kept])
    misses = [law.loss(compute[i], 0, int(groups[i])) - losses[i] for i in np.flatnonzero(kept == 0)]
    mean: Array = np.mean(misses, axis=0)
    return miss(mean)
