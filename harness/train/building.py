"""From a config to what a run trains: its model on its device, and its optimizer."""

import dataclasses
from typing import Any

import torch
from torch import nn
from torch.optim import AdamW, Optimizer

from htbench import models, optimizers
from htbench.harness.config import RunConfig, ScheduleConfig
from htbench.harness.config.groups import SCHEDULE
from htbench.harness.data.task import Task
from htbench.harness.errors import UsageError
from htbench.harness.parallel.batch_norm import synchronise
from htbench.harness.parallel.group import Group
from htbench.harness.train import eager, unfit
from htbench.optimizers.modes import training
from htbench.optimizers.transfer import Transfer


def build_model(config: RunConfig, task: Task, device: torch.device, group: Group) -> nn.Module:
    """The model with its first weights, which the run's seed decides.

    Args:
        config: of the run.
        task: its `model_options` are offered to the model, which takes those that it has a setting for.
        device: of the model.
        group: the processes of the run, over which BatchNorm may take its statistics.

    Raises:
        UsageError: the model can't compute activations again, as the config asks.
    """
    row = models.spec(config.model)
    offered: dict[str, Any] = task.model_options | ({"dropout": config.dropout} if config.dropout else {})
    torch.manual_seed(config.seed)
    model = models.build(
        config.model, **{name: x for name, x in offered.items() if row.outside or name in row.settings}
    )
    if (transfer := transfer_of(config, model)) is not None:
        transfer.initialise()
    if config.activation_checkpointing:
        if not hasattr(model, "recompute"):
            raise UsageError(
                f"The model '{config.model}' can't compute activations again (it has no attribute "
                f"`recompute`); remove activation_checkpointing."
            )
        model.recompute = True  # type: ignore[assignment]
    if config.sync_batch_norm:
        synchronise(model, group)
    return model.to(device, getattr(torch, config.precision.params))


def build_optimizer(config: RunConfig, model: nn.Module) -> Optimizer:
    """The optimizer of the config; its groups note their peak learning rate as `initial_lr`.

    Raises:
        UsageError: it can't train the model.
    """
    eager.without_compiler()
    try:
        optimizer = plain_optimizer(config, model)
    except Exception as error:  # a class from outside may raise anything
        told = unfit.explained(config, model, plain_optimizer, error)
        if told is error and isinstance(error, ValueError) and config.optimizer.groups:
            told = UsageError(f"The model '{config.model}' doesn't fit optimizer.groups: {error}.")
        raise told from None
    groups = optimizer.param_groups
    for group in groups:
        rate = group["lr"]
        if isinstance(rate, torch.Tensor) and sum(rate is other["lr"] for other in groups) > 1:
            group["lr"] = rate.clone()  # its schedule may be another one
        group["initial_lr"] = float(rate)
    return training(optimizer)


def plain_optimizer(config: RunConfig, model: nn.Module) -> Optimizer:
    """The optimizer of the config as its class makes it. The class may raise anything."""
    rule = config.optimizer
    named = rule.groups.items()
    return optimizers.build(
        rule.name,
        model,
        lr=rule.lr,
        weight_decay=rule.weight_decay,
        routing=rule.routing,
        aux_lr=rule.aux_lr,
        transfer=transfer_of(config, model),
        groups={name: {w: x for w, x in own.items() if w not in SCHEDULE} for name, own in named},
        **rule.hyper,
    )


def rate_schedules(config: RunConfig) -> dict[str | None, ScheduleConfig]:
    """The schedule of the learning rate by named group; that of all others by None."""
    found: dict[str | None, ScheduleConfig] = {None: config.schedule}
    for name, own in config.optimizer.groups.items():
        parts: dict[str, Any] = {field: own[word] for word, field in SCHEDULE.items() if word in own}
        found[name] = dataclasses.replace(config.schedule, **parts)
    return found


def transfer_of(config: RunConfig, model: nn.Module) -> Transfer | None:
    """What first values, rates and decays are multiplied with, if `parametrization` asks for it.

    Raises:
        UsageError: the model does not say what its parameters are for.
    """
    if config.base_width is None or config.base_depth is None:
        return None
    if not hasattr(model, "roles"):
        raise UsageError(f"The model '{config.model}' has no method `roles`; remove parametrization=mup.")
    sized: Any = model
    return Transfer(
        sized.roles(),
        width=sized.hidden / config.base_width,
        depth=len(sized.layers) / config.base_depth,
        head=sized.head_size / (config.base_head or sized.head_size),
    )


def scheduled_groups(config: RunConfig, optimizer: Optimizer, has_aux: bool) -> dict[str, list[int]]:
    """The numbers of the groups that the schedule of each scheduled hyperparameter sets.

    These are groups of the rule itself, not of an auxiliary AdamW, and not named ones. A group with a value
    of its own (weight decay 0 for vectors) keeps it.

    Args:
        config: of the run.
        optimizer: as `build_optimizer` made it.
        has_aux: whether an AdamW in it is an auxiliary one.

    Raises:
        UsageError: a hyperparameter has none. A class from outside need not keep its arguments in its groups.
    """
    parts = getattr(optimizer, "parts", ()) if has_aux else ()
    aux = [id(group) for part in parts if isinstance(part, AdamW) for group in part.param_groups]
    found: dict[str, list[int]] = {}
    for name, rule in config.schedule.hyper.items():
        exempt = name == "weight_decay" and config.optimizer.hyper.get("no_decay_1d")
        found[name] = [
            number
            for number, group in enumerate(optimizer.param_groups)
            if group.get(name) == rule["from"]
            and "group" not in group
            and id(group) not in aux
            and not (exempt and all(p.ndim < 2 for p in group["params"]))
        ]
        if not found[name]:
            raise UsageError(
                f"The optimizer '{config.optimizer.name}' has no '{name}' in its groups, so schedule.{name} "
                "can't set it; remove it."
            )
    return found
