"""The ledger: a verdict for every published number and every published ordering."""

import csv
import io
import math
import random

import pytest

from htbench.harness.cli import main
from htbench.harness.paper import reported
from htbench.harness.store.points import REPLICATE
from htbench.results.compare.ours import Ours
from htbench.results.frames.load import load
from htbench.results.tables.ledger import examine, label, ledger
from tests.helpers.json_fields import promised, read
from tests.helpers.rendering import FORMATS, render

LLAMA = {"task": "c4", "model": "llama-60m", "steps": 10000, "protocol": "paper"}
NANO = {"task": "pydocs", "model": "llama-nano-60m", "steps": 50}
NANO_GLYPHS = {"task": "glyphs", "model": "resnet-nano", "steps": 50}


def published(table, row, model="llama-60m", metric="perplexity"):
    return next(
        line
        for line in reported.of_table(table)
        if (line.row, line.model, line.metric) == (row, model, metric)
    )


def full_scale(bench, make, optimizer, losses, **options):
    """Search runs of `paper-main_result`, one per loss; the perplexity of the release is exp(loss)."""
    for seed, loss in enumerate(losses):
        metrics = make.text(loss) | {"test_loss_biased": loss}
        hyper = {"p": 0.125} if optimizer == "htmuon" else {}
        sweep = {"sweep": "paper-main_result", "base": LLAMA, "curve": False}
        bench.add("pydocs", optimizer, 0.01, seed=seed, metrics=metrics, **sweep, **hyper, **options)


def nano(bench, make, optimizer, losses, *, base=NANO, sweep="nano-main_result", **options):
    """One setting in miniature: its search run, and fresh seeds with these test losses or accuracies."""
    hyper = {"p": 0.125} if optimizer.startswith("htmuon") else {}
    image = base["task"] == "glyphs"
    workload, made = ("digits", make.image(0.9, 0.3)) if image else ("pydocs", make.text(4.0))
    common = {"sweep": sweep, "base": base, "curve": False, **hyper, **options}
    bench.add(workload, optimizer, 0.02, metrics=made, **common)
    for seed, value in enumerate(losses, start=1000):
        own = make.image(0.9, 0.3, test=value) if image else make.text(value, test=0)
        bench.add(workload, optimizer, 0.02, stage=REPLICATE, seed=seed, metrics=own, **common)


def row_of(bench, line):
    """The cells of a published number in the ledger of numbers, by column."""
    store = bench.write()
    [table] = ledger(load(store), store, ["paper"])
    section = next(one for one in table.sections if one.identity["published_table"] == line.table)
    rows = [dict(zip((c.name for c in section.columns), row, strict=True)) for row in section.rows]
    places = ("dataset", "model", "metric")
    return next(
        row
        for row in rows
        if row["row"].value == label(line) and all(row[name].value == getattr(line, name) for name in places)
    )


# --- numbers ---

MUON = published("main_result", "muon")  # 28.80; log 3.3604


