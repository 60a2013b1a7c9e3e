"""Smaller budgets and several workloads: against statsmodels and by hand."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from htbench.results.compare.workloads import compare_over_workloads, expected_best, performance_profile


@pytest.mark.parametrize("higher", [False, True])
def test_the_expected_best_of_some_settings_is_that_of_all_draws(higher):
    values = [3.0, 1.0, 2.5, 2.0, 7.0, 1.5]
    for k in range(1, 7):
        best = [(max if higher else min)(draw) for draw in combinations(values, k)]
        found = expected_best(values, k, higher_is_better=higher)
        assert found == pytest.approx(np.mean(best))
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
    places = [("abc"[r], str(w), runs[w, r, s]) for w, r, s in np.ndindex(6, 3, 4)]
    found = compare_over_workloads(*zip(*places, strict=True), "a")
    cells = runs.mean(axis=2)
    residual = cells - cells.mean(axis=1, keepdims=True) - cells.mean(axis=0) + cells.mean()
    error = np.sqrt(2 / 6 * (residual**2).sum() / 10)
    assert [row.rule for row in found] == ["b", "c"]
    assert [row.gap for row in found] == pytest.approx(cells.mean(axis=0)[1:] - cells.mean(axis=0)[0])
    assert [row.error for row in found] == pytest.approx([error] * 2, rel=1e-3)
    assert found[1].p_value == pytest.approx(2 * stats.t.sf(found[1].gap / error, 10), rel=0.01)
    each = [str(w) for w in range(6) for _ in "abc"]
    once = compare_over_workloads(list("abc") * 6, each, cells.ravel(), "a")
    assert [row.error for row in once] == pytest.approx([error] * 2, rel=1e-3)
    with pytest.raises(ValueError, match="'z'"):
        compare_over_workloads(["a"], ["x"], [1.0], "z")
    with pytest.raises(ValueError, match="at least two"):
        compare_over_workloads(["a", "b"], ["x", "x"], [1.0, 2.0], "a")
