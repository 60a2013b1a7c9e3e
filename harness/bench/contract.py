"""The contract of an optimizer: what each must do, whatever its mathematics; one property, one function.

The tests check every row of the zoo, `htbench zoo --check` any other class. A property gets `build`, which
makes the optimizer of a model as `optimizers.build` does. If it does not hold, it raises AssertionError.
"""

import copy
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from htbench import optimizers
from htbench.harness.config.key import resolved
from htbench.harness.config.settings import resolve_config
from htbench.harness.errors import RunFailedError, UsageError, reason, where
from htbench.harness.store import Store
from htbench.harness.train.run import run
from htbench.optimizers.cost import separable
from htbench.optimizers.groups import Model
from htbench.optimizers.modes import switching, training

# --- a small net, how it is trained, and how its weights are copied and compared ---


class Net(nn.Module):
    """A small net with all kinds of parameters: embedding, convolution, linear layer, norm gains, biases."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Embedding(11, 8)
        self.conv = nn.Conv1d(8, 12, 2)
        self.norm = nn.LayerNorm(12)
        self.head = nn.Linear(12, 5)

    def get_output_embeddings(self) -> nn.Module:
        """The layer that makes the logits."""
        return self.head

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, 5) of tokens (B, 6)."""
        h = self.conv(self.embed(x).mT).mT
        logits: Tensor = self.head(torch.tanh(self.norm(h)).mean(1))
        return logits


def backward(net: nn.Module, seed: int = 0) -> float:
    """The loss of the batch of `seed`, which must be finite; the gradients are in `.grad` afterwards."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 11, (32, 6), generator=generator)
    y = torch.randint(0, 5, (32,), generator=generator)
    net.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    torch.autograd.backward(loss)
    _require(bool(loss.isfinite()), "its steps make weights that are not finite")  # NaN equals nothing
    return loss.item()


def train(net: nn.Module, optimizer: Optimizer, steps: range) -> list[Tensor]:
    """Weights after these steps, each on a batch of its own."""
    for step in steps:
        backward(net, step)
        optimizer.step()
    return copy_tensors(net.parameters())


def equal(first: Iterable[Tensor], second: Iterable[Tensor]) -> bool:
    """Whether all tensors agree bit for bit."""
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def copy_tensors(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Copies of tensors, without history."""
    return [tensor.detach().clone() for tensor in tensors]


# --- what is demanded ---

SHAPES = {
    "square": (6, 6),
    "tall": (9, 4),
    "wide": (4, 9),
    "conv": (4, 3, 2, 2),
    "conv1d": (5, 3, 4),
    "row": (1, 7),
}
RATES = (None, 0.1, 0.03, 0.01, 1e-3)  # one of them must do; None: the default


class Build(Protocol):
    """Makes an optimizer."""

    def __call__(self, model: Model, **settings: Any) -> Optimizer:
        """That of a model, or of (name, parameter) pairs, with the settings of `optimizers.build`."""


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


# --- it learns ---


def lowers_a_quadratic(build: Build, **settings: Any) -> None:
    """150 steps on |W - target|^2 / 2, with `settings` of the optimizer."""
    torch.manual_seed(0)
    target, weight = torch.randn(6, 4), nn.Parameter(torch.zeros(6, 4))
    optimizer, losses = build([("W", weight)], **settings), []
    for _ in range(150):
        loss = (weight - target).square().sum() / 2
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    _require(math.isfinite(losses[-1]), "its steps make weights that are not finite")
    ratio = min(losses[-10:]) / losses[0]
    _require(ratio < 0.05, f"{ratio:.2g} of the loss of a quadratic is left after 150 steps, not below 0.05")


def lowers_the_loss_of_a_net(build: Build, **settings: Any) -> None:
    """80 steps on one batch, with `settings` of the optimizer."""
    net = Net()
    optimizer, losses = build(net, **settings), []
    for _ in range(80):
        losses.append(backward(net))
        optimizer.step()
    ratio = losses[-1] / losses[0]
    _require(ratio < 0.9, f"{ratio:.2g} of the loss of a small net is left after 80 steps, not below 0.9")


