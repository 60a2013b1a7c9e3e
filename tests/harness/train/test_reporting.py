"""`htbench.log` and `python -m htbench.seeded`, as a program uses them."""

import json
import os
import subprocess
import sys

import pytest

import htbench
from htbench.harness.train.reports import Reported, read


def test_it_reports_numbers_and_nothing_outside_of_a_run(tmp_path, monkeypatch):
    htbench.log(step=1, val_loss=1)
    path = tmp_path / "metrics.jsonl"
    monkeypatch.setenv("HTBENCH_METRICS", str(path))
    import torch

    htbench.log(step=1, val_loss=torch.tensor(1.5), train_loss=float("nan"))
    monkeypatch.setenv("RANK", "1")
    htbench.log(step=2, val_loss=2)
    monkeypatch.setenv("RANK", "0")
    htbench.log(test_loss=3, diverged=False)
    with pytest.raises(TypeError):
        htbench.log(step=3, val_loss=[1])
    assert list(map(json.loads, path.read_text().splitlines())) == [
        {"step": 1, "val_loss": 1.5, "train_loss": None},
        {"test_loss": 3.0, "diverged": False},
    ]
    reported = Reported(read(path))
    assert reported.series == {"val_loss": {1: 1.5}, "train_loss": {1: None}, "test_loss": {1: 3.0}}


def run_program(code, **environment):
    words = [sys.executable, "-c", code]
    return subprocess.run(words, env=os.environ | environment, capture_output=True, text=True, check=True)


def test_on_a_full_disk_the_training_goes_on_and_the_run_is_told():
    code = "import htbench; htbench.log(step=1, val_loss=1); print('trains on')"
    done = run_program(code, HTBENCH_METRICS="/dev/full")
    assert done.stdout == "trains on\n" and done.stderr.startswith("htbench: metrics are lost")


def test_what_could_not_be_written_comes_with_the_next_report(tmp_path):
    path = tmp_path / "folder" / "metrics.jsonl"
    code = f"import htbench as h, os; h.log(step=1, val_loss=1); os.mkdir({str(path.parent)!r})"
    run_program(f"{code}; h.log(step=2, val_loss=2)", HTBENCH_METRICS=str(path))
    assert [row["step"] for row in read(path)] == [1, 2]


def test_a_program_without_a_seed_gets_one(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(
        "import random, sys\nimport numpy\nfrom torch import manual_seed, rand\nfirst = rand(1).item()\n"
        "manual_seed(1337)\nprint(__name__, sys.argv[1:], random.random(), numpy.random.rand(), first,"
        "rand(1).item())"
    )

    def print_numbers(seed, *through):
        words = [sys.executable, *through, str(program), "--lr=1"]
        environment = os.environ | {"HTBENCH_SEED": str(seed)}
        return subprocess.run(
            words, env=environment, capture_output=True, text=True, check=True
        ).stdout.split()

    seeded = [print_numbers(seed, "-m", "htbench.seeded") for seed in (0, 0, 1)]
    assert seeded[0] == seeded[1] and seeded[0][:2] == ["__main__", "['--lr=1']"]
    assert all(zero != one for zero, one in zip(seeded[0][2:], seeded[2][2:], strict=True))
    assert print_numbers(0)[-1] == seeded[0][-1], "a seed that the program sets is shifted by 0"
