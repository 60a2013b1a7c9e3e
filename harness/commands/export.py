"""`htbench export`: the model of a run as a folder that other programs open."""

import argparse
from pathlib import Path

from htbench.harness.show.emit import emit, say
from htbench.harness.show.note import Note
from htbench.harness.show.report import Report
from htbench.harness.store import Store


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    """KEY and DIR."""
    parser.add_argument("key", metavar="KEY", help="the run, or the beginning of its key")
    parser.add_argument("folder", type=Path, metavar="DIR", help="a folder that is new or empty")


def export(args: argparse.Namespace) -> int:
    """Write the folder and say what is in it."""
    from htbench.harness.export.huggingface import export as write  # imports torch

    exported = write(Store(args.root), args.key, args.folder)
    weights = "final weights" if exported.step is None else f"weights of step {exported.step}"
    note = Note("model_exported", folder=args.folder, model=exported.model, key=exported.key, weights=weights)
    emit(Report("export", "", notes=[note]), args)
    if not (args.folder / "tokenizer.json").exists():
        say(Note("no_tokenizer", task=exported.task))
    return 0
