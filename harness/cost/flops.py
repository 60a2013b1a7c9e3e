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
    """Floating point operations of one step of a run, all of its processes together.

    Matrix products and convolutions count, by the formulas of `torch.utils.flop_counter`, and decompositions
    by those of `harness/cost/dense.py`. Attention counts as if it were not causal, and padding as if it were
    text, though the chunked loss leaves it out.

    Attributes:
        forward: of the model and the loss; the chunked loss makes all its products here.
        backward: of the gradients.
        recomputation: what activation checkpointing computes again.
        optimizer: of one step for all parameters, which processes share or each of them makes, and of
            Sophia's second pass; the mean over a period where some steps are dearer.
        evaluation: of one held-out batch as large as a training batch.
        kinds: of forward, backward and recomputation by precision ("float32", "bfloat16").
        optimizer_kinds: of `optimizer` by precision or decomposition ("svd", "eigh", "qr").
        moved, optimizer_moved: bytes that operations read and write, of the same two.
        calls, optimizer_calls: of operations; `calls` in each process.
        parameters: trained numbers of the model.
        matrix: of these, in parameters of two or more dimensions that the rule treats in its own way.
        auxiliary: of these, in all others.
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
    matrix: int
    auxiliary: int

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
    kinds = sum((phase.flops for phase in passes.training), Counter[str]())
    second = passes.phases["curvature"]
    seconds = times / passes.curvature_interval
    own = {
        kind: steps.flops.get(kind, 0) + seconds * second.flops[kind]
        for kind in {*steps.flops, *second.flops}
    }
    return TrainingFlops(
        forward=times * passes.phases["forward"].total,
        backward=times * passes.phases["backward"].total,
        recomputation=times * passes.phases["recomputation"].total,
        optimizer=sum(own.values()),
        evaluation=times * passes.phases["evaluation"].total,
        kinds={kind: times * count for kind, count in kinds.items()},
        optimizer_kinds=own,
        moved=times * sum(phase.moved for phase in passes.training),
        optimizer_moved=steps.moved + seconds * second.moved,
        calls=passes.micros * sum(phase.calls for phase in passes.training),
        optimizer_calls=steps.calls + passes.micros / passes.curvature_interval * second.calls,
        parameters=steps.parameters,
        matrix=steps.matrix,
        auxiliary=steps.parameters - steps.matrix,
    )
