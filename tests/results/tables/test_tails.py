"""Heavier tails, better model? The order of rules by their spectra against their order by loss."""

import json

import numpy as np
import pytest
from scipy.stats import spearmanr

from harness.store.points import REPLICATE
from results.compare.view import View
from results.frames.load import load
from results.tables.tails import FEWEST, correlation, table
from tests.results.conftest import text

RULES = ("adamw", "muon", "htmuon", "normuon", "soap", "mars")


def test_the_correlation_is_spearmans():
    rng = np.random.default_rng(1)
    means = rng.normal(size=(9, 2)).round(1)  # with ties
    own, low, high = correlation([[tuple(mean)] for mean in means])
    assert own == pytest.approx(spearmanr(*means.T).statistic)
    assert low == high == own  # one run each: nothing to draw


def test_the_interval_is_as_wide_as_the_runs_are_apart():
    sure = [[(i + e, i + e) for e in (-0.1, 0.1)] for i in range(6)]
    unsure = [[(i + e, i - e) for e in (-9.0, 9.0)] for i in range(6)]
    assert correlation(sure) == (1, 1, 1)
    own, low, high = correlation(unsure)
    assert own == 1 and low < 0 < high


def filled(bench, rules, sign):
    """Each rule with three fresh seeds; its alpha rises with its loss, or falls."""
    for number, rule in enumerate(rules):
        bench.add("pydocs", rule, 0.01, metrics=text(2.0 + number / 10))
        bench.add("pydocs", rule, 0.02, metrics=text(3.0))
        for seed in (1000, 1001, 1002):
            found = text(2.0 + number / 10 + seed / 1e6)
            key = bench.add("pydocs", rule, 0.01, stage=REPLICATE, seed=seed, metrics=found)
            path = bench.spectra(key, [3 + sign * number / 10 + seed / 1e6] * 3, steps=200)
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            more = {"stable_rank": 20 - number, "entropy": 0.5}
            path.write_text("".join(json.dumps(row | more) + "\n" for row in rows))
    store = bench.write()
    return View(load(store), store=store)


@pytest.mark.parametrize(("sign", "verdict"), [(1, "agrees"), (-1, "contradicts")])
def test_a_row_for_each_measure(bench, sign, verdict):
    section, rules = table(filled(bench, RULES, sign)).sections
    first = dict(zip((column.name for column in rules.columns), rules.rows[0], strict=True))
    assert [row[0].value for row in rules.rows] == [*RULES] and first["alpha"].spread.n == 3
    assert first["stable_rank"].spread.mean == 20 and first["test_loss"].spread.mean == pytest.approx(
        2, abs=0.03
    )
    assert len(first["test_loss"].runs) == 3 and rules.title != section.title
    rows = {row[0].value: [cell.value for cell in row[1:]] for row in section.rows}
    assert rows["alpha"] == [3, 6, 18, sign, sign, sign, verdict]
    assert rows["stable rank"] == [3, 6, 18, -1, -1, -1, "contradicts"]
    # what is alike in all rules has no order
    assert rows["entropy"][3:] == [0, 0, 0, "undecided"] == rows["-log spectral norm"][3:]


def test_few_rules_have_no_order(bench):
    (section,) = table(filled(bench, RULES[: FEWEST - 1], 1)).sections
    assert len(section.rows) == FEWEST - 1 and "verdict" not in {column.name for column in section.columns}


def test_one_rule_has_no_section(bench):
    assert not table(filled(bench, RULES[:1], 1)).sections


def test_runs_without_a_measure_have_no_row(bench):
    seen = filled(bench, RULES, 1)
    for path in seen.store.root.rglob("spectra.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        keep = [{name: value for name, value in row.items() if name != "entropy"} for row in rows]
        path.write_text("".join(json.dumps(row) + "\n" for row in keep))
    section, _ = table(seen).sections
    assert [row[0].value for row in section.rows] == ["alpha", "stable rank", "-log spectral norm"]


def test_figures_that_are_no_spectrum_have_no_row(bench):
    seen = filled(bench, RULES, 1)
    for path in seen.store.root.rglob("spectra.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        bad = {"sigma_max": 0.0, "stable_rank": -1.0, "entropy": "much"}
        path.write_text("".join(json.dumps(row | bad) + "\n" for row in rows))
    section, _ = table(seen).sections
    assert [row[0].value for row in section.rows] == ["alpha"]


def test_runs_without_any_measure_have_no_section(bench):
    seen = filled(bench, RULES, 1)
    for path in seen.store.root.rglob("spectra.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        bad = {"sigma_max": 0.0, "stable_rank": -1.0, "entropy": "much", "flags": ["small_n"]}
        path.write_text("".join(json.dumps(row | bad) + "\n" for row in rows))
    assert not table(seen).sections
