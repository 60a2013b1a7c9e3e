"""The answer of a workload: its facts, whatever the sentences are."""

import dataclasses
import io
import math
import random
import re

import pytest

from htbench.harness.show.note import Note
from htbench.harness.show.terminal import show, write
from htbench.harness.store.points import DROPPED, REPLICATE
from htbench.results.compare.judge import Kind
from htbench.results.compare.view import View
from htbench.results.frames.load import load_rows
from htbench.results.tables.answer import answers
from htbench.results.tables.registry import GENERAL
from tests.helpers.records import change_record


def contest(bench, make, workload="digits", lr=0.02, samples=None, hyper=None, **tests):
    """Optimizers with these test accuracies, or test losses of text, on their fresh seeds."""
    for optimizer, values in tests.items():
        own = (hyper or {}).get(optimizer, {})
        chosen = make.image(0.95, 0.4) if workload == "digits" else make.text(3.0)
        bench.add(workload, optimizer, lr, metrics=chosen, **own)
        for seed, test in enumerate(values, start=1):
            metrics = make.image(0.9, 0.4, test=test) if workload == "digits" else make.text(test, test=0.0)
            metrics |= {"test_samples": samples} if samples else {}
            bench.add(workload, optimizer, lr, stage=REPLICATE, seed=seed, metrics=metrics, **own)


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


def test_a_block_with_a_row_of_its_own_stands_beside_the_others_of_its_optimizer(bench, make):
    contest(bench, make, "pydocs", muon=(3.00, 3.01, 3.02))
    ahead = {"routing": "hidden"}
    bench.add("pydocs", "muon", 0.04, block="hidden", metrics=make.text(2.7), **ahead)
    for seed, test in enumerate((2.80, 2.81, 2.82), start=1):
        own = make.text(test, test=0.0)
        bench.add("pydocs", "muon", 0.04, block="hidden", stage=REPLICATE, seed=seed, metrics=own, **ahead)
    (merged,) = answers(load_rows(bench.write()))
    assert [place.name for place in merged.places] == ["muon"]  # blocks of one row compete
    (points,) = bench.points.values()
    points[:] = [dataclasses.replace(p, row="muon hidden" * (p.block == "hidden")) for p in points]
    frame = load_rows(bench.write())
    (found,) = answers(frame)
    assert [place.name for place in found.places] == ["muon hidden", "muon"]
    assert {row["rule"] for row in frame} == {"muon"}


def test_leaders_that_cannot_be_told_apart_share_a_rank_and_it_says_what_would_tell(bench, make):
    contest(bench, make, "pydocs", adamw=(3.3, 3.31, 3.325), **CLOSE)
    found = answer(bench)
    assert [(place.rank, place.name) for place in found.places] == [
        ("1=", "muon"),
        ("1=", "htmuon"),
        ("3", "adamw"),
    ]
    assert found.verdict == Note(
        "answer_ahead", best="muon", names=["adamw"], count=0, ties=["htmuon"], more=0
    )
    assert str(found.verdict) == "muon leads and beats adamw; htmuon can't be told from it."
    assert not any(found.wins), "no tie is bold"
    low, high = found.places[1].low, found.places[1].high
    assert low < 0 < high
    (line,) = found.open
    assert line.kind == "open_seeds" and line["plan"] == line["seeds"] > 3


def test_a_row_that_scatters_neither_beats_nor_stands_above_one_with_a_better_mean(bench, make):
    """Rows are compared with the best one only, and a steady row is told from it sooner."""
    close = {"sgdm": (3.002, 3.011, 3.021), **CLOSE}
    contest(bench, make, "pydocs", sophia=(3.1, 3.5, 3.7), adamw=(3.3, 3.31, 3.325), **close)
    found = answer(bench)
    names = [place.name for place in found.places]
    means = [place.value.number() for place in found.places]
    kind = {place.name: place.kind for place in found.places}
    assert (kind["adamw"], kind["sophia"]) == (Kind.WORSE, Kind.UNKNOWN)
    assert means == sorted(means) and names[-2:] == ["adamw", "sophia"]
    assert [place.rank for place in found.places] == ["1=", "1=", "1=", "4=", "4="]
    assert (found.verdict["best"], found.verdict["names"]) == ("muon", ["adamw"])
    assert sorted(found.verdict["ties"]) == ["htmuon", "sgdm", "sophia"]
    assert [place.name for place in found.ties] == found.verdict["ties"]
    assert found.places[0].name == "muon" and not any(found.wins)


