"""Differences of two rules over several places: what the places share is counted once."""

import dataclasses
import math

import numpy as np
import pytest

from docs.pooled import pooled
from htbench.results.compare.items import Items
from htbench.results.compare.judge import Row
from htbench.results.compare.tuning import Search, Setting

DOCUMENTS = 40


def rows(gaps, documents=None):
    """A pair whose first row is behind by a gap for each seed, and by what each document adds."""
    made = []
    for name, own in (("htmuon", np.array(gaps)), ("muon", np.zeros(len(gaps)))):
        items = None
        if documents is not None:
            sums = 100 * (2 + own[:, None] + (name == "htmuon") * np.array(documents))
            items = Items(sums, np.full(DOCUMENTS, 100.0), np.arange(DOCUMENTS))
        made.append(Row(name, {(at, at): 2 + float(x) for at, x in enumerate(own, 1000)}, None, items))
    return tuple(made)


def searched(pair, noise):
    """The pair with searches over settings so noisy that each might have been chosen."""
    settings = [Setting(str(at), [2 + noise * at, 2 + noise * (at + 1)], float(at)) for at in range(4)]
    return tuple(dataclasses.replace(row, search=Search(settings, "0")) for row in pair)


def test_seeds_that_do_the_same_at_all_places_do_not_shrink():
    alike = np.array([0.004, 0.012, 0.001, 0.009])
    one, four = pooled([rows(alike)]), pooled([rows(alike)] * 4)
    assert (four.places, four.above) == (4, 4) and four.value == pytest.approx(alike.mean())
    assert four.z == pytest.approx(one.z) == pytest.approx(alike.mean() / (alike.std(ddof=1) / 2))
    turned = pooled([rows(np.roll(alike, at) + 1e-5 * alike * at) for at in range(4)])  # they cancel
    assert turned.z > 1e3


def test_the_documents_are_drawn_once():
    random = np.random.RandomState(0)
    documents = 0.02 * random.standard_normal(DOCUMENTS)
    gaps = 0.01 + 1e-6 * random.standard_normal((6, 8))
    one, six = pooled([rows(gaps[0], documents)]), pooled([rows(own, documents) for own in gaps])
    sd = documents.std(ddof=1) / math.sqrt(DOCUMENTS)
    assert one.value / one.z == pytest.approx(sd, rel=1e-3)
    assert six.value / six.z == pytest.approx(sd, rel=1e-3)


def test_the_luck_of_the_search_is_shared_at_one_end_and_apart_at_the_other():
    random = np.random.RandomState(0)
    pairs = [searched(rows(0.01 + 0.004 * random.standard_normal(8)), 0.002) for _ in range(9)]
    unsearched = [[dataclasses.replace(row, search=None) for row in pair] for pair in pairs]
    found, without = pooled(pairs), pooled(unsearched)
    assert found.value == without.value and found.z < found.z_apart < without.z
    luck = [(found.value / z) ** 2 - (without.value / without.z) ** 2 for z in (found.z, found.z_apart)]
    assert luck[0] == pytest.approx(9 * luck[1], rel=0.2)
    assert found.low < found.value - 1.9 * found.value / found.z < found.value < found.high


def test_an_interval_holds_the_truth_where_places_share_seeds_and_documents():
    random, held = np.random.RandomState(1), 0
    for _ in range(60):
        together = 0.004 * random.standard_normal(8)
        documents = 0.02 * random.standard_normal(DOCUMENTS)
        documents_seen = documents - documents.mean() + 0.02 / math.sqrt(DOCUMENTS) * random.standard_normal()
        pairs = [
            rows(0.005 + documents_seen.mean() + together + 0.002 * random.standard_normal(8), documents)
            for _ in range(4)
        ]
        found = pooled(pairs)
        held += found.low <= 0.005 <= found.high
    assert held >= 53


def test_what_can_not_be_pooled_is_refused():
    with pytest.raises(ValueError, match="no pair to pool"):
        pooled([])
    first, second = rows([0.01, 0.02])
    alone = dataclasses.replace(second, values={(1000, 1000): 2.0})
    with pytest.raises(ValueError, match="'htmuon' and 'muon' need two seeds in common, not 1"):
        pooled([(first, alone)])
    other = rows([0.01, 0.02], np.zeros(DOCUMENTS))
    items = dataclasses.replace(other[0].items, weights=np.full(DOCUMENTS, 50.0))
    with pytest.raises(ValueError, match="same test items"):
        pooled([other, tuple(dataclasses.replace(row, items=items) for row in other)])
