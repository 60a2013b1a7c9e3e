"""torch's schedulers around our optimizers: what a group shows as `lr` is what its step takes.

The oracle of the rates is torch's AdamW, with the same groups, under the same scheduler. The oracle of steps
is a twin whose rates are set by hand.
"""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LinearLR, LRScheduler, OneCycleLR, SequentialLR

from htbench.harness.bench.contract import equal
from htbench.harness.bench.contract import learning_rates_are_set_through_the_groups as rates_are_read
from htbench.optimizers import ZOO, Lion, Muon, ScheduleFree, UpdateRule, build
from htbench.optimizers.zoo.spec import lr, weight_decay
from tests.helpers.rows import of_rows, walk

FIVE = ("muon", "htmuon", "soap", "lion", "prodigy")
pytestmark = pytest.mark.filterwarnings("ignore:Sophia made", "ignore:The epoch parameter")


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2), nn.Linear(2, 2))


def adamw_like(optimizer: Optimizer) -> AdamW:
    """AdamW with as many groups, at the same rates."""
    groups = [{"params": [nn.Parameter(torch.ones(1))], "lr": one["lr"]} for one in optimizer.param_groups]
    return AdamW(groups)


def linear(optimizer: Optimizer) -> LRScheduler:
    return LinearLR(optimizer, start_factor=0.1, total_iters=4)


def sequential(optimizer: Optimizer) -> LRScheduler:
    parts = [linear(optimizer), LinearLR(optimizer, start_factor=1.0, end_factor=0.0, total_iters=3)]
    return SequentialLR(optimizer, parts, milestones=[3])


def one_cycle(optimizer: Optimizer) -> LRScheduler:
    peaks = [10 * group["lr"] for group in optimizer.param_groups]
    return OneCycleLR(optimizer, max_lr=peaks, total_steps=8, cycle_momentum=False)


def rates(optimizer: Optimizer) -> list[float]:
    return [group["lr"] for group in optimizer.param_groups]


@pytest.mark.parametrize("name", FIVE)
@pytest.mark.parametrize("make", [linear, sequential, one_cycle])
@pytest.mark.parametrize("first", ["scheduler", "state"])
def test_rates_are_those_of_torch_and_steps_take_them(
    name: str, make: Callable[[Optimizer], LRScheduler], first: str
) -> None:
    """Saved in the middle, and loaded before or after the scheduler is built, which gives other rates."""
    ours, twin = net(), net()
    optimizer, by_hand = build(name, ours), build(name, twin)
    oracle = adamw_like(optimizer)
    scheduler, expected, seen = make(optimizer), make(oracle), set[float]()
    for step in range(6):
        if step == 3:
            saved = [copy.deepcopy(one.state_dict()) for one in (optimizer, oracle, scheduler, expected)]
            optimizer, oracle = build(name, ours), adamw_like(build(name, ours))
            if first == "state":
                optimizer.load_state_dict(saved[0])
                oracle.load_state_dict(saved[1])
            scheduler, expected = make(optimizer), make(oracle)
            scheduler.load_state_dict(saved[2])
            expected.load_state_dict(saved[3])
            if first == "scheduler":
                optimizer.load_state_dict(saved[0])
                oracle.load_state_dict(saved[1])
        assert rates(optimizer) == rates(oracle)
        for group, rate in zip(by_hand.param_groups, rates(oracle), strict=True):
            group["lr"] = rate
        assert equal(walk(ours, optimizer, [step]), walk(twin, by_hand, [step])), step
        oracle.step()
        scheduler.step()
        expected.step()
        seen.add(rates(oracle)[0])
    assert len(seen) > 3, "the schedule moves the rates"


@pytest.mark.parametrize("name", FIVE)
@pytest.mark.parametrize("make", [linear, one_cycle])
def test_a_late_group_has_the_rates_that_torch_gives_it(
    name: str, make: Callable[[Optimizer], LRScheduler]
) -> None:
    model, twin = net(), net()
    optimizer, by_hand = build(name, model[:2]), build(name, twin[:2])
    oracle = adamw_like(optimizer)
    scheduler, expected = make(optimizer), make(oracle)
    for one, grown in ((optimizer, model), (by_hand, twin)):
        one.add_param_group({"params": list(grown[2].parameters()), "lr": 0.05})
    for group in optimizer.param_groups[len(oracle.param_groups) :]:
        oracle.add_param_group({"params": [nn.Parameter(torch.ones(1))], "lr": group["lr"]})
    for step in range(3):
        assert rates(optimizer) == rates(oracle)
        for group, rate in zip(by_hand.param_groups, rates(oracle), strict=True):
            group["lr"] = rate
        assert equal(walk(model, optimizer, [step]), walk(twin, by_hand, [step]))
        oracle.step()
        outcomes = []
        for one in (scheduler, expected):  # torch may refuse groups that a scheduler has not seen
            try:
                one.step()
                outcomes.append("")
            except Exception as error:
                outcomes.append(repr(error))
        assert outcomes[0] == outcomes[1]


@of_rows(quick=ZOO.keys())
def test_a_late_group_has_a_rate_of_its_own_in_every_row(name: str) -> None:
    """At 0 it stays where it is while the others go on as if it were not there, and then it moves."""
    if name == "schedule_free":
        pytest.skip("its weights move towards their mean at every rate")
    model, alone = net(), net()
    optimizer, reference = build(name, model[:2], routing="matrix"), build(name, alone[:2], routing="matrix")
    walk(model[:2], optimizer, range(2))
    walk(alone[:2], reference, range(2))
    count = len(optimizer.param_groups)
    optimizer.add_param_group({"params": list(model[2].parameters())})
    before = [p.detach().clone() for p in model[2].parameters()]
    for group in optimizer.param_groups[count:]:
        group["lr"] = 0.0
    found, expected = walk(model, optimizer, range(2, 4)), walk(alone[:2], reference, range(2, 4))
    assert equal(found[:4], expected) and equal(found[4:], before)
    for group in optimizer.param_groups[count:]:
        group["lr"] = 0.1
    last = walk(model, optimizer, range(4, 7))[4:]
    assert not any(torch.equal(p, old) for p, old in zip(last, before, strict=True))


