"""`htbench bench gpu`: what a part's end costs, what a repetition skips. Without a GPU."""

import json
import sys

import pytest
import torch

from docs import gpu_bench_page
from harness import cli
from harness.bench import gpu, gpu_parts
from harness.bench.gpu import Outcome, Part, Result
from harness.system import atomic, environment
from optimizers import ZOO
from tests.helpers.json_fields import promised

# In place of a part's program: a fact, and then each of the ends that a part can have.
ENDS = """
import os, sys, time
from dataclasses import dataclass
from pathlib import Path
from harness.bench.gpu import chosen, record
from harness.errors import UsageError

@dataclass
class Fact:
    value: float

def facts(name):
    print("a part says something")
    yield Fact(float("nan"))
    if name == "waiting":
        os.kill(os.getpid(), 9)
    if name == "memory":
        raise MemoryError("of 80 GiB")
    if name == "runs":
        time.sleep(600)
    if name == "peaks":
        raise UsageError("transformers is not installed.")
    if name == "idle":
        raise ValueError("no spans")
    yield Fact(2.0)

(part,) = chosen(sys.argv[1])
record(part, Path(sys.argv[2]), {"gpu": "none"}, facts(part.name), MemoryError)
"""


@pytest.fixture
def ends(monkeypatch):
    monkeypatch.setattr(environment, "program", lambda module: (sys.executable, "-c", ENDS))
    monkeypatch.setattr(gpu, "check", lambda: None)
    monkeypatch.setattr(Part, "limit", property(lambda part: 3.0 if part.name == "runs" else 300.0))


def bench(root, *words):
    return cli.main(["bench", "gpu", "--root", str(root), *words])


def results(root):
    return {path.stem: json.loads(path.read_text()) for path in (root / "bench-gpu").glob("*.json")}


def test_all_parts_take_three_quarters_of_an_hour_and_are_listed_with_their_times(tmp_path, capsys):
    assert sum(part.minutes for part in gpu.PARTS) <= 45
    assert all(callable(getattr(gpu_parts, part.function)) for part in gpu.PARTS)
    assert len({part.name for part in gpu.PARTS}) == len(gpu.PARTS)
    assert bench(tmp_path, "--list") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    shown = {line[0]: line for line in lines if line}
    assert shown.keys() >= {part.name for part in gpu.PARTS}
    assert shown["optimizers"][-4:] == ["7", "min", "to", "do"]
    assert not (tmp_path / "bench-gpu").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without a GPU")
def test_without_a_gpu_there_is_one_sentence(tmp_path, capsys):
    assert bench(tmp_path) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "torch sees none here" in said
    assert not (tmp_path / "bench-gpu").exists()


def test_an_unknown_part_is_refused(tmp_path, capsys):
    assert bench(tmp_path, "--only", "doctor,solver") == 2
    assert "'solver'; did you mean 'solvers'?" in capsys.readouterr().err


def test_the_end_of_a_part_costs_only_what_it_has_not_yielded(tmp_path, ends, capsys):
    parts = ["doctor", "waiting", "memory", "runs", "peaks", "idle", "solvers"]
    assert bench(tmp_path, "--only", ",".join(parts), "--json") == 1
    found = results(tmp_path)
    assert {name: one["outcome"] for name, one in found.items()} == {
        "doctor": "done",
        "waiting": "failed",
        "memory": "lacks memory",
        "runs": "out of time",
        "peaks": "failed",
        "idle": "failed",
        "solvers": "done",
    }
    none = {"kind": "Fact", "value": None}  # JSON has no NaN
    assert found["solvers"]["rows"] == [none, {"kind": "Fact", "value": 2.0}]
    assert all(one["rows"][0] == none and one["environment"] == {"gpu": "none"} for one in found.values())
    why = {name: one["why"] for name, one in found.items() if one["why"]}
    assert why == {
        "waiting": "a part says something",
        "memory": "MemoryError: of 80 GiB",
        "peaks": "transformers is not installed.",
        "idle": "ValueError: no spans",
    }
    assert found["runs"]["seconds"] >= 3
    printed, err = capsys.readouterr()
    assert "doctor: what the machine has, and which GPU of the table it is, about 0.5 minutes" in err
    assert json.loads(printed)["parts"] == [found[part.name] for part in gpu.PARTS if part.name in found]
    promised("bench gpu", json.loads(printed))


