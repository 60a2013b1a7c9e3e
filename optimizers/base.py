"""The one loop over parameters that all our optimizers share, and helpers to write their bodies with."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, overload

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from htbench.optimizers import watch
from htbench.optimizers.stacks import Stack, divide, gather, scatter
from htbench.optimizers.states import check_state, name_rule
from htbench.optimizers.steps import Update, shaped
from htbench.optimizers.zoo.param import Param, resolve_value
from htbench.optimizers.zoo.spec import STEP

_NO_HYPERPARAMETERS = ("self", "__class__", "params")  # the other names in a constructor's locals()


class UpdateRule(torch.optim.Optimizer):
    """W <- W - lr (weight_decay W + direction), for each parameter W that has a gradient.

    A subclass is its `direction`, a constructor and the `table` of what it takes; `step` is never overridden.
    A rule that has a kernel for all of the line above overrides `update` instead of `direction`. A group with
    `decay` has the step of a rule made in another way, see `steps.shaped`.

    Args:
        params: parameters, or group dicts, as for any `torch.optim.Optimizer`.
        defaults: every hyperparameter by name, including `lr` and `weight_decay` (decoupled). A constructor
            may pass its `locals()`: `self` and `params` are left out. Values are plain, so that a state_dict
            loads with `weights_only=True`.

    Attributes:
        table: type and range of every hyperparameter.
        separable: whether a step of one parameter depends on nothing of the others. Several processes may
            then step some of the parameters each.
        shaped: whether a step does not depend on W but for the decay, so that a group may have those words.
        reads_rates: whether `direction` depends on lr or the weight decay.
        stacked: whether parameters of one shape step as one stack, where the rule can; None: where it is
            faster.

    Raises:
        ValueError: a hyperparameter is out of its range.
    """

    table: ClassVar[Mapping[str, Param]]
    separable: ClassVar[bool] = True
    shaped: ClassVar[bool] = True
    reads_rates: ClassVar[bool] = False
    stacked: bool | None = None

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        given = {name: x for name, x in defaults.items() if name not in _NO_HYPERPARAMETERS}
        super().__init__(params, {key: resolve_value(self.table[key], key, x) for key, x in given.items()})

    def direction(self, G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor | None:
        """The body of the paper's Algorithm block: what lr multiplies, without the weight decay.

        Args:
            G: the gradient, in the parameter's own shape and dtype; it must not be modified. A rule for
                matrices starts with `matrix_view(G, state)`; that is the rule's business because some treat
                vectors and kernels their own way. Where the rule is `stackable`, G may hold the gradients of
                several parameters of one shape along one more dimension, the first; `state` is then a
                `Stack`.
            state: what this parameter carries from step to step; empty at first.
            group: the hyperparameters.

        Returns:
            as many entries as G, in the shape of G or of its matrix view; or None, to leave the parameter
            alone in this step (the first one of SOAP).
        """
        raise NotImplementedError(f"{type(self).__name__} has neither direction nor update")

    def update(self, params: list[Tensor], G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Make the step of one parameter, or of the several of a stack, in place; see `direction`."""
        D = self.direction(G, state, group)
        if D is None:
            return
        watch.note(D, state)
        move(params, divide_direction(D, params), group)

    def stackable(self, group: dict[str, Any]) -> bool:
        """Whether `direction` or `update` takes a stack of parameters of this group."""
        return False

    def faster_stacked(self, W: Tensor, group: dict[str, Any]) -> bool:
        """Whether W, if `stackable`, had better step with others of its shape."""
        return W.is_cuda

    def shows_rounding(self, group: dict[str, Any]) -> bool:
        """Whether each step shows if a stack of matrices rounds as one matrix does.

        In bfloat16 most steps hide it, and what is done in every so many steps comes later.
        """
        return False

    def fallback(self, W: Tensor, group: dict[str, Any]) -> str:
        """What a parameter gets in place of the rule's own treatment, in a few words; empty if nothing."""
        return ""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters with hyperparameters of its own, as `torch.optim.Optimizer` does.

        Raises:
            ValueError: a hyperparameter is out of its range, or the rule does not take it.
        """
        known = {**self.table, **STEP}
        if not self.shaped and (words := param_group.keys() & STEP.keys()):
            raise ValueError(f"{type(self).__name__} has steps of its own: it takes no {min(words)}")
        for name in param_group.keys() & known.keys():
            param_group[name] = resolve_value(known[name], name, param_group[name])
        settings = self.defaults | param_group
        param_group["rule_name"] = name_rule(type(self), settings)
        if settings.get("decay") == "independent":
            param_group.setdefault("peak_lr", settings.get("initial_lr", settings["lr"]))
        super().add_param_group(param_group)

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update every parameter that has a gradient; return the loss of the closure, if one is given."""
        loss = evaluate(closure)
        for group in self.param_groups:
            for params in self.lists(group):
                self.step_list(params, group)
            self.conclude([W for W in group["params"] if W.grad is not None], group)
        return loss

    def lists(self, group: dict[str, Any]) -> Iterator[list[Tensor]]:
        """The parameters of a group that have a gradient, in lists that step as one."""
        moving = [W for W in group["params"] if W.grad is not None]
        return divide(moving, self.state, partial(self._stacks, group=group))

    def _stacks(self, W: Tensor, group: dict[str, Any]) -> bool:
        if not self.stackable(group):
            return False
        return self.faster_stacked(W, group) if self.stacked is None else self.stacked

    def step_list(self, params: list[Tensor], group: dict[str, Any]) -> None:
        """Update parameters of one kind, several of them as one stack."""
        states = [self.state[W] for W in params]
        gradients = [W.grad for W in params if W.grad is not None]
        watch.begin(params)
        update: Update = self.update if group.keys().isdisjoint(STEP) else partial(shaped, self.update)
        if len(params) == 1:
            update(params, gradients[0], states[0], group)
            return
        state = gather(states)
        update(params, torch.stack(gradients), state, group)
        scatter(state, states)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict` returned, every tensor in the precision that it was saved in.

        As in `torch.optim.Optimizer` all settings of a group come from the state, not from the constructor.

        Raises:
            ValueError: another rule wrote it; the sentence names both.
        """
        load_checked(self, super().load_state_dict, state_dict, [self] * len(self.param_groups))

    def conclude(self, moving: list[Tensor], group: dict[str, Any]) -> None:
        """Do what needs all parameters of a group that have a gradient, after each `update`. Only Prodigy."""

    def wants_curvature(self, step: int) -> bool:
        """Whether to call `observe_curvature` before update `step` (0-based). Only Sophia wants it."""
        return False

    def observe_curvature(self, batch_size: int) -> None:
        """Read a curvature estimate from `.grad`, after a backward pass on labels sampled from the model.

        Args:
            batch_size: number of predictions (tokens, images) that the loss is a mean of.
        """


def divide_direction(D: Tensor, params: Sequence[Tensor]) -> list[Tensor]:
    """What `UpdateRule.direction` gave for some parameters, for each in its shape."""
    if D.is_cuda:  # in one piece and one dtype, lest each part of a stack be added by a kernel of its own
        D = D.to(params[0].dtype).contiguous()
    return list(D.reshape(len(params), *params[0].shape).unbind())


def move(params: list[Tensor], directions: list[Tensor], group: dict[str, Any]) -> None:
    """W <- W - lr (weight_decay W + direction), in place."""
    shrink = 1 - group["lr"] * group["weight_decay"]
    if shrink != 1:
        torch._foreach_mul_(params, shrink)
    torch._foreach_add_(params, directions, alpha=-group["lr"])


def evaluate(closure: Callable[[], float] | None) -> float | None:
    """Run the closure of `Optimizer.step`, if there is one; it computes gradients."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def matrix_view(x: Tensor, state: Mapping[str, Any] | None = None) -> Tensor:
    """See a kernel (out, in, height, width) as the matrix (out, in height width); leave the rest as it is.

    Args:
        x: a parameter, its gradient or, if `state` is a `Stack`, those of several parameters.
        state: what `direction` got.
    """
    stacked = isinstance(state, Stack)
    return x.flatten(1 + stacked) if x.ndim > 2 + stacked else x


def kept(state: dict[str, Any], key: str, like: Tensor) -> Tensor:
    """Return state[key], which is zero at first, with the shape and the dtype of `like`."""
    if key not in state:
        state[key] = torch.zeros_like(like)
    found: Tensor = state[key]
    return found


def ema(state: dict[str, Any], key: str, value: Tensor, beta: float) -> Tensor:
    """Update state[key] <- beta state[key] + (1 - beta) value, from zero at first, and return it."""
    return kept(state, key, value).lerp_(value, 1 - beta)


def second_moment(state: dict[str, Any], key: str, value: Tensor, beta: float) -> Tensor:
    """Update state[key] <- beta state[key] + (1 - beta) value.value, from zero at first, and return it."""
    return kept(state, key, value).mul_(beta).addcmul_(value, value, value=1 - beta)


def load_checked(
    optimizer: torch.optim.Optimizer,
    load: Callable[[dict[str, Any]], None],
    state_dict: dict[str, Any],
    parts: Sequence[torch.optim.Optimizer],
) -> None:
    """Load a state that the same rules wrote, every tensor in the precision that it was saved in.

    Args:
        optimizer: that loads.
        load: the method of `torch.optim.Optimizer`.
        state_dict: what `load` gets.
        parts: for each group the optimizer that steps it.
    """
    loaded: list[dict[str, Any]] = []

    def check(_: torch.optim.Optimizer, given: dict[str, Any]) -> dict[str, Any]:
        loaded.append(check_state(parts, optimizer.param_groups, given))
        return loaded[-1]

    hook = optimizer.register_load_state_dict_pre_hook(check)  # the last: others may adapt a state
    try:
        load(state_dict)
    finally:
        hook.remove()
    restore_dtypes(optimizer, loaded[-1])


def restore_dtypes(optimizer: torch.optim.Optimizer, state_dict: dict[str, Any]) -> None:
    """Give the state of `optimizer` the precision it has in `state_dict`.

    `torch.optim.Optimizer.load_state_dict` casts it to that of the parameter, which rounds the float32 state
    of a bfloat16 parameter (the bases of SOAP), so that a resumed run would not go on bit for bit.
    """
    numbers = [i for group in state_dict["param_groups"] for i in group["params"]]
    params = [p for group in optimizer.param_groups for p in group["params"]]
    for i, p in zip(numbers, params, strict=True):
        _restore(optimizer.state[p], state_dict["state"].get(i, {}))


def _restore(loaded: dict[str, Any], saved: dict[str, Any]) -> None:
    for key, value in saved.items():
        if isinstance(value, dict):
            _restore(loaded[key], value)
        elif isinstance(value, Tensor) and value.dtype != loaded[key].dtype:
            loaded[key] = value.to(loaded[key].device, copy=True)
