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
from htbench.sweeps.actions import show_end
from htbench.sweeps.experiments import ladder
from htbench.sweeps.reproduce_card import Remaining

SWEEPS = HOME.joinpath("sweeps")  # of the package: a folder of sweep files for each scale
DEMO = ("demo-pydocs", "demo-digits")
LADDER = "ladder"  # a scale that is not the paper's: `sweeps/experiments/ladder.py` has its parts
_LADDER_TABLES = ("main_result", "multipliers")
# After these the next step follows: tables show a failed run, so what can be printed is printed.
_CONTINUE_AFTER = (EXIT_OK, EXIT_RUN_FAILED)


def do_step(words: Sequence[str], work: Callable[[], int]) -> int:
    """Show a command and do its work."""
    words = [Path(word).stem if word.startswith(str(SWEEPS)) else word for word in words]
    print(f"$ {write_command(*words)}", file=sys.stderr, flush=True)
    return cli.carry_out(work)


def do_sweep_step(args: argparse.Namespace, action: str, words: Sequence[str], **options: object) -> int:
    """Show and do an action of `htbench sweep` on some files, with those options that have a value."""
    flags = {name: value for name, value in options.items() if value is not None and value is not False}
    flag_words = [word for name, value in flags.items() for word in (f"--{name}", value) if word is not True]
    work = commands.make_arguments(action, words=list(words), root=args.root, **flags)
    return do_step(["sweep", action, *words, *map(str, flag_words)], lambda: commands.sweep(work))


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
    status = do_sweep_step(args, "run", [*files, *args.words], workers=args.workers, replace=args.replace)
    if status == EXIT_OK:
        with contextlib.redirect_stdout(io.StringIO()):  # `show_end` names the page
            work = functools.partial(cli.invoke, "report", root=args.root, sweep=list(DEMO))
            status = do_step(["report", *DEMO], work)
    if status == EXIT_OK:
        show_end(Store(args.root), DEMO, time.monotonic() - began, page=page, small=True)
    return status


# --- reproduce ---


@dataclass(frozen=True)
class Request:
    """What is to be reproduced.

    Attributes:
        scale: a row of `harness.paper.scales.SCALES`.
        experiments: in the order of the paper.
        names: of tables and experiments, as the user gave them; none: all.
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
        """The files of the sweeps. A name alone would mean the copy in the store, perhaps an older one."""
        return [str(SWEEPS / self.scale / f"{name}.yaml") for name in self.sweeps]

    @property
    def tables(self) -> list[str]:
        """The paper's tables whose experiments are all among these; if there is none, those with some."""
        if self.scale == LADDER:
            return list(_LADDER_TABLES)
        requested = set(self.experiments)
        needed = {name: set(experiments.needed(self.scale, name)) for name in reported.tables()}
        whole = [name for name in needed if needed[name] and needed[name] <= requested]
        return whole or [name for name in needed if needed[name] & requested]

    @property
    def command(self) -> str:
        """The command that asks for it."""
        flags = ["--gpu"] if self.scale == LADDER and self.needs_gpu else []
        return shlex.join(["htbench", "reproduce", self.scale, *self.names, *flags])


def add_reproduce_arguments(parser: argparse.ArgumentParser) -> None:
    """[SCALE] [EXPERIMENT ...], and flags."""
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
    parser.add_argument("--minutes", **commands.MINUTES)
    parser.add_argument("--gpu", action="store_true", help="the part of the ladder for a GPU")


def reproduce(args: argparse.Namespace) -> int:
    """Run or submit what is missing; then evaluate, draw, print the tables and write the report.

    Raises:
        UsageError: an unknown experiment, runs of the paper's scale that this machine can't make, or nobody
            to ask whether they shall start.
    """
    at_least(args, 1, "workers")
    request = _parse_request(args.words, args.quick, args.gpu)
    measures = {} if request.scale == "paper" else {"no_measure": True}
    plan = commands.make_arguments("plan", words=request.files, root=args.root, **measures)
    paces = {} if request.needs_gpu else reproduce_card.read_paces()
    parts = [reproduce_card.estimate(preview, paces) for preview in commands.preview_sweeps(plan)]
    runs = sum(part.runs for part in parts)
    if runs and request.needs_gpu and not args.submit and not has_gpu():
        kind = "ladder_needs_gpu" if request.scale == LADDER else "paper_needs_gpu"
        raise UsageError(str(Note(kind, runs=runs, command=request.command)))
    if runs and not _ask_to_start(args, request, parts):
        emit(Report("reproduce", "", notes=[Note("nothing_started")]))
        return EXIT_OK
    if not (runs and args.submit):
        return _run_and_evaluate(args, request)
    status = do_sweep_step(args, "submit", request.files, replace=args.replace)
    if status == EXIT_OK:
        scale = request.scale if request.scale != LADDER else ""
        names = {"sweeps": request.sweeps, "command": request.command, "scale": scale}
        emit(Report("reproduce", "", notes=[Note("submitted_paper", **names)]))
    return status


