"""What a GPU does otherwise, for fake tensors of the CPU.

Fake tensors of a GPU need a torch that was built for one, and a login node may have none. Three things
differ: parameters of one shape step as a stack, the products of maps are not divided
(`optimizers/spectral/products.py`), and attention with dropout has a kernel that keeps no T x T weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch.nn.functional as F
from torch import Tensor
from torch.optim import Optimizer

from optimizers.base import UpdateRule
from optimizers.spectral import products


@contextmanager
def attention() -> Iterator[None]:
    """Passes inside take the kernel of a GPU for attention."""
    fused = F.scaled_dot_product_attention

    def without_dropout(*args: Any, dropout_p: float = 0.0, **kwargs: Any) -> Tensor:
        return fused(*args, **kwargs)

    with patch.object(F, "scaled_dot_product_attention", without_dropout):
        yield


@contextmanager
def steps(optimizer: Optimizer) -> Iterator[None]:
    """The optimizer's steps inside are those on a GPU."""
    for rule in getattr(optimizer, "parts", (optimizer,)):
        if isinstance(rule, UpdateRule) and rule.stacked is None:
            rule.stacked = True
    with patch.multiple(products, _crawls=lambda _: False, _block_rows=lambda x: [(0, x.shape[-2])]):
        yield
