"""The answer of a workload: its facts, whatever the sentences are."""

import math

import pytest

from harness.show.note import Note
from harness.store.points import REPLICATE
from results.compare.judge import Kind
from results.frames.load import load_rows
from results.tables.answer import answers


def contest(bench, make, workload="digits", lr=0.02, samples=None, **tests):
    """Optimizers with these test accuracies, or test losses of text, on their fresh seeds."""
    for optimizer, values in tests.items():
        chosen = make.image(0.95, 0.4) if workload == "digits" else make.text(3.0)
        bench.add(workload, optimizer, lr, metrics=chosen)
        for seed, test in enumerate(values, start=1):
            metrics = make.image(0.9, 0.4, test=test) if workload == "digits" else make.text(test, test=0.0)
            metrics |= {"test_samples": samples} if samples else {}
            bench.add(workload, optimizer, lr, stage=REPLICATE, seed=seed, metrics=metrics)


def answer(bench):
    (found,) = answers(load_rows(bench.write()))
    return found


def kinds(notes):
    return [note.kind for note in notes]


CLOSE = {"muon": (3.00, 3.01, 3.02), "htmuon": (3.005, 3.012, 3.023)}


def test_a_clear_winner_and_by_how_much(bench, make):
    contest(bench, make, "pydocs", muon=(3.00, 3.01, 3.02), adamw=(3.30, 3.31, 3.325))
    found = answer(bench)
    best, other = found.places
    assert (found.verdict.kind, found.verdict["best"]) == ("answer_best", "muon")
    assert found.verdict["names"] == ["adamw"]
    assert (best.rank, best.kind, best.gap) == ("1", Kind.BEST, None)
    assert (other.rank, other.kind) == ("2", Kind.WORSE)
    # In the unit of the values: what stands between the two means, though logarithms are compared.
    between = math.exp(3.31) - math.exp(3.01)
    assert other.gap == pytest.approx(between, rel=0.02) and 0 < other.low < other.gap < other.high
    assert found.workload == ("pydocs", "llama-nano", "batch_size=16, steps=200") and found.seeds == (3, 3)
    assert best.setting == {"lr": 0.02} and best.ms_per_step.number() == pytest.approx(10)


def test_leaders_that_cannot_be_told_apart_share_a_rank_and_it_says_what_would_tell(bench, make):
    contest(bench, make, "pydocs", adamw=(3.3, 3.31, 3.325), **CLOSE)
    found = answer(bench)
    assert [(place.rank, place.name) for place in found.places] == [
        ("1=", "muon"),
        ("1=", "htmuon"),
        ("3", "adamw"),
    ]
    assert found.verdict == Note(
        "answer_tied", leaders=["muon", "htmuon"], many=0, pair=1, names=["adamw"], count=0
    )
    assert str(found.verdict) == "muon and htmuon lead, tied; both beat adamw."
    low, high = found.places[1].low, found.places[1].high
    assert low < 0 < high
    (line,) = found.open
    assert line.kind == "open_seeds" and line["plan"] == line["seeds"] > 3


def test_more_leaders_than_two_are_said_to_beat_the_others_as_well(bench, make):
    contest(bench, make, "pydocs", sgdm=(3.002, 3.011, 3.021), adamw=(3.3, 3.31, 3.325), **CLOSE)
    verdict = answer(bench).verdict
    assert (sorted(verdict["leaders"]), verdict["names"]) == (["htmuon", "muon", "sgdm"], ["adamw"])
    assert str(verdict).endswith("lead, tied; all beat adamw.")


def test_no_winner_because_of_the_test_set(bench, make):
    contest(
        bench, make, samples=299, muon=(0.90, 0.92, 0.91), adamw=(0.91, 0.90, 0.915), sgdm=(0.9, 0.9, 0.9)
    )
    found = answer(bench)
    assert found.verdict == Note("answer_items", items=299, what="images", rows=3)
    assert kinds(found.open) == ["open_test_set"]
    assert [row["name"] for row in found.open[0]["rows"]] == ["adamw", "sgdm"]
    assert found.places[1].gap == pytest.approx(100 * (0.91 - (0.91 + 0.9 + 0.915) / 3), abs=1e-6)


@pytest.mark.parametrize(
    ("tests", "kind"),
    [
        ({"muon": (0.9, 0.91, 0.92)}, "answer_alone"),
        ({"muon": (0.9, 0.91), "adamw": (0.8, 0.81)}, "answer_few_seeds"),
        ({"muon": (), "adamw": ()}, "answer_none"),
        ({"muon": (0.9, 0.91), "adamw": ()}, "answer_provisional"),
    ],
)
def test_without_enough_runs_there_is_no_verdict(bench, make, tests, kind):
    contest(bench, make, **tests)
    found = answer(bench)
    assert found.verdict.kind == kind
    assert all((place.gap, place.low, place.high) == (None, None, None) for place in found.places)
    assert str(found.verdict).endswith(".")
