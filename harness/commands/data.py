"""`htbench data prepare`: prepares the published data sets for training."""

import argparse
from pathlib import Path

from htbench.harness.data import raw
from htbench.harness.data.corpus import CORPORA, Corpus
from htbench.harness.data.pictures import SETS
from htbench.harness.data.stamps import ImageFiles, Prepared
from htbench.harness.errors import UsageError, at_least, nearest
from htbench.harness.show.emit import emit
from htbench.harness.show.note import Note
from htbench.harness.show.progress import Progress
from htbench.harness.show.report import Report
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
        help="training files of c4 or fineweb; a run or sweep that needs more is refused and names N",
    )
    making.add_argument("--workers", type=int, metavar="N", help="files at a time (default: usable cores)")


def data(args: argparse.Namespace) -> int:
    """Prepare a set, unless it is, and say what is there."""
    emit(Report("data", "", notes=[_prepare(args, cache_folder(args.root))]), args)
    return 0


def _describe_prepared(task: str, prepared: Prepared | ImageFiles, folder: Path) -> Note:
    """What is prepared in a folder."""
    if isinstance(prepared, ImageFiles):
        images, (_, *sides) = (
            [f"{prepared.count(part)} {part} images" for part in prepared.parts],
            prepared.shape,
        )
        size = sum(prepared.sizes.values())
        return Note("prepared_images", task=task, images=images, sides=sides, size=size, folder=folder)
    train = [shard for shard in prepared.shards.values() if shard.split == "train"]
    return Note(
        "prepared_text",
        task=task,
        files=prepared.train_files,
        of=CORPORA[task].train_files,
        documents=sum(shard.documents for shard in train),
        tokens=sum(shard.tokens for shard in train),
        size=sum(prepared.sizes.values()),
        folder=folder,
    )


# --- prepare ---


def _prepare(args: argparse.Namespace, cache: Path) -> Note:
    task = args.task
    if task not in PREPARED:
        raise UsageError(f"'{task}' is not prepared by this command; {nearest(task, PREPARED)}")
    at_least(args, 1, "shards", "workers")
    published = CORPORA.get(task) or SETS[task]
    if isinstance(published, Corpus) and not published.is_whole:
        train_files = _count_train_files(published, args.shards, published.folder(cache))
    elif args.shards is None:
        train_files = published.train_files
    else:
        raise UsageError(f"The task '{task}' is prepared whole; leave out --shards.")
    workers = args.workers or max(1, int(usable_cores()))

    from htbench.harness.data.prepare import prepare, source_of  # loads much

    write_for_the_group(args.root)
    source = source_of(task)
    with Progress(None, "files") as progress:
        prepared = prepare(source, cache, raw.folder(args.root, task), train_files, workers, progress)
    return _describe_prepared(task, prepared, source.folder(cache))


def _count_train_files(corpus: Corpus, shards: int | None, folder: Path) -> int:
    """How many training files to prepare: what is asked for, and what is there already."""
    prepared = Prepared.read(folder)
    train_files = max(prepared.train_files if prepared else 0, min(shards or 0, corpus.train_files))
    if not train_files:
        raise UsageError(
            f"How many of the {corpus.train_files} training files of '{corpus.task}' are needed? Give "
            f"--shards N; a run or a sweep that lacks data says how many it needs."
        )
    return train_files
