"""The words of `htbench sweep`: every action has its own flags, and says where a flag of another belongs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError

ACTIONS = {
    "plan": "show what is left to run and what it will take; nothing is submitted",
    "run": "train whatever is missing on this machine, then the winners on fresh seeds",
    "submit": "hand whatever is missing to SLURM, a job for each run, and return at once",
    "status": "what is done, running, queued, waiting and failed, and the best so far",
    "reap": "tidy up after dead processes and jobs that nobody needs any more",
    "cancel": "take the sweep's jobs out of SLURM's queue; runs at work save first",
    "retry": "like run, and failed runs are tried again (on SLURM: submit --retry)",
    "replicate": "run the winners of a finished grid or search on fresh seeds",
    "index": "write index, plan and Optuna studies anew from the run folders",
}


@dataclass(frozen=True)
class Flag:
    """One flag: the actions that take it, its value for all others, and how argparse reads it."""

    actions: tuple[str, ...]
    default: Any
    options: Mapping[str, Any]

    @classmethod
    def switch(cls, *actions: str, help: str) -> Flag:
        """A flag without a value."""
        return cls(actions, False, {"action": "store_true", "help": help})


FLAGS = {
    "--workers": Flag(
        ("run", "retry", "replicate"),
        None,
        {"type": int, "metavar": "N", "help": "runs at a time (default: by cores or GPUs)"},
    ),
    "--quiet": Flag.switch(
        "run", "submit", "retry", "replicate", help="no progress: only results and errors"
    ),
    "--points": Flag.switch("plan", help="also every point with its state"),
    "--json": Flag.switch("plan", "status", help="as JSON, with every point"),
    "--sbatch": Flag.switch("plan", help="also what `submit` would hand to sbatch"),
    "--test-only": Flag.switch("plan", help="ask SLURM whether it would take that"),
    "--no-measure": Flag.switch("plan", help="do not measure what no run tells"),
    "--dry-run": Flag.switch("submit", help="the same as `plan --sbatch`"),
    "--retry": Flag.switch("submit", help="failed runs again, too"),
    "--watch": Flag.switch("status", help="again and again, until all is done"),
    "--every": Flag(
        ("status",),
        10.0,
        {"type": float, "metavar": "SECONDS", "help": "between two looks of --watch (default: 10)"},
    ),
}


def add_actions(parser: argparse.ArgumentParser) -> None:
    """ACTION SPEC... key=value... and the flags of the action."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, text in ACTIONS.items():
        action = actions.add_parser(name, help=text, description=f"{text[:1].upper()}{text[1:]}.")
        action.add_argument(
            "words",
            nargs="+",
            metavar="SPEC | key=value",
            help="sweep files, folders or names; settings that override their base",
        )
        for flag, row in FLAGS.items():
            if name in row.actions:
                action.add_argument(flag, default=row.default, **row.options)
            else:
                action.add_argument(
                    flag, default=row.default, action=_Elsewhere, nargs="?", help=argparse.SUPPRESS
                )
        # May also stand before ACTION, with its default there.
        action.add_argument("--root", type=Path, default=argparse.SUPPRESS, help="folder of the stored runs")


class _Elsewhere(argparse.Action):
    """A flag of other actions."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Say which."""
        flag = self.option_strings[0]
        owners = " and ".join(f"`sweep {name}`" for name in FLAGS[flag].actions)
        own = parser.prog.rpartition(" ")[2]
        raise UsageError(f"{flag} belongs to {owners}, not to `sweep {own}`.")
