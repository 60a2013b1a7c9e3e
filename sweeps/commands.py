"""`htbench sweep`: a table of actions, and a subparser for each."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from htbench.harness.errors import UsageError, at_least
from htbench.harness.show.emit import say
from htbench.harness.store import Store, naming
from htbench.harness.store.points import SPEC, sweep_folder, sweep_names
from htbench.sweeps import actions
from htbench.sweeps.plan.stored import refuse_losses, searched
from htbench.sweeps.screens.plan import Preview
from htbench.sweeps.spec import sweep_file
from htbench.sweeps.spec.sweep import SweepSpec

Options = Mapping[str, Any]  # of a flag, for argparse


@dataclass(frozen=True)
class Action:
    """An action of `htbench sweep`.

    Attributes:
        call: what it calls.
        help: its line.
        flags: its own.
        trains: whether it trains runs.
        of_all: whether it is about all sweeps of the store where none is named.
    """

    call: Callable[[argparse.Namespace, Store, Sequence[SweepSpec]], int]
    help: str
    flags: Mapping[str, Options] = field(default_factory=dict)
    trains: bool = False
    of_all: bool = False


def _switch(flag: str, help: str) -> dict[str, Options]:
    return {flag: {"action": "store_true", "help": help}}


_QUIET = _switch("--quiet", "no progress: only results and errors")
_REPLACE = _switch(
    "--replace", "drop planned runs that the file lacks; finished ones stay in the store and in budgets"
)
WORKERS: Options = {
    "type": int,
    "metavar": "N",
    "help": "runs at a time (default: by cores, or GPUs and `runs_per_gpu`)",
}
MINUTES: Options = {"type": float, "metavar": "N", "help": "stop after so many; runs at work save first"}
_RUN = {"--workers": WORKERS, "--minutes": MINUTES, **_QUIET, **_REPLACE}
_BLOCK = {"--block": {"metavar": "NAME", "help": "only the runs of this block"}}
_JSON = _switch("--json", "as JSON, with every run")
_EVERY = {
    "type": float,
    "default": 10.0,
    "metavar": "SECONDS",
    "help": "between two looks of --watch (default: 10)",
}

ACTIONS = {
    "plan": Action(
        actions.plan,
        "show what is left to run and what it will take; nothing is submitted",
        _switch("--points", "also every run with its state")
        | _JSON
        | _switch("--sbatch", "also what `submit` would hand to sbatch")
        | _switch("--test-only", "ask SLURM whether it would take that")
        | _switch("--no-measure", "do not measure what no run tells"),
    ),
    "try": Action(
        actions.try_first,
        "start the first run of a program for a minute, and say what was understood of its output",
        {"--seconds": {"type": float, "default": 60.0, "metavar": "N", "help": "default: 60"}},
    ),
    "run": Action(
        actions.run,
        "train whatever is missing on this machine, then the winners on fresh seeds",
        _RUN,
        trains=True,
    ),
    "submit": Action(
        actions.submit,
        "hand whatever is missing to SLURM, a job for each run, and return at once",
        _QUIET
        | _switch("--dry-run", "the same as `plan --sbatch`")
        | _switch("--retry", "failed runs again, too")
        | _REPLACE
        | _BLOCK,
        trains=True,
    ),
    "status": Action(
        actions.status,
        "what is done, running and failed, the best so far, what to do next; of all sweeps without SWEEP",
        _JSON | _switch("--watch", "again and again, until all is done") | {"--every": _EVERY},
        of_all=True,
    ),
    "cancel": Action(
        actions.cancel, "take the sweep's jobs out of SLURM's queue; runs at work save first", _BLOCK
    ),
    "retry": Action(
        actions.retry,
        "like run, and failed runs are tried again (on SLURM: submit --retry)",
        _RUN,
        trains=True,
    ),
    "replicate": Action(
        actions.replicate, "run the winners of a finished grid or search on fresh seeds", _RUN, trains=True
    ),
    "index": Action(
        actions.index, "write index, plan and Optuna studies anew from the run folders", _REPLACE
    ),
}
_FLAGS = dict.fromkeys(flag for action in ACTIONS.values() for flag in action.flags)


def add_sweep_arguments(parser: argparse.ArgumentParser) -> None:
    """ACTION SPEC... key=value..., and the flags of the action."""
    subparsers = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, action in ACTIONS.items():
        description = f"{action.help[:1].upper()}{action.help[1:]}."
        subparser = subparsers.add_parser(name, help=action.help, description=description)
        subparser.add_argument(
            "words",
            nargs="*",
            metavar="SWEEP | key=value",
            help="sweeps, by file, folder or name; settings that override their base",
        )
        naming.add_option(subparser)
        subparser.set_defaults(is_step=False)
        for flag, options in action.flags.items():
            subparser.add_argument(flag, **options)
        others = {flag[2:].replace("-", "_") for flag in _FLAGS.keys() - action.flags.keys()}
        subparser.set_defaults(**dict.fromkeys(others))


def make_arguments(action: str, **values: Any) -> argparse.Namespace:
    """The arguments of an action, for commands that call it: the defaults of its parser, and these values."""
    parser = argparse.ArgumentParser()
    add_sweep_arguments(parser)
    return argparse.Namespace(**vars(parser.parse_args([action])) | {"is_step": True} | values)


def preview_sweeps(args: argparse.Namespace) -> list[Preview]:
    """What `sweep plan` shows of each sweep, for `make_arguments("plan", ...)`."""
    return list(actions.preview_sweeps(args, Store(args.root), _load(args)))


def sweep(args: argparse.Namespace) -> int:
    """Carry out one action on one or several sweeps."""
    store, loaded = Store(args.root), _load(args)
    # Before anything is written: would a sweep drop stored points unasked?
    if args.replace is False and not args.dry_run and store.root.is_dir():
        for spec in loaded:
            refuse_losses(store.root, spec, searched(store.root, spec))
    return ACTIONS[args.action].call(args, store, loaded)


def _load(args: argparse.Namespace) -> list[SweepSpec]:
    """The sweeps that the words name. Raises UsageError for what is wrong with words or flags."""
    at_least(args, 1, "workers")
    if args.every is not None and args.every <= 0:
        raise UsageError(f"--every must be above 0 seconds, not {args.every:g}.")
    words = [word for word in args.words if "=" in word]
    names = [word for word in args.words if "=" not in word] + args.sweep
    if not names and not words and ACTIONS[args.action].of_all:
        planned: list[SweepSpec] = []
        for folder in [sweep_folder(args.root, name) for name in sweep_names(args.root)]:
            try:
                planned += (
                    sweep_file.load_all([str(folder)], [], args.root) if (folder / SPEC).is_file() else []
                )
            except UsageError as error:  # the others are shown all the same
                say(error)
        return planned
    if not names or "" in names:  # Path("") would be the working folder with all that is in it
        raise UsageError("Name at least one sweep file, such as sweeps/demo/demo-digits.yaml.")
    loaded = sweep_file.load_all(names, words, args.root, trains=ACTIONS[args.action].trains)
    by_name: dict[str, SweepSpec] = {}
    for spec in loaded:
        if by_name.setdefault(spec.name, spec) != spec:
            raise UsageError(f"Two of these sweeps are called '{spec.name}'; give each a command of its own.")
    return loaded