def lowers_a_loss(build: Build) -> None:
    """Both losses above, each with one of RATES."""
    for learns in (lowers_a_quadratic, lowers_the_loss_of_a_net):
        reasons = []
        for rate in RATES:
            try:
                learns(build, lr=rate)
                break
            except AssertionError as error:
                reasons.append(str(error))
        else:
            raise AssertionError(f"with no lr of {', '.join(map(str, RATES[1:]))}: {reasons[0]}")


# --- it is a function of weights, gradients and its own state ---


def repeats_bit_for_bit(build: Build) -> None:
    """Two equal runs end with the same weights, bit for bit."""
    first, second = Net(), Net()
    same = equal(train(first, build(first), range(4)), train(second, build(second), range(4)))
    _require(same, "two equal runs of four steps end with different weights")


def keeps_the_dtype(build: Build, dtype: torch.dtype) -> None:
    """Weights stay in their format, are finite, and move."""
    net = Net().to(dtype)
    optimizer, before = build(net), copy_tensors(net.parameters())
    after = train(net, optimizer, range(3))
    _require(all(p.dtype == dtype for p in after), f"weights in {dtype} change their format")
    _require(
        all(bool(p.isfinite().all()) for p in after), f"weights in {dtype} are not finite after three steps"
    )
    _require(not equal(before, after), f"weights in {dtype} have not moved after three steps")


def takes_a_shape(build: Build, shape: tuple[int, ...], **settings: Any) -> None:
    """A weight of this shape trains and survives gradients of zero."""
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(shape))
    optimizer, start = build([("W", weight)], **settings), weight.detach().clone()
    zero = torch.zeros(shape)
    for gradient in (zero, zero, torch.randn(shape), zero):
        weight.grad = gradient
        optimizer.step()
        _require(weight.shape == shape, f"a weight of shape {shape} becomes one of {tuple(weight.shape)}")
        _require(
            bool(weight.isfinite().all()), f"a weight of shape {shape} is not finite after gradients of zero"
        )
    # A step on a zero gradient may be none: Cautious without weight decay never moves against the gradient.
    _require(not torch.equal(weight, start), f"a weight of shape {shape} does not move")


def resumes_onto_the_same_trajectory(build: Build, dtype: torch.dtype = torch.float32) -> None:
    """`state_dict` holds all that a resumed run needs, as plain values and tensors."""
    net = Net().to(dtype)
    optimizer = build(net)
    train(net, optimizer, range(3))
    file = io.BytesIO()
    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, file)
    straight = train(net, optimizer, range(3, 6))

    file.seek(0)
    saved, resumed = torch.load(file, weights_only=True), Net(seed=1).to(dtype)
    resumed.load_state_dict(saved["net"])
    second = build(resumed, lr=0.5)
    second.load_state_dict(saved["optimizer"])
    same = equal(train(resumed, second, range(3, 6)), straight)
    _require(
        same, f"in {dtype} a run that was resumed from state_dict takes other steps than one that was not"
    )
    # An entry without anything in it, as torch's SGD leaves them, is no state.
    states = [list(filter(None, o.state_dict()["state"].values())) for o in (optimizer, second)]
    try:
        torch.testing.assert_close(*states, rtol=0, atol=0)
    except AssertionError as error:
        raise AssertionError(f"in {dtype} load_state_dict does not bring the state back: {error}") from None


def a_copy_goes_on_independently(build: Build) -> None:
    """No state is shared with a deep copy."""
    net = Net()
    optimizer = build(net)
    train(net, optimizer, range(2))
    other, second = copy.deepcopy((net, optimizer))
    straight = train(net, optimizer, range(2, 4))
    _require(equal(train(other, second, range(2, 4)), straight), "a deep copy of it takes other steps")


