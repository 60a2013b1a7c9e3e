"""`htbench bench train`: that both sides do the same, and that its figures are what they are called."""

import json
import sys
import weakref

import pytest
import torch

from harness import cli
from harness.bench import train
from harness.bench.machine import fitting, in_fresh_process
from harness.bench.turns import Measurement
from harness.show import terminal
from tests.helpers.json_fields import promised

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def setup(cache, name="llama-nano", dtype="float32", batch=2):
    (work,) = train.workloads(name, batch)
    return train.Setup(work, train.Precision(dtype, "cpu"), cache)


@pytest.mark.parametrize("dtype", ["float32", "autocast", "bfloat16"])
@pytest.mark.parametrize("name", ["llama-nano", "gpt2-nano"])
def test_both_sides_train_alike(cache, name, dtype):
    ours, theirs = setup(cache, name, dtype).both()
    for side in (ours, theirs):
        side.step(lambda: 0.0)  # twenty updates
    rel = 1e-3 if dtype == "float32" else 2e-2
    assert ours.losses == pytest.approx(theirs.losses, rel=rel)
    assert ours.losses[0] < 5.7  # ln 320 = 5.77


def test_operations_are_counted_as_in_the_papers():
    work = train.workloads("llama-60m")[0]
    layer = 4 * 512 * 512 + 3 * 512 * 1376
    weights = 8 * layer + 32000 * 512 + 17 * 512
    assert work.tokens == 4 * 256
    assert work.flops == 1024 * (6 * weights + 12 * 8 * 512 * 256)
    nano = train.workloads("gpt2-nano", batch=1)[0]
    tied = 2 * (12 * 48 * 48 + 13 * 48) + 320 * 48 + 2 * 48
    assert nano.flops == 32 * (6 * tied + 12 * 2 * 48 * 32)


def test_a_side_measures_all_its_steps(cache):
    times = iter([10.0, 50.0])
    assert setup(cache).both()[0].step(lambda: next(times)) == 40.0 / 20


