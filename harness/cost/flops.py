"""Parameters and floating point operations of a run, before it runs and without its data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from harness.config import RunConfig
from harness.cost.estimated import simulated
from harness.cost.shapes import Shapes


@dataclass(frozen=True)
class TrainingFlops:
    """Floating point operations of one step of a run, over all of its processes.

    Matrix products and convolutions count, by the formulas of `torch.utils.flop_counter`, and decompositions
    by those of `harness/cost/dense.py`.

    Attributes:
        forward: of the model and the loss; the chunked loss makes all its products here.
        backward: of the gradients.
        recomputation: what activation checkpointing computes again.
        optimizer: of its step; the mean over a period where some steps are dearer.
        evaluation: of one held-out batch as large as a training batch.
        kinds: of forward, backward and recomputation by precision ("float32", "bfloat16").
        optimizer_kinds: of `optimizer` by precision or decomposition ("svd", "eigh", "qr").
        moved: bytes that operations of forward, backward and recomputation read and write.
        optimizer_moved: bytes, as `moved`.
        calls, optimizer_calls: of operations, in each process.
        parameters: trainable numbers of the model.
    """

    forward: float
    backward: float
    recomputation: float
    optimizer: float
    evaluation: float
    kinds: Mapping[str, float]
    optimizer_kinds: Mapping[str, float]
    moved: float
    optimizer_moved: float
    calls: float
    optimizer_calls: float
    parameters: int

    @property
    def per_step(self) -> float:
        """Of a step with its optimizer."""
        return self.forward + self.backward + self.recomputation + self.optimizer


def training(config: RunConfig, options: Shapes, device: str | None = None) -> TrainingFlops:
    """The work of a step.

    Args:
        config: resolved.
        options: as `harness.cost.shapes.of` finds them.
        device: "cpu" or "cuda", where optimizers may work otherwise; None: the config's, "cpu" for "auto".

    Raises:
        NotEstimatedError: the model or the optimizer does not work on tensors without memory.
    """
    passes, steps = simulated(config, options, device)
    times = config.batch_size / passes.samples
    phases = (passes.forward, passes.backward, passes.recomputation)
    kinds = sum((phase.flops for phase in phases), Counter[str]())
    return TrainingFlops(
        *(times * phase.total for phase in phases),
        optimizer=sum(steps.flops.values()),
        evaluation=times * passes.evaluation.total,
        kinds={kind: times * count for kind, count in kinds.items()},
        optimizer_kinds=steps.flops,
        moved=times * sum(phase.moved for phase in phases),
        optimizer_moved=steps.moved,
        calls=passes.micros * sum(phase.calls for phase in phases),
        optimizer_calls=steps.calls,
        parameters=steps.parameters,
    )