@of_rows([name for name, row in ZOO.items() if row.shaped], quick=ZOO.keys())
def test_a_rate_of_zero_is_one_with_every_kind_of_decay(name: str) -> None:
    for kind in ("independent", "coupled", "cautious"):
        rates_are_read(lambda model, kind=kind, **given: build(name, model, decay=kind, **given))


def test_a_cycle_of_the_momentum_is_that_of_adamw() -> None:
    """Of classes with a momentum or betas; docs/optimizers.md says which."""
    W = [nn.Parameter(torch.ones(3, 2))]
    optimizers: list[Optimizer] = [AdamW(W, lr=0.1), Muon(W, lr=0.1), Lion(W, lr=0.1)]
    cycles = [OneCycleLR(one, max_lr=1.0, total_steps=6) for one in optimizers]
    for _ in range(5):
        oracle, muon, lion = (one.param_groups[0] for one in optimizers)
        assert muon["momentum"] == lion["betas"][0] == oracle["betas"][0]
        assert muon["lr"] == lion["lr"] == oracle["lr"]
        for one, cycle in zip(optimizers, cycles, strict=True):
            one.step()
            cycle.step()


def test_the_mean_of_schedule_free_stays_the_mean_while_a_cycle_moves_beta1() -> None:
    W = nn.Parameter(torch.ones(4))
    optimizer = ScheduleFree([W], lr=0.1, weight_decay=0.0)
    cycle, weights, seen = OneCycleLR(optimizer, max_lr=0.1, total_steps=9), [], []
    for step in range(7):
        walk(nn.ParameterList([W]), optimizer, [step])
        weights.append(optimizer.state[W]["lr_max"] ** 2)
        seen.append(weights[-1] * optimizer.state[W]["z"])
        cycle.step()
        if step in (3, 6):
            optimizer.eval()
            torch.testing.assert_close(W.detach(), sum(seen) / sum(weights), rtol=1e-5, atol=1e-5)
            optimizer.train()
    assert optimizer.param_groups[0]["betas"][0] != 0.9


# --- decay beside the peak of the rate ---


class Plain(UpdateRule):
    """Gradient descent."""

    table = {"lr": lr(0.2), "weight_decay": weight_decay(0.0)}

    def __init__(self, params: Any, lr: float = 0.2, *, weight_decay: float = 0.0) -> None:
        super().__init__(params, locals())

    def direction(self, G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        return G


def independent() -> tuple[nn.Parameter, Plain]:
    W = nn.Parameter(torch.full((2, 2), 2.0, dtype=torch.float64))
    return W, Plain([{"params": [W], "decay": "independent"}], weight_decay=0.25)


def decayed_share(W: nn.Parameter, optimizer: Optimizer) -> float:
    """The share of its decay that a step takes."""
    before, W.grad = W.detach().clone(), torch.zeros_like(W)
    optimizer.step()
    return float((1 - W.detach() / before).mean() / 0.25)


def test_independent_decay_follows_a_schedule_by_hand_down_to_zero() -> None:
    W, optimizer = independent()
    for rate in (0.2, 0.1, 0.05, 0.0, 0.2):
        optimizer.param_groups[0]["lr"] = rate
        assert decayed_share(W, optimizer) == pytest.approx(rate / 0.2, abs=1e-12)


@pytest.mark.parametrize(
    ("make", "peak"),
    [
        (linear, 0.2),
        (sequential, 0.2),
        (one_cycle, 2.0),
        (
            lambda optimizer: torch.optim.lr_scheduler.CyclicLR(
                optimizer, 0.02, 0.2, 3, cycle_momentum=False
            ),
            0.2,
        ),
    ],
)
def test_independent_decay_follows_the_schedulers_of_torch(make: Any, peak: float) -> None:
    W, optimizer = independent()
    scheduler, shares = make(optimizer), []
    for _ in range(7):
        expected = optimizer.param_groups[0]["lr"] / peak
        shares.append(decayed_share(W, optimizer))
        assert shares[-1] == pytest.approx(expected, abs=1e-12)
        scheduler.step()
    assert max(shares) <= 1 + 1e-12 and min(shares) < 0.2


def test_independent_decay_of_a_state_without_a_peak_is_that_of_the_group() -> None:
    W, optimizer = independent()
    state = copy.deepcopy(optimizer.state_dict())
    del state["param_groups"][0]["peak_lr"]
    state["param_groups"][0]["lr"] = 0.05
    optimizer.load_state_dict(state)
    assert decayed_share(W, optimizer) == pytest.approx(0.25)
    del optimizer.param_groups[0]["peak_lr"]
    assert decayed_share(W, optimizer) == pytest.approx(1)
    optimizer.param_groups[0]["lr"] = 0.0
    assert decayed_share(W, optimizer) == 0
    optimizer.param_groups[0] |= {"lr": 0.1, "initial_lr": 0.4}
    assert decayed_share(W, optimizer) == pytest.approx(0.25)


def test_a_late_group_has_the_decay_that_build_was_told() -> None:
    first, late = (torch.nn.Parameter(torch.ones(3, 3)) for _ in range(2))
    optimizer = build("lion", [first], decay="independent")
    optimizer.add_param_group({"params": [late]})
    assert [group["decay"] for group in optimizer.param_groups] == ["independent", "independent"]
