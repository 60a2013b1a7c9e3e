"""The price of a step: what the roofline says by hand, what runs correct, and published times."""

import dataclasses
import json

import pytest

from harness import cli
from harness.config.key import resolved
from harness.config.settings import resolve_config
from harness.cost import estimate as costs
from harness.cost import kept, price
from harness.cost.gpus import PROCESSORS
from harness.cost.kept import TrainingFlops
from harness.show.note import Note
from harness.store import Store
from harness.train import run
from tests.helpers.json_fields import promised

WORK = TrainingFlops(
    forward=1e12,
    backward=2e12,
    recomputation=0.0,
    evaluation=1e12,
    kinds={"bfloat16": 2e12, "float32": 1e12},
    optimizer_kinds={"bfloat16": 4e11, "svd": 1e11},
    moved=1e9,
    optimizer_moved=1e8,
    calls=100,
    optimizer_calls=50,
    parameters=10,
    matrix=8,
)
A6000 = PROCESSORS["a6000"]
PAPER = {"task": "c4", "steps": 10000, "batch_size": 512, "precision.params": "bfloat16", "device": "cuda"}


def config(**settings):
    named = {key.replace("__", "."): value for key, value in settings.items()}
    return resolve_config(
        {"data_fingerprint": "-", "task": "digits", "model": "resnet-nano", "steps": 8} | named
    )


def test_a_step_on_one_gpu_by_hand():
    found = price.times(WORK, config(), A6000, gradients=10**9)
    assert found.products == pytest.approx(2e12 / (0.6 * 154.8e12) + 1e12 / (0.6 * 38.7e12))
    assert found.traffic == pytest.approx(1e9 / (0.8 * 768e9))
    assert found.optimizer_decompositions == pytest.approx(1e11 / (0.01 * 38.7e12))
    assert found.optimizer_products == pytest.approx(4e11 / (0.6 * 154.8e12))
    assert found.exchange == 0 and found.calls == pytest.approx(150e-5)
    assert found.step == pytest.approx(found.products + found.traffic + found.optimizer)


def test_tf32_is_for_the_model_s_products_in_float32_only():
    work = dataclasses.replace(WORK, optimizer_kinds={"float32": 4e11})
    fast = price.times(work, config(precision__tf32=True), A6000, 0)
    assert fast.products == pytest.approx(2e12 / (0.6 * 154.8e12) + 1e12 / (0.6 * 77.4e12))
    assert fast.optimizer_products == pytest.approx(4e11 / (0.6 * 38.7e12))


def test_several_processes_share_the_batch_and_the_optimizer_and_exchange_gradients():
    one, four = (price.times(WORK, config(processes=n, batch_size=16), A6000, 10**9) for n in (1, 4))
    assert four.products == pytest.approx(one.products / 4)
    assert four.optimizer == pytest.approx(one.optimizer / 4)
    assert four.exchange == pytest.approx(1.5 * 1.5 * 1e9 / 16e9), "2 (n - 1) / n, and the weights come back"
    alone = price.times(WORK, config(processes=4, batch_size=16, shard_optimizer=False), A6000, 10**9)
    assert alone.optimizer == pytest.approx(one.optimizer)
    assert alone.exchange == pytest.approx(1.5 * 1e9 / 16e9)


def test_of_an_interval_only_every_so_many_steps_decompose(tmp_path):
    """An SVD has fewer operations than Newton-Schulz, and is the dear step all the same."""
    named = {"optimizer.name": "htmuon", "optimizer.spectral": "svd_power", "device": "cuda"}
    every, fifth = (
        costs.estimate(resolve_config(tiny_settings(**named, **more)), tmp_path, "cuda").work
        for more in ({}, {"optimizer.interval": 5})
    )
    assert fifth.optimizer_kinds["svd"] == pytest.approx(every.optimizer_kinds["svd"] / 5)


def test_a_small_model_waits_for_python_on_a_gpu_and_a_cpu_has_as_many_cores_as_threads():
    small = dataclasses.replace(WORK, kinds={}, optimizer_kinds={}, moved=0, optimizer_moved=0)
    assert price.times(small, config(), A6000, 0).step == pytest.approx(1.5e-3)
    core = PROCESSORS["zen4-core"]
    one, two = (price.times(WORK, config(threads=n), core, 0).step for n in (1, 2))
    assert two == pytest.approx(one / 2)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "published"), [("llama-60m", 0.51), ("llama-135m", 0.59)])
def test_muon_on_four_a6000_is_within_a_factor_of_two_of_the_paper(model, published, tmp_path):
    """The table of step times in the paper. Its code steps every matrix in every process."""
    muon = {"optimizer.name": "muon", "processes": 4, "shard_optimizer": False}
    made = resolve_config({"data_fingerprint": "-", "model": model} | PAPER | muon)
    found = costs.estimate(made, tmp_path, "cuda")
    told = costs.offer(found, A6000, [])
    assert told.basis.kind == "cost_basis_data_sheet"
    assert published / 2 < told.seconds_per_step < 2 * published


