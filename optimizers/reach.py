"""Warns if an optimizer applies its own rule to few parameters of a model.

A result then says little about the rule. A run (`harness/train/loop.py`) and `htbench zoo --routing` show the
same sentence, and the record of the run has its facts.
"""

from collections import Counter
from typing import Any, NamedTuple

from torch import Tensor
from torch.optim import Optimizer

from htbench.optimizers.base import UpdateRule
from htbench.optimizers.zoo.registry import ZOO


class Treatment(NamedTuple):
    """What updates a parameter: the class of an optimizer, and its `fallback` in words if that does it."""

    rule: str
    fallback: str = ""

    def __str__(self) -> str:
        return f"{self.rule} ({self.fallback})" if self.fallback else self.rule


class Reach(NamedTuple):
    """How few of the matrices and kernels of a model a rule trains in its own way; plain values, for records.

    Attributes:
        rule: its name.
        own: how many it trains so.
        matrices: how many there are.
        percent: of their entries.
        others: what the rest get, each with how many.
    """

    rule: str
    own: int
    matrices: int
    percent: float
    others: dict[str, int]

    def __str__(self) -> str:
        rest = ", ".join(f"{count} get {how}" for how, count in self.others.items())
        return (
            f"{self.rule} trains {self.own} of the {self.matrices} matrices and kernels of this model in its "
            f"own way ({self.percent:.2g} % of their entries); of the others {rest}."
        )


def little_reach(name: str, optimizer: Optimizer) -> Reach | None:
    """Return what the rule reaches if it trains few of the matrices and kernels in its own way, else None.

    Only parameters with two or more dimensions are counted. Few means less than half of them, or less than a
    quarter of their entries. The second limit is lower because many rules leave the embeddings and the head
    to AdamW, and these can be half of the entries. A parameter that the auxiliary AdamW trains, or a
    `fallback` of the rule, is not trained in the rule's own way.

    Args:
        name: the row of the zoo; of any other optimizer nobody knows.
        optimizer: the optimizer that `build` returned for this row.
    """
    if name not in ZOO:
        return None
    rule = ZOO[name].target.partition(":")[2]
    matrices = [(p, how) for p, how in treatments(optimizer).items() if p.ndim >= 2]
    ours = [p for p, how in matrices if how == (rule, "")]
    share = sum(p.numel() for p in ours) / (sum(p.numel() for p, _ in matrices) or 1)
    if 2 * len(ours) >= len(matrices) and (share >= 0.25 or not matrices):
        return None
    others = Counter(str(how) for _, how in matrices if how != (rule, "")).most_common()
    return Reach(name, len(ours), len(matrices), 100 * share, dict(others))


def treatments(optimizer: Optimizer) -> dict[Tensor, Treatment]:
    """Map each parameter to what updates it."""
    parts = getattr(optimizer, "parts", (optimizer,))
    groups = [(part, group) for part in parts for group in part.param_groups]
    return {p: _treatment(part, group, p) for part, group in groups for p in group["params"]}


def _treatment(part: Optimizer, group: dict[str, Any], p: Tensor) -> Treatment:
    return Treatment(type(part).__name__, part.fallback(p, group) if isinstance(part, UpdateRule) else "")
