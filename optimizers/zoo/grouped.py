"""Named groups of parameters: what they are called, and what a group's settings say beside the rest.

A group is trained by an optimizer of its own, `{"embedding": {"optimizer": "adamw", "lr": 0.003}}`, with the
words of that optimizer: `lr` of a group is the learning rate of whoever trains it. Standard library only.
"""

from collections.abc import Mapping
from typing import Any, Final

from htbench.optimizers.zoo.param import Param, Value, resolve_value
from htbench.optimizers.zoo.registry import nearest, spec
from htbench.optimizers.zoo.spec import STEP, OptimizerSpec

Groups = Mapping[str, Mapping[str, Any]]  # by name, then by setting

# Any other name is a pattern of parameters' names, as a shell has it.
KINDS: Final = {
    "embedding": "weights of embeddings, those that are tied to the head among them",
    "head": "the layer that makes the logits",
    "vectors": "gains and biases: fewer than two dimensions",
    "kernels": "of convolutions: more than two dimensions",
    "matrices": "all others",
}


def is_name(name: str) -> bool:
    """Whether a group can be called so."""
    return name in KINDS or any(sign in name for sign in "*?[")


def params_of(row: OptimizerSpec) -> dict[str, Param]:
    """The hyperparameters of a group that this optimizer trains."""
    decay = {"weight_decay": row.weight_decay} if row.has_weight_decay else {}
    return {"lr": row.lr, **decay, **{n: p for n, p in row.params.items() if p.used_by == "rule"}}


def resolve(row: OptimizerSpec, given: Groups, around: Mapping[str, Any]) -> dict[str, dict[str, Value]]:
    """The groups with every default written in.

    What a group leaves open is as for the parameters around it: a group that the auxiliary AdamW trains has
    its settings, one of the main optimizer those of that, one of another optimizer that one's defaults. Who
    trains a group that does not say it: the main optimizer matrices and kernels, and all if it has no
    auxiliary AdamW; the others AdamW, and a pattern must say it then.

    Args:
        row: of the main optimizer.
        given: the groups.
        around: `lr`, `weight_decay`, `aux_lr` and all hyperparameters of the main optimizer.

    Raises:
        ValueError: one sentence that names the group, the value and what is allowed.
    """
    return {name: _resolve(row, name, dict(own), around) for name, own in sorted(given.items())}


def _resolve(
    row: OptimizerSpec, name: str, own: dict[str, Any], around: Mapping[str, Any]
) -> dict[str, Value]:
    if not is_name(name):
        raise ValueError(
            f"there is no group {name!r}; it must be one of {', '.join(KINDS)}, or a pattern of parameters' "
            f"names such as '*.{name}.*'"
        )
    rule = str(own.pop("optimizer", None) or usual(row, name))
    taker = row if rule == row.name else spec(rule)
    known = params_of(taker) | (STEP if taker.shaped else {})
    for key in own:
        if key not in known:
            hint = nearest(key, known)
            raise ValueError(f"groups.{name} is trained by {rule}, which has no {key!r}; {hint}")
    of_aux = rule == "adamw" and row.has_aux
    beside = {**(around if taker is row else _of_aux(around) if of_aux else {}), **own}
    found: dict[str, Value] = {}
    for key, param in known.items():
        value = beside.get(key)
        found[key] = resolve_value(param, f"groups.{name}.{key}", param.default if value is None else value)
    settings = {**taker.fixed, **found}
    inert = {key: param.default for key, param in known.items() if param.is_inert(settings)}
    unsaid = {key for key, param in STEP.items() if found.get(key) == param.default}
    return {"optimizer": rule, **{key: x for key, x in (found | inert).items() if key not in unsaid}}


def usual(row: OptimizerSpec, name: str) -> str:
    """Who trains a group that does not say it. Raises ValueError for a pattern beside an auxiliary AdamW."""
    if not row.has_aux or name in ("matrices", "kernels"):
        return row.name
    if name not in KINDS:
        raise ValueError(f"groups.{name} must say its optimizer: {row.name}, adamw or another one")
    return "adamw"


def _of_aux(around: Mapping[str, Any]) -> dict[str, Any]:
    decay = around["aux_weight_decay"]
    return {
        "lr": around["aux_lr"],
        "betas": around["aux_betas"],
        "eps": around["aux_eps"],
        "weight_decay": around["weight_decay"] if decay is None else decay,
    }
