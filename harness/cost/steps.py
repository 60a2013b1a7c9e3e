"""Steps of a run's optimizer on tensors without memory: their work, the state and the temporaries.

On a GPU three things differ: parameters of one shape step as a stack, the products of maps are not divided
(`optimizers/spectral/products.py`), and no map asks for a number of the device
(`optimizers/spectral/exact.py`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.optim import Optimizer

import optimizers
from harness.config import RunConfig
from harness.cost.gpus import DECOMPOSED
from harness.cost.ledger import Ledger, Tally
from harness.cost.passes import fake_model, fake_task
from harness.cost.shapes import Shapes
from harness.parallel.sharding import deal_out
from harness.train.building import build_optimizer
from optimizers.base import UpdateRule
from optimizers.cost import separable
from optimizers.reach import treatments
from optimizers.spectral import exact, products
from optimizers.zoo.registry import PERIODS

# Parameters are divided among processes by seconds (`optimizers/cost.py`). Here so many operations take as
# long as a byte that is read or written.
PER_BYTE: Final = 30


@dataclass(frozen=True)
class Steps:
    """What a step of an optimizer takes for all parameters.

    Attributes:
        flops: by kind, as in `Tally`; this and the next two are the mean over a period.
        moved: bytes, as in `Tally`.
        calls: of operations.
        state: bytes that the optimizer keeps from step to step; of several processes that of the one with
            most.
        workspace: most bytes that a step needs besides weights, gradients and state.
        parameters: numbers of the model that are trained.
        matrix: of these in parameters of two or more dimensions that the rule treats in its own way.
    """

    flops: Mapping[str, float]
    moved: float
    calls: float
    state: int
    workspace: int
    parameters: int
    matrix: int


@dataclass
class Lot:
    """Parameters that step together, `times` such in the model; and what their steps take.

    Attributes:
        params: those that are stepped here.
        times: how often their kind is in the model.
        tallies: of the steps.
        state: bytes.
        workspace: bytes.
    """

    params: list[Tensor]
    times: float
    tallies: list[Tally] = field(default_factory=list)
    state: int = 0
    workspace: int = 0

    @property
    def cheap_and_dear(self) -> list[Tally]:
        """The two kinds of steps, which are one kind where the rule has no period.

        A step that decomposes is the dear one, though Newton-Schulz may have more operations than an SVD.
        """
        last = self.tallies[-2:] if len(self.tallies) > 2 else self.tallies[-1:] * 2
        return sorted(
            last, key=lambda tally: (sum(tally.flops[name] for name in DECOMPOSED), tally.flops.total())
        )


def matrices(config: RunConfig, shapes: Shapes) -> Iterator[tuple[tuple[int, int], int, Counter[str]]]:
    """The matrices that a rule for matrices updates, largest first, and their work on a GPU.

    On a CPU large symmetric products are made by halves, depending on the CPU.

    Yields:
        rows and columns, of which a kernel (o, i, h, w) has o rows; how many such matrices the model has; and
        the operations of the update of one of them, by kind, as in `Tally`.
    """
    optimizer, model, mode, ledger = _prepared(config, shapes)
    with mode, ledger:
        ours = {p for p, how in treatments(optimizer).items() if how.rule != "AdamW" and not how.fallback}
        lots = [lot for lot in _lots(optimizer, 1) if lot.params[0] in ours and lot.params[0].ndim > 1]
        with _as_on_a_gpu(optimizer):
            for lot in lots:
                _measure(lot, optimizer, ledger, 1)
    numbers: Counter[tuple[int, int]] = Counter()
    flops: dict[tuple[int, int], Counter[str]] = {}
    for lot in lots:
        p = lot.params[0]
        shape = (p.shape[0], p.numel() // p.shape[0])
        numbers[shape] += round(len(lot.params) * lot.times)
        tally = lot.cheap_and_dear[1]
        flops[shape] = Counter({kind: n // len(lot.params) for kind, n in tally.flops.items()})
    for shape in sorted(numbers, key=lambda shape: (-shape[0] * shape[1], shape)):
        yield shape, numbers[shape], flops[shape]


def run(config: RunConfig, shapes: Shapes, device: str) -> Steps:
    """Make a few steps of the optimizer with each kind of parameter, as on "cpu" or "cuda"."""
    optimizer, model, mode, ledger = _prepared(config, shapes)
    with mode, ledger, _as_on_a_gpu(optimizer) if device == "cuda" else nullcontext():
        period = _shorten_periods(optimizer)
        owners = config.processes if config.shard_optimizer and separable(optimizer) else 1
        lots = list(_lots(optimizer, owners))
        for lot in lots:
            _measure(lot, optimizer, ledger, period)
    return _summed(config.optimizer.name, optimizer, lots, period, owners)


def _prepared(config: RunConfig, shapes: Shapes) -> tuple[Optimizer, nn.Module, FakeTensorMode, Ledger]:
    """The optimizer with its model, which stays alive, the mode of their tensors and what watches these."""
    mode, ledger = FakeTensorMode(allow_non_fake_inputs=True), Ledger()
    model = fake_model(config, fake_task(shapes), mode)
    ledger.follow(model.parameters())
    with mode, ledger:
        return build_optimizer(config, model), model, mode, ledger


@contextmanager
def _as_on_a_gpu(optimizer: Optimizer) -> Iterator[None]:
    """The optimizer's steps inside are those on a GPU."""
    for rule in getattr(optimizer, "parts", (optimizer,)):
        if isinstance(rule, UpdateRule) and rule.stacked is None:
            rule.stacked = True

    whole = patch.multiple(products, _crawls=lambda _: False, _block_rows=lambda x: [(0, x.shape[-2])])
    with whole, patch.object(exact, "_host_reads", lambda _: False):
        yield


