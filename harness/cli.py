"""The `htbench` command: finds and calls the subcommand, turns exceptions into exit statuses.

Subcommands are named as strings and imported when called, so that `htbench --help` loads nothing heavy and
`harness` does not import the packages above it.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from htbench.harness.errors import (
    EXIT_BUG,
    EXIT_INTERRUPTED,
    EXIT_RUN_FAILED,
    EXIT_USAGE,
    LostOwnershipError,
    RunFailedError,
    StoppedError,
    UsageError,
    nearest,
    refused,
)
from htbench.harness.show.commands import name_store
from htbench.harness.show.emit import say
from htbench.harness.system import streams

# name -> (module that has `add_<name>_arguments(parser)` and `<name>(args) -> exit status`, one line of help)
_FIRST = {  # all that a newcomer needs
    "demo": ("sweeps.reproduce", "Train four optimizers on data that every Python has; its tables"),
    "run": ("harness.commands.run", "Train one run here"),
    "compare": ("sweeps.compare", "Hold an optimizer of yours against others, from class to table"),
    "sweep": ("sweeps.commands", "Plan, run and look after many runs"),
    "table": ("results.commands", "Print tables from the stored runs"),
    "report": ("results.page.command", "Write one HTML page: the answers, figures and tables"),
    "judge": ("results.commands", "Tell the answer of anybody's results: a CSV file, a line per run"),
}
COMMANDS = _FIRST | {
    "reproduce": ("sweeps.reproduce", "Regenerate the paper, its images in miniature or the ladder"),
    "figure": ("results.commands", "Draw figures from the stored runs"),
    "ledger": ("results.commands", "Hold our runs against the numbers of the paper"),
    "runs": ("harness.commands.runs", "List runs, clear leftovers away, import and export runs"),
    "zoo": ("harness.commands.zoo", "List the optimizers, or the hyperparameters of one"),
    "models": ("harness.commands.zoo", "List the models with their parameter counts"),
    "tasks": ("harness.commands.zoo", "List the tasks, their data and which must be fetched"),
    "bench": ("harness.commands.bench", "Measure a step of each optimizer"),
    "data": ("harness.commands.data", "Fetch and prepare the large datasets"),
    "spectra": ("harness.commands.spectra", "Heavy-tail metrics of the weights of runs, files and folders"),
    "cost": ("harness.commands.cost", "Tell what a run costs before it runs: operations, memory, time"),
    "export": ("harness.commands.export", "Write the model of a run as a folder of Hugging Face"),
    "doctor": ("harness.commands.doctor", "Look at this machine and say what to do"),
}

# What commands of `harness` ask of the packages above it: a job that looks at its node. `sweeps` asks
# `results` in the same way for what a sweep has found.
ABOVE = {
    "ending": "htbench.results.page.ending",
    "probe": "htbench.sweeps.cluster.probe",
}

_WITHOUT_STORE = ("zoo", "models", "tasks", "judge", "doctor")  # `doctor` reports on the store itself


def main(words: Sequence[str] | None = None) -> int:
    """Run the command of this process.

    Args:
        words: the command line without the program; None: this process's.

    Returns:
        the exit status.
    """
    streams.settle()
    status = call(sys.argv[1:] if words is None else words)
    if refusal := streams.refusal():
        return _complain(f"standard output is incomplete: {refusal.strerror}.", status or EXIT_RUN_FAILED)
    return status


def call(words: Sequence[str]) -> int:
    """Run the command of a command line without the program; returns the exit status."""
    try:
        return carry_out(lambda: _dispatch(list(words)))
    finally:
        name_store(None)


def carry_out(work: Callable[[], int]) -> int:
    """Do the work of a command; an error becomes one sentence on stderr and its exit status."""
    try:
        return work()
    except UsageError as error:
        return _complain(error, EXIT_USAGE)
    except (RunFailedError, LostOwnershipError) as error:
        return _complain(error, EXIT_RUN_FAILED)
    except StoppedError as error:
        return _complain(f"{error} The same command goes on from there.", EXIT_INTERRUPTED)
    except KeyboardInterrupt:
        return _complain("interrupted; the same command goes on from here.", EXIT_INTERRUPTED)
    except OSError as error:
        # A full disk or a missing permission is not a bug of ours.
        return _complain(f"{refused(error)}.", EXIT_RUN_FAILED)
    except Exception:
        traceback.print_exc()
        return _complain("this is a bug of htbench; please report the lines above.", EXIT_BUG)


def _complain(what: object, status: int) -> int:
    say(what)
    return status


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_overview())
        return 0 if words else EXIT_USAGE
    if words[0] == "--version":
        from importlib.metadata import version

        print(f"htbench {version('htbench')}")
        return 0
    name = words[0]
    if name not in COMMANDS:
        raise UsageError(f"There is no command '{name}'; {nearest(name, COMMANDS)}")
    command, parser = _command(name)
    try:
        args = parser.parse_args(words[1:])
    except SystemExit as error:  # argparse has printed the help
        return int(error.code or 0)
    name_store(args.root if args.root != parser.get_default("root") else None)
    if name not in _WITHOUT_STORE:
        _check_root(args.root)
    return command(args)


def _command(name: str) -> tuple[Callable[[argparse.Namespace], int], _Parser]:
    """The function of a command, and its parser."""
    module = importlib.import_module(f"htbench.{COMMANDS[name][0]}")
    parser = _Parser(prog=f"htbench {name}", description=f"{COMMANDS[name][1]}.")
    parser.set_defaults(root=Path(os.environ.get("HTBENCH_ROOT") or "store"))
    getattr(module, f"add_{name}_arguments")(parser)
    return getattr(module, name), parser


def invoke(name: str, **given: Any) -> int:
    """Call the function of another command, with its default arguments and some given ones.

    Args:
        name: of the command.
        given: arguments by the names that its function reads, `root` among them.

    Returns:
        the exit status.
    """
    command, parser = _command(name)
    defaults = {action.dest: action.default for action in reversed(parser._actions)}  # the first one counts
    return command(argparse.Namespace(**defaults | given))


def _check_root(root: Path) -> None:
    """Raise UsageError if the store can't be read; `glob` would show an empty one."""
    from htbench.harness.store.layout import runs_folder, sweeps_folder  # loads more than the help may

    if root.is_file():
        raise UsageError(f"The store '{root}' is a file; --root or HTBENCH_ROOT must name a folder.")
    for folder in (root, runs_folder(root), sweeps_folder(root)):
        if folder.exists() and not os.access(folder, os.R_OK | os.X_OK):
            raise UsageError(f"The folder '{folder}' can't be read (no permission); ask its owner.")


class _Parser(argparse.ArgumentParser):
    """Errors are one sentence, as everywhere; positional words may stand between options.

    Every command and every action of one has `--root`, which thus may stand before an action or behind it.
    """

    _mixing = False

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        place = "folder of the stored runs (default: $HTBENCH_ROOT, else ./store)"
        self.add_argument("--root", type=Path, default=argparse.SUPPRESS, help=place)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As argparse does, but this parser reports unknown words, not its parent."""
        if self._subparsers is not None or self._mixing:  # an action's words are read by its own parser
            return super().parse_known_args(args, namespace)
        self._mixing = True  # what follows calls this method
        try:
            found, unknown = self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixing = False
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[:1].upper()}{message[1:]}; `{self.prog} --help` explains.")


def _overview() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {help_line}" for name, (_, help_line) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: htbench COMMAND [...]",
            "",
            "Find out which optimizer is really better.",
            "",
            *lines[: len(_FIRST)],
            "",
            "The paper, and what lies around:",
            *lines[len(_FIRST) :],
            "",
            "`htbench COMMAND --help` explains a command; start with `htbench demo`.",
        ]
    )