def test_every_published_number_has_a_row_even_without_a_store(tmp_path, capsys):
    assert main(["ledger", "--format", "csv", "--root", str(tmp_path / "nothing")]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == len(reported.everything()) == 329
    assert [float(row["published"]) for row in rows] == [line.value for line in reported.everything()]
    assert {row["verdict"] for row in rows} == {"not run"}


@pytest.mark.parametrize(
    ("losses", "verdict"),
    [
        ([3.36, 3.362, 3.358], "within noise"),
        ([3.37, 3.372, 3.368], "within noise"),
        ([3.50, 3.502, 3.498], "worse"),
        ([3.20, 3.202, 3.198], "better"),
        ([3.36], "no spread"),
        ([3.36, 3.5], "no spread"),
        ([2.0, 4.0, 3.0], "within noise"),
    ],
)
def test_the_verdict_follows_our_spread(bench, make, losses, verdict):
    full_scale(bench, make, "muon", losses)
    found = row_of(bench, MUON)
    assert found["verdict"].value == verdict
    assert found["n"].value == len(losses) == len(found["ours"].runs)
    assert found["difference"].value == pytest.approx(found["ours"].value.mean - 28.80)


def test_an_equal_print_is_within_noise_without_any_spread(bench, make):
    full_scale(bench, make, "muon", [3.3603754] * 3)
    assert row_of(bench, MUON)["verdict"].value == "within noise"


@pytest.mark.parametrize(
    ("state", "verdict"),
    [
        ("waiting", "not run"),
        ("running", "not run"),
        ("failed", "failed: oom"),
        ("diverged", "failed: the loss was not finite"),
    ],
)
def test_without_a_number_the_verdict_says_why(bench, make, state, verdict):
    reason = verdict.partition(": ")[2]
    full_scale(bench, make, "muon", [3.36], state=state, reason=reason, steps=7)
    assert row_of(bench, MUON)["verdict"].value == verdict


def test_runs_in_miniature_are_of_another_scale(bench, make):
    nano(bench, make, "muon", [4.0, 4.01, 4.02])
    assert row_of(bench, MUON)["verdict"].value == "other scale"
    assert row_of(bench, published("main_result", "adam"))["verdict"].value == "not run"


@pytest.mark.parametrize(
    ("gpu", "processes", "verdict"),
    [
        ("NVIDIA RTX A6000", 4, "better"),
        ("NVIDIA RTX A6000", 2, "other hardware"),
        ("H100", 4, "other hardware"),
    ],
)
def test_times_are_compared_on_the_published_hardware_only(bench, make, gpu, processes, verdict):
    for seed in range(3):
        bench.add(
            "pydocs",
            "muon",
            0.01,
            seed=seed,
            metrics=make.text(3.36),
            sweep="paper-main_result",
            base=LLAMA,
            curve=False,
            seconds=0.3 + seed / 1000,
            environment={"gpu": gpu, "world_size": processes},
        )
    line = published("interval_step_time", "muon", metric="seconds_per_step")
    assert row_of(bench, line)["verdict"].value == verdict


def test_known_slips_stand_at_the_numbers_that_they_touch(bench, make):
    full_scale(bench, make, "muon", [3.36])
    notes = {
        line: row_of(bench, line)["published"].notes
        for line in (MUON, published("cifar", "sgdm", "resnet18", "accuracy"))
    }
    assert any("3.41 and 3.05" in str(note) for note in notes[MUON])
    assert list(notes.values())[1] == ()


# --- claims ---


def outcomes(bench, scale="nano"):
    """The claims in miniature by their text, those of LLaMA-60M and of CIFAR-100 with ResNet-18 only."""
    store = bench.write()
    found = examine(Ours(load(store), scale, store))
    places = {("c4", "llama-60m"), ("cifar100", "resnet18")}
    return {
        one.claim.text(): one
        for one in reversed(found)
        if (one.claim.better.dataset, one.claim.better.model) in places
        and one.claim.better.metric in ("perplexity", "accuracy")
    }


GOOD, NEAR, BAD = [3.90, 3.95, 3.92], [3.91, 3.94, 3.93], [4.20, 4.26, 4.22]


@pytest.mark.parametrize(
    ("htmuon", "muon", "verdict"),
    [
        (GOOD, BAD, "reproduces"),
        (BAD, GOOD, "contradicts"),
        (GOOD, NEAR, "undecided"),
        (GOOD[:2], BAD[:2], "undecided"),
    ],
)
def test_a_claim_in_miniature(bench, make, htmuon, muon, verdict):
    nano(bench, make, "htmuon", htmuon)
    nano(bench, make, "muon", muon)
    one = outcomes(bench)["htmuon below muon"]
    assert one.verdict == verdict
    assert (one.p is None) == (len(htmuon) < 3)
    assert len(one.better.keys) == len(htmuon)


def test_for_accuracies_higher_is_better(bench, make):
    options = {"base": NANO_GLYPHS, "sweep": "nano-cifar"}
    nano(bench, make, "htmuon", [0.80, 0.81, 0.815], **options)
    nano(bench, make, "sgdm", [0.30, 0.32, 0.31], **options)
    one = outcomes(bench)["htmuon above sgdm"]
    assert one.verdict == "reproduces" and one.gap == pytest.approx(50, abs=1)


def test_what_is_missing_leaves_a_claim_undecided_and_says_so(bench, make):
    nano(bench, make, "htmuon", GOOD)
    nano(bench, make, "muon", GOOD, state="waiting")
    store = bench.write()
    [table] = ledger(load(store), store, ["nano"])
    text = render(table, "md")
    assert text.count("| undecided [") == len(table_rows(table))
    assert "] not run yet" in text and "] not planned" in text


def table_rows(table):
    return [row for section in table.sections for row in section.rows]


def test_a_family_is_fixed_whatever_has_run(bench, make):
    """One claim that has run is one of the many of its family: its p-value pays for all of them."""
    for optimizer, losses in (("htmuon", GOOD), ("muon", BAD)):
        nano(bench, make, optimizer, losses)
    store = bench.write()
    claims = examine(Ours(load(store), "nano", store))
    family = [one for one in claims if one.claim.family == "core"]
    tested = [one for one in family if one.p is not None]
    assert len(family) > 50 > len(tested) > 0 and all(one.p < 0.05 for one in tested)
    largest = max(one.p for one in tested)
    assert all(one.stands for one in tested) == (largest * len(family) / len(tested) <= 0.1)
    assert {one.claim.family for one in claims} == {"core", "baselines", "times"}


def test_a_claim_whose_loser_may_catch_up_is_undecided(bench, make):
    nano(bench, make, "htmuon", GOOD)
    nano(bench, make, "muon", BAD)
    bench.add("pydocs", "muon", 0.01, sweep="nano-main_result", base=NANO, metrics=make.text(4.6))
    one = outcomes(bench)["htmuon below muon"]
    assert one.is_open and one.verdict == "undecided"


def test_one_optimizer_under_two_names_agrees_and_disagrees_in_5_of_100(bench, make):
    """An A/A test of the whole ledger: all optimizers draw from one law, so that every claim is void."""
    source = random.Random(5)
    for optimizer in ("htmuon", "htmuon_normuon", "muon", "normuon", "adamuon", "mars", "soap", "cautious"):
        nano(
            bench, make, optimizer, [source.gauss(4, 0.1) for _ in range(3)], sweep="nano-optimizer_variants"
        )
    found = [one for one in outcomes(bench).values() if one.p is not None]
    assert len(found) >= 12
    assert sum(one.verdict != "undecided" for one in found) <= 3
    assert not any(one.stands for one in found)


def test_a_claim_on_times_is_about_their_ratio(bench, make):
    """Twice the time is a gap of ln 2, whatever the unit: it stands beside the published logarithm."""
    for optimizer, factor in (("htmuon", 2), ("muon", 1)):
        hyper = {"p": 0.125} if optimizer == "htmuon" else {}
        run = {"sweep": "nano-interval", "base": NANO, "curve": False, **hyper}
        bench.add("pydocs", optimizer, 0.02, metrics=make.text(4.0), **run)
        for seed in range(1000, 1003):
            seconds = factor * (0.2 + (seed - 1000) / 100)
            text = make.text(4.0, test=0)
            bench.add(
                "pydocs", optimizer, 0.02, stage=REPLICATE, seed=seed, metrics=text, seconds=seconds, **run
            )
    store = bench.write()
    found = examine(Ours(load(store), "nano", store))
    one = next(
        one
        for one in found
        if one.claim.text() == "muon below htmuon" and one.claim.better.metric == "seconds_per_step"
    )
    assert one.theta == pytest.approx(math.log(2)) and one.low < math.log(2) < one.high
    assert one.verdict == ("reproduces" if one.low > one.claim.ratio / 2 else "agrees")


def test_times_of_unlike_machines_are_not_compared(bench, make):
    slow = {"sweep": "nano-interval", "seconds": 0.5}
    nano(bench, make, "htmuon", GOOD, **slow)
    nano(bench, make, "muon", BAD, sweep="nano-interval", seconds=0.1, cpu="Testium 2")
    store = bench.write()
    found = examine(Ours(load(store), "nano", store))
    one = next(
        one
        for one in found
        if one.claim.text() == "muon below htmuon" and one.claim.better.metric == "seconds_per_step"
    )
    assert one.p is None and one.verdict == "undecided"


# --- the command ---


@pytest.mark.parametrize("fmt", FORMATS)
def test_the_command_prints_every_format_and_the_same_twice(bench, make, fmt, capsys):
    nano(bench, make, "htmuon", GOOD)
    nano(bench, make, "muon", BAD)
    root = str(bench.write().root)
    words = ["ledger", "--format", fmt, "--root", root]
    assert main(words) == 0
    first = capsys.readouterr().out
    assert main(words) == 0
    assert capsys.readouterr().out == first
    assert "undecided" in first and "320 published numbers" not in first
    if fmt == "json":
        promised("table", read(first))
        assert main(["ledger", "--json", "--root", root]) == 0
        assert capsys.readouterr().out == first


def test_each_planned_scale_has_its_ledger(bench, make):
    nano(bench, make, "muon", GOOD)
    full_scale(bench, make, "muon", [3.36])
    store = bench.write()
    assert [table.name for table in ledger(load(store), store)] == ["ledger", "ledger_nano"]
    assert [table.name for table in ledger(load(store), store, ["quick"])] == ["ledger_quick"]