def test_a_row_of_few_seeds_stands_where_its_mean_does_without_a_rank(bench, make):
    contest(bench, make, "pydocs", sgdm=(3.15, 3.16), adamw=(3.3, 3.31, 3.325), **CLOSE)
    found = answer(bench)
    assert [(place.rank, place.name) for place in found.places][2:] == [("", "sgdm"), ("4", "adamw")]
    assert (found.verdict["names"], found.verdict["ties"]) == (["adamw"], ["htmuon"])
    contest(bench, make, "pydocs", normuon=(2.9, 2.91))  # the best, of two seeds: nobody has a rank
    assert {place.rank for place in answer(bench).places} == {""}
    (section,) = GENERAL["main_result"](View(load_rows(bench.store))).sections
    assert not {"rank", "gap_nats"} & {column.name for column in section.columns}


def test_two_names_of_one_rule_are_said_to_be_one_and_nothing_would_tell_them(bench, make):
    tests = {"adamw": (3.3, 3.31, 3.325), "adam": (3.31, 3.32, 3.325), **CLOSE}
    contest(bench, make, "pydocs", hyper={"htmuon": {"p": 0}, "adam": {"weight_decay": 0}}, **tests)
    found = answer(bench)
    assert (found.verdict["best"], found.verdict["ties"]) == ("muon", ["htmuon"]) and found.open == []
    told = [note for note in found.dangers if note.kind == "danger_one_rule"]
    assert [sorted(note["names"]) for note in told] == [["adam", "adamw"], ["htmuon", "muon"]]
    assert "htmuon at p 0 is muon" in str(told[1])
    whole = GENERAL["main_result"](View(load_rows(bench.store))).sections[0]
    (untold,) = [note for note in whole.notes if note.kind == "untold"]
    assert [row.kind for row in untold["rows"]] == ["open_rule"]


def test_without_another_rule_there_is_no_winner_to_find(bench, make):
    contest(bench, make, "pydocs", hyper={"htmuon": {"p": 0}}, **CLOSE)
    assert answer(bench).verdict == Note("answer_rule", rows=2)


SCHEDULE = {"schedule.p.name": "linear", "schedule.p.from": 0, "schedule.p.to": 0.25}


@pytest.mark.parametrize("hyper", [{}, {"p": 0.0625}, {"base": SCHEDULE}])
def test_other_powers_and_schedules_are_rules_of_their_own(bench, make, hyper):
    contest(bench, make, "pydocs", hyper={"htmuon": hyper}, adamw=(3.3, 3.31, 3.325), **CLOSE)
    found = answer(bench)
    assert found.verdict["ties"] == ["htmuon"] and kinds(found.open) == ["open_seeds"]
    assert "danger_one_rule" not in kinds(found.dangers)


def test_no_winner_because_of_the_test_set(bench, make):
    tests = {"muon": (0.90, 0.92, 0.91), "adamw": (0.91, 0.90, 0.915), "sgdm": (0.9, 0.9, 0.9)}
    contest(bench, make, samples=299, **tests)
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
    sections = GENERAL["main_result"](View(load_rows(bench.store)))
    assert str(found.verdict).endswith(".") and str(found.verdict) in write([sections], wide=True)


