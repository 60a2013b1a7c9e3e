"""Trajectories of the authors' code, step by step; the json files beside them say how they were made.

Another folder of the same format can take its place (`HTBENCH_GOLDEN`): all that is compared comes from its
files.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from optimizers import ZOO, build, newton_schulz, resolve, spec, svd_power

GOLDEN = Path(os.environ.get("HTBENCH_GOLDEN", Path(__file__).parents[1] / "golden" / "optimizers"))
DTYPES = {"f64": torch.float64, "f32": torch.float32, "bf16ns": torch.float32}
NS_DTYPES = {"f64": "float64", "f32": "float32", "bf16ns": "bfloat16"}
FUNCTIONS = {
    "ns5": lambda G, setting, variant: newton_schulz(
        G, int(setting.removeprefix("steps")), getattr(torch, NS_DTYPES[variant])
    ),
    "uspv": lambda G, setting, variant: svd_power(G, float(setting.removeprefix("p"))),
}

torch.set_num_threads(1)


def trajectory(
    name: str, setting: dict, variant: str, start: np.ndarray, gradients: np.ndarray
) -> np.ndarray:
    """Weights after each step of one parameter, driven as the training loop drives an optimizer."""
    hyper = dict(setting["hyper"])
    if "ns_dtype" in spec(name).params:
        hyper["ns_dtype"] = NS_DTYPES[variant]
    W = torch.nn.Parameter(torch.tensor(start, dtype=DTYPES[variant]))
    optimizer = build(name, [("W", W)], **hyper)
    for group in optimizer.param_groups:
        group["initial_lr"] = group["lr"]
    weights = []
    for G, multiplier in zip(gradients, setting["lr_factors"], strict=True):
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] * multiplier
        W.grad = torch.tensor(G, dtype=W.dtype)
        optimizer.step()
        weights.append(W.detach().numpy().copy())
    return np.stack(weights).astype(np.float64)


@pytest.mark.parametrize("name", sorted(p.stem for p in GOLDEN.glob("*.json") if p.stem in ZOO))
def test_trajectories(name: str) -> None:
    described = json.loads((GOLDEN / f"{name}.json").read_text())
    stored, inputs = np.load(GOLDEN / f"{name}.npz"), np.load(GOLDEN / "inputs.npz")
    compared, wrong = 0, []
    for key, row in described["tolerance"].items():
        setting, variant, case = key.split("|")
        found = trajectory(
            name, described["settings"][setting], variant, inputs[f"{case}.W0"], inputs[f"{case}.G"]
        )
        assert np.isfinite(found).all(), key
        if "dropped" in row:
            continue
        compared += 1
        error = np.abs(found - stored[row.get("compare_to", key)]).max()
        if not error <= row["atol"]:
            wrong.append(f"{key}: off by {error:.2e}, allowed {row['atol']:.2e}")
    assert not wrong, "\n".join(wrong)
    dropped = sum("dropped" in row for row in described["tolerance"].values())
    print(f"{name}: {compared} trajectories compared, {dropped} only for finiteness")
    assert compared == len(described["tolerance"]) - dropped > 0


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions(function: str) -> None:
    tolerance = json.loads((GOLDEN / "functions.json").read_text())["tolerance"]
    stored = np.load(GOLDEN / "functions.npz")
    compared = 0
    for key, atol in tolerance.items():
        name, setting, matrix, variant = key.split("|")
        if name == function:
            G = torch.tensor(stored[f"in|{matrix}"], dtype=DTYPES[variant])
            found = FUNCTIONS[name](G, setting, variant).numpy()
            assert np.abs(found - stored[key]).max() <= atol, key
            compared += 1
    print(f"{function}: {compared} matrices compared")
    assert compared == sum(key.startswith(f"{function}|") for key in tolerance) > 0


@pytest.mark.skipif("HTBENCH_GOLDEN" in os.environ, reason="other golden data may hold a part of the zoo")
@pytest.mark.parametrize("name", ZOO)
def test_defaults_are_those_of_the_released_code(name: str) -> None:
    first = next(iter(json.loads((GOLDEN / f"{name}.json").read_text())["settings"].values()))["hyper"]
    defaults = resolve(name, {})
    # learning rate and weight decay come from the paper's tables instead
    released = resolve(
        name, {key: first[key] for key in first.keys() & defaults.keys() - {"aux_weight_decay"}}
    )
    assert released == defaults
