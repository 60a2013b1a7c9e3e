"""What no run can be: parts that do not go together, impossible numbers, and what this machine can't train.

`check_config` depends on nothing but the config, so every config passes it, stored ones included. The other
checks depend on the machine and its data. Only the commands that start runs make them.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from htbench import models, optimizers
from htbench.harness import tasks
from htbench.harness.config import RunConfig
from htbench.harness.config.groups import PREFIX
from htbench.harness.errors import UsageError
from htbench.harness.system.machine import has_gpu, usable_cores
from htbench.harness.tasks import TaskSpec
from htbench.models import ModelSpec
from htbench.optimizers.transfer import steps_of

LARGEST_SEED = 2**63 - 1  # the largest number of generators and databases
MOST_STEPS = 10**12  # at a microsecond each, eleven days of nothing but counting
MOST_PER_CORE = 16  # threads; more than one is slow, more than this is a mistake


def check_config(config: RunConfig, task: TaskSpec, model: ModelSpec) -> None:
    """Raise UsageError if no machine could make the run, or if its parts do not go together."""
    if not model.fits(task.kind):
        fitting = [name for name, row in models.SIZES.items() if row.fits(task.kind)]
        raise UsageError(
            f"The model '{model.name}' does not fit the task '{task.name}'; fitting are: "
            f"{', '.join([*fitting, 'module:Name of your own'])}."
        )
    if (config.steps is None) == (config.epochs is None):
        given = "neither is" if config.steps is None else "both are"
        raise UsageError(f"Give the length of a run as steps or as epochs, one of the two; {given} set.")
    if config.seq_len is not None and task.seq_len is None:
        raise UsageError(f"The task '{task.name}' has no sequences; remove seq_len={config.seq_len}.")
    if config.dropout and not model.outside and "dropout" not in model.settings:
        raise UsageError(f"The model '{model.name}' has no dropout; remove dropout={config.dropout:g}.")
    for name in ("activation_checkpointing", "sync_batch_norm"):
        wrong = model.batch_norm == (name == "activation_checkpointing")
        if getattr(config, name) and wrong:
            why = "its batch statistics would be counted twice" if model.batch_norm else "it has no BatchNorm"
            raise UsageError(f"The model '{model.name}' can't have {name}: {why}.")
    if config.parametrization == "mup":
        _check_transfer(config, model)
    whole, part = f"batch_size={config.batch_size}", config.batch_size // config.processes
    if config.batch_size % config.processes:
        raise UsageError(f"processes={config.processes} must divide {whole} without remainder.")
    if config.micro_batch and part % config.micro_batch:
        if config.processes > 1:
            whole += f" / processes={config.processes} (which is {part})"
        raise UsageError(f"micro_batch={config.micro_batch} must divide {whole} without remainder.")
    check_pieces(config)
    for name in ("seed", "data_seed"):
        check_seed(name, getattr(config, name))
    for name in ("steps", "epochs"):
        if (getattr(config, name) or 0) > MOST_STEPS:
            raise UsageError(
                f"{name}={getattr(config, name)} is more than 10^12, the longest run there can be."
            )


def check_pieces(config: RunConfig) -> None:
    """Raise UsageError if the places of a piecewise schedule are none, or in no order."""
    schedule = config.schedule
    for name, group in config.optimizer.groups.items():
        if group.get("schedule") == "piecewise" != schedule.name:
            raise UsageError(
                f"optimizer.groups.{name}.schedule can be piecewise only if schedule.name is, "
                f"whose steps it takes; schedule.name={schedule.name}."
            )
    at, factors = list(schedule.at), list(schedule.factors)
    if len(at) != len(factors) or (schedule.name == "piecewise") != bool(at):
        raise UsageError(
            f"A piecewise schedule has as many fractions of the run as factors, at least one; "
            f"schedule.at={at} has {len(at)}, schedule.factors={factors} has {len(factors)}."
        )
    if at != sorted(at):
        raise UsageError(f"schedule.at={at} must rise: they are fractions of the run in their order.")


def _check_transfer(config: RunConfig, model: ModelSpec) -> None:
    """Raise UsageError if rates can't be carried over to this model, optimizer and schedule."""
    if config.base_width is None or config.base_depth is None:
        raise UsageError("parametrization=mup needs base_width and base_depth, those of the tuned model.")
    if not model.outside and model.target != "htbench.models.llama:Llama":
        raise UsageError(f"parametrization=mup is for the LLaMA models, and '{model.name}' is none.")
    if scheduled := sorted({"weight_decay", "eps"} & config.schedule.hyper.keys()):
        raise UsageError(f"parametrization=mup sets {scheduled[0]}; remove schedule.{scheduled[0]}.")
    rule = config.optimizer
    steps_of(rule.name, rule.hyper)
    for own in rule.groups.values():
        steps_of(own.get("optimizer", rule.name), own)