# --- it does as the training loop expects ---


def learning_rates_are_set_through_the_groups(build: Build, loaded: bool = False) -> None:
    """At lr = 0 nothing moves; `loaded` from a state_dict or not."""
    net = Net()
    optimizer = build(net)
    train(net, optimizer, range(2))
    if loaded:
        optimizer.load_state_dict(optimizer.state_dict())
    before = copy_tensors(net.parameters())
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    if switching(optimizer):
        # Of a schedule-free rule the weights still move towards their mean, whatever the gradients are.
        other, second = copy.deepcopy((net, optimizer))
        before = train(other, second, range(2, 4))
    after = train(net, optimizer, range(2))
    _require(equal(after, before), 'weights move although "lr" is 0 in all of param_groups')


def a_scheduler_of_torch_works(build: Build) -> None:
    """LambdaLR gives the same weights as rates that are set by hand."""
    first, second = Net(), Net()
    scheduled, manual = build(first), build(second)
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


def gradients_are_left_alone_and_not_kept(build: Build) -> None:
    """A step does not write to them, and the state shares no memory with them."""
    first, second = Net(), Net()
    optimizer, other = build(first), build(second)
    for step in range(3):
        backward(first, step)
        before = copy_tensors(_gradients(first))
        optimizer.step()
        _require(equal(_gradients(first), before), "a step changes the gradients")
        backward(second, step)
        other.step()
        other.zero_grad(set_to_none=False)  # would reach into a state that shares memory with the gradient
    _require(equal(first.parameters(), second.parameters()), "its state shares memory with the gradients")


def _gradients(net: nn.Module) -> list[Tensor]:
    return [p.grad for p in net.parameters() if p.grad is not None]


def parameters_without_gradient_are_skipped(build: Build, stateful: bool = True) -> None:
    """They do not change, all others do. A `stateful` rule has a state for the others only."""
    net = Net()
    optimizer = build(net)
    skipped = [net.conv.weight, net.norm.bias]
    before = copy_tensors(net.parameters())
    for step in range(2):  # SOAP moves nothing in its first
        backward(net, step)
        for p in skipped:
            p.grad = None
        optimizer.step()
    for p, old in zip(net.parameters(), before, strict=True):
        if any(p is q for q in skipped):
            _require(torch.equal(p, old), "a parameter without gradient moves")
            _require(not stateful or p not in optimizer.state, "a parameter without gradient gets a state")
        else:
            _require(not torch.equal(p, old), "a parameter with a gradient does not move in two steps")
            _require(not stateful or p in optimizer.state, "a parameter with a gradient has no state")


def parameters_are_stepped_apart_if_separable(build: Build) -> None:
    """Two that step every other parameter each do together what one does that steps all."""
    net, other = Net(), Net()
    whole, parts = build(net), [build(other), build(other)]
    if not separable(whole):
        return
    for step in range(4):
        backward(net, step)
        whole.step()
        backward(other, step)
        gradients = _gradients(other)
        for first, part in enumerate(parts):
            for number, (p, gradient) in enumerate(zip(other.parameters(), gradients, strict=True)):
                p.grad = gradient if number % 2 == first else None
            part.step()
    same = equal(net.parameters(), other.parameters())
    _require(same, "it is separable, but a parameter takes another step if others have no gradient")


def a_closure_is_evaluated_once_with_gradients(build: Build) -> None:
    """`step(closure)` returns what the closure does."""
    net, calls = Net(), list[bool]()
    optimizer = build(net)

    def closure() -> float:
        calls.append(torch.is_grad_enabled())
        return backward(net)

    before = copy_tensors(net.parameters())
    loss: object = optimizer.step(closure)
    _require(calls == [True], f"step(closure) calls it {len(calls)} times, with gradients enabled: {calls}")
    _require(loss == backward(Net()), f"step(closure) returns {loss}, not the closure's loss")
    optimizer.step(closure)  # SOAP moves nothing in its first step
    _require(not equal(before, net.parameters()), "step(closure) does not move the weights")


