"""The judge: its laws against scipy and statsmodels, and verdicts, ranks and intervals that agree."""

import math
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats
from statsmodels.formula.api import wls
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.power import TTestPower
from statsmodels.stats.proportion import proportion_confint

from htbench.results.compare import ranges
from htbench.results.compare.items import Discordant, Items, paired_variance
from htbench.results.compare.judge import Kind, Row, judge
from htbench.results.compare.spread import estimate_spread, moderate
from htbench.results.compare.tuning import Search, Setting, tuning_variance
from htbench.results.frames.metrics import MARGIN_NATS as MARGIN
from tests.helpers.simulate import rows_of


def noise(*shape, seed=0):
    return np.random.RandomState(seed).standard_normal(shape)


# --- the studentised range ---


@pytest.mark.parametrize("k", [2, 3, 5, 12])
@pytest.mark.parametrize("freedom", [1.5, 4, 20, math.inf])
def test_the_law_is_scipys(k, freedom):
    t = ranges.critical(k, np.array(freedom), 0.05)
    assert t == pytest.approx(stats.studentized_range.ppf(0.95, k, freedom) / 2**0.5, rel=1e-4)
    assert ranges.p_value(2 * t, k, np.array(freedom)) == pytest.approx(
        stats.studentized_range.sf(2 * t * 2**0.5, k, freedom), abs=1e-6
    )


@pytest.mark.parametrize(
    ("k", "freedom", "q"), [(3, 10, 3.877), (5, 20, 4.232), (10, 40, 4.735), (4, 6, 4.896), (20, 60, 5.241)]
)
def test_critical_values_are_those_of_printed_tables(k, freedom, q):
    """Of Tukey's studentised range at 5 %, as in the tables of textbooks."""
    assert ranges.critical(k, np.array(float(freedom)), 0.05) * 2**0.5 == pytest.approx(q, abs=6e-4)


def test_two_rows_are_a_t_test():
    freedom, t = np.array([2.0, 7.0, 30.0]), np.array([1.0, 2.5, 0.3])
    assert ranges.p_value(t, 2, freedom) == pytest.approx(2 * stats.t.sf(t, freedom), abs=1e-5)


# --- variances ---


def test_variances_move_to_their_pool_as_far_as_they_are_alike():
    """d0 grows with p of Bartlett's test and with d; where p is small, to what limma takes for it."""
    values, d = noise(6, 5) * np.array([[1, 1.5, 1, 2, 1, 1]]).T, 4.0
    for unlike, scale in ((False, np.ones((6, 1))), (True, np.array([[1, 1, 0.15, 0.5, 0.15, 0.5]]).T)):
        rows = values * scale
        variances, p = rows.var(axis=1, ddof=1), stats.bartlett(*rows).pvalue
        found = moderate(variances, np.full(6, d))
        assert found.bartlett == pytest.approx(p) and not found.noisy.any() and (p < 0.02) == unlike
        prior = variances.mean()
        if unlike:  # Smyth (2004), section 6.2: the mean of e_g
            prior = math.exp((np.log(variances) - special.digamma(d / 2) + math.log(d / 2)).mean())
            assert prior < variances.mean()
        d0 = (1 + p) / (1 - p) * (d / 3) ** 1.5
        assert found.variance == pytest.approx((d0 * prior + d * variances) / (d0 + d))
        share = d / (d0 + d)
        assert found.freedom == pytest.approx(np.full(6, 1 / ((1 - share**2) / 24 + share**2 / d)))


def test_equal_variances_are_pooled():
    found = moderate(np.full(6, 0.7), np.full(6, 4.0))
    assert found.variance == pytest.approx(np.full(6, 0.7)) and found.bartlett == 1
    assert found.freedom == pytest.approx(np.full(6, 24))


