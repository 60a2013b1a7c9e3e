"""`benchmarks/gpu.py`: what a part's end costs, what it goes on with, and its figures. Without a GPU."""

import importlib.metadata
import json
import subprocess
import venv
from pathlib import Path

import pytest
import torch
from packaging.requirements import Requirement

from benchmarks import gpu, gpu_parts
from htbench import models, optimizers
from htbench.harness import tasks
from htbench.optimizers import stacks
from htbench.optimizers.spectral import exact, products

ROOT = Path(__file__).parents[3]


def lines(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


# --- parts, their ends and the plan ---


def test_a_repetition_measures_what_is_not_done_and_loses_nothing(tmp_path, capsys):
    words = ["--out", str(tmp_path), "--part", "machine"]
    file = tmp_path / "machine.jsonl"
    assert gpu.main([*words, "--minutes", "0"]) == 1
    assert "machine: no time left" in capsys.readouterr().out and not file.exists()
    file.write_text('{"kind": "Machine"}\n{"outcome": "out of time", "seconds": 1.0}\n')
    before = file.read_text()
    with pytest.raises(SystemExit, match="add --resume to go on"):
        gpu.main(words)
    assert gpu.main([*words, "--resume"]) == 0
    assert file.read_text().startswith(before)
    first, *findings, last = lines(file)[2:]
    assert (first["kind"], first["environment"]["device"], first["memory"]) == ("Machine", "cpu", None)
    assert {one["kind"] for one in findings} == {"Finding"} and last["outcome"] == "done"
    done = file.read_bytes()
    capsys.readouterr()
    assert gpu.main([*words, "--resume"]) == 0
    assert capsys.readouterr().out == "12 minutes; 1 of 1 parts are done\n" and file.read_bytes() == done


@pytest.mark.parametrize(
    ("program", "seconds", "outcome", "log"),
    [
        ("import sys; print('a part says why'); sys.exit(3)", 300, "failed", "a part says why\n"),
        ("import time; time.sleep(600)", 1, "out of time", ""),
    ],
)
def test_the_end_of_a_part_is_its_last_line(tmp_path, monkeypatch, program, seconds, outcome, log):
    (tmp_path / "part.py").write_text(program)
    monkeypatch.setattr(gpu, "__file__", str(tmp_path / "part.py"))
    file = tmp_path / "machine.jsonl"
    assert gpu.measure_apart("machine", file, seconds) == outcome
    assert [one["outcome"] for one in lines(file)] == [outcome] and not gpu.is_done(file)
    assert file.with_suffix(".log").read_text() == log


def test_a_part_that_raises_has_the_facts_before(tmp_path, monkeypatch):
    def measure(device, folder):
        yield gpu_parts.Failed(device, "first")
        raise torch.OutOfMemoryError("of 80 GiB")

    monkeypatch.setitem(gpu_parts.PARTS, "machine", measure)
    with pytest.raises(torch.OutOfMemoryError):
        gpu.measure_here("machine", tmp_path / "machine.jsonl")
    assert lines(tmp_path / "machine.jsonl") == [{"kind": "Failed", "subject": "cpu", "why": "first"}]


def test_the_plan_is_cut_to_the_minutes():
    assert list(gpu.MINUTES) == list(gpu_parts.PARTS) and sum(gpu.MINUTES.values()) <= 12
    assert gpu.plan(gpu.MINUTES, 12) == gpu.MINUTES
    reached = gpu.plan(["agreement", "headline", "memory"], 3)
    assert reached == {"agreement": 2.0, "headline": pytest.approx(1.0)}


def test_what_is_missing_is_one_sentence(monkeypatch):
    here = {"torch": "2.9.1", "numpy": "2.0", "psutil": "7.0", "tqdm": "4", "omegaconf": "2.3"}
    monkeypatch.setattr(gpu, "version", lambda name: here.get(name, ""))
    assert gpu.missing() == ""
    here["torch"] = "2.8.0+cu126"
    assert gpu.missing() == "This needs torch >= 2.9, not 2.8.0+cu126."
    here["psutil"] = ""
    with pytest.raises(SystemExit, match=r"omegaconf; missing here: psutil\.$"):
        gpu.main([])


# --- on a machine with five packages ---


def bare_python(folder):
    """A Python that has what `gpu.NEEDED` brings and nothing else."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    todo, names = list(gpu.NEEDED), set()
    while todo:
        if (name := todo.pop().lower()) not in names:
            names.add(name)
            needed = map(Requirement, importlib.metadata.requires(name) or ())
            todo += [one.name for one in needed if not one.marker or one.marker.evaluate({"extra": ""})]
    for name in names:
        files = importlib.metadata.files(name) or ()
        for top in {file.parts[0] for file in files} - {"..", "__pycache__", "bin"}:
            link = site / top
            if not link.exists():
                link.symlink_to(importlib.metadata.distribution(name).locate_file(top))
    return folder / "bin" / "python"


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(gpu.MINUTES, marks=pytest.mark.slow, id="all"),
        pytest.param(["training", "headline"], id="two"),
    ],
)
def test_five_packages_are_enough(tmp_path, names, htbench):
    words = [bare_python(tmp_path / "bare"), ROOT / "benchmarks" / "gpu.py", "--out", tmp_path / "out"]
    words += [word for name in names for word in ("--part", name)]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=tmp_path)
    logs = [file.read_text() for file in (tmp_path / "out").glob("*.log")]
    assert done.returncode == 0, (done, logs)
    facts = {name: lines(tmp_path / "out" / f"{name}.jsonl")[:-1] for name in names}
    assert all(fact["kind"] != "Failed" for part in facts.values() for fact in part)
    (step,) = (fact for fact in facts["training"] if fact["kind"] == "TrainingStep")
    assert (step["model"], step["micro_batch"], step["length"], step["peak"]) == ("llama-nano", 4, 32, None)
    assert step["tokens_per_second"] == pytest.approx(4 * 32 / (step["milliseconds"] / 1e3))
    # Its records tell `sweep plan` what the whole runs take.
    assert htbench("runs", "import", tmp_path / "out").returncode == 0
    told = htbench("sweep", "plan", tmp_path / "out" / "paper-60m.yaml", "--no-measure", "--json")
    for row, fact in zip(json.loads(told.stdout)[0]["card"], facts["headline"], strict=True):
        assert row["runs"] == fact["runs"] and row["cost"]["runs"] == 1 and fact["steps"] == 5
        assert row["seconds_per_run"] >= 10_000 * row["cost"]["step"]
        assert fact["hours"] * 3600 > 10_000 * row["cost"]["step"] > 0


# --- facts ---


@pytest.mark.parametrize(("gradients", "difference", "finite"), [("gaussian", 0.0, 1), ("nan", None, 0)])
def test_a_row_beside_itself_differs_nowhere(gradients, difference, finite):
    """Muon spreads what is not a number over the whole matrix."""
    fact = gpu_parts.compare_with_cpu("muon", torch.float32, gradients, "cpu")
    assert (fact.difference, fact.finite, fact.raised) == (difference, (finite, finite), {})


def test_a_difference_is_a_share_of_how_far_the_weights_moved(monkeypatch):
    proper = gpu_parts.make_matrices
    calls = []

    def drifted(*given):
        calls.append(given)
        scale = 1.1 if 1 < len(calls) <= 1 + gpu_parts.STEPS else 1.0  # gradients of the first device
        return [scale * one for one in proper(*given)]

    monkeypatch.setattr(gpu_parts, "make_matrices", drifted)
    monkeypatch.setattr(gpu_parts.optimizers, "build", lambda name, params, routing: sgd(params))
    fact = gpu_parts.compare_with_cpu("sgd", torch.float32, "gaussian", "cpu")
    assert fact.difference == pytest.approx(0.1, rel=1e-3)


def sgd(params):
    return torch.optim.SGD([p for _, p in params], lr=0.1)


def test_a_resumed_run_ends_where_the_other_does_or_tells_how_far_away(monkeypatch):
    monkeypatch.setitem(tasks.TASKS, "c4", tasks.TASKS["c4"])
    assert gpu_parts.compare_resumed("muon", "cpu", 4) == gpu_parts.Resumed("muon", 4, 2, 0.0)
    monkeypatch.setattr(gpu_parts, "_stop_at", lambda monitor, last, step: None)  # it is never stopped
    failed = next(gpu_parts.measure_resumed("cpu", None))
    assert failed.subject == "muon" and "record" in failed.why


def test_an_optimizer_that_fails_leaves_the_others(monkeypatch):
    def measure(self, one, peer=None):
        if one.label == "soap":
            raise RuntimeError("the solver has not converged")
        return gpu_parts.Row(one.label, "muon", "", False, 1, ratio=peer is None)

    monkeypatch.setattr(gpu_parts.Bench, "measure", measure)
    facts = [*gpu_parts.measure_optimizers("cpu", None)]
    labels = [one.label for one in facts if isinstance(one, gpu_parts.Row)]
    assert labels == [one for one in gpu_parts.ROWS if one != "soap"]
    assert gpu_parts.Failed("soap", "RuntimeError: the solver has not converged") in facts


@pytest.mark.parametrize(
    ("name", "most", "settings"),
    [
        ("adamw", 2, {}),
        ("muon", 124, {}),
        ("htmuon", 184, {}),
        ("htmuon_mix", 310, {}),
        ("normuon", 187, {}),
        ("soap", 128, {"max_precond_dim": 1000}),
        ("cosmos", 302, {"max_rows": 1000}),
    ],
)
def test_a_step_calls_no_more_operators_than_it_did(monkeypatch, name, most, settings):
    """A GPU's way, on a narrow llama-60m with as many stacks: docs/gpu-bench.md has what it starts there."""
    monkeypatch.setattr(products, "_NATIVE_BFLOAT16", True)
    monkeypatch.setattr(exact, "_host_reads", lambda M: False)
    monkeypatch.setattr(stacks, "MOST_ENTRIES", 148_500)
    sizes = {"hidden": 68, "intermediate": 80, "heads": 2, "vocabulary": 1100}
    model = models.build("llama-60m", **sizes).to(torch.bfloat16)
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    optimizer = optimizers.build(name, model, **settings)
    for part in optimizer.parts if isinstance(optimizer, optimizers.Hybrid) else [optimizer]:
        part.stacked = True
    assert gpu_parts.count_step(name, optimizer.step, "cpu").operators <= most


# --- on a GPU ---


@pytest.mark.gpu
@pytest.mark.parametrize("gradients", gpu_parts.GRADIENTS)
@pytest.mark.parametrize("name", optimizers.ZOO)
def test_an_optimizer_does_on_a_gpu_what_it_does_on_the_cpu(name, gradients):
    fact = gpu_parts.compare_with_cpu(name, torch.float32, gradients, "cuda")
    assert fact.finite[0] == fact.finite[1] and (fact.difference or 0.0) < 0.02
    assert fact.raised.keys() in (set(), {"cpu", "cuda"})
