"""`htbench demo` and `htbench reproduce`: from sweep files to runs, tables, figures and the report.

Their steps are those of other commands, shown as such, so that people can do the same with sweeps of their
own. Each step goes on from where it was stopped, and so do they.
"""

import argparse
import contextlib
import functools
import io
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from htbench.harness import cli
from htbench.harness.errors import EXIT_OK, EXIT_RUN_FAILED, UsageError, at_least, nearest
from htbench.harness.paper import experiments, reported, scales
from htbench.harness.show import terminal
from htbench.harness.show.commands import write_command
from htbench.harness.show.emit import emit
from htbench.harness.show.note import Note
from htbench.harness.show.report import Report
from htbench.harness.store import Store
from htbench.harness.system.environment import HOME
from htbench.harness.system.machine import default_workers, has_gpu
from htbench.sweeps import commands, reproduce_card
from htbench.sweeps.actions import end
from htbench.sweeps.experiments import ladder
from htbench.sweeps.reproduce_card import Left

SWEEPS = HOME.joinpath("sweeps")  # of the package: a folder of sweep files for each scale
DEMO = ("demo-pydocs", "demo-digits")
LADDER = "ladder"  # a scale that is not the paper's: `sweeps/experiments/ladder.py` has its parts
_OF_LADDER = ("main_result", "multipliers")  # its tables
# Tables show a failed run, so what can be printed is printed.
_GOES_ON = (EXIT_OK, EXIT_RUN_FAILED)


def step(words: Sequence[str], work: Callable[[], int]) -> int:
    """Show a command and do its work."""
    shown = [Path(word).stem if word.startswith(str(SWEEPS)) else word for word in words]
    print(f"$ {write_command(*shown)}", file=sys.stderr, flush=True)
    return cli.carry_out(work)


def sweep_step(args: argparse.Namespace, action: str, words: Sequence[str], **given: object) -> int:
    """A step of `htbench sweep` on files, with the flags that were given to us."""
    flags = {name: value for name, value in given.items() if value is not None and value is not False}
    shown = [word for name, value in flags.items() for word in (f"--{name}", value) if word is not True]
    work = commands.arguments(action, words=list(words), root=args.root, **flags)
    return step(["sweep", action, *words, *map(str, shown)], lambda: commands.sweep(work))


# --- demo ---


def add_demo_arguments(parser: argparse.ArgumentParser) -> None:
    """Overrides, for a shorter or longer demo."""
    parser.add_argument(
        "words", nargs="*", metavar="key=value", help="settings of every run, such as steps=20"
    )
    parser.add_argument("--workers", **commands.WORKERS)
    parser.add_argument("--replace", action="store_true", help="drop what an earlier demo has besides")


def demo(args: argparse.Namespace) -> int:
    """Sweeps, winners on fresh seeds, the report with figures; the first step that fails ends the demo."""
    files = [str(SWEEPS / "demo" / f"{name}.yaml") for name in DEMO]  # a name alone: the copy in the store
    began, page = time.monotonic(), args.root / "report.html"
    status = sweep_step(args, "run", [*files, *args.words], workers=args.workers, replace=args.replace)
    if status == EXIT_OK:
        with contextlib.redirect_stdout(io.StringIO()):  # the end names the page
            work = functools.partial(cli.invoke, "report", root=args.root, sweep=list(DEMO))
            status = step(["report", *DEMO], work)
    if status == EXIT_OK:
        end(Store(args.root), DEMO, time.monotonic() - began, page=page, small=True)
    return status


# --- reproduce ---


@dataclass(frozen=True)
class Wanted:
    """What is to be reproduced.

    Attributes:
        scale: a row of `harness.paper.scales.SCALES`.
        experiments: in the order of the paper.
        names: of tables and experiments, as given; none: all.
        needs_gpu: whether no CPU can train them in a reasonable time.
    """

    scale: str
    experiments: Sequence[str]
    names: Sequence[str]
    needs_gpu: bool = False

    @property
    def sweeps(self) -> list[str]:
        """The names of the sweeps."""
        return [experiments.sweep(self.scale, name) for name in self.experiments]

    @property
    def files(self) -> list[str]:
        """Their files. A name alone would mean the copy in the store, which may be an older one."""
        return [str(SWEEPS / self.scale / f"{name}.yaml") for name in self.sweeps]

    @property
    def tables(self) -> list[str]:
        """The paper's tables whose experiments are all among these; if there is none, those with some."""
        if self.scale == LADDER:
            return list(_OF_LADDER)
        ours = set(self.experiments)
        parts = {name: set(experiments.needed(self.scale, name)) for name in reported.tables()}
        whole = [name for name in parts if parts[name] and parts[name] <= ours]
        return whole or [name for name in parts if parts[name] & ours]

    @property
    def command(self) -> str:
        """The command that wants it."""
        flags = ["--gpu"] if self.scale == LADDER and self.needs_gpu else []
        return shlex.join(["htbench", "reproduce", self.scale, *self.names, *flags])


