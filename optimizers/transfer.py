"""Rates and decay that hold at every width and depth: muP, with CompleteP for depth. Torch-free.

A factor a on the output of a layer acts like first weights a times as large with steps a times as large. So
first values and steps do it all: the model's code, its speed and its exported form stay what they are.

With m = width / base width, l = depth / base depth, c = sqrt(base head size / head size), and s the factor
that Muon's `scale_rule` gives the matrix, s0 at the base width:

    role            first values     Adam      SGD     Muon
    embedding       1                1         m       e s0/s, with e such that entries move as at the base
    vector          1                1         m       -
    inner vector    1                1         m l     -
    hidden          m^-1/2           1/m       l       s0/s
    query           c m^-1/2         c/m       c^2 l   c s0/s
    branch          m^-1/2 / l       1/(m l)   1/l     s0/(s l)
    head            1/m              1/m       1/m     m^-1/2 s0/s

A decay is divided by what its rate is multiplied with: each step takes the same part off. Adam's eps follows
the gradients.

Source: Yang et al., "Tensor programs V" (https://arxiv.org/abs/2203.03466), table 8, and
https://github.com/microsoft/mup (Adam, SGD, decay, head sizes); Dey et al., "CompleteP"
(https://arxiv.org/abs/2505.01618), table 1 with alpha = 1 (depth, eps); Yang, Simon and Bernstein, "A
spectral condition for feature learning" (https://arxiv.org/abs/2310.17813) for Muon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from htbench.optimizers.zoo.registry import spec

if TYPE_CHECKING:
    from torch import nn

    from htbench.optimizers.groups import Entry

Scale: TypeAlias = "Callable[..., float]"

INNER = ("hidden", "query", "branch")  # matrices with both sides as wide as the model
_LIKE_ADAM = ("adam", "adamw", "cautious", "lion", "mars", "signum")  # an entry of a step has the size of lr
_ORTHOGONAL = ("htbench.optimizers.muon:Muon", "htbench.optimizers.muon:NorMuon")


def steps_of(name: str, settings: Mapping[str, Any]) -> str:
    """How the steps of an optimizer depend on shapes: as those of "adam", "sgd" or "muon".

    Raises:
        ValueError: nobody has worked it out for this one.
    """
    if name in _LIKE_ADAM:
        return "adam"
    if name == "sgdm":
        return "sgd"
    scaled_by = {**spec(name).fixed, **settings}.get("scale_rule")
    if spec(name).target in _ORTHOGONAL and scaled_by != "nuclear":  # which grows with the gradient
        return "muon"
    raise ValueError(
        f"parametrization=mup has no rule for {name!r}; it has rules for {', '.join(_LIKE_ADAM)}, sgdm and "
        "what is built on Muon or NorMuon, with a scale_rule that depends on shapes only"
    )


@dataclass(frozen=True)
class Transfer:
    """The factors for one model.

    Args:
        roles: of every parameter, a word of the table above.
        width: m.
        depth: l.
        head: head size / base head size.
    """

    roles: Mapping[nn.Parameter, str]
    width: float
    depth: float
    head: float = 1.0

    def initialise(self) -> None:
        """Multiply the first values, which are those of the base width and depth."""
        for p, role in self.roles.items():
            p.data.mul_(self._output(role) * (self.width**-0.5 if role in INNER else 1))

    def divide(
        self, found: list[Entry], settings: dict[str, Any], steps: str, scale: Scale | None = None
    ) -> Iterator[tuple[list[Entry], dict[str, Any]]]:
        """Parameters of one group by their factors, each with the settings of the group times those.

        Args:
            found: the parameters.
            settings: of the group; `lr`, `weight_decay` and, of steps like Adam's, `eps` change.
            steps: as `steps_of` says.
            scale: of a rule like Muon, the factor s of a matrix from its sides and the settings.
        """
        alike: dict[tuple[float, float], list[Entry]] = {}
        for entry in found:
            alike.setdefault(self._factors(entry[1], settings, steps, scale), []).append(entry)
        for (rate, eps), some in alike.items():
            factors = {"lr": rate, "weight_decay": 1 / rate, "eps": eps}
            yield some, settings | {key: settings[key] * x for key, x in factors.items() if key in settings}

    def _output(self, role: str) -> float:
        """a: of the logits, of what a block adds to the residual stream, of attention's scores."""
        outputs = {"head": 1 / self.width, "branch": 1 / self.depth, "query": 1 / math.sqrt(self.head)}
        return outputs.get(role, 1.0)

    def _factors(
        self, p: nn.Parameter, settings: Mapping[str, Any], steps: str, scale: Scale | None
    ) -> tuple[float, float]:
        """The factors of the rate and of eps."""
        role = self.roles[p]
        a, m = self._output(role), self.width
        inner = self.depth if role in INNER or role == "inner vector" else 1.0
        if steps == "adam":
            return a / m if role in INNER else a, 1 / (m * inner * a)
        if steps == "sgd":
            return a * a * inner * (1 if role in INNER else m), 1.0
        assert scale is not None
        return a * self._of_orthogonal(role, p.shape[0], p.shape[1], partial(scale, group=settings)), 1.0

    def _of_orthogonal(self, role: str, rows: int, columns: int, scale: Scale) -> float:
        base = rows / self.width if role in INNER else rows, columns / self.width
        same: float = scale(*base) / scale(rows, columns)
        if role == "embedding":  # a token picks one row, so the entries count
            return same * math.sqrt(max(rows, columns) / max(base))
        return same * math.sqrt(self.width) if role == "head" else same