def test_an_error_that_rows_have_alone_does_not_add_up():
    """The freedom of a gap is Satterthwaite's of two rows, with what they share counted as one."""
    variances = np.array([0.8, 1.3, 0.9, 3.0])
    found, d, counts = moderate(variances, np.full(4, 5.0)), 5.0, np.full(4, 6)
    share = float(np.sqrt(found.alone[0] * d))
    weights = np.full((4, 4), (1 - share) / 4) + share * np.eye(4)  # of the four variances in each
    pair = (weights[0] + weights[1]) @ np.ones(4)
    error = ((weights[0] + weights[1]) ** 2).sum() / d
    equal = moderate(np.ones(4), np.full(4, d))
    like = type(equal)(np.ones(4), found.common, found.alone, 1.0, equal.noisy, 1.0)
    assert like.freedom_beside(0, counts)[1] == pytest.approx(pair**2 / error)


def test_noisy_rows_do_not_hide_each_other_and_keep_their_variance():
    variances = np.array([1.0, 1.2, 0.8, 1.1, 0.9, 3000, 5000, 4000])
    found = moderate(variances, np.full(8, 4.0))
    assert found.noisy.tolist() == [False] * 5 + [True] * 3
    assert found.variance == pytest.approx([1.0] * 5 + [3000, 5000, 4000], rel=3e-3)
    assert found.freedom == pytest.approx([20] * 5 + [4] * 3, rel=3e-3)


def test_a_row_without_freedom_gets_the_variance_of_the_others():
    found = moderate(np.array([2.0, 4.0, 0.0]), np.array([3.0, 3.0, 0.0]))
    assert found.variance[2] == pytest.approx(3) and found.freedom[2] == pytest.approx(6)
    with pytest.raises(ValueError, match="two values"):
        moderate(np.array([0.0]), np.array([0.0]))


def test_paired_rows_leave_what_statsmodels_leaves_of_rows_and_seeds():
    """Also with holes."""
    values = noise(5, 6) + 3 * noise(6, seed=1)
    values[0, 4:] = values[3, :2] = math.nan
    found = estimate_spread(values, paired=True)
    weights = found.own.pooled_variance / found.own.variance
    row, seed = np.nonzero(np.isfinite(values))
    frame = pd.DataFrame({"y": values[row, seed], "row": row, "seed": seed})
    fit = wls("y ~ C(row) + C(seed)", frame, weights=weights[row]).fit()
    leverage = (fit.model.wexog * np.linalg.pinv(fit.model.wexog).T).sum(axis=1)
    left, pooled = np.bincount(row, 1 - leverage), (fit.resid**2).sum() / fit.df_resid
    assert left.sum() == pytest.approx(fit.df_resid)
    assert found.own.pooled_variance == pytest.approx(pooled, rel=1e-3)
    common = (1 - left * found.own.alone) / fit.df_resid
    assert found.own.common == pytest.approx(common, rel=1e-2)
    assert found.seeds == pytest.approx(9 * noise(6, seed=1).var(ddof=1), rel=0.3)


def test_a_noisy_row_does_not_leak_into_the_others():
    clean = noise(4, 5) + 3 * noise(5, seed=1)
    alone = estimate_spread(clean, paired=True).own
    beside = estimate_spread(np.vstack([clean, 1e3 * noise(1, 5, seed=2)]), paired=True).own
    assert beside.noisy.tolist() == [False] * 4 + [True]
    assert beside.variance[:4] == pytest.approx(alone.variance, rel=1e-3)


def test_one_run_far_out_widens_its_row_only():
    """It is not lost: its row keeps all of its variance. The others are judged as if it were not there."""
    quiet = noise(3, 8, seed=6) + 3 * noise(8, seed=1)
    far = quiet.copy()
    far[2, 5] += 20
    without = quiet.copy()
    without[2, 5] = math.nan
    found, expected = (estimate_spread(values, paired=True).own for values in (far, without))
    assert found.noisy.tolist() == [False, False, True]
    assert found.variance[:2] == pytest.approx(expected.variance[:2])
    assert found.freedom[:2] == pytest.approx(expected.freedom[:2])
    assert found.variance[2] == pytest.approx(20**2 / 8, rel=0.3) and found.freedom[2] == pytest.approx(7)
    assert found.bartlett < 0.05  # so the table says that rows scatter unlike
    whole = estimate_spread(quiet, paired=True)
    assert not whole.own.noisy.any() and estimate_spread(far, paired=True).shares == pytest.approx(
        whole.shares
    )


