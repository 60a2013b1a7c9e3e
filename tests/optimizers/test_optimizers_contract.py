"""What every row of the zoo must do, whatever its mathematics; being in `ZOO` is enough to be covered."""

import copy
import inspect
import io
from collections.abc import Callable
from importlib import import_module

import pytest
import torch
from torch import Tensor, nn

from optimizers import ZOO, build, resolve
from optimizers.muon import SCALE_RULES
from optimizers.rows_spectral import ADAMUON, MUON, NORMUON
from optimizers.spectral import SPECTRAL
from optimizers.spectral.newton_schulz import DTYPES
from optimizers.spectral_rule import SpectralRule

AUX = {"aux_betas", "aux_eps", "aux_weight_decay"}
BUILD_LEVEL = {
    *AUX,
    "aux_no_decay_1d",
    "no_decay_1d",
    "optimize_1d",
    "fused",
}  # used by build, not by the class
SHAPES = {
    "square": (6, 6),
    "tall": (9, 4),
    "wide": (4, 9),
    "conv": (4, 3, 2, 2),
    "conv1d": (5, 3, 4),
    "row": (1, 7),
}

torch.set_num_threads(1)
every_row = pytest.mark.parametrize("name", ZOO)
pytestmark = pytest.mark.filterwarnings("ignore:Sophia made")  # these loops make no curvature passes


