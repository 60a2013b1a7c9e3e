"""The chunked loss of the head beside the plain one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.bench.flops import clock_of
from harness.bench.measurement import Measurement
from harness.bench.pairs import Clock, take_turns
from harness.data.loss import linear_cross_entropy
from harness.data.task import cross_entropy, in_float32

ROWS, HIDDEN, WORDS = 2048, 512, 32000  # eight sequences of llama-60m


class LossSide:
    """The loss and the gradients of random hidden states and weights.

    Args:
        loss: of (hidden, weight, targets), summed.
        hidden, weight, targets: its arguments.
    """

    def __init__(
        self,
        loss: Callable[[Tensor, Tensor, Tensor], Tensor],
        hidden: Tensor,
        weight: Tensor,
        targets: Tensor,
    ) -> None:
        self._loss, self._hidden, self._weight, self._targets = loss, hidden, weight, targets

    def step(self, clock: Clock) -> float:
        """Forward and backward; return how long it took."""
        began = clock()
        loss = self._loss(self._hidden, self._weight, self._targets)
        torch.autograd.backward(loss / len(self._targets))
        seconds = clock() - began
        self._hidden.grad = self._weight.grad = None
        return seconds


def loss_side(kind: str, rows: int, hidden: int, words: int, dtype: torch.dtype, device: str) -> LossSide:
    """The side "chunked" or "plain" with inputs of its own, the same for both."""
    generator = torch.Generator().manual_seed(0)
    states = torch.empty(rows, hidden, dtype=dtype).normal_(generator=generator)
    weight = torch.empty(words, hidden, dtype=dtype).normal_(std=0.02, generator=generator)
    targets = torch.randint(words, (rows,), generator=generator).to(device)
    loss = linear_cross_entropy if kind == "chunked" else _plain
    return LossSide(loss, states.to(device).requires_grad_(), weight.to(device).requires_grad_(), targets)


def _plain(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(in_float32(hidden @ weight.T), targets)


@dataclass(frozen=True)
class LossRow:
    """Time and memory of both.

    Attributes:
        dtype: of hidden states and weights.
        ratio: time of the chunked loss / of the plain one.
        chunked_bytes, plain_bytes: peak memory, inputs included.
    """

    dtype: str
    ratio: Measurement
    chunked_bytes: int
    plain_bytes: int


def ratio(dtype: torch.dtype, device: str, rounds: int) -> Measurement:
    """Time of the chunked loss in units of the plain one."""
    _, clock = clock_of(device, torch.get_num_threads())
    sides = [loss_side(kind, ROWS, HIDDEN, WORDS, dtype, device) for kind in ("chunked", "plain")]
    times = take_turns(sides[0], sides[1], rounds, clock)
    ratios = [sum(ours) / sum(theirs) for ours, theirs in zip(*times, strict=True)]
    return Measurement.of("chunked / plain", "x", ratios)