def add_reproduce_arguments(parser: argparse.ArgumentParser) -> None:
    """[SCALE] [EXPERIMENT ...] [--quick] [--submit] [--replace] [--yes] [--workers N] [--gpu]."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="nano|paper|ladder | EXPERIMENT",
        help="the scale (default: nano); tables or experiments of it (default: all)",
    )
    parser.add_argument("--quick", action="store_true", help="nano or ladder in a hurry")
    parser.add_argument("--submit", action="store_true", help="hand the runs to SLURM and return at once")
    parser.add_argument("--replace", action="store_true", help="drop what an earlier plan has besides")
    parser.add_argument("--yes", action="store_true", help="do not ask before anything starts")
    parser.add_argument("--workers", **commands.WORKERS)
    parser.add_argument("--gpu", action="store_true", help="the part of the ladder for a GPU")


def reproduce(args: argparse.Namespace) -> int:
    """Run or submit what is missing; then evaluate, draw, print the tables and write the report.

    Raises:
        UsageError: an unknown experiment, runs of the paper's scale that this machine can't make, or nobody
            to ask whether they shall start.
    """
    at_least(args, 1, "workers")
    wanted = _wanted(args.words, args.quick, args.gpu)
    left = _left(args, wanted)
    runs = sum(part.runs for part in left)
    if runs and wanted.needs_gpu and not args.submit and not has_gpu():
        kind = "ladder_needs_gpu" if wanted.scale == LADDER else "paper_needs_gpu"
        raise UsageError(str(Note(kind, runs=runs, command=wanted.command)))
    if runs and not _agreed(args, wanted, left):
        emit(Report("reproduce", "", notes=[Note("nothing_started")]))
        return EXIT_OK
    if not (runs and args.submit):
        return _finish(args, wanted)
    status = sweep_step(args, "submit", wanted.files, replace=args.replace)
    if status == EXIT_OK:
        scale = wanted.scale if wanted.scale != LADDER else ""
        names = {"sweeps": wanted.sweeps, "command": wanted.command, "scale": scale}
        emit(Report("reproduce", "", notes=[Note("submitted_paper", **names)]))
    return status


def _wanted(words: Sequence[str], quick: bool, gpu: bool = False) -> Wanted:
    named = [word for word in words if word in scales.SCALES]
    if len(set(named)) > 1 or (quick and "paper" in named):
        raise UsageError(str(Note("one_scale", words=[*named, *(["--quick"] if quick else [])])))
    names = [word for word in words if word not in scales.SCALES]
    if LADDER in named:
        return _of_ladder(names, quick, gpu)
    scale = "quick" if quick else named[0] if named else "nano"
    if gpu and scale != "paper":
        raise UsageError(str(Note("gpu_of_scale", scale=scale)))
    chosen = {experiment for name in names for experiment in _needed(scale, name)}
    ours = [name for name in experiments.experiments(scale) if name in chosen or not names]
    return Wanted(scale, ours, names, needs_gpu=scale == "paper")


def _needed(scale: str, name: str) -> list[str]:
    """The experiments of a name.

    Raises:
        UsageError: it is unknown, or the scale has none of its models.
    """
    found = experiments.needed(scale, name)
    if not found:
        raise UsageError(str(Note("no_languages", name=name, scale=scale)))
    return found


def _of_ladder(names: Sequence[str], quick: bool, gpu: bool) -> Wanted:
    if quick and gpu:
        raise UsageError(str(Note("gpu_of_scale", scale=f"{LADDER} --quick")))
    sweeps = ladder.QUICK if quick else ladder.GPU if gpu else ladder.ORDER
    every = [sweep.removeprefix(f"{LADDER}-") for sweep in sweeps]
    for name in names:
        if name not in every:
            raise UsageError(f"Unknown part of the ladder {name!r}; {nearest(name, every)}")
    return Wanted(LADDER, [name for name in every if name in names or not names], names, gpu)


def _left(args: argparse.Namespace, wanted: Wanted) -> list[Left]:
    """What is left of each sweep, as `sweep plan` finds it."""
    given = {} if wanted.scale == "paper" else {"no_measure": True}
    plan = commands.arguments("plan", words=wanted.files, root=args.root, **given)
    known = {} if wanted.needs_gpu else reproduce_card.seen()
    return [reproduce_card.left(preview, known) for preview in commands.previews(plan)]


def _agreed(args: argparse.Namespace, wanted: Wanted, left: Sequence[Left]) -> bool:
    """Show what it takes; whether it may start. Only a person at a terminal can be asked."""
    workers, seconds = args.workers or default_workers(), sum(part.seconds for part in left)
    how = Note("times_of_worker", seconds=None if wanted.needs_gpu else seconds / workers, workers=workers)
    more = sum(part.more for part in left)
    notes = [how, *([Note("searches_go_on", runs=more)] if more else [])]
    terminal.show([reproduce_card.card(left, notes)], sys.stderr)
    if args.yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(str(Note("nobody_to_ask", runs=sum(part.runs for part in left))))
    print("Start? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _finish(args: argparse.Namespace, wanted: Wanted) -> int:
    """All that follows the plan."""
    worst = sweep_step(args, "run", wanted.files, workers=args.workers, replace=args.replace)
    scale = [wanted.scale] if wanted.scale != LADDER else []
    # The split tunes rows of the same names otherwise, so it stands apart; searches alone show nothing.
    asked = [name for name in wanted.sweeps if name not in (*ladder.SPLIT, ladder.SEARCHED)] or wanted.sweeps
    split = [name for name in wanted.sweeps if name in ladder.SPLIT and name not in asked]
    table: dict[str, Any] = {"names": wanted.tables, **({"scale": scale} if scale else {})}
    tables = [("table", table, part) for part in (asked, split) if wanted.tables and part]
    for name, options, sweeps in [("figure", {"names": []}, asked), *tables, ("report", {}, asked)]:
        if worst not in _GOES_ON:
            return worst
        of = ["--scale", *scale] if "scale" in options else []
        words = [name, *options.get("names", []), *of, "--sweep", ",".join(sweeps)]
        work = functools.partial(cli.invoke, name, root=args.root, sweep=sweeps, **options)
        worst = max(worst, step(words, work))
        print(flush=True)
    return worst