def _parse_request(words: Sequence[str], quick: bool, gpu: bool = False) -> Request:
    scale_words = [word for word in words if word in scales.SCALES]
    if len(set(scale_words)) > 1 or (quick and "paper" in scale_words):
        raise UsageError(str(Note("one_scale", words=[*scale_words, *(["--quick"] if quick else [])])))
    names = [word for word in words if word not in scales.SCALES]
    if LADDER in scale_words:
        if quick and gpu:
            raise UsageError(str(Note("gpu_of_scale", scale=f"{LADDER} --quick")))
        sweeps = ladder.QUICK if quick else ladder.GPU if gpu else ladder.ORDER
        parts = [sweep.removeprefix(f"{LADDER}-") for sweep in sweeps]
        for name in names:
            if name not in parts:
                raise UsageError(f"Unknown part of the ladder {name!r}; {nearest(name, parts)}")
        return Request(LADDER, [name for name in parts if name in names or not names], names, gpu)
    scale = "quick" if quick else scale_words[0] if scale_words else "nano"
    if gpu and scale != "paper":
        raise UsageError(str(Note("gpu_of_scale", scale=scale)))
    chosen = set[str]()
    for name in names:
        needed = experiments.needed(scale, name)
        if not needed:
            raise UsageError(str(Note("no_languages", name=name, scale=scale)))
        chosen.update(needed)
    parts = [name for name in experiments.experiments(scale) if name in chosen or not names]
    return Request(scale, parts, names, needs_gpu=scale == "paper")


def _ask_to_start(args: argparse.Namespace, request: Request, parts: Sequence[Remaining]) -> bool:
    """Show the cost; whether the runs may start. Only a person at a terminal can be asked."""
    total, workers = reproduce_card.add_up(parts), args.workers or default_workers()
    seconds = None if request.needs_gpu else total.seconds / workers
    notes = [Note("times_of_worker", seconds=seconds, workers=workers)]
    notes += [Note("searches_go_on", runs=total.more)] if total.more else []
    terminal.show([reproduce_card.make_card(parts, notes)], sys.stderr)
    if args.yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(str(Note("nobody_to_ask", runs=total.runs)))
    print("Start? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _run_and_evaluate(args: argparse.Namespace, request: Request) -> int:
    """Run the sweeps, then draw the figures, print the tables and write the report."""
    limits = {"workers": args.workers, "minutes": args.minutes}
    worst = do_sweep_step(args, "run", request.files, **limits, replace=args.replace)
    scale = [request.scale] if request.scale != LADDER else []
    # The split tunes rows of the same names otherwise, so it stands apart; searches alone show nothing.
    apart = (*ladder.SPLIT, ladder.SEARCHED)
    main = [name for name in request.sweeps if name not in apart] or request.sweeps
    split = [name for name in request.sweeps if name in ladder.SPLIT and name not in main]
    table: dict[str, Any] = {"names": request.tables, **({"scale": scale} if scale else {})}
    tables = [("table", table, part) for part in (main, split) if request.tables and part]
    for name, options, sweeps in [("figure", {"names": []}, main), *tables, ("report", {}, main)]:
        if worst not in _CONTINUE_AFTER:
            return worst
        of = ["--scale", *scale] if "scale" in options else []
        words = [name, *options.get("names", []), *of, "--sweep", ",".join(sweeps)]
        work = functools.partial(cli.invoke, name, root=args.root, sweep=sweeps, **options)
        worst = max(worst, do_step(words, work))
        print(flush=True)
    return worst
