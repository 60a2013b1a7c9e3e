"""Verdicts on claims, censored times, and several workloads: against scipy, statsmodels and by hand."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower

from htbench.results.compare.censored import Time, compare_times
from htbench.results.compare.claim_verdicts import ClaimVerdict, claim_verdict, power_at, stands
from htbench.results.compare.workloads import expected_best, over_workloads, performance_profile

# --- claims ---


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.3, -0.1, ClaimVerdict.CONTRADICTS),
        (-0.1, 0.04, ClaimVerdict.SMALLER),
        (0.01, 0.04, ClaimVerdict.SMALLER),
        (0.06, 0.3, ClaimVerdict.REPRODUCES),
        (0.01, 0.3, ClaimVerdict.AGREES),
        (-0.1, 0.3, ClaimVerdict.UNDECIDED),
    ],
)
def test_an_interval_says_what_becomes_of_a_claim_of_ten_percent(low, high, verdict):
    assert claim_verdict(low, high, 0.1) is verdict


@pytest.mark.parametrize(("delta", "n"), [(0.5, 3), (1.0, 5), (-2.0, 4), (0.1, 30)])
def test_power_is_that_of_statsmodels(delta, n):
    exact = TTestPower().power(abs(delta), n, 0.05)
    assert power_at(delta, 1 / n, n - 1) == pytest.approx(exact, abs=1e-6)


def test_power_without_doubt():
    assert power_at(0, 1, float("inf")) == pytest.approx(0.05)
    assert power_at(1e3, 1, 4) == 1


def test_what_stands_of_a_family():
    """The example of Benjamini and Hochberg (1995), section 3.2: four of fifteen stand at .05, where
    Bonferroni's procedure keeps three."""
    ps = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262]
    ps += [0.5719, 0.6528, 0.7590, 1.0]
    assert stands(ps, 0.05) == [True] * 4 + [False] * 11
    assert stands([0.04, None, None, None], 0.1) == [False] * 4 and stands([0.04], 0.1) == [True]
    assert stands([]) == []


# --- times ---

# Weeks of remission of leukemia, Freireich et al. (1963), Gehan's own example; + is censored.
DRUG = "6 6 6 7 10 13 16 22 23 6+ 9+ 10+ 11+ 17+ 19+ 20+ 25+ 32+ 32+ 34+ 35+"
PLACEBO = "1 1 2 2 3 4 4 5 5 8 8 8 8 11 11 12 12 15 17 22 23"


def times(words):
    return [Time(float(word.rstrip("+")), word.endswith("+")) for word in words.split()]


def test_gehans_own_example():
    found = compare_times(times(PLACEBO), times(DRUG))
    assert (found.score, found.censored, found.is_exact) == (271, (0, 12), False)
    assert found.p_value == pytest.approx(0.0004, abs=1e-4)


def test_without_censored_runs_it_is_wilcoxons_test():
    source = np.random.RandomState(0)
    for _ in range(10):
        a, b = source.standard_normal(5), source.standard_normal(6) + 0.5
        found = compare_times([Time(x) for x in a], [Time(x) for x in b])
        exact = stats.mannwhitneyu(a, b, method="exact")
        assert found.is_exact and found.p_value == pytest.approx(exact.pvalue)
        assert found.score == 30 - 2 * exact.statistic


def test_runs_that_never_reach_the_target_count():
    """Three that reach it against one of three: the survivor alone would be ahead."""
    found = compare_times([Time(3), Time(3.1), Time(3.2)], [Time(2.9), Time(9, True), Time(9, True)])
    assert found.score == 9 - 3 - 3 and found.p_value > 0.5
    assert compare_times([Time(1, True)], [Time(2, True)]).p_value is None
    assert compare_times([Time(5)], [Time(5, True)]).score == 1
    with pytest.raises(ValueError, match="at least one run"):
        compare_times([], [Time(1)])


# --- budgets and workloads ---


@pytest.mark.parametrize("higher", [False, True])
def test_the_expected_best_of_some_settings_is_that_of_all_draws(higher):
    values = [3.0, 1.0, 2.5, 2.0, 7.0, 1.5]
    for k in range(1, 7):
        best = [(max if higher else min)(draw) for draw in combinations(values, k)]
        found = expected_best(values, k, higher_is_better=higher)
        assert found.mean == pytest.approx(np.mean(best))
        assert min(best) <= found.low <= found.mean <= found.high <= max(best)
    with pytest.raises(ValueError, match="1 to 6"):
        expected_best(values, 7)


def test_a_performance_profile_by_hand():
    costs = np.array([[1.0, 2.0, np.inf], [2.0, 1.0, 3.0]])
    assert performance_profile(costs, [1, 2, 4]) == pytest.approx(np.array([[1, 2, 2], [2, 3, 3]]) / 3)


def test_the_mixed_model_is_the_analysis_of_variance_of_blocks():
    """Balanced, so that both give the same; the seeds of a workload are no further workloads."""
    source = np.random.RandomState(0)
    means = source.standard_normal((6, 1)) + [0, 0.1, 0.3] + 0.05 * source.standard_normal((6, 3))
    runs = means[:, :, None] + 0.01 * source.standard_normal((6, 3, 4))
    places = [(w, rule, runs[w, r, s]) for w in range(6) for r, rule in enumerate("abc") for s in range(4)]
    found = over_workloads([p[1] for p in places], [str(p[0]) for p in places], [p[2] for p in places], "a")
    cells = runs.mean(axis=2)
    residual = cells - cells.mean(axis=1, keepdims=True) - cells.mean(axis=0) + cells.mean()
    error = np.sqrt(2 / 6 * (residual**2).sum() / 10)
    assert [row.rule for row in found] == ["b", "c"]
    assert [row.gap for row in found] == pytest.approx(cells.mean(axis=0)[1:] - cells.mean(axis=0)[0])
    assert [row.error for row in found] == pytest.approx([error] * 2, rel=1e-3)
    assert found[1].p_value == pytest.approx(2 * stats.t.sf(found[1].gap / error, 10), rel=0.01)
    once = over_workloads(list("abc") * 6, [str(w) for w in range(6) for _ in "abc"], cells.ravel(), "a")
    assert [row.error for row in once] == pytest.approx([error] * 2, rel=1e-3)
    with pytest.raises(ValueError, match="'z'"):
        over_workloads(["a"], ["x"], [1.0], "z")
    with pytest.raises(ValueError, match="at least two"):
        over_workloads(["a", "b"], ["x", "x"], [1.0, 2.0], "a")
