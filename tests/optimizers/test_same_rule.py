"""Rows that are one rule under two names: their steps agree, by the table that says so."""

import pytest
import torch

from htbench import optimizers
from htbench.optimizers.zoo.registry import ZOO
from htbench.optimizers.zoo.same import SAME, rule_of

# Muon's iteration brought to the end, so that what is left is how a map is computed.
EXACT = {"ns_steps": 12, "ns_coefficients": "convergent", "ns_dtype": "float64"}
PRECISE = {"mix_dtype": "float64", "ns_dtype": "float64"}
# Relative errors of a step: mix_power is a polynomial, stream_power follows with one QR iteration a step.
TOLERANCE = {"adam": 0.0, "htmuon_mix": 0.05, "htmuon_stream": 0.01}


def last_step(name, **hyper):
    """The last of 30 changes of a matrix, with the same gradients for every rule."""
    draw = torch.Generator().manual_seed(0)
    W = torch.nn.Parameter(torch.randn(6, 9, generator=draw, dtype=torch.float64))
    own = optimizers.build(name, [("w", W)], lr=0.01, weight_decay=0.0, routing="matrix", **hyper)
    G = torch.randn(6, 9, generator=draw, dtype=torch.float64)
    for _ in range(30):
        before = W.detach().clone()
        W.grad = G + 0.01 * torch.randn(6, 9, generator=draw, dtype=torch.float64)
        own.step()
    return W.detach() - before


def defaults(name, other):
    """The defaults of a row as settings of another one."""
    own, theirs = ZOO[name].params, ZOO[other].params
    given = {key: param.default for key, param in own.items() if key in theirs}
    if "betas" in given:
        given["betas"] = given["betas"][: len(theirs["betas"].default)]
    return {"momentum": own["betas"].default[0]} if other == "signum" else given


@pytest.mark.parametrize("name", SAME)
def test_the_two_rules_make_the_same_steps(name):
    other, needed = SAME[name]
    params = ZOO[name].params
    own = {key: value for key, value in (needed | PRECISE).items() if key in params}
    exact = EXACT if "ns_steps" in ZOO[other].params else {}
    expected = last_step(other, **defaults(name, other) | exact)
    error = (last_step(name, **own) - expected).norm() / expected.norm()
    assert error <= TOLERANCE.get(name, 1e-12)


def test_a_rule_is_that_of_another_row_at_some_settings_only():
    assert rule_of("htmuon", {"p": 0.0, "rank": None}) == ("muon", {"p": 0.0})
    assert rule_of("htmuon_stream", {"p": 0.0, "rank": 8}) == ("htmuon_stream", {})
    for other in (0.125, None):  # None: it has a schedule
        assert rule_of("htmuon", {"p": other}) == ("htmuon", {})
    assert rule_of("muon_svd", {}) == ("muon", {})
    assert rule_of("muon", {"p": 0.0}) == ("muon", {}) and rule_of("my:Adam", {}) == ("my:Adam", {})


def test_no_rule_is_followed_twice():
    assert not {other for other, _ in SAME.values()} & SAME.keys()
    assert all(name in ZOO and other in ZOO for name, (other, _) in SAME.items())
