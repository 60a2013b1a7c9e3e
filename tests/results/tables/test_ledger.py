"""The ledger: every published number beside ours, with a verdict."""

import csv
import io

import pytest

from htbench.harness.cli import main
from htbench.harness.paper import reported
from htbench.harness.store.points import REPLICATE
from htbench.results.compare.view import View
from htbench.results.frames.load import load_rows
from htbench.results.tables.ledger import label_line, make_ledger
from tests.helpers.json_fields import promised, read
from tests.helpers.rendering import render

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
    [table] = make_ledger(View(load_rows(store), chosen=["paper"], store=store))
    section = next(one for one in table.sections if one.identity["published_table"] == line.table)
    rows = [dict(zip((c.name for c in section.columns), row, strict=True)) for row in section.rows]
    places = ("dataset", "model", "metric")
    return next(
        row
        for row in rows
        if row["row"].value == label_line(line)
        and all(row[name].value == getattr(line, name) for name in places)
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


# --- in miniature ---


def judged(bench, scale="nano"):
    """Rank and verdict of each number that has ours, by row, model and metric of the paper."""
    store = bench.write()
    [table] = make_ledger(View(load_rows(store), chosen=[scale], store=store))
    names = [column.name for column in table.sections[0].columns]
    cells = [dict(zip(names, row, strict=True)) for one in table.sections for row in one.rows]
    return {
        tuple(row[name].value for name in ("row", "model", "metric")): (row["rank"].value, row["verdict"])
        for row in cells
        if row["n"].value
    }


GOOD, NEAR, BAD = [3.90, 3.95, 3.92], [3.91, 3.94, 3.93], [4.20, 4.26, 4.22]


@pytest.mark.parametrize(
    ("htmuon", "muon", "ranks", "verdicts"),
    [
        (GOOD, BAD, ("1", "2"), ("best", "worse")),
        (BAD, GOOD, ("2", "1"), ("worse", "best")),
        (GOOD, NEAR, ("1=", "1="), ("best", "unknown")),
    ],
)
def test_in_miniature_the_judge_compares_ours(bench, make, htmuon, muon, ranks, verdicts):
    nano(bench, make, "htmuon", htmuon)
    nano(bench, make, "muon", muon)
    found = judged(bench)
    own = [found[name, "llama-60m", "perplexity"] for name in ("htmuon", "muon")]
    assert tuple(rank for rank, _ in own) == ranks
    assert tuple(word.value for _, word in own) == verdicts
    assert [word.bold for _, word in own] == [rank == "1" for rank in ranks]


def test_for_accuracies_higher_is_better(bench, make):
    options = {"base": NANO_GLYPHS, "sweep": "nano-cifar"}
    nano(bench, make, "htmuon", [0.80, 0.81, 0.815], **options)
    nano(bench, make, "sgdm", [0.30, 0.32, 0.31], **options)
    found = judged(bench)
    assert found["htmuon", "resnet18", "accuracy (%)"][0] == "1"
    assert found["sgdm", "resnet18", "accuracy (%)"][1].value == "worse"


def test_what_is_missing_has_no_rank_and_says_so(bench, make):
    nano(bench, make, "htmuon", GOOD)
    nano(bench, make, "muon", GOOD, state="waiting")
    store = bench.write()
    [table] = make_ledger(View(load_rows(store), chosen=["nano"], store=store))
    words = {(row[0].value, row[2].value): row[-1].value for row in table.sections[0].rows}
    assert words["muon", "llama-60m"] == words["adam", "llama-60m"] == "not run"
    assert words["htmuon", "llama-60m"] == ""  # nothing is decided while a rival may still come
    assert "pydocs llama-nano-60m for c4 llama-60m" in render(table, "md")


def test_a_row_that_may_catch_up_leaves_none_bold(bench, make):
    nano(bench, make, "htmuon", GOOD)
    nano(bench, make, "muon", BAD)
    bench.add("pydocs", "muon", 0.01, sweep="nano-main_result", base=NANO, metrics=make.text(4.6))
    rank, word = judged(bench)["htmuon", "llama-60m", "perplexity"]
    assert (rank, word.value, word.bold) == ("1", "best", False)


def test_times_have_no_verdict(bench, make):
    for optimizer, seconds in (("htmuon", 0.2), ("muon", 0.1)):
        nano(bench, make, optimizer, GOOD, sweep="nano-interval", seconds=seconds)
    rank, word = judged(bench)["muon", "llama-60m", "ms/step"]
    assert (rank, word.value) == ("", "")


# --- the command ---


def test_the_command_prints_what_it_promises(bench, make, capsys):
    nano(bench, make, "htmuon", GOOD)
    nano(bench, make, "muon", BAD)
    assert main(["ledger", "--json", "--root", str(bench.write().root)]) == 0
    shown = capsys.readouterr().out
    assert "worse" in shown and "329 published numbers" not in shown
    promised("table", read(shown))


def test_each_planned_scale_has_its_ledger(bench, make):
    nano(bench, make, "muon", GOOD)
    full_scale(bench, make, "muon", [3.36])
    store = bench.write()
    for chosen, names in ((None, ["ledger", "ledger_nano"]), (["quick"], ["ledger_quick"])):
        view = View(load_rows(store), chosen=chosen, store=store)
        assert [table.name for table in make_ledger(view)] == names
