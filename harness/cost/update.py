"""One update of a run, made to count what it computes and holds: its passes, then steps of its optimizer.

A small run's update is made on real tensors, in the time of a few steps. That of a large one is made on
tensors without memory, which takes seconds and imports torch.compile, but needs no GPU. These are fake
tensors of the CPU: those of a GPU need a torch that was built for one, and a login node may have none. What a
GPU does otherwise: attention with dropout has a kernel there that keeps no T x T weights, RMSNorm one that
keeps its input and a number per row, the chunks of the loss are larger, parameters of one shape step as a
stack, the products of maps are not divided (`optimizers/spectral/products.py`), and no map asks for a number
of the device (`optimizers/spectral/exact.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.optim import Optimizer

from htbench import optimizers
from htbench.harness.config import RunConfig
from htbench.harness.cost.run_class import Counted
from htbench.harness.cost.shapes import LM, Shapes
from htbench.harness.cost.watch import Flops, Watch, decomposing, tensors_in
from htbench.harness.data.images import ImageTask
from htbench.harness.data.loss import CHUNK_LOGITS
from htbench.harness.data.task import SPLITS, Batch, cross_entropy
from htbench.harness.parallel.group import ALONE, buckets, flattened
from htbench.harness.parallel.sharding import deal_out
from htbench.harness.train.building import build_model, build_optimizer
from htbench.optimizers.base import UpdateRule
from htbench.optimizers.cost import separable
from htbench.optimizers.reach import treatments
from htbench.optimizers.spectral import exact, products
from htbench.optimizers.zoo.registry import PERIODS

if TYPE_CHECKING:
    from htbench.harness.data.text import TextTask

    DataTask = TextTask | ImageTask

# --- a run's update ---

_SMALL = 1e10  # tokens or pixels of a micro-batch x parameters, about a fourth of its operations at most

# Parameters are divided among processes by seconds (`optimizers/cost.py`). Here so many operations take as
# long as a byte of a parameter and its state, which a step reads and writes several times.
_PER_BYTE = 150


@dataclass
class Lot:
    """Parameters that step together, `times` such in the model; and what their steps take.

    Attributes:
        params: those that are stepped here.
        times: how often their kind is in the model.
        cheap, dear: operations of the two kinds of steps, which are one kind where the rule has no period.
        state: bytes.
        workspace: most bytes that a step needs besides weights, gradients and state.
    """

    params: list[Tensor]
    times: float
    cheap: Flops
    dear: Flops
    state: int
    workspace: int


def count(config: RunConfig, sizes: Shapes, device: str) -> Counted:
    """Make the update of a process's micro-batch, and the steps, as on "cpu" or "cuda"."""
    share = -(-config.batch_size // config.processes)
    samples = min(share, config.micro_batch or share)
    model, mode = make_model(config, sizes, samples)
    task, watch = fake_task(sizes), Watch()
    watch.follow([*model.parameters(), *model.buffers()])
    weights = watch.live
    # Counts are compared between machines: none depends on how this processor multiplies in bfloat16.
    without_bfloat16 = patch.multiple(products, _NATIVE_BFLOAT16=False, _HAS_TILES=False)
    with mode, watch, as_on_a_gpu() if device == "cuda" else without_bfloat16:
        batch = _make_batch(sizes, samples)
        inputs = watch.live - weights
        passes, second, peak = _count_passes(config, task, model, batch, -(-share // samples), watch)
        optimizer = build_optimizer(config, model)
        owners = config.processes if config.shard_optimizer and separable(optimizer) else 1
        period = _shorten_periods(optimizer)
        lots = list(step_lots(optimizer, owners, period, watch, device))
    gradients = sum(p.numel() * p.itemsize for p in model.parameters() if p.requires_grad)
    times = config.batch_size / samples
    optimizer_flops = second.total() * times / (curvature_interval(config) or 1)
    for lot in lots:
        optimizer_flops += lot.times * ((1 - 1 / period) * lot.cheap.total() + lot.dear.total() / period)
    states = _sum_states(lots, owners)
    step = weights + inputs + gradients + max((lot.workspace for lot in lots), default=0)
    auxiliary_rule = "AdamW" if optimizers.spec(config.optimizer.name).has_aux else ""
    params = {p for group in optimizer.param_groups for p in group["params"]}
    ruled = [p for p, how in treatments(optimizer).items() if how.rule != auxiliary_rule and not how.fallback]
    return Counted(
        parameters=sum(p.numel() for p in params),
        matrix_parameters=sum(p.numel() for p in ruled if p.ndim > 1),
        flops_per_step=times * passes.total(),
        optimizer_flops_per_step=optimizer_flops,
        weights=weights,
        gradients=gradients,
        states=states,
        peak=max(peak, step) + states,
    )


def _count_passes(
    config: RunConfig, task: DataTask, model: nn.Module, batch: Batch, micros: int, watch: Watch
) -> tuple[Flops, Flops, int]:
    """Operations of a micro-batch's passes and of Sophia's second pass, and most bytes alive in them."""
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=config.precision.autocast != "none")
    for _ in range(min(micros, 2)):  # the second adds to the gradients of the first
        passes = watch.counted()
        with autocast:
            loss = task.loss(model, batch)
        torch.autograd.backward(loss / batch.count)  # leaves the gradients in the parameters
        del loss
    if config.processes > 1:
        _exchange(model)
    model.zero_grad()
    peak, second = watch.peak, watch.counted()
    if curvature_interval(config):  # as in `harness/train/curvature.py`
        with autocast:
            logits = task.logits(model, batch)
            with torch.no_grad():
                logits.softmax(dim=-1).cumsum_(dim=-1)
            loss = cross_entropy(logits, batch.targets)
        torch.autograd.backward(loss / batch.count)
    model.zero_grad()
    return passes, second, max(peak, watch.peak)


def _exchange(model: nn.Module) -> None:
    """What several processes do with their gradients, without the sending (`harness/parallel/group.py`).

    A function, as its last bucket would live on in the caller and count in the peak of the second pass.
    """
    for bucket in buckets([p.grad for p in model.parameters() if p.grad is not None]):
        flattened(bucket)


def curvature_interval(config: RunConfig) -> int:
    """Steps between two estimates of Sophia; 0 for all other rules."""
    hyper = config.optimizer.hyper
    return 0 if hyper.get("sign_momentum") else int(hyper.get("curvature_interval", 0))


# --- steps of the optimizer ---


def step_lots(optimizer: Optimizer, owners: int, period: int, watch: Watch, device: str) -> Iterator[Lot]:
    """Step one parameter for all of its kind, where they step one by one; of a stack one owner's share."""
    parts = getattr(optimizer, "parts", (optimizer,))
    for part in parts:
        if device == "cuda" and isinstance(part, UpdateRule) and part.stacked is None:
            part.stacked = True
    for part in parts:
        if not isinstance(part, UpdateRule) or not separable(part):
            params = [p for group in part.param_groups for p in group["params"]]
            yield _step_params(params, 1, optimizer, watch, period)
            continue
        for group in part.param_groups:
            kinds: dict[Any, list[Tensor]] = {}
            for p in group["params"]:
                if p.requires_grad:
                    kinds.setdefault((p.shape, p.dtype), []).append(p)
            for alike in kinds.values():
                share = -(-len(alike) // owners) if part._stacks(alike[0], group) else 1
                yield _step_params(alike[:share], len(alike) / share, optimizer, watch, period)


def _step_params(params: list[Tensor], times: float, optimizer: Optimizer, watch: Watch, period: int) -> Lot:
    """Step parameters until their state is complete and both kinds of steps are seen."""
    steps, workspace = list[Flops](), 0
    for number in range(4 if period > 1 else 2):
        for p in params:
            p.grad = torch.randn_like(p)
        if number == 0 and isinstance(optimizer, UpdateRule):  # Sophia keeps what it observes
            optimizer.observe_curvature(1)
        steps.append(watch.counted())
        optimizer.step()
        workspace = max(workspace, watch.peak - watch.live)
    optimizer.zero_grad()
    # A step that decomposes is the dear one, though Newton-Schulz may have more operations than an SVD.
    last = steps[-2:] if period > 1 else steps[-1:] * 2
    cheap, dear = sorted(last, key=lambda flops: (decomposing(flops), flops.total()))
    return Lot(params, times, cheap, dear, memory_of([optimizer.state[p] for p in params]), workspace)


def _shorten_periods(optimizer: Optimizer) -> int:
    """Make the period of dear steps two, so that a few steps show both kinds, and return what it was."""
    period = 1
    for group in optimizer.param_groups:
        for name in PERIODS:
            if group.get(name, 1) > 1:
                period, group[name] = group[name], 2
    return period


def _sum_states(lots: list[Lot], owners: int) -> int:
    """Bytes of state of the process with most, if `owners` of them share the parameters."""
    costs, states = list[float](), list[float]()
    for lot in lots:
        number, param = round(len(lot.params) * lot.times), lot.params[0]
        state = lot.state / len(lot.params)
        touched = state + param.numel() * param.itemsize
        costs += [lot.dear.total() / len(lot.params) + _PER_BYTE * touched] * number
        states += [state] * number
    loads = [0.0] * owners
    for owner, state in zip(deal_out(costs, owners), states, strict=True):
        loads[owner] += state
    return round(max(loads))


def memory_of(state: object) -> int:
    """Bytes of memory that an optimizer's state, or a part of it, keeps alive; shared memory counts once."""
    storages = map(Tensor.untyped_storage, tensors_in(state))
    return sum({storage._cdata: storage.nbytes() for storage in storages}.values())


# --- as on a GPU ---


@contextmanager
def as_on_a_gpu() -> Iterator[None]:
    """Inside, operations of the CPU are those of a GPU, as the head of this file says."""
    fused, in_parts = F.scaled_dot_product_attention, F.rms_norm

    def without_dropout(*args: Any, dropout_p: float = 0.0, **kwargs: Any) -> Tensor:
        return fused(*args, **kwargs)

    def rms_norm(
        x: Tensor, shape: list[int], weight: Tensor | None = None, eps: float | None = None
    ) -> Tensor:
        if weight is None or weight.dtype != x.dtype:  # CUDA has no kernel for it, either
            return in_parts(x, shape, weight, eps)
        normed: Tensor = _FusedRMSNorm.apply(x, weight)  # type: ignore[no-untyped-call]
        return normed

    with (
        patch.object(F, "scaled_dot_product_attention", without_dropout),
        patch.object(F, "rms_norm", rms_norm),
        patch.dict(CHUNK_LOGITS, cpu=CHUNK_LOGITS["cuda"]),
        patch.multiple(products, crawls=lambda _: False, _block_rows=lambda x: [(0, x.shape[-2])]),
        patch.object(exact, "_host_reads", lambda _: False),
    ):
        yield


class _FusedRMSNorm(torch.autograd.Function):
    """What `aten::_fused_rms_norm` reads, writes and keeps on CUDA; on a CPU torch takes it apart."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight, x.new_empty(x.shape[:-1], dtype=torch.float32))
        return x * weight

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        x, weight, _ = ctx.saved_tensors
        return gradients[0] * x, torch.empty_like(weight)


# --- a run's task, model and batch, which have shapes and no data ---


def fake_task(sizes: Shapes) -> DataTask:
    """A task of these sizes with the loss of ours, and without data."""
    options = sizes.options
    if sizes.kind == LM:
        # Its tokenizer takes longer to import than images to count.
        from htbench.harness.data.text import TextTask

        length, streams = options["max_length"], {split: np.zeros(0, dtype=np.uint16) for split in SPLITS}
        lengths = np.ones(options["vocabulary"], dtype=np.int64)
        return TextTask(streams, lengths, batch_size=1, seq_len=length, data_seed=0, held_out_tokens=length)
    side = options["image_size"]
    images = {split: torch.empty(0, options["in_channels"], side, side) for split in SPLITS}
    labels = {split: torch.empty(0, dtype=torch.int64) for split in SPLITS}
    return ImageTask(images, labels, classes=options["classes"], batch_size=1, data_seed=0)


def make_model(config: RunConfig, sizes: Shapes, samples: int) -> tuple[nn.Module, Any]:
    """The run's model, and the mode of its tensors; those that modules share stay shared."""
    task, meta, cpu = fake_task(sizes), torch.device("meta"), torch.device("cpu")
    with meta, Watch():
        model = build_model(config, task, meta, ALONE)
    options = sizes.options
    positions = samples * (options["max_length"] if sizes.kind == LM else options["image_size"] ** 2)
    if positions * sum(p.numel() for p in model.parameters()) <= _SMALL:
        return build_model(config, task, cpu, ALONE), nullcontext()
    mode, fakes = FakeTensorMode(allow_non_fake_inputs=True), dict[Tensor, Tensor]()

    def replace(held: dict[str, Any], make: Callable[[Tensor], Tensor]) -> None:
        for name, tensor in held.items():
            if tensor is not None:
                if tensor not in fakes:
                    fakes[tensor] = make(tensor)
                held[name] = fakes[tensor]

    for part in model.modules():
        replace(part._parameters, lambda p: nn.Parameter(FakeTensor(mode, p.detach(), cpu), p.requires_grad))
        replace(part._buffers, lambda x: FakeTensor(mode, x, cpu))
    return model, mode


def _make_batch(sizes: Shapes, samples: int) -> Batch:
    """Inputs and targets of so many samples."""
    options = sizes.options
    if sizes.kind == LM:
        rows = torch.zeros(samples, options["max_length"], dtype=torch.int64)
        return Batch(rows, torch.zeros_like(rows), rows.numel())
    side = options["image_size"]
    images = torch.zeros(samples, options["in_channels"], side, side)
    return Batch(images, torch.zeros(samples, dtype=torch.int64), samples)
