"""`htbench compare my_opt:MyOpt`: from a class in a file to a table that holds it against others.

It checks the class, writes a sweep file, says how long the runs take, and does with the file what a person
would do: `sweep run`, `table`. From then on the file is the user's: the same command runs it unchanged, and
trains only the runs that are missing.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from htbench.harness import cli, tasks
from htbench.harness.bench import zoo
from htbench.harness.config import parts
from htbench.harness.config.yaml_text import read_words, read_yaml
from htbench.harness.errors import EXIT_OK, EXIT_RUN_FAILED, UsageError
from htbench.harness.show.emit import emit, say
from htbench.harness.show.note import Note
from htbench.harness.system import atomic
from htbench.harness.system.machine import default_workers
from htbench.optimizers.zoo.param import UNSET, Param
from htbench.optimizers.zoo.registry import spec
from htbench.optimizers.zoo.spec import OptimizerSpec
from htbench.sweeps import commands, reproduce_card
from htbench.sweeps.reproduce import SWEEPS, do_step, do_sweep_step

if TYPE_CHECKING:
    from htbench.harness.bench.measured import Measured

T = TypeVar("T")

WIDTH = 110  # of the sweep file
_UNKNOWN_LR = 1e-3  # of a class without a default; the search goes on beyond it
_FAR = 8  # times another movement: beyond four octaves around a rate
_GROWS = 2  # times from step 2 to step 10

# The hyperparameters that are tuned beside the rate: the default, and the first of these values that differs.
_MEMORY: Mapping[str, Sequence[Any]] = {
    "betas": ((0.9, 0.95), (0.9, 0.98)),
    "momentum": (0.9, 0.95),
    "beta": (0.9, 0.95),
    "beta1": (0.9, 0.95),
}
_DECAY: Mapping[str, Sequence[Any]] = {"weight_decay": (0.1, 0.0)}


@dataclass(frozen=True)
class Budget:
    """How much every optimizer gets.

    Attributes:
        name: of the budget; empty: the default.
        trials: settings of each, at most; equal for all.
        seeds: fresh ones of each winner.
        tunes: tables of hyperparameters; one of each table is tuned beside the rate.
    """

    name: str
    trials: int
    seeds: int
    tunes: Sequence[Mapping[str, Sequence[Any]]] = ()


QUICK, USUAL = Budget("quick", 8, 3), Budget("", 24, 5, (_MEMORY, _DECAY))
FULL = Budget("full", 24, 16)  # those of the ladder's first sweep


@dataclass(frozen=True)
class Workload:
    """A task that needs no other settings: its own, and its steps in each budget."""

    settings: Mapping[str, Any]
    steps: Mapping[str, int]


_SMALL = {"device": "cpu", "schedule.warmup": 0.3, "grad_clip": 1.0, "evaluation.untrained": True}
WORKLOADS = {
    "pydocs": Workload({"model": "llama-nano", "batch_size": 16, **_SMALL}, {"quick": 250, "": 2000}),
    "digits": Workload({"model": "resnet-nano", "batch_size": 64, **_SMALL}, {"quick": 50, "": 200}),
    "glyphs": Workload({"model": "resnet-nano", "batch_size": 64, **_SMALL}, {"quick": 100, "": 400}),
}


@functools.cache
def ladder() -> dict[str, Any]:
    """The first sweep of the ladder, to which `--full` adds a block."""
    return read_yaml(SWEEPS / "ladder" / "ladder-s1.yaml")


def add_compare_arguments(parser: argparse.ArgumentParser) -> None:
    """OPTIMIZER [key=value ...] [--against NAMES] [--task NAME] [--quick | --full] [--workers N]."""
    parser.add_argument("optimizer", metavar="OPTIMIZER", help="module:Class of yours, such as my_opt:MyOpt")
    parser.add_argument(
        "words",
        nargs="*",
        metavar="key=value",
        help="settings of every run, such as steps=500; optimizer.beta=0.9 is for yours alone",
    )
    parser.add_argument("--against", metavar="NAMES", help="its rivals (default: adamw,muon)")
    parser.add_argument("--task", default="pydocs", help="what they train on (default: %(default)s)")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument(
        "--quick", action="store_true", help="two minutes on two idle cores instead of twenty: rates only"
    )
    budget.add_argument(
        "--full", action="store_true", help="hours: the first size of the ladder, beside its three rules"
    )
    parser.add_argument("--workers", **commands.WORKERS)


def compare(args: argparse.Namespace) -> int:
    """Check the class, write the file, say how long it takes, train the missing runs, show the table."""
    rivals = [name.strip() for name in (args.against or "adamw,muon").split(",") if name.strip()]
    if args.full:
        if args.against or args.task != ladder()["base"]["task"]:
            raise UsageError(str(Note("compare_full")))
        rivals = [block["name"] for block in ladder()["blocks"]]
    budget = FULL if args.full else QUICK if args.quick else USUAL
    comparison = Comparison(args.optimizer, rivals, args.task, budget, read_words(args.words))
    parts.allow([args.optimizer, *rivals, args.task, *parts.named(comparison.words)])
    text = comparison.to_yaml()  # before the check, which takes seconds: a misspelt name shows at once
    if not _check_optimizer(comparison):
        return EXIT_RUN_FAILED
    for name in comparison.against:
        with contextlib.suppress(ValueError):  # its runs say why it can't be built
            _warn(name, zoo.measure(name, {}))
    path = Path(f"{comparison.name}.yaml")
    is_new = not path.exists()
    if is_new:
        atomic.write_text(path, text)
    elif path.read_text(encoding="utf-8") != text:
        say(Note("compare_kept", file=str(path)))
    try:
        _say_time(args, path)
    except UsageError:
        if is_new:  # with settings that no run can have
            path.unlink()
        raise
    if is_new:
        say(Note("compare_written", file=str(path)))
        for name in (comparison.optimizer, *comparison.against):
            if (start := comparison.find_start(name)).peer:
                say(Note("compare_start", name=name, **vars(start)))
    status = do_sweep_step(args, "run", [str(path)], workers=args.workers)
    if status in (EXIT_OK, EXIT_RUN_FAILED):
        table = functools.partial(cli.invoke, "table", root=args.root, names=["main_result", comparison.name])
        status = max(status, do_step(["table", "main_result", comparison.name], table))
    return status


def _check_optimizer(comparison: Comparison) -> bool:
    """Say what is wrong with the user's optimizer; whether it can be compared all the same."""
    name = comparison.optimizer
    report = zoo.check(name, {key: str(value) for key, value in comparison.optimizer_settings.items()})
    faults = zoo.list_faults(report)
    if not faults:
        say(report.title)
        _warn(name, report.data["measured"])
        return True
    emit(report, argparse.Namespace(json=False))
    from htbench.harness.bench.contract import LEARNS  # imports torch, as the check has done

    fault = faults.get(LEARNS)
    say(Note("compare_stops" if fault else "compare_goes_on", name=name, why=fault))
    return not fault


