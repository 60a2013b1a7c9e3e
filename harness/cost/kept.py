"""What a step of a class of runs works and holds: simulated once, then kept in `cache/costs/`. Torch-free.

Only the simulation itself (`passes.py`, `steps.py`) loads torch.
"""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from harness.config import OptimizerConfig, RunConfig
from harness.cost import shapes
from harness.cost.run_class import place, run_class, write
from harness.cost.shapes import NotEstimatedError, Shapes
from harness.errors import reason
from harness.system import atomic, typed

if TYPE_CHECKING:
    from harness.cost.passes import Passes
    from harness.cost.steps import Steps


@dataclass(frozen=True)
class TrainingFlops:
    """Floating point operations of one step of a run, all of its processes together.

    Matrix products and convolutions count, by the formulas of `torch.utils.flop_counter`, and decompositions
    by those of `harness/cost/ledger.py`. Attention counts as if it were not causal, and padding as if it were
    text, though the chunked loss leaves it out.

    Attributes:
        forward: of the model and the loss; the chunked loss makes all its products here.
        backward: of the gradients.
        recomputation: what activation checkpointing computes again.
        evaluation: of one held-out batch as large as a training batch.
        kinds: of forward, backward and recomputation by precision ("float32", "bfloat16").
        optimizer_kinds: of a step of the optimizer for all parameters, which processes share or each of them
            makes, and of Sophia's second pass, by precision or decomposition ("svd", "eigh", "qr"); the mean
            over a period where some steps are dearer.
        moved, optimizer_moved: bytes that operations read and write, of the same two.
        calls, optimizer_calls: of operations; `calls` in each process.
        parameters: trained numbers of the model.
        matrix: of these, in parameters of two or more dimensions that the rule treats in its own way.
    """

    forward: float
    backward: float
    recomputation: float
    evaluation: float
    kinds: Mapping[str, float]
    optimizer_kinds: Mapping[str, float]
    moved: float
    optimizer_moved: float
    calls: float
    optimizer_calls: float
    parameters: int
    matrix: int

    @property
    def optimizer(self) -> float:
        """Of a step of the optimizer."""
        return sum(self.optimizer_kinds.values())

    @property
    def per_step(self) -> float:
        """Of a step with its optimizer."""
        return self.forward + self.backward + self.recomputation + self.optimizer


@dataclass(frozen=True)
class Memory:
    """Bytes of tensors in one process of a run, on the device that trains; a compiled model may need less.

    The parts are not alive together: the peak is the greatest of three moments.

    Attributes:
        weights: parameters and buffers.
        gradients: of all parameters.
        states: what the optimizer keeps; of several processes that of the one with most.
        activations: what the forward pass of the model leaves for the backward pass.
        logits: what the model's output and the loss need besides at most, in the forward pass.
        workspace: most that the optimizer needs besides in a step.
        batch: inputs and targets of a micro-batch.
        forward: most bytes alive in a forward pass with the loss.
        backward: most bytes alive in a backward pass, the exchange of gradients or Sophia's second pass.
        step: most bytes alive in a step of the optimizer.
        peak: most bytes alive at any time.
    """

    weights: int
    gradients: int
    states: int
    activations: int
    logits: int
    workspace: int
    batch: int
    forward: int
    backward: int
    step: int
    peak: int


@dataclass(frozen=True)
class Simulated:
    """What is known of the runs of a class without a run.

    Attributes:
        work: of a step, over all processes.
        memory: of one process.
        assumed: the sizes of the model that were taken because its task tells none.
    """

    work: TrainingFlops
    memory: Memory
    assumed: Mapping[str, int]


class _File(TypedDict):
    work: dict[str, Any]
    memory: dict[str, Any]
    assumed: dict[str, int]


_here: dict[str, Simulated] = {}  # by the names of their files


def find(config: RunConfig, cache: Path, device: str) -> Simulated | None:
    """What was simulated of the run's class by this code before.

    Args:
        config: of the run.
        cache: folder of prepared data and measured costs.
        device: "cpu" or "cuda", where optimizers may work otherwise.
    """
    file = place(cache, run_class(config), device)
    if file.name not in _here:
        value = atomic.read_json(file)
        if value is None or not typed.fits(_File, value):  # no file, or that of other code
            return None
        work, memory = typed.made(TrainingFlops, value["work"]), typed.made(Memory, value["memory"])
        if work is None or memory is None:
            return None
        _here[file.name] = Simulated(work, memory, value["assumed"])
    return _here[file.name]


