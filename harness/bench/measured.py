"""How far an optimizer moves the weights, what it remembers and what its weight decay multiplies.

Two classes of one name can mean different things by one learning rate. These facts tell it beforehand; each
is measured on single parameters with gradients of a fixed seed, and no word of the class is believed.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from htbench.harness.bench.contract import Build
from htbench.harness.errors import reason
from htbench.harness.show.note import Note
from htbench.harness.show.numbers import write_shape
from htbench.optimizers.modes import switching
from htbench.optimizers.reach import treatments

T = TypeVar("T")

# Three matrices, a vector, a kernel of a convolution, a stack of matrices.
SHAPES = ((128, 64), (64, 128), (128, 128), (128,), (32, 8, 3, 3), (4, 16, 8))
PROBE = (64, 32)  # the matrix of all that is measured once
SCALE = 0.01  # of a gradient
NO_RATE = 1e-8

# Beyond these a user would be misled.
JUMP = 5.0  # RMS of an early update, in units of the tenth's
MOVED = 1e-4  # RMS of an update at NO_RATE, in units of the weights'
DECAY = (0.9, 1.1)  # in units of lr x weight_decay
EXPONENT = 0.1  # of the gradient's scale, in an update that makes singular values alike
REACHED = 0.9  # RMS of an update at half the rate, in units of that at the whole
FORGETS = 0.5  # memory of the last gradient, in units of what the class's momentum gives
SURE = 0.85  # cosine, below which a second step goes where no first step does
ALIKE = 0.5  # the lower tenth of singular values in units of the upper tenth: .3 in noise, .6 in Muon


@dataclass(frozen=True)
class Movement:
    """The updates of one parameter.

    Attributes:
        shape: of the parameter.
        rule: what steps it.
        first, second, tenth: RMS of the update in that step over the rate, without weight decay.
        scheduled: RMS of the third update if a scheduler halved the rate after the first, over that at the
            whole rate; .5 for most rules; None: the third update is 0.
        gradient_left: norm of `p.grad` after a step over that before; None: it is gone.
        refused: why the class does not take such a parameter; empty: it does.
    """

    shape: Sequence[int]
    rule: str = ""
    first: float | None = None
    second: float | None = None
    tenth: float | None = None
    scheduled: float | None = None
    gradient_left: float | None = None
    refused: str = ""


@dataclass(frozen=True)
class Decay:
    """What weight decay does in a step after the first.

    Attributes:
        kind: `decoupled`: it multiplies the weights, beside the update; `partial`: it does so with a gradient
            of 0 alone, as where it is cautious; `coupled`: it enters the update;
            `averaged`: the class trains other weights than those it is evaluated at; `none`: nothing.
        idle: by how much the weights shrink, in units of lr x weight_decay, with a gradient of 0.
        busy: the same with a gradient.
    """

    kind: Literal["decoupled", "partial", "coupled", "averaged", "none"]
    idle: float
    busy: float


@dataclass(frozen=True)
class Momentum:
    """What a parameter group says of the momentum.

    Attributes:
        setting: its name there.
        value: of the setting.
        gives: the least weight of the previous gradient that this means, Nesterov's unless it is off.
    """

    setting: str
    value: float
    gives: float


@dataclass(frozen=True)
class Measured:
    """What was measured of an optimizer. A fact is None if the class takes no matrix, or raises.

    Attributes:
        movements: of parameters of several shapes.
        memory: weight of the previous gradient in step 2, in units of that of the new one.
        momentum: as the class has it; None: it names none.
        decay: of the weights; None if the class has no weight decay.
        exponent: of the gradient's scale in the scale of the update.
        exponent_named: whether it is the value of a setting, as HTMuon's p.
        matrix_rule: whether the update of a matrix has singular values that are nearly alike.
        moved_without_rate: RMS of the larger of two updates at a rate of 1e-8, over that of the weights.
    """

    movements: Sequence[Movement]
    memory: float | None
    momentum: Momentum | None
    decay: Decay | None
    exponent: float | None
    exponent_named: bool | None
    matrix_rule: bool | None
    moved_without_rate: float | None

    @property
    def follows_scale(self) -> bool:
        """Whether updates grow or shrink with the scale of the gradients."""
        return self.exponent is not None and abs(self.exponent) > EXPONENT

    def misleading(self) -> Iterator[Note]:
        """What would mislead a user who takes the rate, the momentum or the decay from elsewhere."""
        jumps = [
            (rms / moved.tenth if moved.tenth else math.inf, step, rms, moved)
            for moved in self.movements
            if moved.tenth is not None
            for step, rms in ((1, moved.first or 0.0), (2, moved.second or 0.0))
            if rms > JUMP * moved.tenth
        ]
        if jumps:
            times, step, rms, moved = max(jumps, key=lambda jump: jump[:2])
            yield Note("measured_jump", step=step, times=times, rms=rms, shape=write_shape(moved.shape))
        if free := [write_shape(moved.shape) for moved in self.movements if (moved.scheduled or 0) > REACHED]:
            yield Note("measured_schedule", shapes=free)
        if self.moved_without_rate is not None and self.moved_without_rate > MOVED:
            yield Note("measured_no_rate", rate=NO_RATE, moved=self.moved_without_rate)
        decay, momentum = self.decay, self.momentum
        if decay and decay.kind in ("decoupled", "partial", "none"):
            factors = [factor for factor in (decay.idle,) if factor]
            factors += [] if decay.kind == "partial" else [decay.busy]
            if not all(DECAY[0] <= factor <= DECAY[1] for factor in factors):
                yield Note("measured_decay", idle=decay.idle, busy=decay.busy)
        if self.matrix_rule and self.follows_scale and not self.exponent_named:
            yield Note("measured_exponent", exponent=self.exponent)
        if self.matrix_rule and momentum and self.memory is not None:
            if self.memory < FORGETS * momentum.gives:
                yield Note("measured_memory", memory=self.memory, **vars(momentum))


def measure_optimizer(build: Build, has_decay: bool = True) -> Measured:
    """Measure an optimizer, with the settings of `build` but for weight decay, and without changing them.

    Args:
        build: as `contract.builder` returns it.
        has_decay: whether the class takes `weight_decay`.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        exponent = _attempt(_measure_exponent, build)
        return Measured(
            movements=[_measure_movement(build, shape) for shape in SHAPES],
            memory=_attempt(_measure_memory, build),
            momentum=_attempt(_read_momentum, build),
            decay=_measure_decay(build) if has_decay else None,
            exponent=exponent,
            exponent_named=_attempt(_names_exponent, build, exponent or 0.0),
            matrix_rule=_attempt(_makes_values_alike, build),
            moved_without_rate=_attempt(_measure_without_rate, build),
        )