class Net(nn.Module):
    """A bit of everything: embedding, convolution, linear layers, norm gains, biases."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Embedding(11, 8)
        self.conv = nn.Conv1d(8, 12, 2)
        self.norm = nn.LayerNorm(12)
        self.head = nn.Linear(12, 5)

    def get_output_embeddings(self) -> nn.Module:
        return self.head

    def forward(self, x: Tensor) -> Tensor:
        h = self.conv(self.embed(x).mT).mT
        return self.head(torch.tanh(self.norm(h)).mean(1))


def batch(seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 11, (32, 6), generator=generator), torch.randint(0, 5, (32,), generator=generator)


def backward(net: Net, seed: int = 0) -> float:
    x, y = batch(seed)
    net.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    return loss.item()


def train(net: Net, optimizer: torch.optim.Optimizer, steps: range) -> list[Tensor]:
    """Weights after these steps, each on a batch of its own."""
    for step in steps:
        backward(net, step)
        optimizer.step()
    return [p.detach().clone() for p in net.parameters()]


def equal(first: list[Tensor], second: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def constructor(name: str) -> Callable[..., torch.optim.Optimizer]:
    module, cls = ZOO[name].target.split(":")
    return getattr(import_module(module), cls)


@every_row
def test_builds_from_flat_keywords(name: str) -> None:
    row, net = ZOO[name], Net()
    optimizer = build(name, net, lr=0.007, weight_decay=0.03, aux_lr=0.002, **resolve(name, {}))
    assert isinstance(optimizer, torch.optim.Optimizer)
    assert {p for group in optimizer.param_groups for p in group["params"]} == set(net.parameters())
    assert {group["lr"] for group in optimizer.param_groups} == ({0.007, 0.002} if row.has_aux else {0.007})
    decays = {0.03, 0.0} if "aux_no_decay_1d" in row.params else {0.03}
    assert {group["weight_decay"] for group in optimizer.param_groups} == decays


@every_row
def test_defaults_are_those_of_the_row(name: str) -> None:
    group = build(name, Net()).param_groups[0]
    assert (group["lr"], group["weight_decay"]) == (ZOO[name].lr.default, ZOO[name].weight_decay.default)


@every_row
def test_lowers_a_quadratic(name: str) -> None:
    torch.manual_seed(0)
    target, W = torch.randn(6, 4), nn.Parameter(torch.zeros(6, 4))
    # the steps of AdaMuon and GaLore are 0.2 lr and 0.25 lr per entry, whatever the gradient
    lr = 0.1 if "adamuon" in name or name == "galore" else 0.03
    optimizer = build(name, [("W", W)], routing="matrix", lr=lr, weight_decay=0)
    losses = []
    for _ in range(150):
        loss = (W - target).square().sum() / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert min(losses[-10:]) < 0.05 * losses[0]


@every_row
def test_lowers_the_loss_of_a_net(name: str) -> None:
    net = Net()
    # Sophia's default is the most that an entry moves in a step, and meant for thousands of them.
    optimizer = build(name, net, lr=3e-3 if name == "sophia" else None)
    losses = []
    for _ in range(80):
        losses.append(backward(net))
        optimizer.step()
    assert losses[-1] < 0.9 * losses[0]


@every_row
def test_repeats_bit_for_bit(name: str) -> None:
    first, second = Net(), Net()
    assert equal(train(first, build(name, first), range(4)), train(second, build(name, second), range(4)))


@every_row
def test_model_and_named_parameters_are_the_same_input(name: str) -> None:
    first, second = Net(), Net()
    pairs = second.named_parameters()
    if ZOO[name].released in ("not_output", "hidden_linear"):
        with pytest.raises(ValueError, match="^routing 'released' must see the modules: pass the model"):
            build(name, pairs)
        return
    assert equal(train(first, build(name, first), range(3)), train(second, build(name, pairs), range(3)))


@every_row
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_keeps_the_dtype(name: str, dtype: torch.dtype) -> None:
    net = Net().to(dtype)
    optimizer = build(name, net)
    before = [p.detach().clone() for p in net.parameters()]
    after = train(net, optimizer, range(3))
    assert all(p.dtype == dtype and p.isfinite().all() for p in after) and not equal(before, after)


@every_row
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_shape_trains_and_survives_a_zero_gradient(name: str, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    W = nn.Parameter(torch.randn(shape))
    optimizer = build(name, [("W", W)], routing="matrix")
    zero, start = torch.zeros(shape), W.detach().clone()
    for gradient in (zero, zero, torch.randn(shape), zero):
        W.grad = gradient
        optimizer.step()
        assert W.shape == shape and W.isfinite().all()
    # A step on a zero gradient may be none: Cautious without weight decay never moves against the gradient.
    assert not torch.equal(W, start)


@every_row
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_diverged_gradient_is_not_an_error(name: str, bad: float) -> None:
    W = nn.Parameter(torch.ones(3, 4))
    optimizer = build(name, [("W", W)], routing="matrix")
    W.grad = torch.full((3, 4), bad)
    optimizer.step()
    # Sophia's steps before its first estimate show the sign of an infinite gradient only; its m tells.
    shown = optimizer.state[W]["m"] if (name, bad) == ("sophia", torch.inf) else W
    assert not shown.isfinite().all()


@every_row
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_resumes_onto_the_same_trajectory(name: str, dtype: torch.dtype) -> None:
    net = Net().to(dtype)
    optimizer = build(name, net)
    train(net, optimizer, range(3))
    file = io.BytesIO()
    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, file)
    straight = train(net, optimizer, range(3, 6))

    file.seek(0)
    saved, resumed = torch.load(file, weights_only=True), Net(seed=1).to(dtype)
    resumed.load_state_dict(saved["net"])
    second = build(name, resumed, lr=0.5)
    second.load_state_dict(saved["optimizer"])
    assert equal(train(resumed, second, range(3, 6)), straight)
    states = [list(o.state_dict()["state"].values()) for o in (optimizer, second)]
    torch.testing.assert_close(*states, rtol=0, atol=0)


@every_row
def test_a_copy_goes_on_independently(name: str) -> None:
    net = Net()
    optimizer = build(name, net)
    train(net, optimizer, range(2))
    other, second = copy.deepcopy((net, optimizer))
    straight = train(net, optimizer, range(2, 4))
    assert equal(train(other, second, range(2, 4)), straight)


@every_row
@pytest.mark.parametrize("loaded", [False, True])
def test_the_loop_sets_learning_rates_through_the_groups(name: str, loaded: bool) -> None:
    net = Net()
    optimizer = build(name, net)
    train(net, optimizer, range(2))
    if loaded:
        optimizer.load_state_dict(optimizer.state_dict())
    before = [p.detach().clone() for p in net.parameters()]
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    assert equal(train(net, optimizer, range(2)), before)


@every_row
def test_groups_have_hyperparameters_of_their_own(name: str) -> None:
    def parameter() -> nn.Parameter:
        return nn.Parameter(torch.ones(4, 3, dtype=torch.float64))

    def walked(*optimizers: torch.optim.Optimizer) -> list[Tensor]:
        params = [p for o in optimizers for group in o.param_groups for p in group["params"]]
        for step in range(3):
            generator = torch.Generator().manual_seed(step)
            for p in params:
                p.grad = torch.randn(4, 3, generator=generator, dtype=torch.float64)
            for optimizer in optimizers:
                optimizer.step()
        return [p.detach() for p in params]

    cls, fixed = constructor(name), ZOO[name].fixed
    first, second = {"lr": 0.05, "weight_decay": 0.2}, {"lr": 0.01}
    together = cls([{"params": [parameter()], **first}, {"params": [parameter()]}], **second, **fixed)
    apart = [cls([parameter()], **given, **fixed) for given in (first, second)]
    assert equal(walked(together), walked(*apart))


@every_row
def test_a_scheduler_of_torch_works(name: str) -> None:
    first, second = Net(), Net()
    scheduled, manual = build(name, first), build(name, second)
    scheduler = torch.optim.lr_scheduler.LambdaLR(scheduled, lambda step: 1 / (1 + step))
    peak = [group["lr"] for group in manual.param_groups]
    for step in range(3):
        backward(first, step)
        scheduled.step()
        scheduler.step()
        for group, lr in zip(manual.param_groups, peak, strict=True):
            group["lr"] = lr / (1 + step)
        backward(second, step)
        manual.step()
    torch.testing.assert_close(list(first.parameters()), list(second.parameters()), rtol=0, atol=1e-7)


@every_row
def test_gradients_are_left_alone_and_not_kept(name: str) -> None:
    first, second = Net(), Net()
    optimizer, other = build(name, first), build(name, second)
    for step in range(3):
        backward(first, step)
        before = [p.grad.clone() for p in first.parameters()]
        optimizer.step()
        assert equal([p.grad for p in first.parameters()], before)
        backward(second, step)
        other.step()
        other.zero_grad(set_to_none=False)  # would reach into a state that shares memory with the gradient
    assert equal(list(first.parameters()), list(second.parameters()))


@every_row
def test_parameters_without_gradient_are_skipped(name: str) -> None:
    net = Net()
    optimizer = build(name, net)
    skipped = [net.conv.weight, net.norm.bias]
    before = [p.detach().clone() for p in net.parameters()]
    for step in range(2):  # SOAP moves nothing in its first
        backward(net, step)
        for p in skipped:
            p.grad = None
        optimizer.step()
    for p, old in zip(net.parameters(), before, strict=True):
        unchanged = any(p is q for q in skipped)
        assert torch.equal(p, old) == unchanged and (p in optimizer.state) != unchanged


@every_row
def test_a_closure_is_evaluated_once_with_gradients(name: str) -> None:
    net, calls = Net(), []
    optimizer = build(name, net)

    def closure() -> float:
        calls.append(torch.is_grad_enabled())
        return backward(net)

    before = [p.detach().clone() for p in net.parameters()]
    assert optimizer.step(closure) == backward(Net()) and calls == [True]
    optimizer.step(closure)  # SOAP moves nothing in its first step
    assert not equal(before, list(net.parameters()))


@every_row
def test_row_and_constructor_agree(name: str) -> None:
    row, signature = ZOO[name], arguments(constructor(name))
    assert {"params", "lr", "weight_decay", *row.fixed} <= signature.keys()
    for key in row.params.keys() - BUILD_LEVEL:
        default = signature[key].default
        # torch.optim.SGD has no momentum unless asked; a row may begin with another map than its class
        exempt = row.target == "torch.optim:SGD" or key == "spectral"
        assert default == row.params[key].default or exempt, key
    assert not row.params.keys() & row.fixed.keys()
    assert (row.params.keys() >= AUX) == row.has_aux == bool(AUX & row.params.keys())
    assert row.family in ("elementwise", "spectral", "subspace") and row.state and row.vectors


def arguments(cls: Callable[..., torch.optim.Optimizer]) -> dict[str, inspect.Parameter]:
    """The arguments of a constructor, those that SpectralRule adds to its subclasses' included."""
    own = dict(inspect.signature(cls).parameters)
    if "shared" in own:
        del own["shared"]
        rule = dict(inspect.signature(SpectralRule).parameters)
        del rule["own"]
        own = {**rule, **own}
    return own


