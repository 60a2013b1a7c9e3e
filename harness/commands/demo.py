"""`htbench demo`: sweeps, winners on fresh seeds, tables and figures, on data that needs no download.

It runs three ordinary commands, so that people can do the same with sweeps of their own.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from harness import cli
from harness.system.environment import HOME

SWEEPS = ("demo-pydocs", "demo-digits")
_FILES = HOME.joinpath("sweeps", "demo")  # a name alone would mean the copy in the store, with its settings


def add_demo_arguments(parser: argparse.ArgumentParser) -> None:
    """Overrides, for a shorter or longer demo."""
    parser.add_argument(
        "words", nargs="*", metavar="key=value", help="settings of every run, such as steps=20"
    )
    parser.add_argument("--workers", default=None, help="runs at a time (default: by cores or GPUs)")
    parser.add_argument("--replace", action="store_true", help="drop what an earlier demo has besides")


def demo(args: argparse.Namespace) -> int:
    """Run the commands; the first that fails ends the demo."""
    workers = ["--workers", args.workers] if args.workers else []
    files = [str(_FILES / f"{name}.yaml") for name in SWEEPS]
    replace = ["--replace"] if args.replace else []
    named = [word for name in SWEEPS for word in ("--sweep", name)]
    steps = [
        ["sweep", "run", *files, *args.words, *workers, *replace],
        ["table", "main_result", *named],
        ["figure", *named],
    ]
    for step in steps:
        shown = [Path(word).stem if word in files else word for word in step]
        print(f"$ htbench {shlex.join(shown)}", file=sys.stderr, flush=True)
        status = cli.call([*step, "--root", str(args.root)])
        if status:
            return status
        print(flush=True)
    print("More: `htbench table` prints the grids, `htbench sweep status demo-pydocs` the state of the runs.")
    return 0
