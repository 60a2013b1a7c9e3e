"""Kinds of decay, which rules of ours take: oracles, laws, and every row."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from htbench.harness.bench.contract import Net, equal
from htbench.optimizers import ZOO, UpdateRule, build
from htbench.optimizers.muon import AdaMuon, NorMuon
from htbench.optimizers.zoo.spec import STEP, lr, weight_decay
from tests.helpers.rows import of_rows, walk

f64 = torch.float64
every_row = of_rows([name for name, row in ZOO.items() if row.shaped])
SHAPED = [{"decay": kind} for kind in ("coupled", "independent", "cautious")]


class Plain(UpdateRule):
    """Gradient descent, in a stack where it is told to."""

    table = {"lr": lr(0.1), "weight_decay": weight_decay(0.0)}

    def __init__(self, params: Any, lr: float = 0.1, *, weight_decay: float = 0.0) -> None:
        super().__init__(params, locals())

    def stackable(self, group: dict[str, Any]) -> bool:
        return True

    def direction(self, G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        return G


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=f64)


def stepped(
    W0: Tensor, gradients: list[Tensor], rates: list[float], stacked: bool = False, **words: Any
) -> Tensor:
    """W after some steps; with another one in its stack, where it has one."""
    params = [nn.Parameter(W0.clone()), nn.Parameter(2 * W0)]
    rule = Plain([{"params": params, "initial_lr": max(rates), **words}])
    rule.stacked = stacked
    for G, rate in zip(gradients, rates, strict=True):
        rule.param_groups[0]["lr"] = rate
        for p in params:
            p.grad = G.clone()
        rule.step()
    return params[0].detach()


W0, GRADIENTS, RATES = drawn(0, 4, 3), [drawn(i, 4, 3) for i in (1, 2, 3)], [0.1, 0.05, 0.2]


def test_coupled_decay_is_that_of_sgd() -> None:
    W = nn.Parameter(W0.clone())
    oracle = torch.optim.SGD([W], weight_decay=0.3)
    for G, rate in zip(GRADIENTS, RATES, strict=True):
        oracle.param_groups[0]["lr"], W.grad = rate, G.clone()
        oracle.step()
    found = stepped(W0, GRADIENTS, RATES, decay="coupled", weight_decay=0.3)
    torch.testing.assert_close(found, W.detach(), rtol=0, atol=1e-14)


def test_independent_decay_follows_the_schedule_and_not_the_peak() -> None:
    expected = W0
    for G, rate in zip(GRADIENTS, RATES, strict=True):
        expected = expected - rate / 0.2 * 0.3 * expected - rate * G
    found = stepped(W0, GRADIENTS, RATES, decay="independent", weight_decay=0.3)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)


def test_cautious_decay_leaves_out_entries_that_the_step_lets_grow() -> None:
    expected = W0
    for G, rate in zip(GRADIENTS, RATES, strict=True):
        expected = expected - rate * 0.3 * expected * (expected * G >= 0) - rate * G
    found = stepped(W0, GRADIENTS, RATES, decay="cautious", weight_decay=0.3)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("words", SHAPED, ids=str)
def test_a_stack_steps_as_each_of_it(words: dict[str, Any]) -> None:
    given = {"weight_decay": 0.3, **words}
    together = stepped(W0, GRADIENTS, RATES, stacked=True, **given)
    torch.testing.assert_close(together, stepped(W0, GRADIENTS, RATES, **given), rtol=0, atol=1e-14)


@every_row
@pytest.mark.filterwarnings("ignore:Sophia made")
def test_every_row_takes_them(name: str) -> None:
    def walked(**words: Any) -> list[Tensor]:
        net = Net()
        return walk(net, build(name, net, weight_decay=0.4, **words))

    without = walked()
    for words in SHAPED:
        found = walked(**words)
        assert all(p.isfinite().all() for p in found), words
        assert not equal(found, without), words


def of_normuon(G: np.ndarray, state: dict[str, Any]) -> np.ndarray:
    """s Ohat of https://arxiv.org/abs/2510.05491 with the exact polar factor and norm_rule="preserve"."""
    state["M"] = 0.9 * state.get("M", 0) + 0.1 * G
    U, _, Vt = np.linalg.svd(state["M"], full_matrices=False)
    O = U @ Vt  # noqa: E741
    state["v"] = 0.95 * state.get("v", 0) + 0.05 * (O**2).mean(1, keepdims=True)
    Ohat = O / np.sqrt(state["v"])
    return np.sqrt(max(1, G.shape[0] / G.shape[1])) * np.linalg.norm(O) / np.linalg.norm(Ohat) * Ohat


