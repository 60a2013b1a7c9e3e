"""`htbench data`: prepares the published data sets for training, and lists what is prepared."""

import argparse
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from htbench.harness import tasks
from htbench.harness.cli import ABOVE
from htbench.harness.config import RunConfig, parts
from htbench.harness.config.names import flatten
from htbench.harness.config.settings import resolve_config
from htbench.harness.config.yaml_text import read_yaml
from htbench.harness.data import copies, raw
from htbench.harness.data.corpus import CORPORA, Corpus
from htbench.harness.data.pictures import SETS
from htbench.harness.data.stamps import ImageFiles, Prepared
from htbench.harness.errors import UsageError, at_least, nearest
from htbench.harness.show.emit import emit
from htbench.harness.show.note import Note
from htbench.harness.show.progress import Progress
from htbench.harness.show.report import Report
from htbench.harness.store import points
from htbench.harness.store.layout import cache_folder
from htbench.harness.system.folders import write_for_the_group
from htbench.harness.system.machine import usable_cores

PREPARED = (*CORPORA, *SETS)


def add_data_arguments(parser: argparse.ArgumentParser) -> None:
    """ACTION and its words."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    making = actions.add_parser(
        "prepare",
        help="tokenise a corpus once, for all runs",
        description="Fetch what is missing of a published corpus and tokenise it into the store's cache.",
    )
    making.add_argument("task", metavar="TASK", help=", ".join(PREPARED))
    making.add_argument(
        "--shards",
        type=int,
        metavar="N",
        help="training files (default: what the longest run needs that a sweep of this store plans)",
    )
    making.add_argument(
        "--for",
        dest="files",
        nargs="+",
        default=[],
        metavar="FILE",
        help="sweep files or configs of runs: as many training files as their longest run needs",
    )
    making.add_argument("--workers", type=int, metavar="N", help="files at a time (default: usable cores)")
    listing = actions.add_parser("ls", help="what is prepared", description="List what is prepared.")
    for action in (making, listing):  # may also stand before ACTION, with its default there
        action.add_argument("--root", type=Path, default=argparse.SUPPRESS, help="folder of the stored runs")


def data(args: argparse.Namespace) -> int:
    """Carry out one action."""
    if args.action == "prepare":
        notes = [_prepare(args)]
    else:
        notes = [
            _note(task, made, folder)
            for task in PREPARED
            for folder in sorted(cache_folder(args.root).glob(f"{task}-*"))
            if (made := Prepared.read(folder) or ImageFiles.read(folder)) is not None
        ]
    empty = Note("nothing_prepared", cache=cache_folder(args.root))
    emit(Report("data", "", notes=notes, empty=empty), args)
    return 0


def _note(task: str, made: Prepared | ImageFiles, folder: Path) -> Note:
    """What is prepared in a folder."""
    current = folder.name == f"{task}-{tasks.fingerprint(task)}"
    other = "" if current else "of another copy or recipe"
    if isinstance(made, ImageFiles):
        images, (_, *sides) = [f"{made.count(part)} {part} images" for part in made.parts], made.shape
        size = sum(made.sizes.values())
        return Note(
            "prepared_images", task=task, images=images, sides=sides, size=size, folder=folder, other=other
        )
    train = [shard for shard in made.shards.values() if shard.split == "train"]
    return Note(
        "prepared_text",
        task=task,
        files=made.train_files,
        of=CORPORA[task].train_files,
        documents=sum(shard.documents for shard in train),
        tokens=sum(shard.tokens for shard in train),
        size=sum(made.sizes.values()),
        folder=folder,
        other=other,
    )


# --- prepare ---


def _prepare(args: argparse.Namespace) -> Note:
    task = args.task
    if task not in PREPARED:
        raise UsageError(f"'{task}' is not prepared by this command; {nearest(task, PREPARED)}")
    at_least(args, 1, "shards", "workers")
    cache, raw_folder = cache_folder(args.root), raw.folder(args.root, task)
    if task in CORPORA:
        train_files = _train_files(CORPORA[task], args, cache)
    elif args.shards is not None:
        raise UsageError(f"The task '{task}' is prepared whole; leave out --shards.")
    else:
        train_files = int(copies.row(task)["parts"]["train"]["files"])
    workers = args.workers or max(1, int(usable_cores()))

    from htbench.harness.data.prepare import prepare, source_of  # loads much

    write_for_the_group(args.root)
    source = source_of(task, raw_folder)
    with Progress(None, "documents" if task in CORPORA else "images") as progress:
        made = prepare(source, cache, raw_folder, train_files, workers, progress)
    return _note(task, made, source.folder(cache))


def _train_files(corpus: Corpus, args: argparse.Namespace, cache: Path) -> int:
    """How many training files to prepare: what is asked for, and what is there already."""
    if corpus.is_whole:
        if args.shards not in (None, corpus.train_files):
            raise UsageError(
                f"The task '{corpus.task}' is prepared whole, since held-out documents lie in all of its "
                f"{corpus.train_files} files; leave out --shards."
            )
        return corpus.train_files
    prepared = Prepared.read(corpus.folder(cache))
    there = prepared.train_files if prepared else 0
    if args.shards:
        return max(there, min(int(args.shards), corpus.train_files))
    needed = []
    for config in (*_given(args), *_planned(args.root, corpus.task)):
        if config.task == corpus.task:
            samples = config.steps and config.steps * config.batch_size
            assert config.seq_len and config.layout
            needed.append(corpus.files_needed(samples, config.seq_len, config.layout, prepared))
    if not needed and not there:
        raise UsageError(
            f"Nothing says how much of '{corpus.task}' is needed: give --shards N (of "
            f"{corpus.train_files}), or --for with a sweep file or the config of a run."
        )
    return max([there, *needed])


def _given(args: argparse.Namespace) -> Iterator[RunConfig]:
    """The configs of the sweep files and of the runs that the command names."""
    for word in args.files:
        tree = read_yaml(Path(word)) if Path(word).is_file() else {}
        if tree and not tree.keys() & {"base", "blocks", "space"}:
            settings = flatten(tree)
            parts.allow(parts.named(settings), Path(word).parent)
            yield resolve_config(settings)
        else:
            yield from importlib.import_module(ABOVE["plan"]).configs_of(word, args.root)


def _planned(root: Path, task: str) -> Iterator[RunConfig]:
    """A config for every length of run on the task that the sweeps of the store plan."""
    lengths = ("task", "steps", "epochs", "batch_size", "seq_len", "layout", "protocol")
    seen: set[tuple[Any, ...]] = set()
    for name in points.sweep_names(root):
        for point in points.read_points(root, name):
            length = tuple(point.overrides.get(setting) for setting in lengths)
            if length[0] == task and length not in seen:
                seen.add(length)
                given = {name: point.overrides[name] for name in lengths if name in point.overrides}
                yield resolve_config(given)  # the rest may name parts that nobody here asked for