@pytest.mark.parametrize(
    ("runs", "verdict"),
    [
        (
            [("muon", 0.02, "diverged", 3), ("muon", 0.04, "diverged", 9), ("adamw", 0.1, "diverged", 3)],
            "No result: every run of muon ended without a value (2 diverged, the first at step 3); every run "
            "of adamw ended without a value (1 diverged, the first at step 3). Try lower rates.",
        ),
        (
            [("muon", 0.02, "failed", 0), ("muon", 0.04, "failed", 0)],
            "No result: every run of muon ended without a value (2 failed).",
        ),
        (
            [("muon", 0.02, "failed", 0), ("muon", 0.04, "diverged", 4)],
            "No result: every run of muon ended without a value (1 diverged, 1 failed, the first at step 4). "
            "Try lower rates.",
        ),
        (
            [("muon", 0.02, "diverged", 3), ("adamw", 0.1, "waiting", 0)],
            "No result yet: every run of muon ended without a value (1 diverged, the first at step 3). Try "
            "lower rates.",
        ),
        ([("muon", 0.02, "waiting", 0)], "No result yet."),
    ],
    ids=lambda value: "",
)
def test_without_a_value_it_says_what_became_of_the_runs(bench, runs, verdict):
    for optimizer, lr, state, steps in runs:
        reason = "error" if state == "failed" else ""
        bench.add("digits", optimizer, lr, state=state, steps=steps, reason=reason)
    assert str(answer(bench).verdict) == verdict


def test_a_winner_that_diverges_on_its_fresh_seeds_is_said_to(bench, make):
    bench.add("digits", "muon", 0.02, metrics=make.image(0.9, 0.4))
    for seed in (1, 2):
        bench.add("digits", "muon", 0.02, stage=REPLICATE, seed=seed, state="diverged", steps=seed)
    assert str(answer(bench).verdict) == (
        "No result: every run of muon on fresh seeds ended without a value (2 diverged, the first at step "
        "1). Try lower rates."
    )