def of_adamuon(G: np.ndarray, state: dict[str, Any]) -> np.ndarray:
    """0.2 sqrt(m n) Ohat / ||Ohat|| of https://arxiv.org/abs/2507.11005."""
    state["B"] = 0.9 * state.get("B", 0) + G
    U, _, Vt = np.linalg.svd(np.sign(state["B"]), full_matrices=False)
    O = U @ Vt  # noqa: E741
    state["V"] = 0.9 * state.get("V", 0) + 0.1 * O**2
    Ohat = O / np.sqrt(state["V"])
    return 0.2 * np.sqrt(G.size) / np.linalg.norm(Ohat) * Ohat


@pytest.mark.parametrize("words", SHAPED, ids=str)
@pytest.mark.parametrize(("rule", "oracle"), [(NorMuon, of_normuon), (AdaMuon, of_adamuon)])
def test_rules_that_set_the_norm_of_their_steps_take_them_by_their_definition(rule, oracle, words) -> None:
    exact = {"spectral": "svd_power", "p": 0, "momentum": 0.9, "nesterov": False, "eps": 1e-30}
    first, *gradients = (drawn(i, 9, 4) for i in range(4))  # whose signs have full rank: one polar factor
    W, X, state = nn.Parameter(first.clone()), first.numpy(), {}
    optimizer = rule([{"params": [W], "initial_lr": 0.2, **words}], weight_decay=0.3, **exact)
    for G, rate in zip(gradients, RATES, strict=True):
        optimizer.param_groups[0]["lr"], W.grad = rate, G.clone()
        optimizer.step()
        kind = words.get("decay", "decoupled")
        U = oracle(G.numpy() + 0.3 * X * (kind == "coupled"), state)
        shares = {"coupled": 0, "independent": rate / 0.2, "cautious": rate * (X * U >= 0)}
        X = X - shares.get(kind, rate) * 0.3 * X - rate * U
    torch.testing.assert_close(W.detach(), torch.from_numpy(X), rtol=1e-9, atol=1e-12)


@every_row
def test_a_word_that_says_the_default_stays_out_of_the_groups(name: str) -> None:
    defaults = {key: param.default for key, param in STEP.items()}
    for group in build(name, Net(), **defaults).param_groups:
        assert group.keys().isdisjoint(STEP)
    with pytest.raises(ValueError, match="^decay must be one of decoupled, coupled, independent, cautious"):
        build(name, Net(), decay="weak")


def test_named_groups_have_words_of_their_own() -> None:
    groups = {"vectors": {"optimizer": "lion", "decay": "cautious"}, "matrices": {"decay": "decoupled"}}
    found = build("muon", nn.Linear(3, 2), groups=groups, decay="coupled").param_groups
    words = {group.get("group"): {key: group[key] for key in STEP if key in group} for group in found}
    assert words["vectors"] == {"decay": "cautious"} and words["matrices"] == {}


@pytest.mark.parametrize("name", ["schedule_free", "prodigy"])
def test_a_rule_that_goes_by_its_weights_refuses_them(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} has no hyperparameter 'decay'"):
        build(name, Net(), decay="coupled")
    cls = type(build(name, [nn.Parameter(torch.ones(2))]))
    with pytest.raises(ValueError, match="has steps of its own: it takes no decay"):
        cls([{"params": [nn.Parameter(torch.ones(2))], "decay": "coupled"}])
