"""What a GPU does otherwise, for fake tensors of the CPU.

Fake tensors of a GPU need a torch that was built for one, and a login node may have none. Three things
differ: parameters of one shape step as a stack, the products of maps are not divided
(`optimizers/spectral/products.py`), and attention with dropout has a kernel that keeps no T x T weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import Optimizer

from harness.cost.ledger import Ledger
from optimizers import spectral
from optimizers.base import UpdateRule
from optimizers.spectral import products
from optimizers.spectral.exact import graded_power


@contextmanager
def attention() -> Iterator[None]:
    """Passes inside take the kernel of a GPU for attention."""
    fused = F.scaled_dot_product_attention

    def without_dropout(*args: Any, dropout_p: float = 0.0, **kwargs: Any) -> Tensor:
        return fused(*args, **kwargs)

    with patch.object(F, "scaled_dot_product_attention", without_dropout):
        yield


@contextmanager
def steps(optimizer: Optimizer, ledger: Ledger) -> Iterator[None]:
    """The optimizer's steps inside are those on a GPU."""
    for rule in getattr(optimizer, "parts", (optimizer,)):
        if isinstance(rule, UpdateRule) and rule.stacked is None:
            rule.stacked = True
    whole = patch.multiple(products, _crawls=lambda _: False, _block_rows=lambda x: [(0, x.shape[-2])])
    with whole, patch.object(spectral, "graded_power", _one_for_all(graded_power, ledger)):
        yield


def _one_for_all(graded: Callable[[Tensor, float], Tensor], ledger: Ledger) -> Callable[..., Tensor]:
    """`graded_power` maps a stack one by one, in thousands of operations: one matrix stands for all."""

    def mapped(stack: Tensor, p: float) -> Tensor:
        if stack.ndim < 3:
            return graded(stack, p)
        first, *rest = stack.flatten(0, -3)
        with ledger.repeated(0):
            others = [torch.empty_like(one) for one in rest]
        with ledger.repeated(1 + len(rest)):
            done = graded(first, p)
        return torch.stack([done, *others]).view(stack.shape)

    return mapped
