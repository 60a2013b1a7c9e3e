"""What a sweep file says of a program, as a run's config holds it, and what it means for the run. Torch-free.

A run of a program has a `RunConfig`, too: `program` is what is said here, `optimizer.hyper` has the settings
of its block, `task` and `model` are words for tables, and nothing else of it is meant. So plans, searches,
the judge and the tables need not know whose program has trained.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from htbench.harness.config import template
from htbench.harness.config.schema import OptimizerConfig, RunConfig
from htbench.harness.errors import UsageError
from htbench.harness.system import typed
from htbench.harness.tasks import TaskSpec

RULE = "program"  # the optimizer's name of all its runs: tables show the rows of the sweep file
PREFIX, BASE = "program.", "program.base."
_TUNED = "optimizer."
_GROUPS = ("resume", "derive", "env", "base")  # mappings, whose names may have dots
# What is said of a program and changes no number of an undisturbed run, or stands among the settings.
_OUTSIDE_THE_NUMBERS = ("folder", "files", "link", "resume", "log", "results", "paired", "base")
_OF_RUN = ("task", "model", "seed", "data_seed", "replica", "data_fingerprint")


@dataclass(frozen=True)
class Program:
    """A program that trains.

    Attributes:
        command: a template (`harness/config/template.py`).
        folder: from which it was copied.
        files: which files were copied: the name of the copy in the store.
        code: a digest of those that make the numbers.
        link: what is linked into the copy: files and folders below `folder`.
        metric: that settings are chosen by; `higher_is_better` says which way, `take` which of its values:
            the last or the best.
        report: the metric that tables show; empty: the same one.
        seeds: how it gets its seed: `command`, `env` (HTBENCH_SEED) or `none`.
        data_version: a word that makes runs on other data others.
        resume: how a later attempt goes on: `{how: self}`: the program knows, `{how: none}`: from an empty
            folder, or `{exists: FILE, args: WORDS}`: with these words, if there is this file.
        derive: expressions over settings, by the name of what they make.
        env: templates of variables.
        base: settings that all runs share.
        log: regular expressions over its output; the names of their groups are those of metrics.
        results: files that it leaves, as `harness/train/reports.py` reads them.
        paired: whether equal seeds give equal data in an equal order.
    """

    command: str
    folder: str = ""
    files: str = ""
    code: str = ""
    link: list[str] = field(default_factory=list)
    metric: str = "val_loss"
    higher_is_better: bool = False
    take: str = "last"
    report: str = ""
    seeds: str = "env"
    data_version: str = ""
    paired: bool = False
    log: list[str] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)
    resume: Mapping[str, str] = field(default_factory=dict)
    derive: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, Any] = field(default_factory=dict)
    base: Mapping[str, Any] = field(default_factory=dict)

    @property
    def templates(self) -> list[str]:
        """All texts in which a setting reaches the program."""
        return [self.command, *map(str, self.env.values())]

    @property
    def shown_metric(self) -> str:
        """The metric without the split: `val_loss` is `loss`."""
        return self.metric.removeprefix("val_")


def of(config: RunConfig) -> Program:
    """The program of a run."""
    return Program(**config.program)


def task(config: RunConfig) -> TaskSpec:
    """What a run is chosen by, as a task."""
    program = of(config)
    metric, higher = program.shown_metric, program.higher_is_better
    return TaskSpec(config.task, RULE, metric, higher, fingerprint="", loader="", adamw_lr=0.0)


def settings(config: RunConfig) -> dict[str, Any]:
    """All settings that a run gives to its program, those that are computed among them."""
    program = of(config)
    given = {**program.base, **config.optimizer.hyper}
    return given | {name: template.compute(text, given) for name, text in program.derive.items()}


def command(config: RunConfig, values: Mapping[str, Any]) -> tuple[list[str], dict[str, str]]:
    """The words that start a run, and the variables that it sets.

    Args:
        config: of the run.
        values: `run_dir` and what else is known at its start.
    """
    program, given = of(config), settings(config)
    more = {"task": config.task, "model": config.model, "seed": config.seed, **values}
    env = {name: template.fill(str(text), {**given, **more}) for name, text in program.env.items()}
    return template.words(program.command, given, more), env


def identity(config: RunConfig) -> dict[str, Any]:
    """What the key of a run covers: two settings that give one command are one run."""
    program = of(config)
    try:
        words, env = command(config, {})
    except UsageError:  # a setting that a study has not drawn yet
        words, env = [program.command], {}
    chosen = (program.metric, program.higher_is_better, program.take, program.report)
    return {
        **{"command": words, "env": env, "code": program.code, "data_version": program.data_version},
        **{"metric": chosen, "task": config.task, "model": config.model},
        **{"seed": config.seed, "replica": config.replica},
    }


def resolve(settings: Mapping[str, Any]) -> RunConfig:
    """The config of a run of a program.

    Args:
        settings: dotted names: `program.` is what a file says of it, `optimizer.` the settings of its block.

    Raises:
        UsageError: a setting that means nothing to a program, or is of another type.
    """
    given: dict[str, Any] = {name: {} for name in _GROUPS}
    tuned, own = {}, {}
    for name, value in settings.items():
        group, _, rest = name.removeprefix(PREFIX).partition(".")
        if name.startswith(PREFIX):
            target = given[group] if rest and group in _GROUPS else given
            target[rest or group] = list(value) if isinstance(value, tuple) else value
        elif name.startswith(_TUNED):
            tuned[name.removeprefix(_TUNED).removeprefix("hyper.")] = value
        elif name in _OF_RUN:
            own[name] = value
        else:
            raise UsageError(f"The setting '{name}' means nothing to a program.")
    tuned.pop("name", None)
    program = typed.make(Program, given)
    if program is None:
        raise UsageError("The settings of the program are not those that this code knows.")
    workload = {name: value for name, value in vars(program).items() if name not in _OUTSIDE_THE_NUMBERS}
    plain = json.dumps(workload, sort_keys=True)
    own["data_fingerprint"] = hashlib.sha256(plain.encode()).hexdigest()[:16]
    return RunConfig(**own, program=dict(vars(program)), optimizer=OptimizerConfig(RULE, hyper=tuned))


def as_stored(config: RunConfig) -> dict[str, Any]:
    """The config as nested plain values, without what means nothing to a program."""
    own = {name: getattr(config, name) for name in _OF_RUN}
    return own | {"program": config.program, "optimizer": {"name": RULE, "hyper": config.optimizer.hyper}}


def without_description(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without what describes their program: edited code makes other runs of the same settings."""
    return {
        name: value
        for name, value in settings.items()
        if not name.startswith(PREFIX) or name.startswith(BASE)
    }


def is_program(settings: Mapping[str, Any]) -> bool:
    """Whether settings, by dotted names, are those of a program."""
    return f"{PREFIX}command" in settings
