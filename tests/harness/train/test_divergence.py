"""What counts as diverged: on real tiny runs of a language model and of digits, and at the edges."""

import json
import math
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from htbench.harness.config import DivergenceConfig
from htbench.harness.config.settings import resolve_config
from htbench.harness.data.images import ImageTask
from htbench.harness.train.divergence import LEAST, LENGTH, Divergence
from htbench.harness.train.progress import Progress
from tests.helpers.interrupting import finish

LM = {"task": "pydocs", "model": "llama-nano", "optimizer.name": "adamw"}
RISING = {"schedule.name": "constant", "schedule.warmup": 0.5}  # the learning rate goes up slowly and stays


def observe(losses, total=0, **rule):
    """The step at which a curve counts as diverged, and why; None if it does not."""
    watch = Divergence()
    for step, loss in enumerate(losses, 1):
        if why := watch.observe(loss, DivergenceConfig(**rule), total or len(losses)):
            return step, why
    return None


def trained(settings, root):
    record, rows = finish(resolve_config(settings), root)
    return record, [row["loss"] for row in rows if "loss" in row]


# --- real runs ---


# Quick are the language model that unlearns and the digits that do not; all four are a matter of a minute.
@pytest.mark.parametrize(("workload", "lr"), [(LM, 3.0), pytest.param({}, 10.0, marks=pytest.mark.slow)])
def test_a_run_that_unlearns_has_diverged(tmp_path, tiny, workload, lr):
    """Its loss never is three times its best, or not for 200 steps: the rule of version 0.1 let it pass."""
    record, losses = trained(tiny | workload | RISING | {"steps": 200, "optimizer.lr": lr}, tmp_path)
    assert record.status == "diverged" and "near or above the untrained one" in record.note
    assert f"({losses[0]:.4g})" in record.note and record.steps == len(losses) < 200


@pytest.mark.parametrize(("workload", "lr"), [pytest.param(LM, 0.3, marks=pytest.mark.slow), ({}, 1.0)])
def test_a_run_at_a_merely_bad_rate_has_not(tmp_path, tiny, workload, lr):
    """It keeps what little it learns: a language model the frequencies of its tokens."""
    record, losses = trained(tiny | workload | {"steps": 200, "optimizer.lr": lr}, tmp_path)
    assert record.status == "completed" and losses[-1] < 0.9 * losses[0]


def test_a_memorising_run_whose_tiny_loss_multiplies_has_not(tmp_path, tiny, monkeypatch):
    """Of one batch over and over; the rule of version 0.1 fired there."""
    proper = ImageTask.batch
    monkeypatch.setattr(ImageTask, "batch", lambda task, step, group: proper(task, 0, group))
    rule = {"divergence.patience": 100, "divergence.smoothing": 0.8, "schedule.name": "constant"}
    record, losses = trained(tiny | rule | {"steps": 300, "optimizer.lr": 1.0}, tmp_path)
    assert record.status == "completed"
    assert max(losses[-100:]) < 0.01 and min(losses[-100:]) > 3 * min(losses), "it did what it is here for"


# --- the edges ---

LN_V, TOKENS = math.log(32000), 7.5  # of a C4 model: untrained, and knowing how frequent tokens are


def fall(begin, end, steps):
    """A loss that falls exponentially."""
    return [end + (begin - end) * math.exp(-8 * step / steps) for step in range(steps)]


def test_a_language_model_back_at_its_untrained_loss():
    step, why = observe(fall(LN_V, 3.5, 5000) + [LN_V] * 5000)
    assert 6000 <= step < 6200, "a tenth of the run later, and smoothing takes some steps"
    assert why.kind == "loss_stayed_high" and round(why["untrained"], 2) == 10.37


def test_one_that_still_knows_how_frequent_tokens_are():
    assert observe(fall(LN_V, 3.5, 5000) + [TOKENS] * 5000) is None


def test_one_that_never_learned_has_not_unlearned():
    assert observe([LN_V + 0.1 * math.sin(step) for step in range(10000)]) is None
    assert observe(fall(LN_V, 0.95 * LN_V, 5000) + [LN_V] * 5000) is None