def test_a_repetition_measures_what_is_not_done(tmp_path, ends, capsys):
    assert bench(tmp_path, "--only", "doctor,idle") == 1
    doctor = (tmp_path / "bench-gpu" / "doctor.json").read_bytes()
    idle = tmp_path / "bench-gpu" / "idle.json"
    atomic.write_json(idle, json.loads(idle.read_text()) | {"outcome": "begun"})  # the machine went down
    (tmp_path / "bench-gpu" / "solvers.json").write_text("{")
    capsys.readouterr()
    assert bench(tmp_path, "--only", "doctor,idle,solvers") == 1
    assert "2 parts to measure, about 5 minutes; 1 done before" in capsys.readouterr().err
    assert (tmp_path / "bench-gpu" / "doctor.json").read_bytes() == doctor
    assert {name: one["outcome"] for name, one in results(tmp_path).items()} == {
        "doctor": "done",
        "idle": "failed",
        "solvers": "done",
    }
    assert bench(tmp_path, "--only", "doctor,solvers") == 0


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="it would work")
def test_the_program_of_a_part_starts(tmp_path):
    """As far as it goes without a GPU, and beside modules that are called like ours."""
    (part,) = gpu.chosen("waiting")
    result = gpu.measured(part, tmp_path, tmp_path)
    assert result.outcome == Outcome.FAILED and not result.rows
    assert "CUDA" in result.why or "NVIDIA" in result.why


def test_files_of_several_gpus_are_told(tmp_path, capsys):
    (tmp_path / "bench-gpu").mkdir()
    for name, device in (("idle", "NVIDIA A100"), ("waiting", "NVIDIA H100")):
        result = Result(name, Outcome.DONE, 1.0, 2.0, "", {"gpu": device}, [])
        atomic.write_json(tmp_path / "bench-gpu" / f"{name}.json", gpu.plain(result))
    assert bench(tmp_path, "--list") == 0
    assert "of several GPUs, NVIDIA A100, NVIDIA H100" in " ".join(capsys.readouterr().out.split())


def test_the_union_of_intervals():
    assert gpu_parts.busy([(0, 2), (1, 3), (1, 2), (5, 6), (6, 7)]) == 5
    assert gpu_parts.busy([]) == 0


def test_the_page_has_the_figures_or_says_that_there_are_none(tmp_path):
    page = gpu_bench_page.figures(tmp_path)
    assert page == gpu_bench_page.NONE
    row = {"kind": "Idle", "model": "llama-60m", "idle": 0.1234567, "timing": {"setup": 2}, "shape": [8, 512]}
    result = Result("idle", Outcome.FAILED, 1.0, 60.0, "why", {"gpu": "NVIDIA H100"}, [row])
    atomic.write_json(tmp_path / "idle.json", gpu.plain(result))
    page = gpu_bench_page.figures(tmp_path)
    assert page.startswith("### idle\n\ngpu NVIDIA H100, ") and "failed after 60 s: why" in page
    assert "| model | idle | timing.setup | shape |" in page
    assert "| llama-60m | 0.1235 | 2 | 8 x 512 |" in page


# --- on a GPU ---


@pytest.mark.gpu
@pytest.mark.parametrize("gradients", gpu_parts.GRADIENTS)
@pytest.mark.parametrize("name", ZOO)
def test_an_optimizer_does_on_a_gpu_what_it_does_on_the_cpu(name, gradients):
    found = gpu_parts.agreement_of(name, torch.float32, gradients)
    assert found.gpu == found.cpu and (found.difference or 0.0) < 0.02
    assert found.raised.keys() in (set(), {"cpu", "cuda"})
