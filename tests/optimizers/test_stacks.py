"""Parameters that step as one stack take the steps that they take alone, and keep their own state."""

import copy
import io

import pytest
import torch
from torch import Tensor, nn

from htbench.optimizers import ZOO, Hybrid, Muon, UpdateRule, build, stacks
from htbench.optimizers.spectral import exact, products
from tests.helpers.operations import Operations
from tests.helpers.rows import of_rows

pytestmark = pytest.mark.filterwarnings("ignore:Sophia made")

STACKED = [name for name, row in ZOO.items() if row.family == "spectral"] + ["cautious", "mars", "sophia"]
STACKED += ["soap", "kl_soap", "cosmos", "galore"]
ROUNDED = {"muon_svd", "htmuon", "htmuon_ht", "htmuon_stream", "htmuon_normuon", "htmuon_ht_normuon"}
ROUNDED |= {"htmuon_adamuon", "htmuon_mix", "soap", "soap_muon", "kl_soap", "cosmos", "galore"}
# Its polynomial meets ties of bfloat16, which some processors round another way in a stacked product; so on a
# CPU it steps one by one, and here its products are float32.
ROUNDED |= {"aurora"}
PRECISE: dict[str, dict[str, object]] = {"aurora": {"ns_dtype": "float32"}}
# For these the host would wait for a GPU.
ASKING = ("_local_scalar_dense", "nonzero", "is_nonzero", "equal")
SHAPES = [(48, 128), (20, 12), (48, 128), (48, 128), (20, 12), (7,)]
every_row = of_rows(STACKED)


def started(
    name: str, stacked: bool, shapes: list[tuple[int, ...]] = SHAPES, dtype=torch.float32, **hyper: object
) -> tuple[list[nn.Parameter], torch.optim.Optimizer]:
    generator = torch.Generator().manual_seed(0)
    params = [nn.Parameter(torch.randn(shape, generator=generator, dtype=dtype)) for shape in shapes]
    hyper = PRECISE.get(name, {}) | hyper
    optimizer = build(name, [(f"w{i}", p) for i, p in enumerate(params)], routing="matrix", **hyper)
    force(optimizer, stacked)
    return params, optimizer


def force(optimizer: torch.optim.Optimizer, stacked: bool | None) -> None:
    for part in optimizer.parts if isinstance(optimizer, Hybrid) else [optimizer]:
        if isinstance(part, UpdateRule):
            part.stacked = stacked


def walk(params: list[nn.Parameter], optimizer: torch.optim.Optimizer, steps: range) -> list[Tensor]:
    """Make steps; the fourth parameter has no gradient before step 2 and none in step 4."""
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        for number, p in enumerate(params):
            p.grad = 0.01 * torch.randn(p.shape, generator=generator, dtype=p.dtype)
            if number == 3 and step in (0, 1, 4):
                p.grad = None
        optimizer.step()
    return [p.detach().clone() for p in params]


def check(name: str, found: list[Tensor], expected: list[Tensor]) -> None:
    """Bit for bit; within rounding where products of a stack are summed in another order than single ones."""
    tolerance = {"rtol": 1e-4, "atol": 2e-4} if name in ROUNDED else {"rtol": 0, "atol": 0}
    torch.testing.assert_close(found, expected, **tolerance)


def calls(optimizer: torch.optim.Optimizer, params: list[nn.Parameter], stacked: bool) -> int:
    """PyTorch's calls in the second step."""
    force(optimizer, stacked)
    for _ in range(2):
        for p in params:
            p.grad = torch.ones_like(p)
        with Operations() as operations:
            optimizer.step()
    return operations.kernels


def saved(optimizer: torch.optim.Optimizer) -> int:
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    return file.tell()


@every_row
def test_a_stack_takes_the_steps_of_the_loop_and_leaves_its_state(name: str) -> None:
    (loop, one), (stack, other) = started(name, False), started(name, True)
    check(name, walk(stack, other, range(6)), walk(loop, one, range(6)))
    ours, theirs = other.state_dict(), one.state_dict()
    assert ours["param_groups"] == theirs["param_groups"] and ours["state"].keys() == theirs["state"].keys()
    for number, state in theirs["state"].items():
        check(name, list(ours["state"][number].values()), list(state.values()))
        assert list(ours["state"][number]) == list(state)
    assert saved(other) == saved(one)  # no view of a stack, which would save all of it


@every_row
@pytest.mark.parametrize("before", [False, True])
def test_a_run_goes_on_in_the_other_way(name: str, before: bool) -> None:
    expected = walk(*started(name, before), range(6))
    params, optimizer = started(name, before)
    walk(params, optimizer, range(3))
    others, resumed = started(name, not before)
    for p, q in zip(params, others, strict=True):
        q.data.copy_(p.data)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    check(name, walk(others, resumed, range(3, 6)), expected)


@pytest.mark.parametrize("phase", ["last", "first"])
def test_a_parameter_that_joined_later_keeps_its_phase(phase: str) -> None:
    hyper = {"interval": 3, "interval_phase": phase}
    found, expected = (walk(*started("htmuon_ns", stacked, **hyper), range(7)) for stacked in (True, False))
    assert all(map(torch.equal, found, expected))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@every_row