def check_seed(name: str, seed: int) -> None:
    """Raise UsageError if no generator takes the seed."""
    if seed > LARGEST_SEED:
        raise UsageError(f"{name}={seed} is more than 2^63-1 ({LARGEST_SEED}), the largest seed.")


def check_data(config: RunConfig, cache: Path, *, prepared: bool = True) -> None:
    """Raise UsageError if the data is not what the config asks for.

    Args:
        config: of the run.
        cache: folder for prepared data; it need not exist.
        prepared: whether data that a command prepares must be there.
    """
    now = tasks.fingerprint(config.task)
    if config.data_fingerprint != now:
        raise UsageError(
            f"data_fingerprint={config.data_fingerprint} is not that of the data of '{config.task}' here, "
            f"which is {now}; leave it out, and it is filled in."
        )
    options = tasks.options(config.task, config)
    if prepared:
        samples = config.steps and config.steps * config.batch_size
        tasks.check_ready(config.task, cache, samples, config.seq_len, **options)
    most = tasks.train_size(config.task, cache, config.seq_len, **options)
    if most is not None and config.batch_size > most:
        raise UsageError(
            f"batch_size={config.batch_size} is more than the training samples of '{config.task}', "
            f"of which there are at most {most}."
        )


def schedules_unmeant(config: RunConfig) -> list[dict[str, Any]]:
    """Each optimizer, of a run or of a group in it, that is made for other schedules than it has.

    Returns:
        of each the optimizer, the setting that says its schedule, that, and those that it is made for.
    """
    rule, usual = config.optimizer, config.schedule.name
    given = [(rule.name, "schedule.name", usual)]
    for name, own in rule.groups.items():
        where = f"{PREFIX}{name}.schedule" if "schedule" in own else "schedule.name"
        given.append((own["optimizer"], where, own.get("schedule", usual)))
    return [
        {"optimizer": taker, "setting": where, "schedule": schedule, "meant": meant}
        for taker, where, schedule in given
        if (meant := optimizers.spec(taker).schedules) and schedule not in meant
    ]


def check_here(config: RunConfig) -> list[str]:
    """Warnings on a run that this machine is to make. Raises UsageError if it can't."""
    if config.device == "cuda" and not has_gpu():
        raise UsageError("device=cuda, but this machine shows no GPU; use device=auto or device=cpu.")
    asked = f"processes={config.processes} with threads={config.threads} each"
    return check_cores(asked, config.processes * config.threads, usable_cores(), "this machine has for us")


def check_cores(asked: str, threads: int, cores: float, whose: str) -> list[str]:
    """A warning if there are fewer cores than threads. Raises UsageError if there are far fewer.

    Args:
        asked: the settings in words.
        threads: their number of threads.
        cores: the number of cores.
        whose: the end of the phrase "the 4 cores that ...".
    """
    if threads <= max(1.0, cores):
        return []
    sentence = f"{asked} is more than the {cores:g} cores that {whose}"
    if threads > MOST_PER_CORE * max(1.0, cores):
        raise UsageError(f"{sentence}, and more than {MOST_PER_CORE} times as many.")
    return [f"{sentence}; fewer would be faster."]


def warn(sentences: Iterable[str]) -> None:
    """Show each once, on stderr."""
    for sentence in dict.fromkeys(sentences):
        print(f"htbench: warning: {sentence}", file=sys.stderr)
