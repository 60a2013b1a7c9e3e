"""How `build` makes an optimizer of a row of the zoo: groups are divided among its rule and an AdamW."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from torch import nn
from torch.optim import AdamW, Optimizer
from torch.optim.optimizer import ParamsT

from htbench.imported import load
from htbench.optimizers.base import UpdateRule
from htbench.optimizers.groups import Entry, Group, Model, entries, params_of, read_group, read_groups
from htbench.optimizers.hybrid import Hybrid
from htbench.optimizers.routing import Routing, named_groups, taker
from htbench.optimizers.states import refuse_others
from htbench.optimizers.transfer import Transfer, steps_of
from htbench.optimizers.zoo import outside
from htbench.optimizers.zoo.grouped import Groups
from htbench.optimizers.zoo.grouped import params_of as params_of_group
from htbench.optimizers.zoo.registry import OptimizerSpec, resolve, resolve_value, spec
from htbench.optimizers.zoo.spec import STEP

Settings = dict[str, Any]
Share: TypeAlias = "tuple[list[Entry], Settings]"  # some parameters, and the settings that only they have


def assemble(
    row: OptimizerSpec,
    given: Model,
    routing: Routing,
    settings: Settings,
    named: Groups,
    transfer: Transfer | None,
) -> Optimizer:
    """Build the optimizer of a row from checked settings; `optimizers.build` is the way in.

    A rule that treats all parameters alike is returned as it is. Any other comes as a `Hybrid`, even if it
    takes all of them now: groups that are added later are then divided like the first ones.

    Raises:
        ValueError: a named group has no parameter, or something is refused.
    """
    if transfer is not None:
        steps_of(row.name, settings)  # refuses what it has no rule for
    if row.outside and not row.routed and not named:
        return _outside(row, given, settings)
    recipe = Recipe(row, given if isinstance(given, nn.Module) else None, routing, settings, named, transfer)
    groups = [group for group in read_groups(given) if group["params"]]
    optimizer = Hybrid(groups=groups, divide=recipe.divide)
    if missing := named.keys() - {group.get("group") for group in optimizer.param_groups}:
        raise ValueError(f"no parameter is in the group {min(missing)!r}")
    alike = not row.routed and not named and not settings.get("no_decay_1d")
    if not alike:
        return optimizer
    (alone,) = optimizer.parts
    if isinstance(alone, UpdateRule):  # a group that is added later has these, too
        alone.defaults |= _list_step_words(settings)
    else:
        alone.register_load_state_dict_pre_hook(refuse_others)
    return alone


def _outside(row: OptimizerSpec, given: Model, settings: Settings) -> Optimizer:
    """A class from outside gets all parameters, by their groups if they have any, and its own settings."""
    groups = [group for group in read_groups(given) if group["params"]]
    plain = [{**group, "params": [p for _, p in entries(group["params"])]} for group in groups]
    left_out = {"aux_lr"} if row.has_weight_decay else {"aux_lr", "weight_decay"}
    own = {key: value for key, value in settings.items() if key not in left_out}
    if row.flagged:
        plain = [part for group in plain for part in _flagged(group)]
    return outside.build(row, plain[0]["params"] if len(plain) == 1 and len(plain[0]) == 1 else plain, own)


def _flagged(group: Group) -> Iterator[Group]:
    """The matrices of a group, and its vectors, each with the `use_muon` that their class asks for."""
    for matrices in (True, False):
        if some := [p for p in group["params"] if (p.ndim >= 2) == matrices]:
            yield {"use_muon": matrices, **group, "params": some}


def _marks(row: OptimizerSpec) -> Settings:
    """What each group of a class from outside says beside its parameters."""
    return {"use_muon": True} if row.flagged else {}


@dataclass(frozen=True)
class Recipe:
    """How a row of the zoo divides a group of parameters.

    Args:
        row: of the zoo.
        model: what `build` was given, if that is a module.
        routing: see `split_parameters`.
        settings: `lr`, `weight_decay`, `aux_lr` and all hyperparameters; a group may have its own.
        named: the named groups, as `optimizers.zoo.grouped.resolve` makes them. Their pieces have their name
            as `group`.
        transfer: the factors of each parameter's rate and decay; None: all are 1.
    """

    row: OptimizerSpec
    model: nn.Module | None
    routing: Routing
    settings: Settings
    named: Groups
    transfer: Transfer | None = None

    def divide(self, group: Group) -> list[tuple[partial[Optimizer], Group]]:
        """The pieces of a group, each with the constructor of the optimizer that it goes to.

        Raises:
            ValueError: the routing, a parameter or a hyperparameter of the group is refused.
        """
        group = read_group(group)
        found = entries(group.pop("params"))
        own, others = self._read(group)
        settings = self.settings | own
        found, named = self._by_group(found)
        chosen, rest = self._split(found, settings)
        if self.row.has_aux and rest and not chosen and "lr" in own and "aux_lr" not in own:
            raise ValueError(
                "all parameters of this group go to the auxiliary AdamW: give its learning rate as aux_lr, "
                f"not as lr={own['lr']:g}"
            )
        rule, aux = _of_rule(self.row, settings), _aux(settings) if self.row.has_aux else {}
        make = _maker(self.row, self.settings | own if self.row.outside else self.settings)
        common = _marks(self.row) if self.row.outside else rule | _words(self.row, settings)
        pieces = [(make, common, share) for share in self._of_rule(chosen, rest, settings)]
        pieces += [(self._make_aux(), aux, share) for share in self._of_aux(rest, settings)]
        pieces += [_piece_of(name, ours, dict(self.named[name])) for name, ours in named.items()]
        return [
            (make, {**others, "params": params_of(some), **own})
            for make, common, (ours, special) in pieces
            for some, own in self._scaled(make, ours, {**common, **special})
            if some
        ]

    def _scaled(self, make: partial[Optimizer], ours: list[Entry], settings: Settings) -> Iterable[Share]:
        """The parameters of a piece with all of their settings, which `transfer` makes several."""
        if self.transfer is None:
            return [(ours, settings)]
        named = self.named.get(settings.get("group", ""))
        rule = named["optimizer"] if named else "adamw" if make.func is AdamW else self.row.name
        return self.transfer.divide(
            ours, settings, steps_of(rule, settings), getattr(make.func, "scale", None)
        )

    def _by_group(self, found: list[Entry]) -> tuple[list[Entry], dict[str, list[Entry]]]:
        """The parameters without a named group, and those of each."""
        if not self.named:
            return found, {}
        group_of = named_groups(self.model, self.named)
        of = [(group_of(entry), entry) for entry in found]
        return [entry for name, entry in of if name is None], {
            name: [entry for own, entry in of if own == name] for name in self.named
        }

    def _read(self, group: Group) -> tuple[Settings, Settings]:
        """The checked hyperparameters of a group, and its other keys, which stay in it as in torch.optim."""
        row = self.row
        known = {"lr": row.lr, "weight_decay": row.weight_decay, "aux_lr": row.aux_lr, **row.params}
        own = {key: resolve_value(known[key], key, group[key]) for key in known if key in group}
        others = {key: value for key, value in group.items() if key not in known}
        for key in others.keys() & {*row.fixed, *(("betas", "eps") if row.has_aux else ())}:
            resolve(row.name, {key: others[key]})  # refuses what would change the numbers of a part unseen
        return own, others

    def _split(self, found: list[Entry], settings: Settings) -> tuple[list[Entry], list[Entry]]:
        if not self.row.routed or settings.get("optimize_1d"):
            return found, []
        takes = taker(self.model, self.routing, self.row.released)
        taken = [takes(entry) for entry in found]
        both = list(zip(found, taken, strict=True))
        return [entry for entry, yes in both if yes], [entry for entry, yes in both if not yes]

    def _of_rule(self, chosen: list[Entry], rest: list[Entry], settings: Settings) -> Iterator[Share]:
        if settings.get("no_decay_1d"):
            yield from _without_decay_of_vectors(chosen)
        elif settings.get("fused", "whole") == "split":
            yield from _by_projections(self.model, chosen)
        else:
            yield chosen, {}
        if self.row.rest:
            yield rest, dict(self.row.rest)

    def _of_aux(self, rest: list[Entry], settings: Settings) -> Iterator[Share]:
        if not self.row.has_aux:
            return
        if settings.get("aux_no_decay_1d"):
            yield from _without_decay_of_vectors(rest)
        else:
            yield rest, {}

    def _make_aux(self) -> partial[Optimizer]:
        make: Callable[..., Optimizer] = AdamW
        return partial(make, fused=True, **_aux(self.settings))


def class_of(row: OptimizerSpec, name: str, module: str) -> type[Optimizer]:
    """The class of a row of the zoo, for who divides the parameters: its defaults are those of the row.

    Args:
        row: of the zoo, with a class of ours.
        name, module: what the class is called, and the module that has it; a pickled instance finds it there.
    """
    rule: Any = load(row.target)
    defaults = _of_rule(row, {key: param.default for key, param in params_of_group(row).items()})
    lr = defaults.pop("lr")

    def construct(self: Optimizer, params: ParamsT, lr: float = lr, **settings: Any) -> None:
        rule.__init__(self, params, lr=lr, **defaults | settings)

    others = {key: value for key, value in defaults.items() if value != rule.table[key].default}
    settings = ", ".join(f"{key}={value!r}" for key, value in others.items())
    about = f"`{rule.__name__}` with {settings}.\n\nSource: {row.paper}; {row.url}"
    own = {"__init__": construct, "__doc__": about, "__module__": module, "row": row.name}
    return type(name, (rule,), own)


def _of_rule(row: OptimizerSpec, settings: Settings) -> Settings:
    """The arguments of a rule's class."""
    return {**row.fixed, **{key: settings[key] for key in params_of_group(row)}}


