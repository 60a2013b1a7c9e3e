"""The search that refines rates: what it finds, what it takes, and that nothing but the scores decides."""

import math
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from htbench.harness.choice.refine import MOST_OCTAVES, next_rates, vertex
from htbench.harness.choice.winner import winner

FIRST = [0.01, 0.02, 0.04]


def scored(curve, rates):
    """Scores by rate, None where the curve has none."""
    losses = {rate: curve(math.log2(rate)) for rate in rates}
    return {rate: None if loss is None else (loss, loss) for rate, loss in losses.items()}


def refine(curve, first=FIRST, trials=40, setting="optimizer.lr"):
    """The rounds of a search on a curve over log2(rate), and what was tried."""
    tried, rounds = scored(curve, first), [list(first)]
    while rates := next_rates("muon", setting, tried)[: trials - len(tried)]:
        assert not set(rates) & set(tried), "no rate twice"
        tried |= scored(curve, rates)
        rounds.append(rates)
    return rounds, tried


def found(tried):
    return winner({rate: tried[rate] for rate in sorted(tried)})[0]


def off(tried, optimum):
    """Octaves between the best rate tried and the optimum."""
    return abs(math.log2(found(tried)) - optimum)


optima = st.floats(math.log2(1e-4), math.log2(2.0))
steep = st.floats(0.01, 10)


@settings(max_examples=100, deadline=None)
@given(optima, steep, st.floats(0.5, 6))
def test_the_minimum_of_a_symmetric_curve_is_found_to_a_quarter_octave(optimum, scale, power):
    rounds, tried = refine(lambda x: scale * abs(x - optimum) ** power)
    assert off(tried, optimum) <= 0.26  # a quarter, and the rounding of rates to three digits


@settings(max_examples=100, deadline=None)
@given(optima, steep)
def test_that_of_a_parabola_to_an_eighth(optimum, scale):
    first = [0.005, 0.01, 0.02, 0.04]
    rounds, tried = refine(lambda x: 3 + scale * (x - optimum) ** 2, first)
    assert off(tried, optimum) <= 0.13
    beyond = max(0, math.log2(0.005) - optimum, optimum - math.log2(0.04))
    assert len(tried) <= 9 + beyond, "two octaves beyond, two half-octaves, the vertex"


@settings(max_examples=100, deadline=None)
@given(optima, steep, steep, st.floats(0.5, 4), st.floats(0.5, 4))
def test_that_of_any_unimodal_curve_lies_beside_the_best_rate(optimum, left, right, a, b):
    rounds, tried = refine(lambda x: left * (optimum - x) ** a if x < optimum else right * (x - optimum) ** b)
    assert off(tried, optimum) <= 0.52  # half an octave, the distance of the last neighbours


@settings(max_examples=100, deadline=None)
@given(optima, steep, st.floats(0.1, 3))
def test_a_curve_that_diverges_above_its_minimum_has_it_found_all_the_same(optimum, scale, cliff):
    def curve(x):
        return scale * (x - optimum) ** 2 if x < optimum + cliff else None

    rounds, tried = refine(curve)
    assert off(tried, optimum) <= 0.52


@settings(max_examples=100, deadline=None)
@given(
    st.integers(3, 14),
    st.lists(st.floats(0, 10) | st.none(), min_size=40, max_size=40),
    st.randoms(use_true_random=False),
)
def test_noise_takes_no_more_than_the_budget_and_the_order_of_results_decides_nothing(trials, noise, rnd):
    def curve(x):
        return noise[round(x * 1000) % len(noise)]

    rounds, tried = refine(curve, trials=trials)
    assert len(tried) <= trials and sum(map(len, rounds)) == len(tried)
    known = scored(curve, FIRST)
    for rates in rounds[1:]:  # any process that knows the results of the rounds before goes on alike
        items = list(known.items())
        rnd.shuffle(items)
        assert next_rates("muon", "optimizer.lr", dict(items))[: trials - len(known)] == rates
        known |= scored(curve, rates)


def test_the_rounds_are_octaves_then_half_octaves_then_the_vertex():
    rounds, tried = refine(lambda x: (x - math.log2(0.1)) ** 2)
    assert rounds == [FIRST, [0.08], [0.16], [0.113, 0.0566], [0.1]]
    rounds, tried = refine(lambda x: (x - math.log2(0.0201)) ** 2)
    assert rounds == [FIRST, [0.0283, 0.0141]], "three octaves are needed for a vertex"
    rounds, tried = refine(lambda x: (x - math.log2(0.0165)) ** 2, [0.005, 0.01, 0.02, 0.04])
    assert rounds[1:] == [[0.0141, 0.0283], [0.0165]]
    rounds, tried = refine(lambda x: (x - math.log2(0.0145)) ** 2, [0.005, 0.01, 0.02, 0.04])
    assert rounds[1:] == [[0.0141, 0.0283]], "a vertex beside a tried rate would teach nothing"


def test_what_diverges_goes_downwards_and_what_never_ends_has_an_end():
    rounds, tried = refine(lambda x: None, trials=6)
    assert rounds[1:] == [[0.005], [0.0025], [0.00125]]
    assert len(refine(lambda x: -x, trials=1000)[1]) <= MOST_OCTAVES + 3
    assert len(refine(lambda x: x, trials=1000)[1]) <= MOST_OCTAVES + 3


def test_no_rate_beyond_what_the_optimizer_allows():
    rounds, tried = refine(lambda x: -x, [0.25, 0.5], setting="optimizer.momentum")
    assert max(tried) < 1


def test_a_vertex_needs_a_minimum_within_three_octaves():
    parabola = {2.0**n: (n - 0.3) ** 2 for n in range(-2, 3)}
    assert math.isclose(math.log2(vertex(parabola, 1.0)), 0.3)
    assert vertex({rate: -loss for rate, loss in parabola.items()}, 1.0) is None, "a maximum"
    assert vertex({rate: parabola[rate] for rate in (0.5, 1.0, 2.0)}, 1.0) is None, "two octaves"
    assert vertex({2.0**n: -n for n in range(-2, 3)}, 1.0) is None, "a slope"
    far = {2.0**n: 1e9 * 2.0**n for n in range(3, 20)}
    assert vertex(parabola | far, 1.0) == vertex(parabola, 1.0), "what is far away does not matter"


def test_on_noisy_parabolas_the_vertex_is_worth_its_run():
    """Curvature .02 nats per octave squared, noise .01: a language model tuned on one seed."""
    rnd = random.Random(0)
    optimum, lost = math.log2(0.017), []
    for _ in range(400):
        noise = {}
        curve = lambda x: 3 + 0.02 * (x - optimum) ** 2 + noise.setdefault(x, rnd.gauss(0, 0.01))  # noqa: E731, B023
        lost.append(0.02 * off(refine(curve, [0.005, 0.01, 0.02, 0.04])[1], optimum) ** 2)
    assert sum(lost) / len(lost) < 0.006