# --- the test of a tie ---


def test_two_paired_rows_are_the_paired_t_test():
    values = noise(2, 6) + 5 * noise(6, seed=3)
    worse = max(judge(rows_of(values)).verdicts, key=lambda row: row.gap)
    expected = stats.ttest_rel(*values)
    assert worse.p_value == pytest.approx(expected.pvalue, rel=1e-4)
    ends = sorted(np.abs(expected.confidence_interval()) * np.sign([worse.low, worse.high]))
    assert sorted([worse.low, worse.high]) == pytest.approx(ends, rel=1e-5)


def test_unpaired_rows_that_scatter_alike_are_tukeys_test():
    """Data of the documentation of `scipy.stats.tukey_hsd`, with one deviation for all of its groups."""
    data = np.array(
        [[24.5, 23.5, 26.4, 27.1, 29.9], [28.4, 34.2, 29.5, 32.2, 30.1], [26.1, 28.3, 24.3, 26.2, 27.8]]
    )
    means = data.mean(axis=1, keepdims=True)
    groups = means + 2 * (data - means) / data.std(axis=1, ddof=1, keepdims=True)
    found = judge(rows_of(groups), paired=False).verdicts
    assert [row.kind for row in found] == [Kind.BEST, Kind.WORSE, Kind.UNKNOWN]
    tukey = stats.tukey_hsd(*groups)
    assert found[1].p_value == pytest.approx(tukey.pvalue[0, 1], abs=1e-6)
    interval = tukey.confidence_interval()
    assert (found[1].low, found[1].high) == pytest.approx((interval.low[1, 0], interval.high[1, 0]), rel=1e-4)
    pair = stats.ttest_ind(groups[0], groups[2])  # one row less is left
    assert found[2].p_value == pytest.approx(max(pair.pvalue, found[1].p_value), abs=0.1)


def test_hopeless_rows_leave_the_verdict_of_the_others():
    top = noise(3, 4, seed=4) * 0.1 + np.array([[0.0], [0.1], [0.6]])
    alone = judge(rows_of(top)).verdicts
    hopeless = np.array([[50.0], [60.0], [70.0]]) + 0.1 * noise(3, 4, seed=5)
    beside = judge(rows_of(np.vstack([top, hopeless]))).verdicts
    assert [row.kind for row in beside[:3]] == [row.kind for row in alone]
    assert [row.kind for row in beside[3:]] == [Kind.WORSE] * 3
    assert beside[1].p_value < 1.2 * alone[1].p_value


VALUES = st.lists(
    st.lists(st.integers(-40, 40).map(lambda x: x / 8), min_size=3, max_size=3), min_size=2, max_size=5
)


@settings(max_examples=60, deadline=None)
@given(VALUES, st.booleans(), st.sampled_from([0.0, 0.5]))
def test_interval_verdict_rank_and_p_value_agree(values, paired, margin):
    found = judge(rows_of(np.array(values)), paired=paired, margin=margin)
    best = found.verdicts[found.best]
    assert (best.kind, best.rank, best.gap, best.p_value) == (Kind.BEST, 1, 0, 1)
    worse = min((row.gap for row in found.verdicts if row.kind is Kind.WORSE), default=math.inf)
    for row in found.verdicts:
        assert row.low <= row.gap <= row.high and 0 <= row.p_value <= 1
        assert (row.rank == 1) == (row.gap < worse)
        inside = max(-row.low, row.high) <= margin
        if row is not best:
            assert (row.kind is Kind.EQUAL) == inside
            assert (row.kind is Kind.WORSE) == (row.low > 0 and not inside)
            assert (row.p_value < 0.05) == (row.low > 0) or row.p_value == pytest.approx(0.05, abs=1e-4)
    ranks = [row.rank for row in sorted(found.verdicts, key=lambda row: row.gap)]
    assert ranks == sorted(ranks)  # none is better than that of a row with a better mean
    assert all(b == a or b - 1 == sum(rank < b for rank in ranks) for a, b in pairwise(ranks))
    assert all(row.is_tied == (ranks.count(row.rank) > 1) for row in found.verdicts)