def _maker(row: OptimizerSpec, settings: Settings) -> partial[Optimizer]:
    rule: Any = load(row.target)
    return partial(rule, **_of_rule(row, settings))


def _piece_of(name: str, ours: list[Entry], own: Settings) -> tuple[partial[Optimizer], Settings, Share]:
    """A named group. A class from outside may read a setting when it is built only, so it gets no other."""
    row = spec(own["optimizer"])
    common = _marks(row) if row.outside else _of_rule(row, own) | _words(row, own)
    return _maker(row, own), common, (ours, {"group": name})


def _list_step_words(settings: Settings) -> Settings:
    """What `optimizers.steps` is told, if it is told something."""
    return {key: x for key, param in STEP.items() if (x := settings.get(key, param.default)) != param.default}


def _words(row: OptimizerSpec, settings: Settings) -> Settings:
    """The name of a rule of ours, and what `optimizers.steps` is told, if it is told something."""
    is_ours = row.target.startswith("htbench.optimizers.")
    return _list_step_words(settings) | ({"rule_name": row.name} if is_ours else {})


def _aux(settings: Settings) -> Settings:
    """The arguments of the auxiliary AdamW."""
    # That of the rule, unless it has its own; a class from outside may have none at all.
    decays = (settings["aux_weight_decay"], settings["weight_decay"], 0.0)
    return {
        "lr": settings["aux_lr"],
        "betas": settings["aux_betas"],
        "eps": settings["aux_eps"],
        "weight_decay": next(decay for decay in decays if decay is not None),
    }


def _by_projections(model: nn.Module | None, found: list[Entry]) -> Iterator[Share]:
    """By the number of projections that a matrix holds, which a model tells by `fused_projections`."""
    find: Callable[[], dict[nn.Parameter, int]] | None = getattr(model, "fused_projections", None)
    blocks = find() if find is not None else {}
    for count in sorted({blocks.get(p, 1) for _, p in found}):
        yield [entry for entry in found if blocks.get(entry[1], 1) == count], {"blocks": count}


def _without_decay_of_vectors(found: list[Entry]) -> Iterator[Share]:
    yield [entry for entry in found if entry[1].ndim >= 2], {}
    yield [entry for entry in found if entry[1].ndim < 2], {"weight_decay": 0.0}
