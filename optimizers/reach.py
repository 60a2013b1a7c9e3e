"""How much of a model a rule trains in its own way: if little, a result says little about the rule.

A run (`harness/train/loop.py`) and `htbench zoo --routing` say the same sentence.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from optimizers.base import UpdateRule
from optimizers.zoo.registry import ZOO


def little_reach(name: str, optimizer: Optimizer) -> str:
    """One sentence if the rule trains few of the matrices and kernels in its own way, else nothing.

    Few are less than half of the parameters with two or more dimensions, or those with less than a quarter of
    the entries: embeddings and head alone, which many rules leave to AdamW, may well be half of the entries.
    A parameter that gets the auxiliary AdamW or a `fallback` of the rule is not trained in its own way.

    Args:
        name: the row of the zoo; for any other optimizer the sentence is empty.
        optimizer: what `build` made of it.
    """
    if name not in ZOO:
        return ""
    rule = ZOO[name].target.partition(":")[2]
    matrices = [(p, how) for p, how in treatments(optimizer).items() if p.ndim >= 2]
    ours = [p for p, how in matrices if how == rule]
    share = sum(p.numel() for p in ours) / (sum(p.numel() for p, _ in matrices) or 1)
    if 2 * len(ours) >= len(matrices) and (share >= 0.25 or not matrices):
        return ""
    others = Counter(how for _, how in matrices if how != rule).most_common()
    return (
        f"{name} trains {len(ours)} of the {len(matrices)} matrices and kernels of this model in its own way "
        f"({100 * share:.2g} % of their entries); of the others "
        f"{', '.join(f'{count} get {how}' for how, count in others)}."
    )


def treatments(optimizer: Optimizer) -> dict[Tensor, str]:
    """For every parameter the class of the optimizer that steps it, and its `fallback` if it has one."""
    parts = getattr(optimizer, "parts", (optimizer,))
    groups = [(part, group) for part in parts for group in part.param_groups]
    return {p: _treatment(part, group, p) for part, group in groups for p in group["params"]}


def _treatment(part: Optimizer, group: dict[str, Any], p: Tensor) -> str:
    words = part.fallback(p, group) if isinstance(part, UpdateRule) else ""
    return f"{type(part).__name__} ({words})" if words else type(part).__name__
