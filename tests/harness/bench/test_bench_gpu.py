"""`benchmarks/gpu.py`: what a part's end costs, what a repetition skips, and its figures. Without a GPU."""

import json

import pytest
import torch

from benchmarks import gpu
from htbench.optimizers import ZOO


def lines(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_repetition_measures_what_is_not_done(tmp_path, capsys):
    words = ["--out", str(tmp_path), "--part", "machine"]
    file = tmp_path / "machine.jsonl"
    assert gpu.main([*words, "--minutes", "0"]) == 1
    assert "machine: no time left" in capsys.readouterr().out and not file.exists()
    file.write_text('{"kind": "Machine"}\n{"outcome": "out of time", "seconds": 1.0}\n')
    assert gpu.main([*words, "--minutes", "9"]) == 0
    first, *findings, last = lines(file)
    assert (first["kind"], first["environment"]["device"], first["memory"]) == ("Machine", "cpu", None)
    assert {one["kind"] for one in findings} == {"Finding"} and last["outcome"] == "done"
    done = file.read_bytes()
    capsys.readouterr()
    assert gpu.main([*words, "--minutes", "9"]) == 0
    assert capsys.readouterr().out == "9 minutes for nothing; 1 of 1 done before\n"
    assert file.read_bytes() == done


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
    def measure(device):
        yield gpu.Failed(device, "first")
        raise torch.OutOfMemoryError("of 80 GiB")

    monkeypatch.setitem(gpu.PARTS, "machine", gpu.Part(measure, 1))
    with pytest.raises(torch.OutOfMemoryError):
        gpu.measure_here("machine", tmp_path / "machine.jsonl")
    assert lines(tmp_path / "machine.jsonl") == [{"kind": "Failed", "optimizer": "cpu", "why": "first"}]


def test_all_parts_fit_into_twelve_minutes():
    assert sum(part.minutes for part in gpu.PARTS.values()) <= 12


@pytest.mark.parametrize(("gradients", "difference", "finite"), [("gaussian", 0.0, 1), ("nan", None, 0)])
def test_a_row_beside_itself_differs_nowhere(gradients, difference, finite):
    """Muon spreads what is not a number over the whole matrix."""
    found = gpu.compare_with_cpu("muon", torch.float32, gradients, "cpu")
    assert (found.difference, found.finite, found.raised) == (difference, (finite, finite), {})


def test_a_difference_is_a_share_of_how_far_the_weights_moved(monkeypatch):
    proper = gpu.make_matrices
    calls = []

    def drifted(*given):
        calls.append(given)
        scale = 1.1 if 1 < len(calls) <= 1 + gpu.STEPS else 1.0  # gradients of the first device
        return [scale * one for one in proper(*given)]

    monkeypatch.setattr(gpu, "make_matrices", drifted)
    monkeypatch.setattr(gpu.optimizers, "build", lambda name, params, routing: sgd(params))
    found = gpu.compare_with_cpu("sgd", torch.float32, "gaussian", "cpu")
    assert found.difference == pytest.approx(0.1, rel=1e-3)


def sgd(params):
    return torch.optim.SGD([p for _, p in params], lr=0.1)


def test_the_training_step_is_timed_on_a_cpu_too():
    (found,) = gpu.measure_training("cpu")
    assert (found.model, found.samples, found.length, found.peak) == ("llama-nano", 4, 32, None)
    assert found.tokens_per_second == pytest.approx(4 * 32 / (found.milliseconds / 1e3))


def test_an_optimizer_that_fails_leaves_the_others(monkeypatch):
    def rows(self, entries, against, watch):
        (one,) = entries
        if one.label == "soap":
            raise RuntimeError("the solver has not converged")
        yield one.label

    monkeypatch.setattr(gpu.Bench, "rows", rows)
    monkeypatch.setattr(gpu.Bench, "beside", lambda self, one, watch: iter(()))
    found = [*gpu.measure_optimizers("cpu")]
    assert [one for one in found if isinstance(one, str)] == [one for one in gpu.ROWS if one != "soap"]
    assert gpu.Failed("soap", "RuntimeError: the solver has not converged") in found


# --- on a GPU ---


@pytest.mark.gpu
@pytest.mark.parametrize("gradients", gpu.GRADIENTS)
@pytest.mark.parametrize("name", ZOO)
def test_an_optimizer_does_on_a_gpu_what_it_does_on_the_cpu(name, gradients):
    found = gpu.compare_with_cpu(name, torch.float32, gradients, "cuda")
    assert found.finite[0] == found.finite[1] and (found.difference or 0.0) < 0.02
    assert found.raised.keys() in (set(), {"cpu", "cuda"})
