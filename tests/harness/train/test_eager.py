"""A run that compiles nothing does not import torch.compile, and torch's optimizers step as they did."""

import subprocess
import sys

import pytest
import torch

from htbench.harness.train import eager

RUN = """
import sys
from htbench.harness import cli
status = cli.main(sys.argv[1:])
print("imported:", *sorted(sys.modules.keys() & {"torch._dynamo", "sympy"}))
sys.exit(status)
"""


@pytest.mark.parametrize("name", ["adamw", "htmuon_mix"])  # of torch; ours, with weights from a file
def test_no_small_run_imports_the_compiler(tmp_path, name):
    """Nor does it to count its operations (`harness/cost/update.py`)."""
    words = ["task=digits", "model=resnet-nano", "batch_size=16", "steps=2", f"optimizer.name={name}"]
    command = [
        sys.executable,
        "-c",
        RUN,
        "run",
        *words,
        "seed=7",
        "checkpoint.every_steps=1",
        "--root",
        str(tmp_path / "store"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.endswith("imported:\n"), (done.stdout, done.stderr)


def _trajectory(rule, **options):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer, losses = rule(model.parameters(), lr=0.1, **options), []

    def closure():
        optimizer.zero_grad()
        loss = (model(torch.ones(4, 3)) ** 2).mean()
        loss.backward()
        losses.append(loss.item())
        return loss

    hooked = []
    optimizer.register_step_post_hook(lambda *_: hooked.append(len(losses)))
    for _ in range(4):
        optimizer.step(closure)
    assert hooked == [1, 2, 3, 4]
    return losses


CASES = [(torch.optim.AdamW, {}), (torch.optim.Adam, {"amsgrad": True}), (torch.optim.SGD, {"momentum": 0.9})]


def _all():
    return [_trajectory(rule, **options) for rule, options in CASES]


def test_optimizers_of_torch_step_as_they_did():
    """In a fresh Python, as others in this process have trained."""
    alone = f"import {__name__} as t; print(t._all())"
    untouched = subprocess.run([sys.executable, "-c", alone], capture_output=True, text=True)
    eager.without_compiler()
    assert untouched.stdout == f"{_all()}\n", untouched.stderr


def test_a_differentiable_step_keeps_its_graph():
    eager.without_compiler()
    weight = torch.ones(2, requires_grad=True)
    moved = weight.clone()
    optimizer = torch.optim.SGD([moved], lr=0.5, differentiable=True)
    moved.grad = weight * 3
    optimizer.step()
    moved.sum().backward()
    assert weight.grad.tolist() == [-0.5, -0.5]