# --- a parameter and its steps ---


class _Steps:
    """One parameter with an optimizer of its own, and gradients of a fixed seed: a common part and noise."""

    def __init__(
        self,
        build: Build,
        shape: tuple[int, ...] = PROBE,
        dtype: torch.dtype = torch.float32,
        **settings: Any,
    ) -> None:
        self._generator = torch.Generator().manual_seed(1)
        self.weight = nn.Parameter((0.05 * self._draw(shape)).to(dtype))
        self._common = self._draw(shape)
        self.optimizer = build([("W", self.weight)], **{"weight_decay": 0.0, **settings})

    def _draw(self, shape: Sequence[int]) -> Tensor:
        return torch.randn(*shape, generator=self._generator)

    @property
    def values(self) -> Tensor:
        """A copy of the weights."""
        return self.weight.detach().to(torch.float64, copy=True)

    @property
    def group(self) -> dict[str, Any]:
        """The parameter's group; other groups have no parameter."""
        return next(group for group in self.optimizer.param_groups if group["params"])

    @property
    def rate(self) -> float:
        """Of the group."""
        return float(self.group["lr"])

    @property
    def step_size(self) -> float:
        """The rate; Prodigy's lr multiplies the rate that it finds, its `d`."""
        return self.rate * float(self.group.get("d", self.group.get("d0", 1.0)))

    def next_gradient(self, scale: float = SCALE) -> Tensor:
        return scale * (0.3 * self._common + self._draw(self.weight.shape))

    def step(self, gradient: Tensor) -> Tensor:
        """The update, in float64."""
        before = self.values
        self.weight.grad = gradient.to(self.weight.dtype, copy=True)
        self.optimizer.step()
        return self.values - before


def _attempt(measure: Callable[..., T], *args: Any) -> T | None:
    """What is measured; None if the class raises. A user's class may raise anything."""
    try:
        return measure(*args)
    except Exception:
        return None


def _rms(x: Tensor) -> float:
    return x.square().mean().sqrt().item()


# --- each fact ---


def _measure_movement(build: Build, shape: tuple[int, ...]) -> Movement:
    try:
        steps, half = _Steps(build, shape), _Steps(build, shape)
        updates = []
        for _ in range(10):
            gradient = steps.next_gradient()
            updates.append(_rms(steps.step(gradient)))
        left = steps.weight.grad
        half.step(half.next_gradient())
        LambdaLR(half.optimizer, lambda step: 0.5)
        half.step(half.next_gradient())  # torch's ASGD takes a new rate one step later
        halved = _rms(half.step(half.next_gradient()))
    except Exception as error:  # a user's class may raise anything
        return Movement(shape, refused=reason(error))
    first, second, tenth = (updates[step - 1] / steps.rate for step in (1, 2, 10))
    return Movement(
        shape,
        rule=str(treatments(steps.optimizer)[steps.weight]),
        first=first,
        second=second,
        tenth=tenth,
        scheduled=halved / updates[2] if updates[2] else None,
        gradient_left=None if left is None else (left.norm() / gradient.norm()).item(),
    )