@settings(max_examples=30, deadline=None)
@given(VALUES)
def test_the_other_direction_is_the_mirror(values):
    low = judge(rows_of(np.array(values))).verdicts
    high = judge(rows_of(-np.array(values)), higher_is_better=True).verdicts
    assert [(row.kind, row.rank, row.p_value, row.low) for row in low] == [
        (row.kind, row.rank, row.p_value, row.low) for row in high
    ]


def test_ranks_of_groups():
    means = np.array([[2.0], [0.0], [2.0], [9.0], [0.0]])
    values = means + 0.01 * np.array([[1, 2, 3], [3, 1, 2], [2, 3, 1], [1, 3, 2], [2, 1, 3]])
    found = judge(rows_of(values)).verdicts
    assert [row.rank for row in found] == [3, 1, 3, 5, 1]
    assert [row.is_tied for row in found] == [True, True, True, False, True]


def test_a_row_behind_a_worse_one_shares_no_rank_with_the_best():
    steady, wild = [3.3, 3.31, 3.325], [3.1, 3.5, 3.7]
    close = [[3.0, 3.01, 3.02], [3.005, 3.012, 3.023], [3.002, 3.011, 3.021]]
    found = judge(rows_of(np.array([wild, *close, steady]))).verdicts
    assert [row.kind for row in found] == [Kind.UNKNOWN, Kind.BEST, *[Kind.UNKNOWN] * 2, Kind.WORSE]
    assert [row.rank for row in found] == [4, 1, 1, 1, 4] and all(row.is_tied for row in found)


def test_partly_shared_seeds_count_as_far_as_they_are_shared():
    """On other seeds, what a seed does to all rows is part of the error."""
    values = 0.01 * noise(3, 8) + noise(8, seed=1)

    def variance(first, second):
        rows = [
            Row(str(i), {(seed, seed): values[i, seed] for seed in own})
            for i, own in enumerate([range(8), first, second])
        ]
        found = judge(rows).verdicts
        return max(row.parts.seeds for row in found[1:]), found

    same, _ = variance(range(4), range(4))
    other, found = variance(range(4), range(4, 8))
    assert other > 100 * same and [row.kind for row in found[1:]].count(Kind.WORSE) == 0


def test_equal_is_an_interval_within_the_margin():
    values = 1e-4 * noise(2, 5)
    assert [row.kind for row in judge(rows_of(values)).verdicts].count(Kind.EQUAL) == 1
    assert max(row.high for row in judge(rows_of(values)).verdicts) < MARGIN
    assert Kind.EQUAL not in [row.kind for row in judge(rows_of(values), margin=1e-5).verdicts]


# --- what nothing tells ---


def test_single_values_and_equal_values_tell_nothing():
    for values in ([[1.0], [2.0]], [[1.0] * 3, [2.0] * 3]):
        best, other = judge(rows_of(np.array(values))).verdicts
        assert (best.kind, other.kind, other.p_value, other.rank) == (Kind.BEST, Kind.UNKNOWN, 1, 1)
        assert (other.low, other.high) == (-math.inf, math.inf)
    lone = judge([*rows_of(noise(3, 4)), Row("lone", {(0, 0): 99.0})]).verdicts[3]
    assert lone.kind is Kind.UNKNOWN and math.isinf(lone.high)


