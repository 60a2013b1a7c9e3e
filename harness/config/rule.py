"""The optimizer of a run, with every default and the schedules of its hyperparameters. Torch-free."""

from __future__ import annotations

import dataclasses

import optimizers
from harness.config import OptimizerConfig, Value, hyper_schedules
from harness.errors import UsageError, nearest
from optimizers.zoo.registry import UNSET, OptimizerSpec, Param, resolve_value


def resolve_rule(
    optimizer: OptimizerConfig,
    hyper: dict[str, Value],
    given: hyper_schedules.Schedules,
    adamw_lr: float,
) -> tuple[OptimizerConfig, hyper_schedules.Schedules]:
    """The optimizer with every default, and the schedules of its hyperparameters.

    Args:
        optimizer: its fields as given; of an empty one the row's default is taken.
        hyper: its hyperparameters, as given.
        given: the parts of their schedules, as given.
        adamw_lr: of the task, for the parameters that an auxiliary AdamW trains.

    Raises:
        UsageError: a hyperparameter or a schedule that the optimizer does not have.
        ValueError: a value out of its range.
    """
    row = optimizers.spec(optimizer.name)
    own = {field.name for field in dataclasses.fields(OptimizerConfig)} - {"hyper"}
    for name in hyper:
        if name not in row.params:
            raise UsageError(
                f"Unknown setting 'optimizer.{name}' for {row.name}; {nearest(name, own | set(row.params))}"
            )

    def value_or_default(param: Param, name: str, value: Value) -> Value:
        return resolve_value(param, f"optimizer.{name}", param.default if value is None else value)

    if optimizer.weight_decay and not row.has_weight_decay:
        raise UsageError(
            f"{row.name} has no weight decay; remove optimizer.weight_decay={optimizer.weight_decay:g}."
        )
    decay = optimizer.weight_decay if row.has_weight_decay else None
    schedules = hyper_schedules.resolve(row, given, {**hyper, "weight_decay": decay})
    first = {name: one["from"] for name, one in schedules.items()}
    first_decay = first.pop("weight_decay", decay)
    hyper, kept = _without_inert(row, optimizers.resolve(row.name, hyper | first), schedules)
    resolved = dataclasses.replace(
        optimizer,
        lr=value_or_default(row.lr, "lr", optimizer.lr),
        weight_decay=value_or_default(row.weight_decay, "weight_decay", first_decay),
        # Where one rule takes every parameter, routing and aux_lr change nothing and must not split the key.
        routing=optimizer.routing if row.routed else OptimizerConfig.routing,
        aux_lr=value_or_default(row.aux_lr, "aux_lr", optimizer.aux_lr or adamw_lr) if row.has_aux else None,
        hyper=hyper,
    )
    return resolved, kept


def _without_inert(
    row: OptimizerSpec, hyper: dict[str, Value], schedules: hyper_schedules.Schedules
) -> tuple[dict[str, Value], hyper_schedules.Schedules]:
    """The hyperparameters with one value for each that changes nothing beside the others, and no schedule.

    One with a schedule has many values, so none of them makes another one inert.
    """
    settings = {**row.fixed, **hyper, **dict.fromkeys(schedules, UNSET)}
    inert = {name: param.default for name, param in row.params.items() if param.is_inert(settings)}
    return hyper | inert, {name: one for name, one in schedules.items() if name not in inert}
