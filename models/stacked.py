"""Several models of one kind as one, so that a small model's operations are started once for all of them.

Shapes: K models, N samples of each, B = K N, T sequence, I and O inputs and outputs of a layer, V vocabulary.

The samples of all models stand one after the other in one batch. Only the layers that have weights see that
these are of several models: each makes one product of stacks where a single model makes one of matrices. All
else of a model runs as it is, so its code is written once. On a CPU every number is that of the models alone
wherever a product of stacks rounds as a product of matrices does; `harness.train.stack` compares.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class StackedLinear(nn.Module):
    """K linear layers without biases: (B, ..., I) -> (B, ..., O)."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.weight = _stacked_weight(layers)

    def forward(self, x: Tensor) -> Tensor:
        """Multiply the samples of each model by its weight, of (K, O, I)."""
        W: Tensor = self.weight
        kind = x.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
        parts, W = x.to(dtype).reshape(len(W), -1, x.shape[-1]), W.to(dtype)
        if torch.compiler.is_compiling():  # torch 2.13 traces a class of ours again in each process: 1.6 s
            product = torch.bmm(parts, W.mT)
        else:
            product = _Product.apply(parts, W)  # type: ignore[no-untyped-call]
        return product.view(*x.shape[:-1], -1)


class _Product(torch.autograd.Function):
    """x W^T of stacks. The gradient of W lies in memory as W does: that of `bmm` would be copied for it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, W: Tensor) -> Tensor:
        ctx.save_for_backward(x, W)
        return torch.bmm(x, W.mT)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Sequence[Tensor]:
        x, W = ctx.saved_tensors
        return torch.bmm(grad, W), torch.bmm(grad.mT, x)


class StackedEmbedding(nn.Module):
    """K tables of embeddings: (B, T) -> (B, T, I)."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.weight = _stacked_weight(layers)

    def forward(self, tokens: Tensor) -> Tensor:
        """Look the tokens of each model up in its table, of (K, V, I)."""
        models, rows, _ = self.weight.shape
        first = torch.arange(0, models * rows, rows, device=tokens.device).unsqueeze(1)
        places = (tokens.reshape(models, -1) + first).view(tokens.shape)
        return F.embedding(places, self.weight.flatten(0, 1))


class StackedRMSNorm(nn.Module):
    """K norms over the last dimension: (B, ..., I) -> (B, ..., I)."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.weight = _stacked_weight(layers)
        self.eps: float | None = layers[0].eps  # type: ignore[assignment]

    def forward(self, x: Tensor) -> Tensor:
        """Divide every vector by its root mean square; multiply by the gains of its model, of (K, I)."""
        normed = F.rms_norm(x, x.shape[-1:], eps=self.eps)
        models, size = self.weight.shape
        return (normed.view(models, -1, size) * self.weight.unsqueeze(1)).view(x.shape)


class Heads(nn.Module):
    """The last layer, one after the other: (B, T, I) -> K times (N, T, V). Each loss is of one model."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """The logits of each model."""
        return tuple(layer(part) for layer, part in zip(self.layers, x.chunk(len(self.layers)), strict=True))


_STACKED: dict[type[nn.Module], Callable[[Sequence[nn.Module]], nn.Module]] = {
    nn.Linear: StackedLinear,
    nn.Embedding: StackedEmbedding,
    nn.RMSNorm: StackedRMSNorm,
}


class StackedModel:
    """K models as one, which share their memory with it.

    Args:
        models: of one architecture, each with a `get_output_embeddings`. Their parameters become parts of the
            stack: a step in place of one model is a step of its part.
        joins_heads: make one product of all heads, too.

    Attributes:
        module: gives the logits of each model, K times (N, T, V), from tokens (B, T); with joined heads
            (B, T, V).
        weights: of the stack, (K, ...), each with the K parameters that are its parts; without heads that are
            not joined: these stay the models'.
    """

    def __init__(self, models: Sequence[nn.Module], *, joins_heads: bool = False) -> None:
        first = models[0]
        head = first.get_output_embeddings()  # type: ignore[operator]
        # The layers are replaced below, so a copy of the first model without its weights will do.
        kept = {id(x): x for x in (*first.parameters(), *first.buffers())}
        self.module: nn.Module = copy.deepcopy(first, kept)
        self.weights: list[tuple[nn.Parameter, list[nn.Parameter]]] = []
        for name, layer in first.named_modules():
            if not any(True for _ in layer.parameters(recurse=False)):
                continue
            layers = [model.get_submodule(name) for model in models]
            is_apart = layer is head and not joins_heads
            stacked = Heads(layers) if is_apart else _STACKED[type(layer)](layers)
            above, _, last = name.rpartition(".")
            setattr(self.module.get_submodule(above), last, stacked)
            if not is_apart:
                self.weights.append((stacked.weight, [one.weight for one in layers]))  # type: ignore[arg-type, misc]

    def give_gradients(self) -> None:
        """Hand each model its part of the gradients of the stack, which then has none."""
        for weight, parts in self.weights:
            if weight.grad is not None:
                for part, grad in zip(parts, weight.grad.unbind(), strict=True):
                    part.grad = grad
            weight.grad = None


def _stacked_weight(layers: Sequence[nn.Module]) -> nn.Parameter:
    """The weights of some layers along a new first dimension; they become its parts."""
    weights: list[nn.Parameter] = [layer.weight for layer in layers]  # type: ignore[misc]
    stacked = torch.stack([weight.detach() for weight in weights])
    for weight, part in zip(weights, stacked.unbind(), strict=True):
        weight.data = part
    return nn.Parameter(stacked)
