"""What the paper states, as data: every comparison of every table is a claim, every slip touches a number."""

import itertools

import pytest

from htbench.harness.paper import reported
from htbench.results.compare import claims
from htbench.results.compare.slips import of_line, of_number

OURS = {"htmuon", "htmuon_ns", "htmuon_ht", "htmuon_normuon", "htmuon_ht_normuon"}


def pairs():
    """The pairs of published numbers that claims compare, in either order."""
    return {frozenset({claim.better, claim.worse}) for claim in claims.of_paper()}


def test_every_table_but_those_over_learning_rates_states_something():
    stating = {claim.source for claim in claims.of_paper()}
    assert set(reported.tables()) - stating == {"lr_grid_c4", "lr_grid_cifar100", "lr_grid_cifar10"}


@pytest.mark.parametrize(
    "table", ["main_result", "openwebtext", "cifar", "imagenet", "llama_1b", "commonsense"]
)
def test_htmuon_is_compared_with_every_baseline(table):
    known = pairs()
    for one, other in itertools.permutations(reported.of_table(table), 2):
        alike = (one.dataset, one.model, one.metric) == (other.dataset, other.model, other.metric)
        if alike and one.setting.optimizer in OURS and other.setting.optimizer not in OURS:
            assert frozenset({one, other}) in known


def test_the_published_numbers_say_what_is_claimed_except_where_the_text_contradicts_them():
    contradicted = [claim for claim in claims.of_paper() if claim.gap() is not None and claim.gap() <= 0]
    assert {(claim.source, claim.better.dataset, claim.better.model) for claim in contradicted} == {
        ("p_grid_cifar", "cifar10", "resnet50")
    }
    assert all(claim.better.setting.p == 0.125 for claim in contradicted)


def test_the_direction_of_the_metric_is_in_the_words():
    found = {(claim.text(), claim.better.model, claim.better.metric): claim for claim in claims.at("nano")}
    assert found["htmuon below muon", "llama-60m", "perplexity"].gap() == pytest.approx(0.92)
    assert found["htmuon above muon", "resnet50", "accuracy"].gap() > 0
    faster = "htmuon, interval 5 below htmuon, interval 1"
    assert found[faster, "llama-60m", "seconds_per_step"].gap() == pytest.approx(0.59)
    assert found["normuon above htmuon_normuon", "resnet18", "accuracy"].gap() == pytest.approx(0.17)
    assert ("htmuon, p=0.125 below htmuon, p=0.2", "gpt2-small", "perplexity") in found
    assert found["cosmos below muon", "llama-60m", "alpha"].gap() is None


@pytest.mark.parametrize("scale", ["nano", "quick"])
def test_no_comparison_stands_twice_at_a_scale(scale):
    found = [
        (claim.text(), claim.better.dataset, claim.better.model, claim.better.metric)
        for claim in claims.at(scale)
    ]
    assert len(found) == len(set(found))
    assert len(found) > 250


def test_every_slip_touches_a_published_number():
    lines = reported.everything()
    texts = [slip["text"] for slip in reported.rows("slips")]
    assert {str(note) for line in lines for note in of_line(line)} == set(texts)
    assert len(set(texts)) == len(texts) > 15


def test_slips_name_the_right_cells():
    by_printed = {(line.table, line.row, line.printed): line for line in reported.everything()}
    muon = by_printed["p_grid_cifar", "htmuon p=0", "79.67"]
    assert any("79.85 at 0.03" in str(note) for note in of_number(muon))
    best = by_printed["p_grid_cifar", "htmuon", "95.63"]
    assert of_number(best) == () and len(of_line(best)) == 1
    assert any("0.67 h" in str(note) for note in of_line(by_printed["wall_clock", "muon", "0.67"]))
