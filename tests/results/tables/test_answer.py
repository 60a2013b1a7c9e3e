"""The answer of a workload: its facts, whatever the sentences are."""

import io
import math
import random

import pytest

from harness.show.note import Note
from harness.show.terminal import show
from harness.store.points import REPLICATE
from results.compare.judge import Kind
from results.compare.view import View
from results.frames.load import load_rows
from results.tables.answer import answers
from results.tables.registry import GENERAL


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


def test_the_same_mean_asks_for_no_number(bench, make):
    same = {"muon": (0.90, 0.92, 0.91), "adamw": (0.91, 0.91, 0.91)}
    contest(bench, make, samples=299, sgdm=(0.9, 0.9, 0.9), htmuon=(0.9099, 0.9101, 0.90999), **same)
    found = answer(bench)
    lines = {line.kind: line for line in found.open}
    assert lines.keys() == {"open_same", "open_test_set"} and found.verdict.kind == "answer_items"
    assert {found.places[0].name, *lines["open_same"]["names"]} == {"muon", "adamw"}
    assert found.places[0].gap is None and found.places[1].gap == 0
    assert [row["name"] for row in lines["open_test_set"]["rows"]] == ["sgdm"]
    assert lines["open_test_set"]["over"] == ["htmuon"]
    assert str(lines["open_test_set"]).endswith("over 1,000,000 for htmuon")


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


def screen(bench, width, monkeypatch):
    """What a terminal of this width shows of the main table, without colours."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    stream = io.StringIO()
    stream.isatty = lambda: True
    store = bench.write()
    show([GENERAL["main_result"](View(load_rows(store), store=store))], stream, wide=False, notes=False)
    return stream.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_what_protects_stays_on_the_first_screen(bench, make, monkeypatch, width):
    contest(bench, make, muon=(0.90, 0.91, 0.92), adamw=(0.80, 0.81, 0.82), htmuon=(0.7, 0.71))
    bench.add("digits", "muon", 0.01, metrics=make.image(0.8, 0.4))  # .02 is at the edge, budgets are unequal
    bench.add("digits", "sgdm", 0.3, state="failed", reason="oom")
    bench.add("digits", "adamw", 0.02, stage=REPLICATE, seed=9, state="diverged", steps=3)
    where = {"environment": {"torch": "2.9.1"}}
    bench.add("digits", "adamw", 0.02, stage=REPLICATE, seed=10, metrics=make.image(0.9, 0.4), **where)
    text = screen(bench, width, monkeypatch)
    (found,) = answers(load_rows(bench.write()))
    assert {"danger_edge", "danger_budget", "danger_failed_run", "danger_replicas_count"} <= {
        note.kind for note in found.dangers
    }
    assert "danger_mixture" in kinds(found.dangers)
    words = " ".join(text.split())
    assert all(" ".join(f"! {note}".split()) in words for note in found.dangers)
    assert max(map(len, text.splitlines())) <= width
    assert found.places[0].has_edge and "muon !" in text and "add 0.04 to block muon" in text


@pytest.mark.parametrize("seed", range(20))
def test_the_interval_leaves_out_0_exactly_where_ranks_differ(bench, make, seed):
    noise = random.Random(seed)
    rows = {
        name: [3 + gap + noise.gauss(0, 0.01) for _ in range(3)]
        for name, gap in (("muon", 0.0), ("htmuon", noise.random() / 20), ("adamw", noise.random() / 5))
    }
    contest(bench, make, "pydocs", **rows)
    best, *others = answer(bench).places
    assert best.rank in ("1", "1=")
    for place in others:
        assert place.low <= place.gap <= place.high
        if place.kind is not Kind.EQUAL:
            assert (place.low > 0) == (place.rank not in ("1", "1=")) == (place.kind is Kind.WORSE)