def test_rows_without_spread_hide_none_that_scatters_and_are_promised_no_number_of_seeds():
    noisy, t = 2.3 + 0.09 * noise(20), ranges.critical(3, np.array(19.0), 0.05)
    for one in (np.full(20, 2.0), 2 + 0.09 * noise(20, seed=1)):  # no run differs, or two alike
        _, same, worse = judge(rows_of(np.array([one, one + 0.1, noisy]))).verdicts
        assert (same.kind, same.is_constant, same.seeds_needed) == (Kind.UNKNOWN, True, None)
        expected = t * (noisy - one).std(ddof=1) / 20**0.5
        assert worse.kind is Kind.WORSE and worse.high - worse.gap == pytest.approx(expected)
    # A constant row scatters beside two that a seed moves alike.
    assert judge(rows_of(np.array([one, one + 0.1, np.full(20, 3.0)]))).verdicts[2].kind is Kind.WORSE


def test_a_single_row_is_the_best():
    found = judge(rows_of(noise(1, 3)))
    assert (found.best, found.verdicts[0].rank, found.verdicts[0].is_tied) == (0, 1, False)


def test_what_can_not_be_judged_is_refused():
    with pytest.raises(ValueError, match="'a'"):
        judge([Row("a", {(0, 0): math.nan})])
    with pytest.raises(ValueError, match="no row"):
        judge([])


# --- what would tell ---


def test_seeds_needed_are_those_of_the_paired_t_test():
    difference = np.array([1.0, -0.5, 0.9, -0.2, 0.3, 0.6])
    values = np.array([np.zeros(6), difference]) + noise(6)
    needed = judge(rows_of(values)).verdicts[1].seeds_needed
    effect = difference.mean() / difference.std(ddof=1)
    exact = TTestPower().solve_power(effect, power=0.8, alpha=0.05)
    assert abs(needed.estimate - exact) < 2 and needed.low < needed.estimate < needed.high


def test_a_test_set_can_be_too_small():
    values = 0.001 * noise(2, 3) + np.array([[0.0], [0.01]])
    cluster = np.repeat(np.arange(40), 5)
    sums = [np.full(200, value) + 0.5 * noise(200, seed=i) for i, value in enumerate((0.0, 0.01))]
    rows = [
        Row(row.name, row.values, items=Items(own, np.ones(200), cluster))
        for row, own in zip(rows_of(values), sums, strict=True)
    ]
    assert judge(rows_of(values)).verdicts[1].kind is Kind.WORSE
    found = judge(rows).verdicts[1]
    assert found.kind is Kind.UNKNOWN and found.seeds_needed is None
    assert found.limited_by_test_set and found.items_needed > 200 and found.parts.items > found.parts.seeds


@pytest.mark.parametrize("freedom", [2, 9, np.inf])
def test_what_a_search_adds_is_what_draws_add(freedom):
    source, worth, counts = np.random.default_rng(0), [0.3, 0.0, -0.2, 0.9], [1, 2, 1, 4]
    rows = [Setting(str(n), [w] * c) for n, (w, c) in enumerate(zip(worth, counts, strict=True))]
    added = tuning_variance(Search(rows, "3"), 0.9, 0.5, freedom, higher_is_better=True)
    scale = np.sqrt(freedom / source.chisquare(freedom, (400_000, 1))) if np.isfinite(freedom) else 1.0
    noise = scale * source.standard_normal((400_000, 4)) * np.sqrt(0.5 / np.array(counts))
    assert added == pytest.approx(np.array(worth)[np.argmax(worth + noise, axis=1)].var(), rel=0.01)


def test_a_search_can_be_too_noisy():
    values = 0.01 * noise(2, 20) + np.array([[0.0], [0.006]])
    flat = Search([Setting(str(i), [0.006 + 0.01 * i], float(i)) for i in range(5)], "0")
    plain = rows_of(values)
    found = judge([plain[0], Row("b", plain[1].values, flat)], paired=False).verdicts[1]
    assert found.parts.tuning > 0 and (found.limited_by_search or found.seeds_needed is not None)