def test_a_spike_and_a_recovery_within_a_tenth():
    curve = fall(LN_V, 3.5, 5000)
    assert observe(curve + [500.0] + [3.5] * 4999) is None
    assert observe(curve + [LN_V] * 800 + [3.5] * 4200) is None


def test_a_loss_that_is_not_finite_diverges_at_once():
    assert observe([1.0, math.nan])[0] == 2 and observe([math.inf])[0] == 1


@pytest.mark.parametrize(("total", "patience"), [(30, 20), (100, 20), (200, 20), (2000, 200), (50000, 5000)])
def test_patience_is_a_tenth_of_the_run_but_twenty_steps_at_least(total, patience):
    sharp = {"smoothing": 0.0}
    assert observe([4.0, 1.0] + [4.0] * patience, total, **sharp)[0] == 2 + patience
    assert observe([4.0, 1.0] + ([4.0] * (patience - 1) + [1.0]) * 3, total, **sharp) is None
    assert observe([4.0, 1.0] + [4.0] * 3 * patience, total, patience=10**6, **sharp) is None


def test_a_run_too_short_for_patience_can_not_unlearn():
    assert observe([4.0] + [1.0] * 4 + [9.0] * (LEAST - 1), smoothing=0.0) is None


@pytest.mark.parametrize(
    ("factor", "loss", "diverged"), [(3.0, 3.1, True), (3.0, 2.9, False), (1.5, 2.1, True)]
)
def test_factor_says_how_much_must_be_gone(factor, loss, diverged):
    """From 4 to 1 it fell by 3; a third of that is left at 3, two thirds at 2."""
    assert bool(observe([4.0, 1.0] + [loss] * 300, smoothing=0.0, factor=factor)) is diverged


@pytest.mark.parametrize(("below", "diverged"), [(0.1, True), (0.25, False)])
def test_below_says_how_much_must_have_been_learned(below, diverged):
    assert bool(observe([4.0, 3.2] + [4.0] * 300, smoothing=0.0, below=below)) is diverged


def test_the_state_survives_a_checkpoint():
    curve, total = fall(4.0, 1.0, 500) + [4.0] * 500, 1000
    watch = Divergence()
    for loss in curve[:600]:
        assert not watch.observe(loss, DivergenceConfig(), total)
    stored = json.loads(json.dumps(asdict(Progress(step=600, divergence=watch))))
    again = Progress.of_plain(stored).divergence
    assert again == watch
    rule, rest = DivergenceConfig(), list(enumerate(curve[600:]))
    ends = [next(at for at, loss in rest if one.observe(loss, rule, total)) for one in (watch, again)]
    assert ends[0] == ends[1]


# --- laws ---

losses = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=120)


@given(losses, st.integers(-40, 40))
def test_the_unit_of_the_loss_does_not_matter(curve, power):
    """Powers of two, so that nothing is rounded."""
    scaled = observe([loss * 2.0**power for loss in curve], LENGTH)
    plain = observe(curve, LENGTH)
    assert (scaled and scaled[0]) == (plain and plain[0])


@given(st.floats(0.1, 100), st.lists(st.floats(1e-9, 0.66), max_size=200), st.floats(0, 0.99))
def test_below_two_thirds_of_the_untrained_loss_nothing_diverges(untrained, shares, smoothing):
    """The floor: whatever a memorised run does down there."""
    assert observe([untrained, *(untrained * share for share in shares)], smoothing=smoothing) is None


@given(
    st.floats(1.0, 5.0),
    st.lists(st.tuples(st.floats(2.0, 9.0), st.floats(0.0, 9.0)), min_size=20, max_size=150),
)
def test_a_worse_end_diverges_no_later(untrained, pairs):
    begin = [untrained, *[0.5 * untrained] * 40]
    tail = [max(loss, begin[-1]) for loss, _ in pairs]
    worse = [loss + more for loss, (_, more) in zip(tail, pairs, strict=True)]
    first, second = observe(begin + tail, 100), observe(begin + worse, 100)
    assert first is None or second[0] <= first[0]


def test_below_the_floor_nothing_is_a_divergence():
    """A loss that begins near nothing has nothing to lose, however it multiplies."""
    losses = [4e-5] * 100 + [1e-6] * 500 + [1.2e-4] * 400
    assert observe(losses) is None
    assert observe(losses, floor=0.0) is not None
