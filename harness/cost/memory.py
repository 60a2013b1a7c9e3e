"""The memory of a run by its parts, before it runs and without its data."""

from __future__ import annotations

from dataclasses import dataclass

from harness.config import RunConfig
from harness.cost.estimated import simulated
from harness.cost.shapes import Shapes


@dataclass(frozen=True)
class Memory:
    """Bytes of tensors in one process of a run, on the device that trains.

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

    @property
    def peak(self) -> int:
        """Most bytes alive at any time."""
        return max(self.forward, self.backward, self.step)


def estimate(config: RunConfig, options: Shapes, device: str | None = None) -> Memory:
    """The memory of a run's later steps, when the optimizer has its state; arguments as `flops.training`.

    A compiled model may need less.

    Raises:
        NotEstimatedError: the model or the optimizer does not work on tensors without memory.
    """
    passes, steps = simulated(config, options, device)
    phases = passes.phases
    peaks = {
        name: phases[name].peak + steps.state for name in ("forward", "backward", "exchange", "curvature")
    }
    return Memory(
        passes.weights,
        passes.gradients,
        steps.state,
        passes.activations,
        max(0, phases["forward"].peak - passes.before - passes.activations),
        steps.workspace,
        passes.batch,
        forward=peaks["forward"],
        backward=max(peaks[name] for name in ("backward", "exchange", "curvature")),
        step=passes.weights + passes.batch + passes.gradients + steps.state + steps.workspace,
    )