def test_a_noisy_search_needs_so_many_seeds():
    """With four times the seeds the search would be as noisy as if its runs had half the deviation."""
    values = 0.01 * noise(2, 20) + np.array([[0.0], [0.006]])

    def searched(count):
        settings = [Setting(str(i), [0.006 + 0.01 * i] * count, float(i)) for i in range(5)]
        return judge([*rows_of(values)[:1], Row("b", rows_of(values)[1].values, Search(settings, "0"))])

    found = searched(1).verdicts[1]
    assert found.limited_by_search and found.search_seeds_needed > 1
    assert not searched(found.search_seeds_needed).verdicts[1].limited_by_search


def test_the_parabola_reads_more_from_a_search_than_its_values():
    rates = np.arange(-2.0, 3.0)
    clear = Search([Setting(str(x), [float(x * x)], x) for x in rates], "0.0")
    assert tuning_variance(clear, 0.0, 1e-6, 20, higher_is_better=False) < 1e-30
    assert tuning_variance(clear, 0.0, 1.0, 20, higher_is_better=False) > 0.05
    # Degrees of freedom are sums of leverages, of which each BLAS rounds the last digit in its way.
    two, nearly = (tuning_variance(clear, 0.0, 1.0, df, higher_is_better=False) for df in (2, 2 + 1e-15))
    assert nearly == pytest.approx(two, rel=1e-9)
    mirrored = Search([Setting(str(x), [-float(x * x)], x) for x in rates], "0.0")
    assert tuning_variance(mirrored, 0.0, 1.0, 20, higher_is_better=True) == pytest.approx(
        tuning_variance(clear, 0.0, 1.0, 20, higher_is_better=False), rel=1e-9
    )
    named = Search([Setting("a", [1.0]), Setting("b", [1.1])], "a")
    few = tuning_variance(named, 1.05, 0.01, math.inf, higher_is_better=False)
    share = stats.norm.sf(0.1 / (0.1 * 2**0.5))  # of draws with b ahead
    assert few == pytest.approx(share * (1 - share) * 0.05**2, rel=0.1)
    assert tuning_variance(Search([named.settings[0]], "a"), 1, 1, 5, higher_is_better=False) == 0


# --- items ---


def test_items_are_paired_and_clustered():
    a, b, count = noise(60), noise(60, seed=1), 60
    weights, own = np.ones(60), np.arange(60)
    variance, documents = paired_variance(Items(a, weights, own), Items(b, weights, own))
    assert documents == 60 and variance == pytest.approx((a - b).var(ddof=1) / count)
    twice = [Items(np.repeat(x, 2), np.ones(120), np.repeat(own, 2)) for x in (a, b)]
    assert paired_variance(*twice)[0] == pytest.approx(variance)  # no new documents
    runs = Items(np.stack([a + 1, a - 1]), weights, own)
    assert paired_variance(runs, Items(b, weights, own))[0] == pytest.approx(variance)
    with pytest.raises(ValueError, match="same items"):
        paired_variance(Items(a, weights, own), Items(b, 2 * weights, own))


@pytest.mark.parametrize(("first", "second"), [(4, 0), (7, 2), (3, 3), (0, 9), (1, 0)])
def test_answers_are_counted_by_mcnemars_test(first, second):
    counts = Discordant(first, second, 299)
    assert counts.p_value == pytest.approx(mcnemar([[5, first], [second, 5]], exact=True).pvalue)
    n = first + second
    ends = [(2 * end - 1) * n / 299 for end in proportion_confint(first, n, 0.05, "beta")]
    assert counts.interval(0.05) == pytest.approx(tuple(ends))


def accuracy(name, share, total=299):
    return Row(name, {(seed, seed): share for seed in range(3)}, item_count=total)