def test_other_precisions(name: str, dtype: torch.dtype) -> None:
    shapes = [(16, 12)] * 3
    moved = [walk(*started(name, stacked, shapes, dtype), range(3)) for stacked in (False, True)]
    torch.testing.assert_close(*moved, rtol=2e-2 if dtype == torch.bfloat16 else 1e-6, atol=1e-3)


@pytest.mark.parametrize("hyper", [{"blocks": 2}, {"conv_reference_quirk": True}])
def test_what_is_not_stacked_steps_alone(hyper: dict[str, object]) -> None:
    params = [nn.Parameter(torch.ones(4, 2, 3, 3)) for _ in range(2)]
    muon = Muon(params, **hyper)
    muon.stacked = True
    assert not muon.stackable(muon.param_groups[0])
    for p in params:
        p.grad = torch.ones_like(p)
    muon.step()


def test_kernels_are_stacked_too() -> None:
    moved = []
    for stacked in (False, True):
        params, optimizer = started("normuon", stacked, [(8, 4, 3, 3)] * 3)
        moved.append(walk(params, optimizer, range(1)))
        assert optimizer.state[params[0]]["momentum"].shape == (8, 36)
    assert all(map(torch.equal, *moved))


def test_stacks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "MOST_ENTRIES", 2 * 20 * 12 + 1)
    params = [nn.Parameter(torch.zeros(20, 12)) for _ in range(5)]
    lists = stacks.divide(params, {p: {} for p in params}, lambda p: True)
    assert [len(one) for one in lists] == [2, 2, 1]


def test_on_a_cpu_small_matrices_are_stacked_where_the_map_is_made_of_products() -> None:
    small, large = torch.zeros(64, 64), torch.zeros(512, 512)
    for spectral, expected in (("newton_schulz", True), ("mix_power", True), ("svd_power", False)):
        muon = Muon([nn.Parameter(small)], spectral=spectral)
        (group,) = muon.param_groups
        assert (muon.faster_stacked(small, group), muon.faster_stacked(large, group)) == (expected, False)


@pytest.mark.parametrize(
    ("name", "most", "times"),
    [("muon", 84, 10), ("htmuon_mix", 190, 10), ("soap", 190, 4)],
)
def test_a_stacked_step_of_a_language_model_makes_few_calls(
    name: str, most: int, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shapes of the matrices of eight layers; each is a stack of its own."""
    monkeypatch.setattr(products, "_NATIVE_BFLOAT16", True)  # elsewhere: calls to float32 and back, too
    shapes = [(32, 32)] * 32 + [(86, 32)] * 16 + [(32, 86)] * 8
    params = [nn.Parameter(torch.zeros(shape)) for shape in shapes]
    optimizer = build(name, [(f"w{i}", p) for i, p in enumerate(params)], routing="matrix")
    assert times * calls(optimizer, params, True) < calls(optimizer, params, False)
    assert calls(optimizer, params, True) <= most


@every_row
def test_on_a_gpu_no_row_asks_the_device_for_a_number(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a usual step. What PyTorch itself reads, the status of a solver, is below its dispatcher."""
    monkeypatch.setattr(exact, "_host_reads", lambda M: False)
    params, optimizer = started(name, True)
    walk(params, optimizer, range(3))
    with Operations() as operations:
        walk(params, optimizer, range(3, 4))
    assert operations.count(*ASKING) == 0 < operations.seen.total()


def test_on_a_gpu_the_default_htmuon_calls_a_solver_once_for_a_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = []
    for there in (True, False):
        monkeypatch.setattr(exact, "_host_reads", lambda M, there=there: not there)
        params, optimizer = started("htmuon", there, [(66, 66)] * 4 + [(65, 90)] * 2 + [(90, 65)])
        before = [p.detach().clone() for p in params]
        with Operations() as operations:
            after = walk(params, optimizer, range(2, 3))
        moved.append([p - old for p, old in zip(after, before, strict=True)])
        if there:
            assert operations.seen["_linalg_eigh"] == 3 and operations.count("_linalg_svd", *ASKING) == 0
            assert operations.seen.total() < 300
    torch.testing.assert_close(*moved, rtol=1e-4, atol=1e-6)  # from the levels in float32


@pytest.mark.parametrize("name", [name for name in STACKED if name not in ("sophia", "mars", "cautious")])
def test_a_direction_depends_on_rate_and_decay_only_if_its_rule_says_so(name):
    params, optimizer = started(name, stacked=False)
    walk(params, optimizer, range(2))  # some rules begin with their states
    parts = optimizer.parts if isinstance(optimizer, Hybrid) else [optimizer]
    for rule in (part for part in parts if isinstance(part, UpdateRule)):
        if type(rule).update is not UpdateRule.update:
            continue
        group, W = rule.param_groups[0], rule.param_groups[0]["params"][0]
        G = torch.randn(W.shape, generator=torch.Generator().manual_seed(5))
        rates = ({"lr": 0.01, "weight_decay": 0.0}, {"lr": 0.3, "weight_decay": 0.5})
        one, other = (rule.direction(G, copy.deepcopy(rule.state[W]), {**group, **own}) for own in rates)
        assert one is not None and other is not None
        if not rule.reads_rates:
            assert torch.equal(one, other)
