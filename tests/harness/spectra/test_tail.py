"""The estimators: closed forms, the scan against its definition, and spectra that break other programs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from htbench.harness.spectra.tail import METHODS, SMALL_N, fit_alpha
from tests.helpers.spectra import ks_scan

spectra = arrays.arrays(np.float64, st.integers(1, 70), elements=st.floats(0, allow_infinity=False))


def power_law(n, s):
    """Eigenvalues of singular values k^-s."""
    return np.arange(1, n + 1, dtype=float) ** (-2 * s)


@pytest.mark.parametrize("n", [2, 3, 50, 51, 128, 1024])
@pytest.mark.parametrize("s", [0.3, 0.5, 1.0, 2.0])
def test_hill_mid_of_a_power_law_in_closed_form(n, s):
    m = n - n // 2
    exact = 1 + m / (2 * s * (m * math.log(m) - math.lgamma(m + 1))) if m > 1 else math.inf
    found = fit_alpha(power_law(n, s))
    assert found.alpha == pytest.approx(exact, rel=1e-9)
    assert found.alpha > 1 + 1 / (2 * s)  # the lemma
    assert found.n_tail == m and found.xmin == pytest.approx(m ** (-2 * s))
    assert found.sigma == pytest.approx((exact - 1) / math.sqrt(m), rel=1e-9)


def test_ks_of_a_power_law_takes_all_of_it():
    """Its alpha at N eigenvalues is hill_mid's at 2 N, whose tail are N."""
    found = fit_alpha(power_law(256, 0.5), "ks")
    assert found.n_tail == 256
    assert found.alpha == pytest.approx(fit_alpha(power_law(512, 0.5)).alpha, rel=1e-12)


@pytest.mark.parametrize("alpha", [4.0, 6.0])
def test_ks_has_no_greatest_exponent(alpha):
    """powerlaw 2.0 looks up to 3 (docs/elsewhere.md); these draws are of a Pareto law by its inverse."""
    draws = (1 - np.random.default_rng(0).random(2000)) ** (-1 / (alpha - 1))
    assert fit_alpha(draws, "ks").alpha == pytest.approx(alpha, rel=0.01)


def by_definition(evals):
    alphas, distances = [], []
    for i in range(len(evals) - 1):
        tail = evals[i:]
        n = len(tail)
        alphas.append(1 + n / np.log(tail / tail[0]).sum())
        powers = (tail / tail[0]) ** (1 - alphas[-1])
        distances.append(np.abs(1 - powers - np.arange(n) / n).max())
    return np.array(alphas), np.array(distances)


@pytest.mark.parametrize("n", [2, 3, 40, 300, 700])
def test_the_scan_is_its_definition(n):
    evals = np.sort(np.random.default_rng(n).pareto(1.5, n) + 0.1)
    for found, expected in zip(ks_scan(evals), by_definition(evals), strict=True):
        assert found == pytest.approx(expected, rel=1e-11)


def test_ks_takes_the_least_distance_and_the_first_of_equal_ones():
    evals = np.repeat([1.0, 2.0, 4.0], 40)
    alphas, distances = ks_scan(evals)
    found = fit_alpha(evals, "ks")
    best = int(np.argmin(distances))
    assert (found.alpha, found.D, found.n_tail) == (alphas[best], distances[best], 120 - best)
    assert np.isinf(alphas[80:]).all()  # one value only
    assert distances[80:] == pytest.approx(1 - 1 / np.arange(40, 1, -1))


# --- pitfalls 5 to 9 ---


def test_zeros_do_not_change_what_ks_finds():
    evals = np.sort(np.random.default_rng(0).pareto(1.5, 80) + 0.1)
    with_zeros = np.concatenate([np.zeros(70), evals])
    without, found = fit_alpha(evals, "ks"), fit_alpha(with_zeros, "ks")
    assert (found.alpha, found.D, found.n_used) == (without.alpha, without.D, 80)
    noise = np.concatenate([np.full(70, 1e-20), evals])
    assert fit_alpha(noise, "ks", cut=1e-12).alpha == without.alpha