@every_row
def test_the_arguments_of_our_classes_are_those_of_their_tables(name: str) -> None:
    cls = constructor(name)
    if not hasattr(cls, "table"):
        assert ZOO[name].target.startswith("torch.optim:")
        return
    signature = arguments(cls)
    del signature["params"]
    same = {key for key in signature if cls.table[key].default == signature[key].default}
    assert signature.keys() == cls.table.keys()
    # a class has one default where its rows have several
    assert signature.keys() - same <= {"lr", "weight_decay"}


def test_the_words_of_the_tables_are_those_of_the_code() -> None:
    assert MUON["spectral"].choices == tuple(SPECTRAL)
    assert MUON["scale_rule"].choices == tuple(SCALE_RULES)
    assert MUON["ns_dtype"].choices == tuple(DTYPES)
    assert MUON.keys() & NORMUON.keys() & ADAMUON.keys() == MUON.keys() - {"scale_rule"}


@every_row
def test_wrong_hyperparameters_are_refused_with_what_is_allowed(name: str) -> None:
    row = ZOO[name]
    for key, param in {"lr": row.lr, "weight_decay": row.weight_decay, **row.params}.items():
        for bad in ("so", [1.0], torch.nan, -1.0, 1e400):
            with pytest.raises(ValueError, match=f"^{key} must be ") as caught:
                build(name, Net(), **{key: bad})
            assert param.allowed() in str(caught.value)


@pytest.mark.parametrize("key", MUON)
def test_the_class_refuses_them_too(key: str) -> None:
    with pytest.raises(ValueError, match=f"^{key} must be "):
        constructor("muon")([nn.Parameter(torch.ones(2, 2))], **{key: "so"})
    if MUON[key].low is not None:
        with pytest.raises(ValueError, match=f"^{key} must be "):
            constructor("muon")([nn.Parameter(torch.ones(2, 2))], **{key: MUON[key].low - 1})
