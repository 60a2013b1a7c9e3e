"""The benchmark's rules against numbers by hand, our tests against scipy."""

from decimal import Decimal

import numpy as np
import pytest
from scipy import stats

from results.compare.stats import summarize
from results.track3 import verdicts
from results.track3.recomputed import Result, committed, pooled, results
from results.track3.ties import letters, p_value


def add(logs, steps, losses, printed="3.2790"):
    number = len(logs.history) + 1
    logs.result(steps, printed, max(1, len(losses)), f"r{number}/0.txt")
    for run, loss in enumerate(losses):
        logs.log(f"r{number}", str(run), [(0, "10.8"), (steps, loss)], total=steps)


@pytest.fixture
def three(logs):
    """A result with one run, one with four, one with five."""
    add(logs, 3000, ["3.27900"])
    add(logs, 2900, ["3.27900", "3.27800", "3.27850", "3.27830"])
    add(logs, 2800, ["3.27700", "3.27780", "3.27750", "3.27790", "3.27700"])
    return results(logs.write())


def floats(result: Result):
    return np.array([float(loss) for loss in result.losses])


def holm(p_values):
    """By the definition: sorted p-values times how many are left, never falling, at most 1."""
    order = np.argsort(p_values)
    grown = np.maximum.accumulate(np.sort(p_values) * np.arange(len(p_values), 0, -1))
    return np.minimum(grown, 1)[np.argsort(order)]


@pytest.mark.parametrize(
    ("mean", "n", "expected"), [("3.2784", 16, 0.0064), ("3.2790", 25, 0.005), ("3.2810", 4, -0.002)]
)
def test_the_rule_of_the_benchmark(mean, n, expected):
    assert verdicts.margin(Decimal(mean), n) == pytest.approx(expected)


def test_the_rule_for_pairs(three):
    (_, last) = verdicts.records(three)
    four, five = floats(three[1]), floats(three[2])
    gain = four.mean() - five.mean() + 0.0045
    assert float(last.gain) == pytest.approx(gain)
    assert float(last.printed_gain) == pytest.approx(0.0045)
    (_, verdict) = verdicts.compare([last, last])
    assert verdict.rule == pytest.approx(gain / np.sqrt(1 / 4 + 1 / 5))
    assert verdict.printed == pytest.approx(0.0045 / np.sqrt(1 / 4 + 1 / 5))
    assert verdict.published and verdict.passes


def test_one_sample_t_test_and_holm(three):
    first, *others = verdicts.below_target(three)
    assert (first.p, first.ours, first.published) == (None, "no spread", False)
    p_values = [stats.ttest_1samp(floats(one), 3.28).pvalue for one in three[1:]]
    expected = holm([*p_values, 1.0])  # the one without a test counts in the family
    assert [one.p for one in others] == pytest.approx(list(expected[:2]))
    assert [one.ours for one in others] == ["below", "below"]


def test_welchs_t_test_of_losses_at_one_step(three):
    first, second = verdicts.compare(verdicts.records(three))
    assert (first.p, first.ours) == (None, "no spread")
    moved = floats(three[1]) + 0.0045  # a hundred steps earlier
    expected = stats.ttest_ind(moved, floats(three[2]), equal_var=False).pvalue
    assert second.p == pytest.approx(2 * expected) and second.ours == "better"


def test_a_mean_above_the_target_and_a_worse_record_are_called_so(logs):
    add(logs, 3000, ["3.27000", "3.27010", "3.27020"])
    add(logs, 2999, ["3.29000", "3.29010", "3.29020"])
    found = results(logs.write())
    assert [one.ours for one in verdicts.below_target(found)] == ["below", "above"]
    assert [one.ours for one in verdicts.compare(verdicts.records(found))] == ["worse"]


def test_runs_far_apart_show_nothing(logs):
    add(logs, 3000, ["3.27000", "3.28500", "3.27500"])
    (one,) = verdicts.below_target(results(logs.write()))
    assert one.ours == "not shown" and one.passes


def test_records_are_those_with_fewer_steps_than_all_before(logs):
    for steps in (3000, 3100, 2900, 2900, 2950, 2800):
        add(logs, steps, ["3.27900"])
    found = verdicts.records(results(logs.write()))
    assert [(one.new.published.number, one.old.published.number) for one in found] == [(3, 1), (6, 3)]


def test_steps_to_the_target_by_what_a_step_is_worth():
    assert verdicts.steps_to_target(Decimal("3.2755"), 3000) == pytest.approx(2900)
    assert verdicts.steps_to_target(Decimal("3.2800"), 3000) == 3000


def test_ties_are_those_of_losses_moved_to_one_step(three):
    steps = [verdicts.scaled(one) for one in three]
    moved = floats(three[1]) + 0.0045
    expected = stats.ttest_ind(moved, floats(three[2]), equal_var=False).pvalue
    assert p_value(steps[1], steps[2]) == pytest.approx(expected)
    assert letters(steps, digits=0) == ["", "B", "A"]


def test_the_readout_that_is_logged_elsewhere_has_no_verdict():
    last = verdicts.below_target(committed())[-1]
    assert (last.p, last.rule, last.ours, last.published) == (None, None, "not public", True)
    pair = verdicts.compare(verdicts.records(committed()))[-1]
    assert (pair.p, pair.rule, pair.ours) == (None, None, "not public")


def test_the_pooled_spread_and_its_interval():
    values = [3.1, 3.2, 3.4], [1.0, 1.3, 1.2, 1.5], [2.0, 9.0]  # the last one is too short
    squares = sum(((np.array(own) - np.mean(own)) ** 2).sum() for own in values[:2])
    found = pooled([summarize(own) for own in values])
    assert found.freedom == 5 and found.sd == pytest.approx(np.sqrt(squares / 5))
    limits = np.sqrt(squares / stats.chi2.ppf([0.975, 0.025], 5))
    assert (found.low, found.high) == pytest.approx(tuple(limits))


def test_with_the_pooled_spread_a_lucky_result_loses_and_an_unlucky_one_gains(logs):
    add(logs, 3000, ["3.27870", "3.28000", "3.27700"])
    add(logs, 3000, [f"3.279{digit}0" for digit in range(1, 8)])
    found = results(logs.write())
    assert [one.ours for one in verdicts.below_target(found)] == ["not shown", "below"]
    shared = pooled([one.summary for one in found])
    t = [(3.28 - floats(one).mean()) / (shared.sd / np.sqrt(len(one.runs))) for one in found]
    p_values = holm(2 * stats.t.sf(np.abs(t), shared.freedom))
    assert verdicts.below_if_pooled(found) == {n for n, p in zip((1, 2), p_values, strict=True) if p < 0.05}
    assert verdicts.below_if_pooled([]) == set()