def test_hill_mid_keeps_zeros_until_its_tail_reaches_them():
    evals = np.sort(np.random.default_rng(0).pareto(1.5, 80) + 0.1)
    padded = np.concatenate([np.zeros(70), evals])  # 75 in the tail
    assert fit_alpha(padded).alpha == fit_alpha(np.concatenate([np.full(70, 1e-9), evals])).alpha
    found = fit_alpha(np.concatenate([np.zeros(90), evals]))
    assert math.isnan(found.alpha) and found.flags == ("tail_hits_zero",) and found.n_tail == 0
    assert "tail_hits_zero" in fit_alpha(np.concatenate([np.full(90, 1e-9), evals]), cut=1e-9).flags


def test_no_absolute_cut_depends_on_the_scale():
    evals = np.random.default_rng(1).pareto(2, 100) + 1
    for method in METHODS:
        small = fit_alpha(1e-12 * evals, method)
        assert small.alpha == pytest.approx(fit_alpha(evals, method).alpha)


def test_flat_spectra_have_no_exponent_but_a_flag():
    nearly = 1 + 1e-7 * np.random.default_rng(2).standard_normal(100)
    for evals in (np.ones(100), nearly):
        for method in METHODS:
            found = fit_alpha(evals, method)
            assert found.alpha == math.inf and "flat" in found.flags, method
            assert np.isfinite(found.D) and found.n_tail > 0


def test_few_eigenvalues_are_flagged():
    evals = np.random.default_rng(3).pareto(2, SMALL_N) + 1
    assert fit_alpha(evals).flags == () and fit_alpha(evals[1:]).flags == ("small_n",)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("method", METHODS)
def test_numbers_that_are_not_finite_are_flagged(method, bad):
    found = fit_alpha([1.0, bad, 2.0], method)
    assert math.isnan(found.alpha) and "not_finite" in found.flags


@given(spectra, st.sampled_from(METHODS), st.floats(0, 1))
def test_there_is_always_an_answer(evals, method, cut):
    found = fit_alpha(evals, method, cut=cut)
    assert found.alpha > 1 or (math.isnan(found.alpha) and found.flags)
    assert math.isfinite(found.alpha) or found.flags
    assert math.isnan(found.D) or 0 <= found.D <= 1
    assert 0 <= found.n_tail <= found.n_used <= len(evals)


@given(
    arrays.arrays(np.float64, st.integers(1, 70), elements=st.floats(1e-3, 1e6)),
    st.sampled_from(("hill_mid", "ks")),
)
def test_the_scale_does_not_matter(evals, method):
    one, other = fit_alpha(evals, method), fit_alpha(evals * 2.0**-20, method)
    assert one.n_used == other.n_used
    if one.n_tail == other.n_tail and math.isfinite(one.alpha):  # rounding may decide between two candidates
        assert other.alpha == pytest.approx(one.alpha, rel=1e-6)


@pytest.mark.parametrize("method", ["hill", "", "KS"])
def test_unknown_methods_are_refused(method):
    with pytest.raises(ValueError, match="known are hill_mid, ks$"):
        fit_alpha([1.0], method)


def test_what_is_no_spectrum_is_refused():
    with pytest.raises(ValueError, match="must be a vector"):
        fit_alpha(np.eye(3))


@pytest.mark.parametrize("method", METHODS)
def test_nothing_comes_of_nothing(method):
    assert fit_alpha([], method).flags == ("small_n", "no_tail")
    assert all(len(part) == 0 for part in ks_scan([]))


# --- packages of others, where they are installed ---


@pytest.mark.parametrize("seed", range(3))
def test_powerlaw_finds_the_same(seed):
    powerlaw = pytest.importorskip("powerlaw")
    evals = np.random.default_rng(seed).pareto(1.2, 200) + 0.5
    limits = {"parameter_ranges": {"alpha": [1, None]}} if powerlaw.__version__ >= "2" else {}
    theirs, ours = powerlaw.Fit(evals, verbose=False, **limits), fit_alpha(evals, "ks")
    assert ours.alpha == pytest.approx(theirs.power_law.alpha, rel=1e-9)
    assert ours.xmin == pytest.approx(theirs.power_law.xmin)
