"""`htbench table multipliers`, and its figures, on somebody's own ladder: a small store."""

import csv
import io
import json
import re

import pytest

from htbench.harness import cli
from htbench.harness.config.settings import resolve_config
from htbench.harness.cost.estimate import count
from htbench.harness.store.points import REPLICATE
from htbench.results.tables.ladder import AT_60M
from tests.helpers import ladders
from tests.helpers.ladders import PARAMETERS
from tests.results.conftest import Bench, text

MODELS = {"s1": "llama-nano-60m", "s2": "llama-nano-135m", "s3": "llama-nano-350m"}
RATES = {"adamw": 0.004, "muon": 0.02}
NOISE = (-0.002, 0.001, 0.002)  # of three seeds


def fill(bench, model, optimizer, ratio, *, batch=8, rates=(0.5, 1, 2), shift=0.0, worth=1.5):
    """A search over some rates, the second of which is best, and three replicas of it."""
    n = PARAMETERS[model]
    steps = round(ratio * n / (batch * 32))
    tokens = steps * batch * 32
    base = {"model": MODELS[model], "steps": steps, "batch_size": batch, "schedule.name": "wsd"}
    base |= {"schedule.warmup": 100, "seq_len": 32}
    more = {"base": base, "curve": False, "sweep": "mine", "block": f"{model}-{optimizer}-{ratio}-{batch}"}
    more["cost"] = {"parameters": n, "tokens": tokens, "flops_per_step": 3e6, "optimizer_flops_per_step": 1e6}
    level = ladders.law(model, tokens * (worth if optimizer == "muon" else 1)) + shift
    lr = RATES[optimizer]
    for rate in rates:
        bench.add("pydocs", optimizer, lr * rate, metrics=text(level + abs(rate - 1) / 10, test=0), **more)
    for seed, noise in enumerate(NOISE, 1):
        noise += 0.0005 * ((7 * seed + len(optimizer) + ratio) % 3)
        found = text(level + noise, test=0)
        bench.add("pydocs", optimizer, lr, stage=REPLICATE, seed=seed, metrics=found, **more)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Three sizes; AdamW at three lengths of the first two; a control of the batch at the first."""
    bench = Bench(tmp_path_factory.mktemp("ladder") / "store")
    for model, ratios in {"s1": (5, 20, 80), "s2": (10, 20, 40), "s3": (10, 20)}.items():
        for ratio in ratios:
            fill(bench, model, "adamw", ratio, rates=(0.5, 1, 2) if ratio == 20 else (1,))
        fill(bench, model, "muon", 20, worth=2.5 if model == "s2" else 1.5)
    for optimizer in RATES:
        fill(bench, "s1", optimizer, 20, batch=32, shift=0.3)
    return bench.write().root


def printed(capsys, *words):
    assert cli.main(list(map(str, words))) == 0
    return capsys.readouterr().out


@pytest.fixture
def lines(root, capsys):
    found = printed(capsys, "table", "multipliers", "--format", "csv", "--root", root)
    rows = csv.DictReader(io.StringIO(found))
    return {
        (row["size"], row["optimizer"], round(float(row["tokens_per_parameter"])), row["batch_size"]): row
        for row in rows
    }


def test_a_ladder_of_somebody_tells_what_a_rule_is_worth(lines):
    muon = lines[MODELS["s1"], "muon", 20, "8"]
    assert float(muon["token_multiplier"]) == pytest.approx(1.5, rel=0.02)
    assert float(muon["token_multiplier_low95"]) < 1.5 < float(muon["token_multiplier_high95"])
    assert float(muon["compute_multiplier"]) == pytest.approx(float(muon["token_multiplier"]))
    assert float(muon["to_adamw_high95"]) < 0 and muon["n"] == "3" and len(muon["runs"].split()) == 3


def test_its_guards_are_kinds_of_notes(lines):
    above, few = lines[MODELS["s2"], "muon", 20, "8"], lines[MODELS["s3"], "muon", 20, "8"]
    assert (above["token_multiplier"], above["beyond"], above["marks"]) == ("", "> 2.00", "guard_above")
    assert (few["token_multiplier"], few["marks"]) == ("", "guard_few_horizons")
    control = lines[MODELS["s1"], "muon", 20, "32"]
    assert (control["token_multiplier"], control["guards"]) == ("", "other batch")
    assert float(control["to_adamw"]) == pytest.approx(
        ladders.law("s1", 1.35e6) - ladders.law("s1", 9e5), rel=0.05
    )


def test_a_screen_shows_it_in_short(root, capsys):
    found = printed(capsys, "table", "multipliers", "--root", root)
    row = next(line for line in found.splitlines() if line.startswith(MODELS["s2"]) and "muon" in line)
    assert "> 2.00" in row


def test_its_notes_say_that_the_law_interpolates_and_what_the_optimizer_takes(root, capsys):
    (report,) = json.loads(printed(capsys, "table", "multipliers", "--json", "--root", root))
    (section,) = report["sections"]
    told = "\n".join(section["notes"])
    assert "5 unknowns from 6 losses" in told and "Nothing is said beyond the longest run of adamw" in told
    misses = re.search(
        r"interpolates\. It has one check: .* misses it by 0\.\d{3} nats \(\d\.\d standard", told
    )
    assert misses and "is 1.5 % of muon and 0.9 % of htmuon" in told
    at = [column["name"] for column in section["columns"]].index("optimizer_percent")
    assert {row[at]["value"] for row in section["rows"]} == {25.0}  # of what `fill` has


@pytest.mark.slow  # a quarter of the seconds of this folder, for two constants
@pytest.mark.parametrize("name", AT_60M)
def test_the_share_of_the_optimizer_in_the_paper_is_counted(name):
    settings = {"task": "c4", "model": "llama-60m", "batch_size": 512, "seq_len": 256, "steps": 10_000}
    settings |= {"layout": "padded", "optimizer.name": name, "data_fingerprint": "-"}
    counted = count(resolve_config(settings), "cpu")
    whole = counted.flops_per_step + counted.optimizer_flops_per_step
    assert counted.optimizer_flops_per_step / whole == pytest.approx(AT_60M[name], abs=5e-5)


def test_a_part_of_it_is_no_ladder(bench, capsys):
    fill(bench, "s1", "adamw", 20)
    fill(bench, "s1", "muon", 20)
    found = printed(capsys, "table", "multipliers", "--json", "--root", bench.write().root)
    assert [report["sections"] for report in json.loads(found)] == [[]]


def test_another_schedule_is_another_ladder(bench, capsys):
    for ratio in (5, 20):
        fill(bench, "s1", "adamw", ratio)
    more = {"model": MODELS["s1"], "steps": 14000, "batch_size": 8, "schedule.name": "cosine"}
    cost = {"parameters": 45e3, "tokens": 3.6e6, "flops_per_step": 1.0, "optimizer_flops_per_step": 1.0}
    for stage, seeds in (("search", (0,)), (REPLICATE, (1, 2, 3))):
        for seed in seeds:
            figures = text(2.0 + seed / 1000)
            bench.add(
                "pydocs",
                "adamw",
                0.004,
                stage=stage,
                seed=seed,
                metrics=figures,
                base=more,
                curve=False,
                cost=cost,
            )
    found = printed(capsys, "table", "multipliers", "--json", "--root", bench.write().root)
    assert json.loads(found)[0]["sections"] == []


def test_its_figures_are_drawn(root, tmp_path, capsys):
    names = ("multiplier", "horizon")
    printed(capsys, "figure", *names, "--root", root, "--out", tmp_path)
    made = {path.name for path in tmp_path.glob("*.png")}
    assert {"multiplier.png", "horizon.png"} <= made
    rows = list(csv.DictReader((tmp_path / "multiplier.csv").open()))
    own = [row for row in rows if row["source"] == "runs" and row["series"] == "muon"]
    assert [float(row["x"]) for row in own] == [PARAMETERS["s1"], PARAMETERS["s2"]]
    assert own[0]["y_low"] and not own[1]["y_low"]
    assert {row["series"] for row in rows if row["source"] == "published"} == {"muon", "htmuon_ns over muon"}
    assert any(row["series"] == "adamw, law" for row in csv.DictReader((tmp_path / "horizon.csv").open()))
