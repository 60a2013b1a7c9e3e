"""What `htbench cost` and records say of a run: operations, memory, and the time of finished runs."""

import json

import pytest
import torch

from htbench.harness import cli
from htbench.harness.config.key import resolved
from htbench.harness.config.settings import resolve_config
from htbench.harness.cost import update
from htbench.harness.cost.estimate import count, for_record
from htbench.harness.store import Store
from htbench.harness.train import run
from tests.helpers.counted import Step, config_of
from tests.helpers.json_fields import promised


def tiny_settings(**settings):
    named = {"task": "digits", "model": "resnet-nano", "steps": 8, "batch_size": 16, "optimizer.name": "sgdm"}
    return named | settings


def said(capsys, root, *words, **settings):
    words = [*(f"{key}={value}" for key, value in tiny_settings(**settings).items()), *words]
    assert cli.main(["cost", *words, "--root", str(root)]) == 0
    return capsys.readouterr().out


def test_every_record_has_the_cost_of_its_class_however_short_its_run(tmp_path, tiny):
    store = Store(tmp_path / "store")
    record = run.run(resolved(resolve_config(tiny)), store, count=for_record)
    assert record.useful_seconds < 10, "no estimate waits for a long run"
    counted = count(resolve_config(tiny), "cpu")
    assert record.cost["flops_per_step"] == counted.flops_per_step > 0
    assert record.cost["state_bytes"] == counted.states
    assert record.cost["estimated_peak_memory"] == counted.peak
    assert not (store.root / "cache" / "costs").exists()


def test_a_run_never_fails_for_its_price(tmp_path, tiny, monkeypatch):
    def fail(*_):
        raise RuntimeError("no such thing on tensors without memory")

    monkeypatch.setattr(update, "count", fail)
    record = run.run(resolved(resolve_config(tiny)), Store(tmp_path), count=for_record)
    assert record.status == "completed" and "flops_per_step" not in record.cost


def test_processes_share_the_state():
    alone = count(config_of("pydocs", "llama-nano"), "cpu").states
    shared = count(config_of("pydocs", "llama-nano", processes=2), "cpu").states
    assert alone / 2 <= shared < 0.7 * alone
    config = config_of("pydocs", "llama-nano", processes=2, shard_optimizer=False)
    assert count(config, "cpu").states == alone


@pytest.mark.parametrize("name", ["galore", "soap"])
def test_the_state_is_that_of_a_real_optimizer(name, monkeypatch):
    monkeypatch.setattr(update, "_SMALL", 0)
    config = config_of("digits", "resnet-nano", name)
    step = Step(config)
    for _ in range(2):  # the second step of SOAP makes the moments
        for p in step.model.parameters():
            p.grad = torch.randn_like(p)
        step.optimizer.step()
    assert count(config, "cpu").states == update.memory_of(step.optimizer.state)


# --- the command ---


def test_the_card_as_json(tmp_path, capsys):
    card = json.loads(said(capsys, tmp_path / "s", "--json", processes=2))
    promised("cost", card)
    assert (card["processes"], card["steps"], card["images"]) == (2, 8, 128)
    assert card["total_flops"] == 8 * (card["flops_per_step"] + card["optimizer_flops_per_step"])
    assert card["peak"] > card["weights"] > 4 * card["parameters"] - 1
    assert card["seconds"] is None and card["cost"] is None
    assert not (tmp_path / "s").exists(), "asking makes no store"


def test_the_card_has_the_time_of_finished_runs_of_the_class(tmp_path, capsys):
    store = Store(tmp_path / "store")
    assert "no run of this class has finished" in said(capsys, store.root)
    record = run.run(resolved(resolve_config(tiny_settings())), store)
    out = said(capsys, store.root, **{"optimizer.lr": 0.3, "steps": 4000})
    assert "a step, by 1 finished run on " in out and "no run" not in out
    card = json.loads(said(capsys, store.root, "--json", **{"optimizer.lr": 0.3, "steps": 4000}))
    assert card["cost"]["step"] == record.useful_seconds / 8 < card["seconds"] / 4000
    assert "no run of this class" in said(capsys, store.root, batch_size=32)


def test_a_model_larger_than_memory_takes_seconds(tmp_path, capsys, monkeypatch):
    """It is counted on tensors without memory; the small one on real ones."""
    made = []
    monkeypatch.setattr(update, "FakeTensorMode", lambda **_: made.append(1) or FakeTensorMode(**_))
    FakeTensorMode = torch._subclasses.FakeTensorMode
    said(capsys, tmp_path)
    assert not made
    big = {"task": "c4", "model": "llama-1b", "batch_size": 512, "optimizer.name": "muon", "device": "cuda"}
    card = json.loads(said(capsys, tmp_path, "--json", **big))
    assert made and card["peak"] > 5e10 and card["device"] == "cuda"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["sweeps/demo/demo-digits.yaml"], "`htbench sweep plan sweeps/demo/demo-digits.yaml --root "),
        (
            ["task=digits", "model=tests.harness.cost.test_memory:Torn", "steps=2"],
            "The cost of this run can't be told: no update of 'tests.harness.cost.test_memory:Torn' with ",
        ),
    ],
)
def test_mistakes_are_told_in_a_sentence(capsys, tmp_path, words, sentence):
    assert cli.main(["cost", *words, "--root", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert sentence in err and err.count("\n") == 1
