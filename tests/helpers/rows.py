"""Which optimizers a law is held against: eight of different kinds at every push, all with `-m slow`.

And the steps that a law compares.
"""

from collections.abc import Collection, Iterable

import pytest
import torch
from torch import Tensor, nn

from htbench.optimizers import ZOO

# Of torch, with weights of two kinds, with curvature; Muon, the paper's map, rows of one size;
# in a basis of the gradient, and with a projection that the routing decides.
EIGHT = {"adamw", "schedule_free", "sophia", "muon", "htmuon", "normuon", "soap", "galore"}
assert EIGHT <= ZOO.keys()


def of_rows(names: Iterable[str] = ZOO, quick: Collection[str] = EIGHT) -> pytest.MarkDecorator:
    """Parametrize a test with the names of rows; those that are not quick are slow."""
    marked = [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]
    return pytest.mark.parametrize("name", marked)


every_row = of_rows()


def walk(model: nn.Module, optimizer: torch.optim.Optimizer, steps: Iterable[int] = range(4)) -> list[Tensor]:
    """The weights after these steps, on gradients that depend on the step and the place in the model only."""
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        for p in model.parameters():
            p.grad = torch.randn(p.shape, generator=generator)
        optimizer.step()
    return [p.detach().clone() for p in model.parameters()]
