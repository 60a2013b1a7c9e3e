"""The rates that a search tries next: octaves, half-octaves around the best, the vertex of a parabola.

Losses over the logarithm of a learning rate are nearly parabolas around their minimum, and seeds differ by
more than what a quarter of an octave costs. So the search brackets the minimum coarsely and lets the fit,
which averages over all runs, find it. It knows nothing but the scores: whoever asks gets the same answer.
"""

import math
from collections.abc import Mapping

from htbench.harness.choice import parabola
from htbench.harness.choice.edge import beyond
from htbench.harness.choice.rates import ALIKE
from htbench.harness.choice.winner import Score, winner

MOST_OCTAVES = 20  # from the least to the greatest rate; a factor of a million
_APART = 0.75  # octaves to a neighbour beyond which there is room for a half-octave between the two
_NEAR = 2.1  # octaves from the best; the parabola is fitted to what is no further away
_AROUND = 2.9  # octaves that all must span; both leave room for rounded rates
_DIGITS = 3  # so that people can type a rate, and a resumed search means the same run


def next_rates(optimizer: str, setting: str, tried: Mapping[float, Score | None]) -> list[float]:
    """The rates of the next round, the most telling first; none if the best rate is known well enough.

    Args:
        optimizer: its name in the zoo.
        setting: the rate as a sweep file calls it, such as `optimizer.lr`.
        tried: the score of each positive rate; None is worse than every score (diverged, pruned, failed).
    """
    rates = sorted(tried)
    best, _ = winner({rate: tried[rate] for rate in rates})
    if best is None:  # what diverges needs a lower rate
        return _step_outwards(optimizer, setting, rates, upwards=False)
    at = rates.index(best)
    outer = _step_outwards(optimizer, setting, rates, upwards=False) if at == 0 else []
    outer += _step_outwards(optimizer, setting, rates, upwards=True) if best == rates[-1] else []
    if outer:
        return outer
    neighbours = sorted(
        (*rates[max(at - 1, 0) : at], *rates[at + 1 : at + 2]),
        key=lambda r: (tried[r] is None, tried[r] or ()),
    )
    if apart := [rate for rate in neighbours if abs(math.log2(rate / best)) > _APART]:
        return [_round_rate(math.sqrt(best * rate)) for rate in apart]
    lowest = vertex({rate: score[-1] for rate, score in tried.items() if score is not None}, best)
    inside = lowest is not None and min(neighbours) < lowest < max(neighbours)
    if lowest is None or not inside or min(abs(math.log2(lowest / rate)) for rate in rates) <= ALIKE:
        return []
    return [_round_rate(lowest)]


def vertex(losses: Mapping[float, float], best: float) -> float | None:
    """The rate x of the fit L = L* + c (log2 rate - log2 x)^2, by least squares around the best.

    Args:
        losses: of finished runs, by rate.
        best: the rate near which they count.

    Returns:
        None if the rates span less than three octaves around the best one, or have no minimum near it.
    """
    octaves = {rate: math.log2(rate / best) for rate, loss in losses.items() if math.isfinite(loss)}
    near = {rate: losses[rate] for rate, away in octaves.items() if abs(away) <= _NEAR}
    around = max(octaves.values()) - min(octaves.values())
    if len(near) < parabola.RATES or not min(near) < best < max(near) or around < _AROUND:
        return None
    fit = parabola.minimum(near)
    return fit.rate if fit is not None and abs(math.log2(fit.rate / best)) <= _NEAR else None


def _step_outwards(optimizer: str, setting: str, rates: list[float], *, upwards: bool) -> list[float]:
    """The rate an octave beyond the last; none if it is not allowed, or too far away from the others."""
    end = rates[-1] if upwards else rates[0]
    further = beyond(optimizer, setting, end, end * 2 if upwards else end / 2, upwards, _DIGITS)
    return [further] if further and math.log2(rates[-1] / rates[0]) < MOST_OCTAVES else []


def _round_rate(rate: float) -> float:
    return float(f"{rate:.{_DIGITS}g}")
