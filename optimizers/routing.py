"""Which parameters a rule takes: by shape, by the kind of module, or by a function of the user.

A matrix rule cannot take norm gains and biases. Each parameter gets one rule, which its parameter group
shows.
"""

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from torch import nn

from htbench.optimizers.groups import Entry, Model, entries
from htbench.optimizers.zoo.grouped import KINDS
from htbench.optimizers.zoo.registry import ROUTING, resolve_value

Predicate = Callable[[str, nn.Parameter], bool]
Routing: TypeAlias = "str | Predicate"
Takes = Callable[[nn.Parameter], bool]


def split_parameters(
    model: Model, routing: Routing, released: str = "matrix"
) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Divide the trainable parameters into those of the rule and the rest; a tied weight counts once.

    Args:
        model: a module, parameters, or (name, parameter) pairs.
        routing: "matrix" sends every parameter with two or more dimensions to the rule; "hidden" leaves out
            embeddings (by module type) and the output layer (what the model's method `get_output_embeddings`
            returns, if it has one); "released" does as the optimizer's authors did; or a predicate
            (name, parameter) -> bool.
        released: what "released" stands for, a key of `ROUTES`.

    Raises:
        ValueError: unknown routing, a predicate for parameters without names, or a routing that goes by the
            modules without the module.
    """
    takes = taker(model, routing, released)
    pairs = model.named_parameters() if isinstance(model, nn.Module) else model
    chosen: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    for entry in entries(pairs):
        if entry[1].requires_grad:
            (chosen if takes(entry) else rest).append(entry[1])
    return chosen, rest


def taker(model: object, routing: Routing, released: str) -> Callable[[Entry], bool]:
    """The routing as a function; a model that has changed since must be asked anew.

    Raises:
        ValueError: as `split_parameters`, a predicate's missing names when the function is called.
    """
    if callable(routing):
        return _by_name(routing, model)
    resolve_value(ROUTING, "routing", routing)
    word = released if routing == "released" else routing
    if word in _BY_MODULE and not isinstance(model, nn.Module):
        raise ValueError(
            f"routing {routing!r} must see the modules: pass the model, or a predicate as routing"
        )
    takes = ROUTES[word](model)
    return lambda entry: takes(entry[1])


def named_groups(model: Any, names: Iterable[str]) -> Callable[[Entry], str | None]:
    """Which of some named groups a parameter is in, as a function of its entry.

    A pattern goes before a kind. A weight that an embedding and the head share is of the embedding.

    Args:
        model: a module, if there is one; without it embeddings and head can't be told from matrices.
        names: kinds of `optimizers.zoo.grouped`, or patterns of parameters' names.

    Raises:
        ValueError: a kind is asked for that goes by modules, without the module; the function, if a parameter
            fits two patterns, or has no name.
    """
    kinds = [name for name in names if name in KINDS]
    patterns = [name for name in names if name not in KINDS]
    whole = isinstance(model, nn.Module)
    if not whole and (blind := {"embedding", "head"}.intersection(kinds)):
        raise ValueError(f"the group {min(blind)!r} must see the modules: pass the model")
    embeddings, output = (_embeddings(model), _output(model)) if whole else (set(), set())
    known = {p: name for name, p in model.named_parameters()} if whole else {}

    def kind(p: nn.Parameter) -> str:
        if p.ndim < 2:
            return "vectors"
        if p in embeddings:
            return "embedding"
        return "head" if p in output else "kernels" if p.ndim > 2 else "matrices"

    def group_of(entry: Entry) -> str | None:
        name, p = entry
        if patterns:
            name = known.get(p, name)
            if name is None:
                raise ValueError("parameters need names here: pass the model or model.named_parameters()")
            fits = [pattern for pattern in patterns if fnmatchcase(name, pattern)]
            if len(fits) > 1:
                raise ValueError(f"the parameter {name!r} fits two groups, {fits[0]!r} and {fits[1]!r}")
            if fits:
                return fits[0]
        found = kind(p)
        return found if found in kinds else None

    return group_of


def _by_name(predicate: Predicate, model: object) -> Callable[[Entry], bool]:
    known = {p: name for name, p in model.named_parameters()} if isinstance(model, nn.Module) else {}

    def takes(entry: Entry) -> bool:
        name, p = entry
        name = known.get(p) if name is None else name
        if name is None:
            raise ValueError("parameters need names here: pass the model or model.named_parameters()")
        return predicate(name, p)

    return takes


def _matrix(model: Any) -> Takes:
    return lambda p: p.ndim >= 2


def _all(model: Any) -> Takes:
    return lambda p: True


def _two_dimensional(model: Any) -> Takes:
    return lambda p: p.ndim == 2


def _hidden(model: nn.Module) -> Takes:
    ends = _embeddings(model) | _output(model)
    return lambda p: p.ndim >= 2 and p not in ends


def _not_output(model: nn.Module) -> Takes:
    output = _output(model)
    return lambda p: p.ndim >= 2 and p not in output


def _hidden_linear(model: nn.Module) -> Takes:
    output = _output(model)
    linear = {m.weight for m in model.modules() if isinstance(m, nn.Linear)}
    return lambda p: p in linear and p not in output


# What a rule takes. The first two are words for users (`ROUTING`), the others are what some authors did.
ROUTES: dict[str, Callable[[Any], Takes]] = {
    "matrix": _matrix,
    "hidden": _hidden,
    "all": _all,
    "two_dimensional": _two_dimensional,  # MARS: a kernel goes to AdamW
    "not_output": _not_output,  # AdaMuon
    "hidden_linear": _hidden_linear,  # GaLore
}
_BY_MODULE = {"hidden", "not_output", "hidden_linear"}


def _embeddings(model: nn.Module) -> set[nn.Parameter]:
    modules = [m for m in model.modules() if isinstance(m, (nn.Embedding, nn.EmbeddingBag))]
    return {p for m in modules for p in m.parameters()}


def _output(model: nn.Module) -> set[nn.Parameter]:
    """Parameters of the layer that makes the logits, which a model names by `get_output_embeddings`."""
    find: Callable[[], nn.Module | None] | None = getattr(model, "get_output_embeddings", None)
    output = find() if find is not None else None
    return set(output.parameters()) if output is not None else set()
