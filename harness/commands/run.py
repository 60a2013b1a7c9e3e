"""`htbench run`: one run in this process."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from harness.errors import UsageError
from harness.monitor import Monitor
from harness.settings import flatten, make, read_words, read_yaml
from harness.store import Store, make_folder


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """CONFIG and overrides."""
    parser.add_argument(
        "words", nargs="*", metavar="CONFIG | key=value", help="a YAML file and settings over it"
    )


def run(args: argparse.Namespace) -> int:
    """Train, show the loss meanwhile, print the figures."""
    files = [word for word in args.words if "=" not in word]
    if len(files) > 1:
        raise UsageError(f"One config file at most; got {', '.join(files)}.")
    settings = flatten(read_yaml(Path(files[0]))) if files else {}
    config = make(settings | read_words([word for word in args.words if "=" in word]))
    make_folder(args.root)
    logging.basicConfig(stream=sys.stderr, format="%(message)s")

    from tqdm import tqdm

    from harness import train  # imports torch

    with tqdm(total=config.steps, unit="step", disable=None, dynamic_ncols=True) as bar:
        monitor = Monitor(lambda step: bar.update(step - bar.n))
        monitor.stop_on_signals()
        record = train.run(config, Store(args.root), monitor)
    print(
        f"run {record.key}: {record.status} after {record.steps} steps"
        f"{': ' if record.note else ''}{record.note}"
    )
    for name, value in record.metrics.items():
        print(f"  {name:22} {value if value is None else format(value, '.6g')}")
    return 0
