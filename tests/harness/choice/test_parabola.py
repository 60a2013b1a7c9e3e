"""The parabola through the losses of learning rates, which tables, their errors and searches share."""

import math

import pytest
from scipy import stats

from htbench.harness.choice.parabola import are_enough, fit, minimum


@pytest.mark.parametrize("least", [0.0001, 0.001, 0.01, 0.02, 0.1, 0.3])
def test_four_rates_over_three_octaves_are_enough_whatever_their_logarithms_round_to(least):
    rates = [least * 2**octave for octave in range(4)]
    assert are_enough([math.log2(rate) for rate in rates])
    assert fit({rate: octave**2 for octave, rate in enumerate(rates)}) is not None
    assert not are_enough([]) and not are_enough([math.log2(rate) for rate in rates[:3]])
    assert not are_enough([math.log2(rate) for rate in (*rates[:3], 1.9 * rates[2])])


def test_an_exact_parabola_is_found_exactly():
    losses = {2.0**x: 3.0 + 0.25 * (x - 0.3) ** 2 for x in range(-2, 3)}
    found = fit(losses)
    assert found.lowest == pytest.approx(3.0) and math.log2(found.rate) == pytest.approx(0.3)
    assert found.curvature == pytest.approx(0.25) and found.freedom == 2.0
    assert found.error == pytest.approx(0.0, abs=1e-7) and found.least <= found.lowest
    assert fit({rate: -loss for rate, loss in losses.items()}) is None, "a maximum"


def test_the_error_of_the_minimum_is_that_of_the_regression_there():
    losses = {2.0**x: loss for x, loss in enumerate([5.0, 3.1, 2.0, 2.2, 2.9, 5.4])}
    found = minimum(losses)
    x = math.log2(found.rate)
    # A regression on the distance to the minimum has the level there as its intercept.
    squares = [(octave - x) ** 2 for octave in range(6)]
    line = stats.linregress(squares, list(losses.values()))
    assert found.lowest == pytest.approx(line.intercept)
    assert found.error > line.intercept_stderr * math.sqrt(3 / 4) * 0.99, "one more number is estimated"
