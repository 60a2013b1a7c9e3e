"""`htbench reproduce`: the experiments of the paper, from sweeps to tables, figures and the report.

Like `htbench demo`, it gives ordinary commands. Each goes on from where it was stopped, and so does this.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import cli, display
from harness.commands import reproduce_card
from harness.commands.counts import at_least
from harness.cost import gpus
from harness.errors import EXIT_OK, EXIT_RUN_FAILED, UsageError
from harness.export.results import CLOZE, is_done
from harness.paper import experiments, reported, scales
from harness.store import Store
from harness.store.points import REPLICATE, read_points
from harness.system.environment import HOME
from harness.system.machine import default_workers, has_gpu

SWEEPS = HOME.joinpath("sweeps")  # of the package: a folder of sweep files for each scale
_QUESTIONS = "commonsense"  # the table of multiple-choice questions


@dataclass(frozen=True)
class Wanted:
    """What is to be reproduced.

    Attributes:
        scale: a row of `harness.paper.scales.SCALES`.
        experiments: in the order of the paper.
        names: of tables and experiments, as given; none: all.
    """

    scale: str
    experiments: Sequence[str]
    names: Sequence[str]

    @property
    def sweeps(self) -> list[str]:
        """The names of the sweeps."""
        return [experiments.sweep(self.scale, one) for one in self.experiments]

    @property
    def files(self) -> list[str]:
        """Their files. A name alone would mean the copy in the store, which may be an older one."""
        return [str(SWEEPS / self.scale / f"{name}.yaml") for name in self.sweeps]

    @property
    def tables(self) -> list[str]:
        """The paper's tables whose experiments are all among these; if there is none, those with some."""
        own = set(self.experiments)
        parts = {name: set(experiments.needed(self.scale, name)) for name in reported.tables()}
        return [name for name in parts if parts[name] <= own] or [name for name in parts if parts[name] & own]

    @property
    def command(self) -> str:
        """The command that wants it."""
        return shlex.join(["htbench", "reproduce", self.scale, *self.names])