# --- all of it, by the name of an optimizer ---

Property = Callable[[Build], None]


def _each(check: Callable[..., None], values: Iterable[Any]) -> Property:
    def all_of_them(build: Build) -> None:
        for value in values:
            check(build, value)

    return all_of_them


_DTYPES = (torch.bfloat16, torch.float32, torch.float64)
LEARNS = "learns"  # the property without which there is nothing to compare
PROPERTIES: dict[str, Property] = {
    LEARNS: lowers_a_loss,
    "repeats": repeats_bit_for_bit,
    "keeps_dtype": _each(keeps_the_dtype, _DTYPES),
    "takes_shapes": _each(takes_a_shape, SHAPES.values()),
    "resumes": _each(resumes_onto_the_same_trajectory, _DTYPES[:2]),
    "copies": a_copy_goes_on_independently,
    "takes_lr": _each(learning_rates_are_set_through_the_groups, (False, True)),
    "takes_schedules": a_scheduler_of_torch_works,
    "leaves_gradients": gradients_are_left_alone_and_not_kept,
    "skips_missing": _each(parameters_without_gradient_are_skipped, (False,)),
    "separates": parameters_are_stepped_apart_if_separable,
    "takes_closure": a_closure_is_evaluated_once_with_gradients,
}


def trains(name: str, settings: Mapping[str, Any]) -> str:
    """What is wrong with three steps of the training loop itself; empty if nothing.

    Args:
        name: as in `builder`.
        settings: of the optimizer, by their names in a config, with or without `optimizer.` before them.
    """
    tiny = {"task": "digits", "model": "resnet-nano", "steps": 3, "batch_size": 16, "device": "cpu"}
    tiny |= {"checkpoint.every_steps": 1, "evaluation.every": 1, "optimizer.name": name}
    tiny |= {f"optimizer.{word.removeprefix('optimizer.')}": value for word, value in settings.items()}
    with TemporaryDirectory() as folder:
        try:
            run(resolved(resolve_config(tiny)), Store(Path(folder)))
        except (UsageError, RunFailedError) as error:
            return reason(error.__cause__) if isinstance(error.__cause__, Exception) else str(error)
    return ""


def builder(name: str, settings: Mapping[str, Any]) -> Build:
    """What makes the optimizer in all checks; a small net's is made at once, to see whether it can be made.

    Args:
        name: a row of the zoo, or "module:Class".
        settings: of `optimizers.build`, such as hyperparameters without a default; of a net only, how its
            parameters are divided.

    Raises:
        ValueError: it can't be made; the message is one sentence.
    """

    # A class whose matrices are named may take no kernels, as `takes_shapes` tells.
    kernels = {"groups": {"kernels": {"optimizer": "adamw"}}} if "routing" in settings else {}

    def build(model: Model, **more: Any) -> Optimizer:
        # Kinds of parameters are known by modules; without them there is one matrix or kernel.
        parts = {} if isinstance(model, nn.Module) else {"routing": "matrix", "groups": {}}
        return training(optimizers.build(name, model, **{**kernels, **settings, **parts, **more}))

    try:
        build(Net())
    except Exception as error:  # a user's class may raise anything
        why = str(error) if type(error) is ValueError else reason(error)
        raise ValueError(f"'{name}' can't be built: {why}{where(error)}") from None
    return build


def check(build: Build) -> Iterator[tuple[str, str]]:
    """Test every property.

    Args:
        build: as `builder` returns it.

    Yields:
        the name of each property and what is wrong with it; empty if it holds.
    """
    for name, holds in PROPERTIES.items():
        wrong = ""
        try:
            holds(build)
        except AssertionError as error:
            wrong = str(error).partition("\n")[0] or reason(error)  # a bare `assert` has no words
        except Exception as error:  # a user's class may raise anything
            wrong = f"{reason(error)}{where(error)}"
        yield name, wrong
