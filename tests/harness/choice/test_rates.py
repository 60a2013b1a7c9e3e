"""The width of an optimum, against parabolas and lines whose width is known in closed form."""

import math

import pytest

from htbench.harness.choice.rates import Width, rate_width


def parabola(rates, *, best=0.02, level=30.0, curvature=1.5):
    """Quadratic in log2(lr): within a share x of its best for +-sqrt(x level / curvature) octaves."""
    return {rate: level + curvature * math.log2(rate / best) ** 2 for rate in rates}


def grid(steps, per_octave, best=0.02):
    return [best * 2 ** (step / per_octave) for step in range(-steps, steps + 1)]


def test_a_fine_parabola_has_the_width_of_the_closed_form():
    found = rate_width(parabola(grid(200, 50)), 0.02, 0.05)
    half = math.sqrt(0.05 * 30 / 1.5)  # one octave
    assert found.octaves == pytest.approx(2 * half)
    assert (found.low, found.high) == (pytest.approx(0.01), pytest.approx(0.04))
    assert not found.open_low and not found.open_high
    wider = rate_width(parabola(grid(200, 50)), 0.02, 0.1)
    assert wider.octaves == pytest.approx(2 * math.sqrt(2), rel=1e-3)


def test_between_rates_the_metric_is_a_line_over_the_logarithm():
    levels = {0.01: 36.0, 0.02: 30.0, 0.08: 33.0}
    found = rate_width(levels, 0.02, 0.05)  # margin 1.5: a quarter of an octave down, one of two octaves up
    assert (found.low, found.high) == (pytest.approx(0.02 / 2**0.25), pytest.approx(0.04))
    assert found.octaves == pytest.approx(1.25)


def test_a_coarse_grid_is_never_wider_than_the_parabola():
    for per_octave in (1, 2, 3):
        coarse = rate_width(parabola(grid(9, per_octave)), 0.02, 0.03)
        assert coarse.octaves <= 2 * math.sqrt(0.03 * 30 / 1.5) + 1e-12


def test_higher_may_be_better_and_the_margin_is_relative():
    levels = {0.01: 80.0, 0.02: 90.0, 0.04: 72.0}
    found = rate_width(levels, 0.02, 0.1)  # margin 9
    assert (found.low, found.high) == (pytest.approx(0.02 / 2**0.9), pytest.approx(0.02 * 2**0.5))


def test_at_the_edge_of_the_grid_the_range_is_open():
    found = rate_width({0.01: 30.0, 0.02: 30.1, 0.04: 40.0}, 0.01, 0.01)
    assert found.open_low and not found.open_high and found.low == 0.01
    assert rate_width({0.01: 30.0}, 0.01, 0.01) == Width(0.01, 0.01, True, True)


def test_a_diverged_rate_ends_the_range_at_the_last_rate_before_it():
    found = rate_width({0.01: 30.0, 0.02: 30.1}, 0.01, 0.01, diverged=[0.04, 0.005])
    assert found == Width(0.01, 0.02, False, False)


def test_a_second_optimum_beyond_a_ridge_does_not_count():
    levels = {0.01: 30.0, 0.02: 34.0, 0.04: 30.0, 0.08: 40.0}
    assert rate_width(levels, 0.01, 0.01).high < 0.02
    assert rate_width(levels, 0.04, 0.01).low > 0.02


def test_a_plateau_of_ties_is_one_range():
    found = rate_width({0.01: 90.0, 0.02: 95.0, 0.04: 95.0, 0.08: 90.0}, 0.04, 1e-6)
    assert found.octaves == pytest.approx(1, abs=1e-3)