def make(config: RunConfig, cache: Path, device: str) -> Simulated:
    """Find or simulate, which takes up to a few seconds; kept if `cache` exists. Arguments as in `find`.

    Raises:
        NotEstimatedError: the model or the optimizer does not work on tensors without memory.
    """
    known = find(config, cache, device)
    if known is not None:
        return known
    file, made = place(cache, run_class(config), device), simulate(config, shapes.of(config), device)
    _here[file.name] = made
    if cache.is_dir():
        # In a read-only store, on a full disk it is simulated again next time.
        with contextlib.suppress(Exception):
            write(file, made)
    return made


def for_record(config: RunConfig, cache: Path, device: str) -> dict[str, float]:
    """What the estimate adds to a record; empty if the model or the optimizer can't be counted.

    Whether a record has it depends on the class of the run and not on how long it took, so that two machines
    give the same tables. The first run of a class in a store waits 0.2 to 0.5 s for it, and for the
    import of torch.compile (docs/cost.md).

    `flops_per_step`: of forward and backward pass, and of what is computed again. `optimizer_flops_per_step`.
    `state_bytes`: that the optimizer keeps, and `estimated_peak_memory`: of all tensors, in one process.

    Args:
        config, cache, device: as in `find`.
    """
    try:
        made = make(config, cache, device)
    except Exception:  # a price tag never fails a run, whatever a user's model does
        return {}
    return {
        "flops_per_step": made.work.per_step - made.work.optimizer,
        "optimizer_flops_per_step": made.work.optimizer,
        "state_bytes": made.memory.states,
        "estimated_peak_memory": made.memory.peak,
    }


# --- the simulation ---

_passes: dict[str, Passes] = {}  # those of most optimizers are the same


def simulate(config: RunConfig, sizes: Shapes, device: str | None = None) -> Simulated:
    """The work and the memory of a run's later steps, when the optimizer has its state.

    Args:
        config: resolved.
        sizes: as `shapes.of` finds them.
        device: "cpu" or "cuda"; None: the config's, "cpu" for "auto".

    Raises:
        NotEstimatedError: the model or the optimizer does not work on tensors without memory.
    """
    device = device or ("cpu" if config.device == "auto" else config.device)
    import torch

    from harness.cost import passes, steps

    gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()  # type: ignore[no-untyped-call]
    try:
        # A run that asks for its own cost goes on with its random numbers.
        with torch.random.fork_rng(gpus), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kind = run_class(replace(config, optimizer=OptimizerConfig()))
            name = repr((kind, passes.curvature_interval(config), sizes, device))
            if name not in _passes:
                _passes[name] = passes.run(config, sizes, device)
            step = steps.run(config, sizes, device)
    except Exception as error:
        names = f"'{config.model}' with '{config.optimizer.name}'"
        raise NotEstimatedError(f"{names} can't be tried without memory ({reason(error)})") from error
    assumed = sizes.options if sizes.assumed else {}
    return Simulated(_work(config, _passes[name], step), _memory(_passes[name], step), assumed)


def _work(config: RunConfig, passes: Passes, steps: Steps) -> TrainingFlops:
    phases = passes.phases
    training = [phases[name] for name in ("forward", "backward", "recomputation")]  # of every micro-batch
    times, second = config.batch_size / passes.samples, phases["curvature"]
    share = times / passes.curvature_interval
    optimizer = {
        kind: steps.flops.get(kind, 0) + share * second.flops[kind] for kind in {*steps.flops, *second.flops}
    }
    forward, backward, recomputation = (times * phase.flops.total() for phase in training)
    kinds = sum((phase.flops for phase in training), Counter[str]())
    return TrainingFlops(
        forward,
        backward,
        recomputation,
        evaluation=times * phases["evaluation"].flops.total(),
        kinds={kind: times * count for kind, count in kinds.items()},
        optimizer_kinds=optimizer,
        moved=times * sum(phase.moved for phase in training),
        optimizer_moved=steps.moved + share * second.moved,
        calls=passes.micros * sum(phase.calls for phase in training),
        optimizer_calls=steps.calls + passes.micros / passes.curvature_interval * second.calls,
        parameters=steps.parameters,
        matrix=steps.matrix,
    )


def _memory(passes: Passes, steps: Steps) -> Memory:
    peaks = {name: phase.peak + steps.state for name, phase in passes.phases.items()}
    forward = peaks["forward"]
    backward = max(peaks.get(name, 0) for name in ("backward", "exchange", "curvature"))
    step = passes.weights + passes.batch + passes.gradients + steps.state + steps.workspace
    logits = max(0, passes.phases["forward"].peak - passes.before - passes.activations)
    return Memory(
        passes.weights,
        passes.gradients,
        steps.state,
        passes.activations,
        logits,
        steps.workspace,
        passes.batch,
        forward,
        backward,
        step,
        peak=max(forward, backward, step),
    )