def _warn(name: str, facts: Measured) -> None:
    """Say what would mislead who takes a rate from elsewhere, as the report of a check does."""
    for note in facts.misleading():
        say(Note("compare_misleading", name=name, why=str(note)))


def _say_time(args: argparse.Namespace, path: Path) -> None:
    """Say how long the missing runs take, by finished or measured ones, if all budgets are used up."""
    words = commands.make_arguments("plan", words=[str(path)], root=args.root)
    remaining = reproduce_card.add_up(
        [reproduce_card.estimate(preview, {}) for preview in commands.preview_sweeps(words)]
    )
    if remaining.runs:
        runs, timed = remaining.runs + remaining.more, remaining.runs - remaining.unknown
        workers = args.workers or default_workers()
        seconds = remaining.seconds / timed * runs / workers if timed else None
        say(Note("compare_time", runs=runs, workers=workers, seconds=seconds))


# --- the sweep file ---


@dataclass(frozen=True)
class Comparison:
    """An optimizer of the user and its rivals.

    Attributes:
        optimizer: the user's.
        against: its rivals.
        task: what they train on.
        budget: of each.
        words: settings that the user gave.
    """

    optimizer: str
    against: Sequence[str]
    task: str
    budget: Budget
    words: Mapping[str, Any] = field(default_factory=dict)

    @property
    def optimizer_settings(self) -> dict[str, Any]:
        """The settings that are for the user's optimizer alone."""
        return {name: value for name, value in self.words.items() if name.startswith("optimizer.")}

    @property
    def base(self) -> dict[str, Any]:
        """The settings of every run."""
        _find_row(tasks.spec, self.task)
        words = {name: self.words[name] for name in self.words if name not in self.optimizer_settings}
        if self.budget is FULL:
            return {**ladder()["base"], **words}
        if workload := WORKLOADS.get(self.task):
            steps = workload.steps[self.budget.name]
            return {"task": self.task, **workload.settings, "steps": steps, **words}
        if missing := [name for name in ("model", "steps") if name not in words]:
            raise UsageError(
                str(Note("compare_task", task=self.task, known=list(WORKLOADS), missing=missing))
            )
        return {"task": self.task, **words}

    @property
    def name(self) -> str:
        """The name of the sweep and of its file."""
        words = ["compare", _name_block(self.optimizer), self.task, self.budget.name]
        return "-".join(re.sub(r"[^\w.]+", "-", word) for word in words if word)

    def to_yaml(self) -> str:
        """The text of the sweep file.

        Raises:
            UsageError: an unknown name, or an argument without a value.
        """
        import yaml

        labels = [_name_block(name) for name in (self.optimizer, *self.against)]
        if not self.against or len({*labels}) < len(labels):
            raise UsageError(str(Note("compare_rivals", against=", ".join(self.against), name=labels[0])))
        full = self.budget is FULL
        rivals = ladder()["blocks"] if full else [self._make_block(name, {}) for name in self.against]
        comment = str(Note("compare_comment", trials=self.budget.trials, seeds=self.budget.seeds))
        more = {
            "seeds": ladder()["seeds"] if full else [0],
            "blocks": [self._make_block(self.optimizer, self.optimizer_settings), *rivals],
            "search": {"mode": "refine", "trials": self.budget.trials},
            "replicate": {"seeds": self.budget.seeds},
        }
        style: dict[str, Any] = {"sort_keys": False, "width": WIDTH}
        return "".join(
            [
                *(f"# {line}\n" for line in textwrap.wrap(comment, WIDTH - 2)),
                "# Written by `htbench compare`; yours to keep and to edit.\n",
                yaml.safe_dump({"name": self.name, "base": self.base}, default_flow_style=False, **style),
                yaml.safe_dump(more, default_flow_style=None, **style),  # lists and maps of values on a line
            ]
        )

    def find_start(self, name: str) -> Start:
        """Where the rates of one of the optimizers begin."""
        settings = self.optimizer_settings if name == self.optimizer else {}
        return find_start(name, self.task, tuple((key, str(value)) for key, value in settings.items()))

    def _make_block(self, name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        row, task = _find_row(spec, name), _find_row(tasks.spec, self.task)
        for argument, param in row.params.items():
            default: object = param.default
            if default is UNSET and f"optimizer.{argument}" not in settings:
                raise UsageError(str(Note("compare_argument", name=name, argument=argument)))
        fixed = {"optimizer.name": name, **settings}
        if "ns_dtype" in row.params and self.base.get("device") == "cpu":
            fixed["optimizer.ns_dtype"] = "float32"  # many CPUs only emulate bfloat16
        rate = task.adamw_lr if name == "adamw" else self.find_start(name).rate
        if self.budget is FULL:  # the axes of the ladder's rules, as far as it has them
            decays = ladder()["blocks"][0]["space"]["optimizer.weight_decay"]
            tuned = {"optimizer.weight_decay": [*decays]} if row.has_weight_decay else {}
        else:
            tables = self.budget.tunes
            tuned = {key: values for table in tables for key, values in _tune_first(row, table).items()}
        middle, below = float(rate) if _is_rate(rate) else _UNKNOWN_LR, 2 if self.budget is FULL else 1
        space = {"optimizer.lr": [float(f"{middle * 2.0**octave:.4g}") for octave in range(-below, 3)]}
        space |= {key: values for key, values in tuned.items() if key not in settings}
        return {"name": _name_block(name), "set": fixed, "space": space}


def _find_row(find: Callable[[str], T], name: str) -> T:
    """The row of a registry. Raises UsageError: there is none."""
    try:
        return find(name)
    except ValueError as error:
        raise UsageError(str(error)) from None


@dataclass(frozen=True)
class Start:
    """The rate in the middle of the first octaves.

    Attributes:
        rate: it; UNSET: nothing is known of it.
        default: of the class, if that is another one.
        peer: the rule of ours that moves a matrix as far at its default; empty: the rate is the default.
    """

    rate: object
    default: float | None = None
    peer: str = ""


@functools.cache
def find_start(name: str, task: str, settings: tuple[tuple[str, str], ...]) -> Start:
    """The default rate of a class, unless its optimum may lie beyond all octaves around it.

    At one rate a class from outside may move weights many times as far as another. Then the octaves begin
    where it moves a matrix in step 10 as far as a rule of ours does at its default: Muon, if the update has
    singular values that are nearly alike, else AdamW. If updates grow with the gradient, nothing follows.

    Args:
        name: of the class.
        task: whose rate AdamW has.
        settings: of the class, as `zoo --check` takes them.
    """
    row = _find_row(spec, name)
    default = row.lr.default
    if not row.outside:
        return Start(default)
    try:
        facts = zoo.measure(name, dict(settings))
    except ValueError:  # the check says why
        return Start(default)
    second, movement = facts.movements[0].second, facts.movements[0].tenth
    grows = not (second and movement) or movement > _GROWS * second  # it finds its rate, or warms up
    if grows or facts.exponent is None or facts.follows_scale:
        return Start(default)
    peer = "muon" if facts.matrix_rule else "adamw"
    peer_rate: Any = spec("muon").lr.default if facts.matrix_rule else tasks.spec(task).adamw_lr
    rate = peer_rate * (zoo.measure(peer, {}).movements[0].tenth or 0) / movement
    if _is_rate(default) and 1 / _FAR < default / rate < _FAR:
        return Start(default)
    return Start(float(f"{rate:.2g}"), default if _is_rate(default) else None, peer)


def _name_block(name: str) -> str:
    """The name of an optimizer's block: "MyOpt" of "my_opt:MyOpt"."""
    return name.rpartition(":")[2].rpartition(".")[2]


def _is_rate(rate: object) -> TypeGuard[float]:
    return isinstance(rate, int | float) and math.isfinite(rate) and rate > 0


def _tune_first(row: OptimizerSpec, table: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """The first hyperparameter of a table that an optimizer has, with its default and another value."""
    params: dict[str, Param] = dict(row.params)
    if row.has_weight_decay:
        params["weight_decay"] = row.weight_decay
    for name, values in table.items():
        default = params[name].default if name in params else UNSET
        alike = [value for value in values if _get_shape(value) == _get_shape(default) and value != default]
        if alike and params[name].allows(alike[0]):
            return {f"optimizer.{name}": [default, alike[0]]}
    return {}


def _get_shape(value: object) -> int | None:
    """0 for a number, its length for a tuple; None for what is neither."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return len(value) if isinstance(value, tuple) else 0 if number else None