def add_reproduce_arguments(parser: argparse.ArgumentParser) -> None:
    """[SCALE] [EXPERIMENT ...] [--quick] [--submit] [--replace] [--yes] [--workers N] [--gpu NAME]."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="nano|paper | EXPERIMENT",
        help="the scale (default: nano); tables or experiments of the paper (default: all)",
    )
    parser.add_argument("--quick", action="store_true", help="nano with fewer steps and settings")
    parser.add_argument("--submit", action="store_true", help="hand the runs to SLURM and return at once")
    parser.add_argument("--replace", action="store_true", help="drop what an earlier plan has besides")
    parser.add_argument("--yes", action="store_true", help="do not ask before anything starts")
    parser.add_argument("--workers", type=int, metavar="N", help="runs at a time (default: by cores or GPUs)")
    parser.add_argument(
        "--gpu",
        default=gpus.PAPERS,
        metavar="NAME",
        help="whose hours the card has for paper (default: %(default)s)",
    )


def reproduce(args: argparse.Namespace) -> int:
    """Run or submit what is missing; then evaluate, draw, print the tables and write the report.

    Raises:
        UsageError: an unknown experiment, runs of the paper's scale that this machine can't make, or nobody
            to ask whether they shall start.
    """
    at_least(args, 1, *(["workers"] if args.workers is not None else []))
    wanted = _wanted(args.words, args.quick)
    status, left = _left(args, wanted)
    if status:
        return status
    runs = sum(one.runs for one in left)
    if runs and wanted.scale == "paper" and not args.submit and not has_gpu():
        raise UsageError(
            f"{display.counted(runs, 'run of the paper is', 'runs of the paper are')} missing, and this "
            f"machine has no GPU; `{wanted.command} --submit` hands them to SLURM, and "
            f"`htbench table --scale paper` prints what is there."
        )
    if runs and not _agreed(args, wanted, left):
        print("Nothing was started.")
        return EXIT_OK
    if runs and args.submit:
        return _submit(args, wanted)
    return _finish(args, wanted)


def _wanted(words: Sequence[str], quick: bool) -> Wanted:
    named = [word for word in words if word in scales.SCALES]
    if len(set(named)) > 1 or (quick and "paper" in named):
        raise UsageError(
            f"One scale at a time, not {' and '.join([*named, *(['--quick'] if quick else [])])}."
        )
    scale = "quick" if quick else named[0] if named else "nano"
    names = [word for word in words if word not in scales.SCALES]
    chosen = {one for name in names for one in experiments.needed(scale, name)}
    own = [one for one in experiments.experiments(scale) if one in chosen or not names]
    return Wanted(scale, own, names)


def _left(args: argparse.Namespace, wanted: Wanted) -> tuple[int, list[reproduce_card.Left]]:
    """The exit status of `sweep plan`, and what it says of each sweep."""
    how = ["--gpu", args.gpu] if wanted.scale == "paper" else ["--no-measure"]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        status = _call(args, "sweep", "plan", *wanted.files, *how, "--json")
    known = {} if wanted.scale == "paper" else reproduce_card.seen()
    return status, [] if status else [reproduce_card.left(one, known) for one in json.loads(said.getvalue())]


def _agreed(args: argparse.Namespace, wanted: Wanted, left: Sequence[reproduce_card.Left]) -> bool:
    """Show what it takes; whether it may start. Only a person at a terminal can be asked."""
    if not (args.yes or (sys.stdin.isatty() and sys.stderr.isatty())):
        runs = display.counted(sum(one.runs for one in left), "run is", "runs are")
        raise UsageError(f"{runs} missing, and there is no terminal to ask at; add --yes to start them.")
    card = reproduce_card.card(left, display.terminal_width(sys.stderr))
    print(f"{card}\n{_how(args, wanted, left)}", file=sys.stderr)
    if args.yes:
        return True
    print("Start? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _how(args: argparse.Namespace, wanted: Wanted, left: Sequence[reproduce_card.Left]) -> str:
    """What the times of the card mean."""
    if wanted.scale == "paper":
        return f"GPU-hours are estimates for {args.gpu}, without evaluations and starts."
    workers = args.workers or default_workers()
    seconds = reproduce_card.together(left).seconds
    whole = f", {display.duration(seconds / workers)} with {workers} of them" if seconds else ""
    return f"Times are those of one worker{whole}."


def _submit(args: argparse.Namespace, wanted: Wanted) -> int:
    status = _call(args, "sweep", "submit", *wanted.files, *_replace(args))
    if status == EXIT_OK:
        print(f"`htbench sweep status {' '.join(wanted.sweeps)}` says how far they are.")
        print(
            f"When they have ended: `{wanted.command} --submit` again. It submits what is missing then; if "
            f"nothing is, it prints the tables and writes the report."
        )
        print(f"Tables of what is there so far: `htbench table --scale {wanted.scale}`.")
    return status


def _finish(args: argparse.Namespace, wanted: Wanted) -> int:
    """All that follows the plan. A failed run is shown in the tables, so what can be printed is printed."""
    workers = ["--workers", str(args.workers)] if args.workers else []
    own = ["--sweep", ",".join(wanted.sweeps)]
    worst = _say(args, "sweep", "run", *wanted.files, *workers, *_replace(args))
    if worst not in (EXIT_OK, EXIT_RUN_FAILED):
        return worst
    if wanted.scale != "paper" and _QUESTIONS in wanted.tables:
        worst = max(worst, _ask_questions(args, wanted))
    steps = [["figure", *own]]
    steps += [["table", *wanted.tables, "--scale", wanted.scale, *own]] if wanted.tables else []
    steps += [["report", *own]]
    for step in steps:
        if worst not in (EXIT_OK, EXIT_RUN_FAILED):
            return worst
        worst = max(worst, _say(args, *step))
        print(flush=True)
    return worst


def _replace(args: argparse.Namespace) -> list[str]:
    return ["--replace"] if args.replace else []


def _ask_questions(args: argparse.Namespace, wanted: Wanted) -> int:
    """Evaluate the reported models of the table of multiple-choice questions."""
    worst = EXIT_OK
    for experiment in experiments.needed(wanted.scale, _QUESTIONS):
        for key in _unasked(args.root, experiments.sweep(wanted.scale, experiment)):
            with contextlib.redirect_stdout(io.StringIO()):  # the table has it all
                worst = max(worst, _say(args, "downstream", key))
            if worst not in (EXIT_OK, EXIT_RUN_FAILED):
                return worst
    return worst


def _unasked(root: Path, sweep: str) -> list[str]:
    """The completed runs on fresh seeds whose records lack the answers."""
    keys = [point.key for point in read_points(root, sweep) if point.stage == REPLICATE]
    records = Store(root).records(set(keys))
    return [
        key
        for key in keys
        if key in records
        and records[key].status == "completed"
        and not is_done(records[key].downstream, CLOZE, None)
    ]


def _say(args: argparse.Namespace, *words: str) -> int:
    """Show a command and give it."""
    shown = [Path(word).stem if word.startswith(str(SWEEPS)) else word for word in words]
    print(f"$ htbench {shlex.join(shown)}", file=sys.stderr, flush=True)
    return _call(args, *words)


def _call(args: argparse.Namespace, *words: str) -> int:
    return cli.call([*words, "--root", str(args.root)])
