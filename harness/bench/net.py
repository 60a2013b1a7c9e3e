"""A small net to test optimizers on: how it is trained, and how its weights are copied and compared."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


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
    """The loss of the batch of `seed`; the gradients are in `.grad` afterwards."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 11, (32, 6), generator=generator)
    y = torch.randint(0, 5, (32,), generator=generator)
    net.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    torch.autograd.backward(loss)
    return loss.item()


def train(net: nn.Module, optimizer: Optimizer, steps: range) -> list[Tensor]:
    """Weights after these steps, each on a batch of its own."""
    for step in steps:
        backward(net, step)
        optimizer.step()
    return copied(net.parameters())


def equal(first: Iterable[Tensor], second: Iterable[Tensor]) -> bool:
    """Whether all tensors agree bit for bit."""
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def copied(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Copies of tensors, without history."""
    return [tensor.detach().clone() for tensor in tensors]