# --- finished runs ---


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A store with a finished run, which claims to have been on an A6000."""
    store = Store(tmp_path_factory.mktemp("trained") / "store")
    record = run.run(resolved(resolve_config({**tiny_settings()})), store, count=kept.for_record)
    on_gpu = {"gpu": "NVIDIA RTX A6000"}
    return store, dataclasses.replace(record, environment=record.environment | on_gpu, useful_seconds=8 * 0.3)


def tiny_settings(**settings):
    named = {"task": "digits", "model": "resnet-nano", "steps": 8, "batch_size": 16, "optimizer.name": "sgdm"}
    return named | settings


def test_a_finished_run_of_the_class_is_the_price(trained):
    store, record = trained
    found = costs.estimate(
        resolve_config(tiny_settings(device="cuda", **{"optimizer.lr": 0.3})), store.root, "cuda"
    )
    told = costs.offer(found, A6000, [record, record])
    assert (told.seconds_per_step, told.basis) == (pytest.approx(0.3), Note("cost_basis_measured", runs=2))
    elsewhere = costs.offer(found, PROCESSORS["h100"], [record])
    assert elsewhere.basis == Note("cost_basis_data_sheet")
    assert elsewhere.seconds_per_step == elsewhere.data_sheet["step"]


def test_similar_runs_correct_the_data_sheet(trained):
    store, record = trained
    sgdm = costs.offer(costs.estimate(resolve_config(tiny_settings()), store.root, "cuda"), A6000, [])
    muon = costs.estimate(resolve_config(tiny_settings(**{"optimizer.name": "muon"})), store.root, "cuda")
    told = costs.offer(muon, A6000, [record])
    factor = 0.3 / sgdm.data_sheet["step"]
    assert told.seconds_per_step == pytest.approx(factor * told.data_sheet["step"])
    assert told.basis.kind == "cost_basis_corrected" and told.basis["runs"] == 1
    assert told.basis["factor"] == pytest.approx(factor)
    diverged = dataclasses.replace(record, status="diverged")
    assert costs.offer(muon, A6000, [diverged]).basis == Note("cost_basis_data_sheet")


# --- kept for others ---


def test_every_record_keeps_the_cost_of_its_class_however_short_its_run(tmp_path, tiny, monkeypatch):
    monkeypatch.setattr(kept, "_here", {})
    store = Store(tmp_path / "store")
    short = run.run(resolved(resolve_config(tiny)), store, count=kept.for_record)
    assert short.useful_seconds < 10, "no estimate waits for a long run"
    found = costs.estimate(resolve_config(tiny), store.root / "cache")
    assert short.cost["flops_per_step"] == found.training > 0
    assert short.cost["state_bytes"] == found.memory.states
    assert short.cost["estimated_peak_memory"] == found.memory.peak
    monkeypatch.setattr(kept, "_here", {})
    monkeypatch.setattr(kept, "simulate", None)  # from the file
    again = run.run(resolved(resolve_config(tiny | {"seed": 2})), store, count=kept.for_record)
    assert again.cost == short.cost


def test_an_estimate_leaves_nothing_in_the_working_folder(trained, tmp_path, monkeypatch):
    store, record = trained
    monkeypatch.setattr(kept, "_here", {})
    monkeypatch.chdir(tmp_path)
    muon = costs.estimate(
        resolve_config(tiny_settings(**{"optimizer.name": "muon"})), store.root / "cache", "cuda"
    )
    costs.offer(muon, A6000, [record])
    assert not list(tmp_path.iterdir())


def test_a_run_never_fails_for_its_price(tmp_path, tiny, monkeypatch):
    def fail(*_):
        raise RuntimeError("no such thing on tensors without memory")

    monkeypatch.setattr(kept, "_here", {})
    monkeypatch.setattr(kept, "simulate", fail)
    record = run.run(resolved(resolve_config(tiny)), Store(tmp_path), count=kept.for_record)
    assert record.status == "completed" and "flops_per_step" not in record.cost


# --- the command ---


def test_the_card_as_json(tmp_path, capsys):
    words = [f"{key}={value}" for key, value in tiny_settings().items()]
    asked = [
        "cost",
        *words,
        "--gpu",
        "a6000,h100",
        "--gpus-per-run",
        "2",
        "--json",
        "--root",
        str(tmp_path / "s"),
    ]
    assert cli.main(asked) == 0
    card = json.loads(capsys.readouterr().out)
    promised("cost", card)
    assert (card["processes"], card["steps"], card["images"]) == (2, 8, 128)
    assert card["total_flops"] == 8 * (card["flops_per_step"] + card["optimizer_flops_per_step"])
    assert card["memory"]["peak"] > card["memory"]["weights"] > 4 * card["parameters"] - 1
    for one, name in zip(card["offers"], ("a6000", "h100"), strict=True):
        assert (one["gpu"], one["count"], one["fits"], one["basis"]) == (name, 2, True, "data sheet")
        assert one["gpu_hours"] == pytest.approx(2 * 8 * one["seconds_per_step"] / 3600)
        assert one["source"].startswith("https://")
    assert not (tmp_path / "s").exists(), "asking makes no store"


def test_the_card_says_its_basis_and_what_is_too_large(tmp_path, capsys):
    (tmp_path / "gpus.yaml").write_text("tiny: {like: t4, memory: 0.0001}\n")
    words = [f"{key}={value}" for key, value in tiny_settings().items()]
    assert cli.main(["cost", *words, "--gpu", "tiny,t4", "--root", str(tmp_path)]) == 0
    *_, small, large = capsys.readouterr().out.splitlines()
    assert small.split()[0] == "tiny" and "NO" in small.split() and small.endswith("data sheet")
    assert large.split()[0] == "t4" and "yes" in large.split()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--gpu", "a600"], "Unknown GPU 'a600'; did you mean 'a6000'?"),
        (["--gpus-per-run", "0"], "--gpus-per-run must be at least 1"),
        (
            ["sweeps/demo/demo-digits.yaml"],
            "`htbench sweep plan sweeps/demo/demo-digits.yaml --root ",
        ),
    ],
)
def test_mistakes_are_told_in_a_sentence(capsys, tmp_path, words, sentence):
    assert cli.main(["cost", *words, "--root", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert sentence in err and err.count("\n") == 1