@pytest.mark.parametrize(("dtype", "rel"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
def test_chunked_and_plain_loss_do_the_same(dtype, rel):
    sides = [train.loss_side(kind, 30, 8, 50, dtype, "cpu") for kind in ("chunked", "plain")]
    losses = [side.work().item() for side in sides]
    assert losses[0] == pytest.approx(losses[1], rel=rel)
    times = iter([1.0, 3.0])
    assert sides[0].step(lambda: next(times)) == 2.0


@pytest.mark.slow
def test_the_chunked_loss_needs_less_memory():
    shape = (1000, 64, 32000, torch.float32, "cpu")
    _ = torch.ones(2**28)  # a gigabyte here, which is none of the measured processes
    one = 1000 * 32000 * 4  # bytes of the logits; plain are these, their softmax and their gradient
    plain, less = (in_fresh_process(train.memory_of_loss, kind, *shape) for kind in ("plain", "chunked"))
    assert 2.5 * one < plain < 4.5 * one
    assert 0.5 * one < less < one


@pytest.fixture
def small(monkeypatch):
    """Memory is not measured, and the loss is that of a small head."""
    monkeypatch.setattr(train, "in_fresh_process", lambda memory, *given: 2**20 * (1 + ("theirs" in given)))
    monkeypatch.setattr(train, "ROWS", (("llama-nano", 2, 1),))
    monkeypatch.setattr(train, "CHUNK_ABOVE", 16)
    monkeypatch.setattr(train, "LOSS_SHAPE", (16, 16, 16))


def test_the_command_measures_everything(tmp_path, capsys, small):
    words = ["bench", "train", "--root", str(tmp_path), "--rounds", "6"]
    assert cli.main([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    promised("bench train", report)
    (row,) = report["rows"]
    assert row["ours"]["n"] == row["speedup"]["n"] == 6
    assert 0 < row["loading"] < 1 and 0 < row["utilisation"] and row["gap"] < 1e-3
    assert row["tokens"] == 64 and row["tokens_per_second"] > 0
    assert report["peak_bytes"] == {"llama-nano": [2**20, 2**21]}
    assert report["losses"][0]["dtype"] == "float32"
    assert cli.main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.startswith("llama-nano  2 x 32  6 ")]
    assert len(line) <= 110


@pytest.mark.parametrize(
    ("lacking", "rows", "bytes_", "losses"),
    [
        (["turns", "theirs"], 0, [2**20], 1),
        (["ours"], 1, [2**21], 1),
        (["loss"], 1, [2**20, 2**21], 0),
        (["turns", "ours", "theirs", "loss"], 0, [], 0),
    ],
)
def test_a_part_that_memory_lacks_for_leaves_the_others_their_results(
    tmp_path, capsys, small, monkeypatch, lacking, rows, bytes_, losses
):
    def limited(name, proper):
        def part(*given):
            if name in lacking or any(one in lacking for one in given if isinstance(one, str)):
                raise torch.OutOfMemoryError("a made-up lack of memory")
            return proper(*given)

        return part

    for name, function in (("turns", "times_of"), ("loss", "_loss_ratio"), ("", "in_fresh_process")):
        monkeypatch.setattr(train, function, limited(name, getattr(train, function)))
    reports, proper = [], train.report
    monkeypatch.setattr(train, "report", lambda facts: reports.append(proper(facts)) or reports[-1])
    assert cli.main(["bench", "train", "--root", str(tmp_path), "--rounds", "6", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (len(report["rows"]), report["peak_bytes"]["llama-nano"]) == (rows, bytes_)
    assert report["lacking"]["llama-nano"] == [one for one in lacking if one != "loss"]
    assert len(report["losses"]) == losses
    lines = terminal.write(reports).splitlines()
    (line,) = [line for line in lines if line.startswith("llama-nano  ")]
    assert ("x 32" in line) and len(line) <= 110


def test_what_a_part_leaves_is_gone_before_the_next_one():
    class Model(dict):
        pass

    left = []

    def part():
        model = Model()
        model["itself"] = model  # as compiled ones have circles
        left.append(weakref.ref(model))
        if len(left) == 2:
            raise torch.OutOfMemoryError("a made-up lack of memory")
        return 7

    assert [fitting(part), fitting(part)] == [7, None]
    assert [each() for each in left] == [None, None]


def test_the_report_has_a_line_per_model_and_loss():
    work = train.workloads("llama-60m")[0]
    times = [Measurement.of("x", "ms/step", [one]) for one in (100.0, 112.0, 1.12)]
    row = train.TrainRow(work, *times, 10240.0, 0.5, 90e9, 0.001, 1e-5, work.tokens, work.flops)
    facts = {"subject": "train", "dtype": "float32", "device": "cpu", "compile": False, "rounds": 1}
    facts |= {"clock": "CPU time", "transformers": "5"}
    about = {"cpu": "x", "cpu_capability": "AVX2", "torch": "2", "cpu_flags": None, "native_bfloat16": True}
    facts |= {
        "loss_shape": (1, 2, 3),
        "environment": about,
        "works": [work],
        "rows": [row],
        "lacking": {"llama-60m": []},
    }
    loss = train.LossRow("float32", Measurement.of("x", "x", [0.5]), 2**20, 2**21)
    facts |= {"peak_bytes": {"llama-60m": (2**30, 3 * 2**29)}, "losses": [loss]}
    (section,) = train.report(train.TrainFacts(**facts)).sections
    cells = [column.text(cell) for column, cell in zip(section.columns, section.rows[0], strict=True)]
    assert " ".join(cells) == ("llama-60m 4 x 256 1 100.0 112.0 1.120 1.120 .. 1.120 10240 50% 1024 1536 0.1")
    assert [note.kind for note in section.notes] == ["bench_train_columns", "bench_gap", "bench_loss"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--model", "resnet18"], "'resnet18' has no counterpart in transformers"),
        (["--model", "llama-nix"], "unknown model 'llama-nix'"),
        (["--rounds", "5"], "--rounds must be at least 6"),
        (["--batch", "0"], "--batch must be at least 1"),
    ],
)
def test_what_cannot_be_measured_is_refused(words, sentence, tmp_path, capsys):
    assert cli.main(["bench", "train", *words, "--root", str(tmp_path)]) == 2
    assert sentence in capsys.readouterr().err


def test_without_transformers_the_extra_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert cli.main(["bench", "train", "--root", str(tmp_path)]) == 2
    assert "htbench[peers]" in capsys.readouterr().err


def test_precisions():
    words = [train.Precision(name, "cpu") for name in ("float32", "bfloat16", "autocast")]
    low, full = torch.bfloat16, torch.float32
    assert [one.params for one in words] == [full, low, full]
    assert [one.products for one in words] == [full, low, low]