def test_all_right_is_not_proof():
    """100 % against 98.66 % of 299: 4 to 0, where Wald's variance of 100 % is 0 and gives .044."""
    found = judge([accuracy("a", 295 / 299), accuracy("b", 1.0)], higher_is_better=True, is_share=True)
    row = found.verdicts[0]
    assert (found.best, row.kind) == (1, Kind.UNKNOWN) and row.p_value == pytest.approx(0.125, abs=1e-6)
    assert row.low < 0 < row.high and row.items_needed > 299
    found = judge([accuracy("a", 280 / 299), accuracy("b", 1.0)], higher_is_better=True, is_share=True)
    assert found.verdicts[0].kind is Kind.WORSE


def test_what_rounding_leaves_of_runs_in_common_tells_no_spread():
    """Adam is AdamW without decay: a fit leaves the last digits of their runs, and each BLAS its own."""
    values = 2.59 + 0.01 * noise(16)
    ends = []
    for seed in range(5):
        rows = np.array([values, values]) * (1 + 1e-15 * noise(2, 16, seed=seed))
        rows[1, 8:] = math.nan
        spread = estimate_spread(rows, paired=True)
        ends.append((spread.seeds, *spread.own.variance / spread.own.pooled_variance))
    assert ends == [pytest.approx(ends[0], rel=1e-9)] * 5


def test_rows_that_only_rounding_tells_apart_have_the_same_mean():
    shares = [[290 / 299, 292 / 299, 291 / 299], [291 / 299, 291 / 299, 291 / 299]]
    rows = [
        Row(name, {(seed, seed): share for seed, share in enumerate(own)}, item_count=299)
        for name, own in zip("ab", (shares[0], np.array(shares[1]) + 1e-15), strict=True)
    ]
    found = judge(rows, higher_is_better=True, is_share=True)
    rival = found.verdicts[1 - found.best]
    assert (rival.kind, rival.gap) == (Kind.UNKNOWN, 0)
    assert (rival.seeds_needed, rival.limited_by_test_set, rival.items_needed) == (None, False, None)


@pytest.mark.parametrize(("wrong", "possible"), [(18, True), (11.001, False)])
def test_nobody_is_told_to_find_more_items_than_there_are(wrong, possible):
    rows = [accuracy("a", 1 - wrong / 299), accuracy("b", 1 - 11 / 299)]
    row = judge(rows, higher_is_better=True, is_share=True).verdicts[0]
    assert row.limited_by_test_set and (row.items_needed is not None) == possible


def test_answers_by_item_are_paired():
    right = np.ones(1000)
    wrong = right.copy()
    wrong[:3] = 0
    both = [Items(sums, right, np.arange(1000)) for sums in (right, wrong)]
    values = np.array([[1.0, 1.0, 1.0], [0.997, 0.997, 0.997]])
    rows = [Row(row.name, row.values, items=own) for row, own in zip(rows_of(values), both, strict=True)]
    found = judge(rows, higher_is_better=True, is_share=True).verdicts[1]
    assert found.p_value == pytest.approx(0.25, abs=1e-6) and found.low < 0


def test_no_p_value_is_below_that_of_the_seeds():
    values = 0.9 + 0.01 * noise(2, 4)
    plain = max(judge(rows_of(values), is_share=True).verdicts, key=lambda row: row.gap)
    counted = [Row(row.name, row.values, item_count=10**7) for row in rows_of(values)]
    other = max(judge(counted, is_share=True).verdicts, key=lambda row: row.gap)
    assert other.p_value >= plain.p_value - 1e-9 and other.high >= plain.high


# --- looks ---


def test_every_look_costs():
    values = noise(2, 5)
    judged = [judge(rows_of(values), looks=looks) for looks in (0, 1, 7, 50)]
    assert [one.level for one in judged] == pytest.approx([0.05, 0.0294, 0.012, 0.0106])
    widths = [max(row.high - row.low for row in one.verdicts) for one in judged]
    assert widths == sorted(widths) and widths[0] < widths[-1]
