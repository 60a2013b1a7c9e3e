"""The maps against outputs of the authors' functions; functions.json says how each was made.

Another folder of the same format can take its place (`HTBENCH_GOLDEN`): all that is compared comes from its
files.
"""

import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from htbench.optimizers.spectral.exact import rank_power, svd_power
from htbench.optimizers.spectral.newton_schulz import newton_schulz
from htbench.optimizers.spectral.ns_root import gram_root
from tests.helpers.matrices import ns_root_paper

GOLDEN = Path(os.environ.get("HTBENCH_GOLDEN", Path(__file__).parents[1] / "golden" / "optimizers"))
DTYPES = {"f64": torch.float64, "f32": torch.float32, "bf16ns": torch.float32}
NS_DTYPES = {"f64": torch.float64, "f32": torch.float32, "bf16ns": torch.bfloat16}
# What has no row in the table of tolerances, as it is nobody's code: float64 on both sides, up to rounding.
ROUNDING = {"ns_root_paper": 1e-9, "spd_exact": 1e-9}


# (G, settings of the key as numbers, variant) -> what is stored
FUNCTIONS: dict[str, Callable[[Tensor, list[float], str], Tensor]] = {
    "ns5": lambda G, setting, variant: newton_schulz(G, int(setting[0]), NS_DTYPES[variant]),
    "uspv": lambda G, setting, _: svd_power(G, *setting),
    "uiav": lambda G, setting, _: rank_power(G, *setting),
    "gram_root": lambda G, setting, _: gram_root(G, *setting),
    "ns_root_paper": lambda G, setting, _: ns_root_paper(G.T @ G, setting[0], int(setting[1]), setting[2]),
    # the limit of many steps and no eps
    "spd_exact": lambda G, setting, _: gram_root(G, *setting, steps=40, eps=1e-14),
}
PREFIXES = ("steps", "alpha", "eps", "p", "T")


def number(word: str) -> float:
    return float(next(word.removeprefix(prefix) for prefix in PREFIXES if word.startswith(prefix)))


@pytest.fixture(scope="module")
def stored() -> dict[str, np.ndarray]:
    return dict(np.load(GOLDEN / "functions.npz"))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions(function: str, stored: dict[str, np.ndarray]) -> None:
    tolerance = json.loads((GOLDEN / "functions.json").read_text())["tolerance"]
    keys = [key for key in stored if key.split("|")[0] == function]
    compared, wrong = 0, []
    for key in keys:
        _, *setting, matrix, variant = key.split("|")
        G = torch.tensor(stored[f"in|{matrix}"], dtype=DTYPES[variant])
        found = FUNCTIONS[function](G, [number(word) for word in setting], variant).numpy()
        assert found.dtype == stored[key].dtype, key
        error, atol = np.abs(found - stored[key]).max(), ROUNDING.get(function) or tolerance[key]
        compared += 1
        if not error <= atol:
            wrong.append(f"{key}: off by {error:.2e}, allowed {atol:.2e}")
    assert not wrong, "\n".join(wrong)
    print(f"{function}: {compared} matrices compared")
    assert compared == len(keys) > 0


def test_every_stored_output_is_compared(stored: dict[str, np.ndarray]) -> None:
    outputs = {key for key in stored if not key.startswith("in|")}
    assert {key.split("|")[0] for key in outputs} == FUNCTIONS.keys()
    assert json.loads((GOLDEN / "functions.json").read_text())["tolerance"].keys() <= outputs


@pytest.mark.skipif("HTBENCH_GOLDEN" in os.environ, reason="other golden data may have other matrices")
def test_the_released_root_differs_from_the_printed_one_by_eps(stored: dict[str, np.ndarray]) -> None:
    for matrix in ("4x4", "6x3", "8x8_decay"):
        G = torch.tensor(stored[f"in|{matrix}"], dtype=torch.float64)
        for p, eps in itertools.product((0.125, 0.25), (1e-6, 1e-8)):
            difference = (gram_root(G, p, eps=eps) - ns_root_paper(G.T @ G, p, 5, eps)).abs().max()
            assert 0.1 * eps < difference < 40 * eps  # measured: 0.5 to 31
