"""`htbench compare my_opt:MyOpt`: from a class in a file to a table that holds it against others.

It checks the class, writes a sweep file, tells the time, and does with the file what a person would do:
`sweep run`, `table`. From then on the file is the user's. The same command runs it as it stands, and only
what is missing.
"""

from __future__ import annotations

import argparse
import functools
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

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
from htbench.sweeps import commands
from htbench.sweeps.reproduce import SWEEPS, step, sweep_step

T = TypeVar("T")

WIDTH = 110  # of the sweep file
_UNKNOWN_LR = 1e-3  # of a class without a default; the search goes on beyond it

# What is tuned beside the rate: a hyperparameter's default, and the first of these that is another value.
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
        tunes: what may be tuned beside the rate, one hyperparameter of each table.
    """

    name: str
    trials: int
    seeds: int
    tunes: Sequence[Mapping[str, Sequence[Any]]] = ()


QUICK, USUAL = Budget("quick", 8, 3), Budget("", 24, 5, (_MEMORY, _DECAY))
FULL = Budget("full", 24, 16)  # those of the ladder's first sweep


@dataclass(frozen=True)
class Workload:
    """A task that needs no more words: its settings, and its steps in each budget."""

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
    """The first sweep of the ladder: `--full` puts a block more into it."""
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
    """Check, write the file, tell the time, train what is missing, show the table."""
    rivals = [name.strip() for name in (args.against or "adamw,muon").split(",") if name.strip()]
    if args.full:
        if args.against or args.task != ladder()["base"]["task"]:
            raise UsageError(str(Note("compare_full")))
        rivals = [block["name"] for block in ladder()["blocks"]]
    budget = FULL if args.full else QUICK if args.quick else USUAL
    wanted = Comparison(args.optimizer, rivals, args.task, budget, read_words(args.words))
    parts.allow([wanted.optimizer, *wanted.against, args.task, *parts.named(wanted.words)])
    text = wanted.text()  # before the check, which takes seconds: a misspelt name shows at once
    if not _learns(wanted):
        return EXIT_RUN_FAILED
    path = Path(f"{wanted.name}.yaml")
    if path.exists():
        if path.read_text(encoding="utf-8") != text:
            say(Note("compare_kept", file=str(path)))
        _tell_time(args, path)
    else:
        _write(args, path, text)
    status = sweep_step(args, "run", [str(path)], workers=args.workers)
    if status in (EXIT_OK, EXIT_RUN_FAILED):
        table = functools.partial(cli.invoke, "table", root=args.root, names=["main_result", wanted.name])
        status = max(status, step(["table", "main_result", wanted.name], table))
    return status


def _write(args: argparse.Namespace, path: Path, text: str) -> None:
    """Write the sweep file and tell the time. A file with settings that no run can have does not stay."""
    atomic.write_text(path, text)
    try:
        _tell_time(args, path)
    except UsageError:
        path.unlink()
        raise
    say(Note("compare_written", file=str(path)))


def _learns(wanted: Comparison) -> bool:
    """Say what is wrong with the optimizer; whether it can be compared all the same."""
    report = zoo.check(wanted.optimizer, {name: str(value) for name, value in wanted.own.items()})
    wrong = {name: why for name, why in report.data.items() if why}
    if not wrong:
        say(Note("compare_checked", name=wanted.optimizer, properties=len(report.data)))
        return True
    emit(report, argparse.Namespace(json=False))
    from htbench.harness.bench.contract import LEARNS  # imports torch, as the check has done

    learns = not wrong.get(LEARNS)
    kind = "compare_goes_on" if learns else "compare_stops"
    say(Note(kind, name=wanted.optimizer, why=wrong.get(LEARNS)))
    return learns


def _tell_time(args: argparse.Namespace, path: Path) -> None:
    """Say what it will take, by finished or measured runs, if every optimizer uses its whole budget."""
    words = commands.arguments("plan", words=[str(path)], root=args.root)
    (preview,) = commands.previews(words)
    if not preview.facts.to_run:
        return  # all is there
    known = preview.facts.to_run - sum(row.runs for row in preview.facts.card if row.seconds is None)
    allowed = len(preview.spec.blocks) * (preview.spec.search.trials or 0) * len(preview.spec.seeds)
    to_come = allowed - len(preview.planned)
    runs = preview.facts.to_run + max(0, to_come)
    workers = args.workers or default_workers()
    seconds = preview.facts.seconds / known * runs / workers if known else None
    say(Note("compare_time", runs=runs, workers=workers, seconds=seconds))


# --- the sweep file ---


@dataclass(frozen=True)
class Comparison:
    """What is compared with what.

    Attributes:
        optimizer: the user's.
        against: its rivals.
        task: what they train on.
        budget: of each.
        words: settings that were given.
    """

    optimizer: str
    against: Sequence[str]
    task: str
    budget: Budget
    words: Mapping[str, Any] = field(default_factory=dict)

    @property
    def own(self) -> dict[str, Any]:
        """The settings that are for the user's optimizer alone."""
        return {name: value for name, value in self.words.items() if name.startswith("optimizer.")}

    @property
    def base(self) -> dict[str, Any]:
        """The settings of every run."""
        usual, own = WORKLOADS.get(self.task), self.own
        _named(tasks.spec, self.task)
        given = {name: value for name, value in self.words.items() if name not in own}
        if self.budget is FULL:
            return {**ladder()["base"], **given}
        if usual is None and (missing := [name for name in ("model", "steps") if name not in given]):
            raise UsageError(
                str(Note("compare_task", task=self.task, known=list(WORKLOADS), missing=missing))
            )
        sizes = {**usual.settings, "steps": usual.steps[self.budget.name]} if usual else {}
        return {"task": self.task, **sizes, **given}

    @property
    def name(self) -> str:
        """Of the sweep and its file."""
        words = ["compare", _label(self.optimizer), self.task, self.budget.name]
        return "-".join(re.sub(r"[^\w.]+", "-", word) for word in words if word)

    def text(self) -> str:
        """The sweep file.

        Raises:
            UsageError: a name that means nothing, or an argument without a value.
        """
        import yaml

        labels = [_label(name) for name in (self.optimizer, *self.against)]
        if not self.against or len({*labels}) < len(labels):
            raise UsageError(str(Note("compare_rivals", against=", ".join(self.against), name=labels[0])))
        full = self.budget is FULL
        rivals = ladder()["blocks"] if full else [self._block(name, {}) for name in self.against]
        comment = str(Note("compare_comment", trials=self.budget.trials, seeds=self.budget.seeds))
        more = {
            "seeds": ladder()["seeds"] if full else [0],
            "blocks": [self._block(self.optimizer, self.own), *rivals],
            "search": {"mode": "refine", "trials": self.budget.trials},
            "replicate": {"seeds": self.budget.seeds},
        }
        look: dict[str, Any] = {"sort_keys": False, "width": WIDTH}
        return "".join(
            [
                *(f"# {line}\n" for line in textwrap.wrap(comment, WIDTH - 2)),
                "# Written by `htbench compare`; yours to keep and to edit.\n",
                yaml.safe_dump({"name": self.name, "base": self.base}, default_flow_style=False, **look),
                yaml.safe_dump(more, default_flow_style=None, **look),  # lists and maps of values on a line
            ]
        )

    def _block(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        row, task = _named(spec, name), _named(tasks.spec, self.task)
        for argument, param in row.params.items():
            default: object = param.default
            if default is UNSET and f"optimizer.{argument}" not in given:
                raise UsageError(str(Note("compare_argument", name=name, argument=argument)))
        fixed = {"optimizer.name": name, **given}
        if "ns_dtype" in row.params and self.base.get("device") == "cpu":
            fixed["optimizer.ns_dtype"] = "float32"  # many CPUs only emulate bfloat16
        rate = task.adamw_lr if name == "adamw" else row.lr.default
        if self.budget is FULL:  # the axes of the ladder's rules, as far as it has them
            decays = ladder()["blocks"][0]["space"]["optimizer.weight_decay"]
            tuned = {"optimizer.weight_decay": [*decays]} if row.has_weight_decay else {}
        else:
            tuned = {name: x for table in self.budget.tunes for name, x in _first(row, table).items()}
        rates = {"optimizer.lr": _octaves(rate, 5 if self.budget is FULL else 4)}
        others = {setting: values for setting, values in tuned.items() if setting not in given}
        return {"name": _label(name), "set": fixed, "space": rates | others}


def _named(find: Callable[[str], T], name: str) -> T:
    """The row of a registry. Raises UsageError: there is none."""
    try:
        return find(name)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _label(name: str) -> str:
    """The name of an optimizer's block: "MyOpt" of "my_opt:MyOpt"."""
    return name.rpartition(":")[2].rpartition(".")[2]


def _octaves(rate: object, count: int) -> list[float]:
    """Rates around a default, each twice the one before; the search goes on beyond an edge."""
    sound = isinstance(rate, int | float) and math.isfinite(rate) and rate > 0
    middle = float(rate) if sound else _UNKNOWN_LR  # type: ignore[arg-type]
    return [float(f"{middle * 2.0**octave:.4g}") for octave in range(3 - count, 3)]


def _first(row: OptimizerSpec, table: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """The first hyperparameter of a table that an optimizer has, with its default and another value."""
    params: dict[str, Param] = dict(row.params)
    if row.has_weight_decay:
        params["weight_decay"] = row.weight_decay
    for name, values in table.items():
        default = params[name].default if name in params else UNSET
        alike = [value for value in values if _shape(value) == _shape(default) and value != default]
        if alike and params[name].allows(alike[0]):
            return {f"optimizer.{name}": [default, alike[0]]}
    return {}


def _shape(value: object) -> int | None:
    """0 for a number, its length for a tuple; None for what is neither."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return len(value) if isinstance(value, tuple) else 0 if number else None