def _measure_memory(build: Build) -> float | None:
    """The a for which a first step on a g1 + g2 goes where the second step on g1, g2 does.

    A rule that remembers g1 by a weight and then only depends on the sum, such as Muon, goes there exactly:
    momentum b gives b, Nesterov's b^2 / (1 + b).
    """
    steps = _Steps(build)
    first, second = steps.next_gradient(), steps.next_gradient()
    steps.step(first)
    update = steps.step(second)
    if not update.any():
        return None

    def turns(weight: float) -> float:
        other = _Steps(build).step(weight * first + second)
        return -torch.cosine_similarity(update.flatten(), other.flatten(), dim=0).item()

    best = minimize_scalar(turns, bounds=(0.0, 1.2), method="bounded", options={"xatol": 0.004})
    return float(best.x) if best.fun < -SURE else None  # the first step is of another kind, or is none


def _read_momentum(build: Build) -> Momentum | None:
    group = _Steps(build).group
    for setting in ("momentum", "betas", "beta1", "beta"):
        value = group.get(setting)
        value = value[0] if isinstance(value, list | tuple) and value else value
        if isinstance(value, float) and 0 < value < 1:
            plain = group.get("nesterov") is False
            return Momentum(setting, value, value if plain else value**2 / (1 + value))
    return None


def _measure_decay(build: Build) -> Decay | None:
    for dtype in (torch.float64, torch.float32):  # not every class takes the more exact one
        if decay := _attempt(_measure_decay_in, build, dtype):
            return decay
    return None


def _measure_decay_in(build: Build, dtype: torch.dtype) -> Decay:
    """Weights with and without decay are stepped side by side: beside the decay they move alike."""
    start = _Steps(build, dtype=dtype)
    strength = 1e-3 / start.step_size

    def shrink(decay: float, scale: float) -> list[tuple[float, float]]:
        pair = [_Steps(build, dtype=dtype, weight_decay=own) for own in (decay, 0.0)]
        return list(_list_decays(pair, decay, scale))

    idle, (busy, along_busy) = shrink(strength, 0.0)[1][0], shrink(strength, SCALE)[1]
    scale = 0.0 if idle else SCALE  # Prodigy does nothing before the first gradient
    [(second, _), (third, along)] = shrink(strength, scale)
    half = shrink(strength / 2, scale)[1][0]
    if switching(start.optimizer):
        return Decay("averaged", idle, busy)
    if idle == busy == 0:
        return Decay("none", idle, busy)
    steady = all(math.isclose(factor, third, rel_tol=0.01) for factor in (second, half))
    if not steady or along < 0.99:
        return Decay("coupled", idle, busy)
    return Decay("decoupled" if along_busy > 0.99 else "partial", idle, busy)


def _list_decays(pair: Sequence[_Steps], decay: float, scale: float) -> Iterator[tuple[float, float]]:
    """Of steps 2 and 3: the shrinkage over lr x decay, and the cosine between it and the weights."""
    steps, plain = pair
    for step in (1, 2, 3):
        weight, rate = steps.values, steps.step_size
        shrunk = plain.step(plain.next_gradient(scale)) - steps.step(steps.next_gradient(scale))
        if step > 1:
            size = (shrunk * weight).sum() / weight.square().sum()
            along = torch.cosine_similarity(shrunk.flatten(), weight.flatten(), dim=0)
            yield size.item() / (rate * decay), along.item()


def _measure_exponent(build: Build) -> float | None:
    """d log(update) / d log(gradient) of two steps, between gradients a hundred times apart."""
    moved = []
    for scale in (SCALE / 10, SCALE * 10):
        steps = _Steps(build)
        moved.append(_rms(sum((steps.step(steps.next_gradient(scale)) for _ in range(2)), torch.zeros(()))))
    return math.log(moved[1] / moved[0]) / math.log(100) if all(moved) else None


def _names_exponent(build: Build, exponent: float) -> bool:
    other = ("lr", "weight_decay", "momentum", "beta", "eps")  # how these names begin
    values = [value for key, value in _Steps(build).group.items() if not key.startswith(other)]
    return any(isinstance(x, float) and 0 < x < 1 and math.isclose(x, exponent, abs_tol=0.02) for x in values)


def _makes_values_alike(build: Build) -> bool:
    steps = _Steps(build)
    steps.step(steps.next_gradient())
    values = torch.linalg.svdvals(steps.step(steps.next_gradient()))
    low, high = values.quantile(torch.tensor([0.1, 0.9], dtype=values.dtype)).tolist()
    return bool(low > ALIKE * high)


def _measure_without_rate(build: Build) -> float:
    steps = _Steps(build, lr=NO_RATE)
    size = _rms(steps.values)
    return max(_rms(steps.step(steps.next_gradient())) for _ in range(2)) / size