def screen(store, width, monkeypatch, sweeps=None, notes=False):
    """What a terminal of this width shows of the main table, without colours."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    stream = io.StringIO()
    stream.isatty = lambda: True
    view = View(load_rows(store, sweeps), store=store)
    show([GENERAL["main_result"](view)], stream, wide=False, notes=notes)
    return stream.getvalue()


def protects(text, found):
    """Whether all that protects from a false conclusion stands on a screen."""
    words = " ".join(text.split())
    lines = [*(f"! {note}" for note in found.dangers), *(f"? {note}" for note in found.open)]
    assert [line for line in lines if " ".join(line.split()) not in words] == []
    return True


@pytest.mark.parametrize("width", [80, 120])
def test_what_protects_stays_on_the_first_screen(bench, make, monkeypatch, width):
    contest(bench, make, muon=(0.90, 0.91, 0.92), adamw=(0.80, 0.81, 0.82), htmuon=(0.7, 0.71))
    bench.add("digits", "muon", 0.01, metrics=make.image(0.8, 0.4))  # .02 is at the edge, budgets are unequal
    bench.add("digits", "sgdm", 0.3, state="failed", reason="oom")
    bench.add("digits", "adamw", 0.02, stage=REPLICATE, seed=9, state="diverged", steps=3)
    where = {"environment": {"torch": "2.9.1"}}
    bench.add("digits", "adamw", 0.02, stage=REPLICATE, seed=10, metrics=make.image(0.9, 0.4), **where)
    store = bench.write()
    text = screen(store, width, monkeypatch)
    (found,) = answers(load_rows(store))
    assert {"danger_edge", "danger_budget", "danger_failed_run", "danger_replicas_count"} <= {
        note.kind for note in found.dangers
    }
    assert "danger_mixture" in kinds(found.dangers)
    assert protects(text, found) and max(map(len, text.splitlines())) <= width
    assert "edge" in kinds(found.places[0].notes) and "muon !" in text and "add 0.04 to block muon" in text


def amended(bench, change, optimizer="adamw", seeds=(0, 1, 2, 3)):
    """The store with changed records of some runs of an optimizer; a change gets the record."""
    store = bench.write()
    for points in bench.points.values():
        for point in points:
            if point.block == optimizer and point.overrides["seed"] in seeds:
                change_record(store, point.key, change)
    return store


def an_edited_sweep(bench, make):
    for lr in (0.04, 0.08):
        bench.add("digits", "muon", lr, sweep="before", metrics=make.image(0.9, 0.4))
    return bench.write()


def settings_dropped_from_the_plan(bench, make):
    bench.add("digits", "muon", 0.04, stage=DROPPED, metrics=make.image(0.9, 0.4))
    return bench.write()


def runs_to_come(bench, make):
    bench.add("digits", "muon", 0.04, state="waiting")
    return bench.write()


def seeds_of_the_search(bench, make):
    bench.add("digits", "muon", 0.02, seed=1, sweep="before", metrics=make.image(0.9, 0.4))
    return bench.write()


def a_second_look(bench, make):
    points = bench.points["demo-digits"]
    points[:] = [
        dataclasses.replace(point, look=int(point.overrides["seed"] == 3 and point.block == "muon"))
        for point in points
    ]
    return bench.write()


def lost_items(bench, make):
    return amended(bench, lambda record: dataclasses.replace(record, items_digest="a" * 16))


def a_failed_run(bench, make):
    bench.add("digits", "sgdm", 0.02, state="failed", reason="oom")
    return bench.write()


def a_failed_seed(bench, make):
    bench.add("digits", "adamw", 0.02, stage=REPLICATE, seed=4, state="failed", reason="oom")
    return bench.write()


def a_diverged_seed(bench, make):
    bench.add("digits", "adamw", 0.02, stage=REPLICATE, seed=4, state="diverged", steps=3)
    return bench.write()


def unlike_scatter(bench, make):
    contest(bench, make, sgdm=(0.2, 0.8, 0.5))
    return bench.write()


def unequal_budgets(bench, make):
    bench.add("digits", "muon", 0.01, metrics=make.image(0.9, 0.4))
    return bench.write()


def mixed_environments(bench, make):
    where = {"environment": {"torch": "2.9.1"}}
    bench.add("digits", "adamw", 0.02, stage=REPLICATE, seed=4, metrics=make.image(0.8, 0.4), **where)
    return bench.write()


def another_machine(bench, make):
    return amended(bench, lambda r: dataclasses.replace(r, environment=r.environment | {"cpu": "Testium 2"}))


def another_machine_for_a_part(bench, make):
    return amended(
        bench, lambda r: dataclasses.replace(r, environment=r.environment | {"cpu": "Testium 2"}), seeds=(3,)
    )


def shared_cores(bench, make):
    return amended(
        bench,
        lambda r: dataclasses.replace(
            r, timing=r.timing | {"cpu": r.timing["mean"] / 2}, environment=r.environment | {"threads": 1}
        ),
    )


@pytest.mark.parametrize(
    ("scene", "kinds_shown"),
    [
        (an_edited_sweep, {"danger_tried_elsewhere"}),
        (settings_dropped_from_the_plan, {"danger_budget_dropped"}),
        (runs_to_come, {"danger_not_final"}),
        (seeds_of_the_search, {"danger_stale"}),
        (a_second_look, {"danger_looked"}),
        (lost_items, {"danger_items_lost"}),
        (a_failed_run, {"danger_failed_run"}),
        (a_failed_seed, {"danger_replicas_count"}),
        (a_diverged_seed, {"danger_replicas_count"}),
        (unlike_scatter, {"danger_spread_unlike"}),
        (unequal_budgets, {"danger_budget"}),
        (mixed_environments, {"danger_mixture"}),
        (another_machine, {"danger_time_other", "danger_mixture"}),
        (another_machine_for_a_part, {"danger_time_left_out"}),
        (shared_cores, {"danger_time_shared"}),
    ],
)
def test_each_danger_has_a_line_on_the_first_screen_and_notes_add_to_it(
    bench, make, monkeypatch, scene, kinds_shown
):
    contest(bench, make, muon=(0.90, 0.91, 0.92), adamw=(0.80, 0.81, 0.82))
    store, sweeps, width = scene(bench, make), ["demo-digits"], 80
    (found,) = answers(load_rows(store, sweeps), store)
    assert kinds_shown <= set(kinds(found.dangers))
    first, more = (screen(store, width, monkeypatch, sweeps, notes=notes) for notes in (False, True))
    assert protects(first, found) and protects(more, found)
    assert max(map(len, (first + more).splitlines())) <= width
    assert len(first.splitlines()) < 20 and len(first) + 500 < len(more), "what protects, and no more"
    marked = [place.name for place in found.places if any(note.danger() for note in place.notes)]
    assert [
        name for name in marked if not re.search(rf"^(\d=?)? *{re.escape(name)} (.* )?!", first, re.MULTILINE)
    ] == []


def test_rows_scored_on_other_items_have_no_verdict_on_the_first_screen(bench, make, monkeypatch):
    contest(bench, make, "pydocs", **CLOSE)
    amended(bench, lambda record: dataclasses.replace(record, items_digest="a" * 16), "muon")
    store = amended(bench, lambda record: dataclasses.replace(record, items_digest="b" * 16), "htmuon")
    (found,) = answers(load_rows(store))
    assert found.verdict.kind == "answer_other_items" and str(found.verdict) in screen(store, 80, monkeypatch)
    assert not any(place.rank for place in found.places)


@pytest.mark.parametrize("rows", [((0.90, 0.91), (0.80, 0.81, 0.82)), ((0.90, 0.91, 0.92), (0.80, 0.81))])
def test_nobody_has_a_rank_or_verdict_where_fewer_than_two_rows_have_enough_seeds(bench, make, rows):
    contest(bench, make, muon=rows[0], adamw=rows[1])
    seen = [(place.name, place.rank, place.kind, place.gap) for place in answer(bench).places]
    assert seen == [(name, "", None, None) for name in ("muon", "adamw")]


@pytest.mark.parametrize("seed", range(5))  # the law itself: compare/test_judge.py
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


# --- rows that have learned nothing ---


@pytest.mark.parametrize(("share", "is_chance"), [(0.1003, True), (0.12, True), (0.2, False)])
def test_a_row_that_guesses_among_ten_classes_has_a_mark(bench, make, share, is_chance):
    contest(bench, make, samples=299, muon=(0.9, 0.91, 0.92), adamw=(share,) * 3)
    found = answer(bench)
    told = [note["who"] for note in found.dangers if note.kind == "danger_at_chance"]
    assert told == [["adamw"]] * is_chance
    assert ("at_chance" in kinds(found.places[-1].notes)) is is_chance


@pytest.mark.parametrize("is_evaluated", [True, False])
def test_a_language_model_at_its_untrained_loss_has_a_mark(bench, make, is_evaluated):
    """Where nobody has evaluated the untrained model, the first batch tells it."""
    contest(bench, make, "pydocs", adamw=(6.88, 6.92, 6.95), muon=(3.0, 3.01, 3.02))
    store = bench.write()
    for point in bench.points["demo-pydocs"] if not is_evaluated else ():
        change_record(store, point.key, without_untrained)
        curve = store.files(point.key).metrics
        curve.write_text('{"step": 1, "loss": 6.93}' + curve.read_text()[curve.read_text().index("\n") :])
    (found,) = answers(load_rows(store), store)
    assert [note["who"] for note in found.dangers if note.kind == "danger_as_untrained"] == [["adamw"]]


def without_untrained(record):
    return dataclasses.replace(
        record, metrics={name: x for name, x in record.metrics.items() if "untrained" not in name}
    )