def _lots(optimizer: Optimizer, owners: int) -> Iterator[Lot]:
    """One parameter for all of its kind, where they step one by one; of a stack one owner's share."""
    for part in getattr(optimizer, "parts", (optimizer,)):
        if not isinstance(part, UpdateRule) or not separable(part):
            yield Lot([p for group in part.param_groups for p in group["params"]], 1)
            continue
        for group in part.param_groups:
            kinds: dict[Any, list[Tensor]] = {}
            for p in group["params"]:
                if p.requires_grad:
                    kinds.setdefault((p.shape, p.dtype), []).append(p)
            for alike in kinds.values():
                share = -(-len(alike) // owners) if part._stacks(alike[0], group) else 1
                yield Lot(alike[:share], len(alike) / share)


def _measure(lot: Lot, optimizer: Optimizer, ledger: Ledger, period: int) -> None:
    """Step the parameters of a lot until their state is complete and both kinds of steps are seen."""
    for number in range(4 if period > 1 else 2):
        for p in lot.params:
            p.grad = torch.empty_like(p)
        if number == 0 and isinstance(optimizer, UpdateRule):  # Sophia keeps what it observes
            optimizer.observe_curvature(1)
        with ledger.phase("step") as tally:
            optimizer.step()
        lot.tallies.append(tally)
        lot.workspace = max(lot.workspace, tally.peak - ledger.live)
    optimizer.zero_grad()
    lot.state = memory_of([optimizer.state[p] for p in lot.params])


def _shorten_periods(optimizer: Optimizer) -> int:
    """Make the period of dear steps two, so that a few steps show both kinds, and return what it was."""
    period = 1
    for group in optimizer.param_groups:
        for name in PERIODS:
            if group.get(name, 1) > 1:
                period, group[name] = group[name], 2
    return period


def _summed(name: str, optimizer: Optimizer, lots: Sequence[Lot], period: int, owners: int) -> Steps:
    """The sums over all lots; the state is that of the owner with most."""
    flops: Counter[str] = Counter()
    moved = calls = 0.0
    for lot in lots:
        cheap, dear = lot.cheap_and_dear
        for tally, share in ((cheap, 1 - 1 / period), (dear, 1 / period)):
            for kind, count in tally.flops.items():
                flops[kind] += share * lot.times * count  # type: ignore[assignment]
            moved += share * lot.times * tally.moved
            calls += share * lot.times * tally.calls
    params = {p for group in optimizer.param_groups for p in group["params"]}
    others = "AdamW" if optimizers.spec(name).has_aux else ""
    ours = [p for p, how in treatments(optimizer).items() if how.rule != others and not how.fallback]
    return Steps(
        {kind: float(count) for kind, count in flops.items()},
        moved,
        calls,
        state=_state(lots, owners),
        workspace=max((lot.workspace for lot in lots), default=0),
        parameters=sum(p.numel() for p in params),
        matrix=sum(p.numel() for p in ours if p.ndim > 1),
    )


def _state(lots: Sequence[Lot], owners: int) -> int:
    """Bytes of state of the process with most, if `owners` of them share the parameters."""
    costs: list[float] = []
    states: list[float] = []
    for lot in lots:
        count = round(len(lot.params) * lot.times)
        tally = lot.cheap_and_dear[1]
        costs += [(tally.flops.total() + PER_BYTE * tally.moved) / len(lot.params)] * count
        states += [lot.state / len(lot.params)] * count
    loads = [0.0] * owners
    for owner, state in zip(deal_out(costs, owners), states, strict=True):
        loads[owner] += state
    return round(max(loads))


def memory_of(state: object) -> int:
    """Bytes of memory that an optimizer's state, or a part of it, keeps alive; shared memory counts once."""
    storages = map(Tensor.untyped_storage, _tensors(state))
    return sum({storage._cdata: storage.nbytes() for storage in storages}.values())


def _tensors(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors(part)
    elif hasattr(value, "__dict__"):  # pytorch_optimizer's GaLore keeps an object
        yield from (part for part in vars(value).values() if isinstance(part, Tensor))
