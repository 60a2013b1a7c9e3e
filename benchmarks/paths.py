"""How far the path of another package's class is from ours, for each row of `harness/bench/conversions.csv`.

    python -m benchmarks.paths [--small] [PACKAGE ...]

Both step the same weights with the same ten gradients, a common part and noise, at the rates of the row. The
difference is |theirs - ours| / |ours - start|, the largest over steps and shapes. On a CPU without bfloat16
arithmetic ours take sums in another order (`optimizers/spectral/products.py`), which moves a path by up to
7e-3 of the way: here they do as on one that has it, so that the rules are compared, not the roundings. The
square matrix then takes most of the time; `--small` leaves it out.
"""

import functools
import importlib.metadata
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest import mock

import numpy
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

sys.path.insert(0, str(Path(__file__).parents[1]))

from htbench import optimizers
from htbench.harness.bench.conversions import SHAPES, Conversion, conversions
from htbench.imported import allowed, load
from htbench.optimizers.modes import training
from htbench.optimizers.spectral import products
from htbench.optimizers.zoo import outside

LR, WEIGHT_DECAY, STEPS = 0.02, 0.1, 10


def installed(row: Conversion) -> bool:
    """Whether its package is here in the row's version; a build may have a suffix, as in 2.13.0+cpu."""
    try:
        return importlib.metadata.version(row.package).partition("+")[0] == row.version
    except importlib.metadata.PackageNotFoundError:
        return False


def difference(
    row: Conversion,
    shapes: Sequence[tuple[int, int]] = SHAPES,
    carried: Mapping[str, Any] = MappingProxyType({}),
) -> float:
    """The largest difference of the two paths.

    Args:
        row: of the table.
        shapes: of the matrices.
        carried: other values of the settings that both have, by their names in ours.
    """
    with mock.patch.object(products, "_NATIVE_BFLOAT16", True):
        return max(_of_shape(row, *shape, carried) for shape in shapes)


def _of_shape(row: Conversion, m: int, n: int, carried: Mapping[str, Any]) -> float:
    start, gradients = _problem(m, n)
    decay = 0.0 if row.theirs.get("weight_decay") == 0 else WEIGHT_DECAY
    factor = row.factor(m, n)
    theirs, ours = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    their_settings = {theirs: carried[ours] for theirs, ours in row.carried.items() if ours in carried}
    own = {**row.ours, **carried, "weight_decay": decay / factor}
    first = _theirs(row, theirs, {**row.theirs, **their_settings, row.rate_name: LR, "weight_decay": decay})
    second = training(optimizers.build(row.row, [("W", ours)], routing="matrix", lr=LR * factor, **own))
    differences = []
    for gradient in gradients:
        for weight, optimizer in ((theirs, first), (ours, second)):
            weight.grad = gradient.clone()
            optimizer.step()
        apart, way = (theirs - ours).detach().norm(), (ours - start).detach().norm()
        differences.append(float(apart / way) if way > 0 else float(apart))
    return max(differences)


@functools.cache
def _problem(m: int, n: int) -> tuple[Tensor, list[Tensor]]:
    generator = torch.Generator().manual_seed(0)
    start, common = (torch.randn(m, n, generator=generator) for _ in range(2))
    noise = (torch.randn(m, n, generator=generator) for _ in range(STEPS))
    return 0.02 * start, [0.01 * (0.3 * common + one) for one in noise]


def _theirs(row: Conversion, weight: nn.Parameter, settings: Mapping[str, Any]) -> Any:
    words = {key: _value(key, x) for key, x in settings.items()}
    if row.package in _OF_JAX:
        return _OF_JAX[row.package](row.name, weight, words)
    allowed.add(row.name)
    spec = outside.spec(row.name)
    assert spec is not None
    cls: Any = load(spec.target)
    made: Optimizer = cls([{"params": [weight], "use_muon": True}] if spec.flagged else [weight], **words)
    return training(made)


class _Optax:
    """A transformation of optax with a torch weight, which is transposed there."""

    def __init__(self, name: str, weight: nn.Parameter, settings: dict[str, Any]) -> None:
        made: Any = load(name)
        self.weight, self.rule = weight, made(**settings)
        self.state = self.rule.init(_array(weight))

    def step(self) -> None:
        """One update."""
        updates, self.state = self.rule.update(_array(self.weight.grad), self.state, _array(self.weight))
        self.weight.data.add_(torch.tensor(numpy.asarray(updates)).mT)


class _Keras:
    """An optimizer of keras on JAX, likewise."""

    def __init__(self, name: str, weight: nn.Parameter, settings: dict[str, Any]) -> None:
        os.environ["KERAS_BACKEND"] = "jax"
        made: Any = load(name)
        variable: Any = load("keras:Variable")
        self.weight, self.variable = weight, variable(_array(weight), name="w")
        self.rule = made(**settings)

    def step(self) -> None:
        """One update."""
        self.rule.apply([_array(self.weight.grad)], [self.variable])
        self.weight.data.copy_(torch.tensor(numpy.asarray(self.variable.value)).mT)


_OF_JAX = {"optax": _Optax, "keras": _Keras}


def _array(tensor: Tensor | None) -> Any:
    assert tensor is not None
    make: Any = load("jax.numpy:asarray")
    return make(tensor.detach().mT.numpy())


def _value(key: str, value: Any) -> Any:
    """A format by its name, and several numbers, as a constructor takes them."""
    if key.endswith("dtype") and isinstance(value, str):
        return getattr(torch, value)
    return tuple(value) if isinstance(value, list) else value


def main(words: Sequence[str]) -> None:
    """Print the difference of each row whose package is here, beside that of the table."""
    torch.set_num_threads(1)
    packages, shapes = {*words} - {"--small"}, SHAPES[:2] if "--small" in words else SHAPES
    for row in conversions():
        if installed(row) and (not packages or row.package in packages):
            apart = difference(row, shapes)
            print(f"{apart:9.1e} {row.difference:9.1e}  {row.package} {row.name} {row.theirs}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
