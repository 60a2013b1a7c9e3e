"""What maps are meant to make of singular values S, where that is not S^p: the truth of `htbench bench maps`.

Each is the f that its authors name, without what their iteration makes of small singular values. Defaults of
the hyperparameters; up to a factor, which `Map.scaled` takes out. Without torch at import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from optimizers.zoo.param import Param

if TYPE_CHECKING:
    from torch import Tensor

# (S, the values in descending order, the hyperparameters of maps by name) -> f(S)
Shape: TypeAlias = "Callable[[Tensor, Mapping[str, Param]], Tensor]"


def ranks(values: Tensor, of: Mapping[str, Param]) -> Tensor:
    """i^-alpha, HTMuon_HT."""
    alpha: Any = of["rank_exponent"].default
    places: Tensor = (values > -1).to(values).cumsum(-1)
    return places.pow(-alpha)


def soft_muon(values: Tensor, of: Mapping[str, Param]) -> Tensor:
    """S^.1, Soft-Muon."""
    return values.pow(0.1)


def contra_muon(values: Tensor, of: Mapping[str, Param]) -> Tensor:
    """1 - contra x with x = S / ||S||_4, Contra-Muon."""
    contra: Any = of["contra"].default
    return _unit(values).mul(-contra).add(1)


def soft_polar(values: Tensor, of: Mapping[str, Param]) -> Tensor:
    """1 - s + s x, Soft-polar, where the x have the 4-norm of as many ones."""
    s: Any = of["softening"].default
    return _unit(values).mul(s * len(values) ** 0.25).add(1 - s)


def _unit(values: Tensor) -> Tensor:
    return values / values.pow(4).sum().pow(0.25)


SHAPES: Final[dict[str, Shape]] = {
    "rank_power": ranks,
    "soft_muon": soft_muon,
    "contra_muon": contra_muon,
    "soft_polar": soft_polar,
}
