"""`htbench data`: prepares the published data sets for training, and lists what is prepared."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import display, tasks
from harness.config import RunConfig, parts
from harness.config.names import flatten
from harness.config.settings import read_yaml, resolve_config
from harness.data import copies
from harness.data.corpus import Corpus
from harness.data.image_files import ImageFiles
from harness.data.pictures import Pictures
from harness.data.prepared import Prepared
from harness.errors import UsageError, nearest
from harness.prepare import raw
from harness.store import points
from harness.store.layout import cache_folder
from harness.store.record import is_imported
from harness.system.folders import write_for_the_group
from harness.system.machine import usable_cores

if TYPE_CHECKING:
    from harness.prepare.work import Source

CORPORA = ("c4", "openwebtext")
PREPARED = (*CORPORA, "cifar10", "cifar100", "imagenet-1k")
# These read sweep files. They lie above `harness`, so they are named by strings, as in `harness/cli.py`.
SWEEP_FILES, PLANNED = "sweeps.spec.given", "sweeps.plan.planned"


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
    return _prepare(args) if args.action == "prepare" else _list(args.root)


# --- prepare ---


def _prepare(args: argparse.Namespace) -> int:
    if args.task not in PREPARED:
        raise UsageError(f"'{args.task}' is not prepared by this command; {nearest(args.task, PREPARED)}")
    for name in ("shards", "workers"):
        if (value := getattr(args, name)) is not None and value < 1:
            raise UsageError(f"--{name} must be at least 1, not {value}.")
    cache, raw_folder = cache_folder(args.root), raw.folder(args.root, args.task)
    train_files = _train_files(_corpus(args.task), args, cache) if args.task in CORPORA else _all_files(args)
    workers = args.workers or max(1, int(usable_cores()))

    from harness.prepare.data_set import prepare  # loads much

    write_for_the_group(args.root)
    source = source_of(args.task, raw_folder)
    with Bar("documents" if args.task in CORPORA else "images") as bar:
        made = prepare(source, cache, raw_folder, train_files, workers, bar)
    print(_line(args.task, made, source.folder(cache)))
    return 0


def source_of(task: str, raw_folder: Path) -> Source[Any]:
    """How `task` is prepared from the raw files in a folder."""
    if task in CORPORA:
        from harness.prepare.corpus_source import CorpusSource

        return CorpusSource(_corpus(task))

    from harness.prepare.picture_copy import Copy

    return Copy.at(_pictures(task), raw_folder)


def _corpus(task: str) -> Corpus:
    found: Corpus = _module(task).CORPUS
    return found


def _pictures(task: str) -> Pictures:
    found: Pictures = _module(task).PICTURES
    return found


def _module(task: str) -> Any:
    return importlib.import_module(tasks.spec(task).loader.partition(":")[0])


def _all_files(args: argparse.Namespace) -> int:
    if args.shards is not None:
        raise UsageError(f"The task '{args.task}' is prepared whole; leave out --shards.")
    return int(copies.row(args.task)["parts"]["train"]["files"])


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
    configs = [*_given(args.files, args.root), *_planned(args.root, corpus.task)]
    needed = [_needed(corpus, config, prepared) for config in configs if config.task == corpus.task]
    if not needed and not there:
        raise UsageError(
            f"Nothing says how much of '{corpus.task}' is needed: give --shards N (of "
            f"{corpus.train_files}), or --for with a sweep file or the config of a run."
        )
    return max([there, *needed])


def _needed(corpus: Corpus, config: RunConfig, prepared: Prepared | None) -> int:
    samples = config.steps and config.steps * config.batch_size
    assert config.seq_len and config.layout
    return corpus.files_needed(samples, config.seq_len, config.layout, prepared)


def _given(words: Sequence[str], root: Path) -> Iterator[RunConfig]:
    """The configs of sweep files and of runs."""
    for word in words:
        tree = read_yaml(Path(word)) if Path(word).is_file() else {}
        if tree and not tree.keys() & {"base", "blocks", "space"}:
            settings = flatten(tree)
            parts.allow(parts.named(settings), Path(word).parent)
            yield resolve_config(settings)
            continue
        reader, planner = importlib.import_module(SWEEP_FILES), importlib.import_module(PLANNED)
        for spec in reader.load_all([word], [], root):
            yield from (one.config for one in planner.search_points(spec))


def _planned(root: Path, task: str) -> Iterator[RunConfig]:
    """A config for every length of run on the task that the sweeps of the store plan."""
    lengths = ("task", "steps", "epochs", "batch_size", "seq_len", "layout", "protocol")
    seen: set[tuple[Any, ...]] = set()
    for name in points.sweep_names(root):
        for point in points.read_points(root, name):
            length = tuple(point.overrides.get(setting) for setting in lengths)
            if length[0] == task and length not in seen and not is_imported(point.overrides):
                seen.add(length)
                given = {name: point.overrides[name] for name in lengths if name in point.overrides}
                yield resolve_config(given)  # the rest may name parts that nobody here asked for


class Bar:
    """Progress: a bar with the time that is left on a terminal, elsewhere a line per file."""

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self._bar: Any = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def say(self, line: str) -> None:
        """Print a line on stderr, above the bar."""
        if self._bar is not None:
            self._bar.write(line, file=sys.stderr)
        else:
            print(line, file=sys.stderr, flush=True)

    def begin(self, total: int) -> None:
        """Begin the bar."""
        from tqdm import tqdm

        self._bar = tqdm(total=total, unit=self.unit, unit_scale=True, disable=None, dynamic_ncols=True)

    def progress(self, done: int) -> None:
        """Move the bar."""
        self._bar.update(done - self._bar.n)


# --- ls ---


def _list(root: Path) -> int:
    lines = [_line(task, made, folder) for task, made, folder in _prepared(cache_folder(root))]
    print(
        "\n".join(lines)
        or f"Nothing is prepared in '{cache_folder(root)}'; see `htbench data prepare --help`."
    )
    return 0


def _prepared(cache: Path) -> Iterable[tuple[str, Prepared | ImageFiles, Path]]:
    for task in PREPARED:
        for folder in sorted(cache.glob(f"{task}-*")):
            if (made := Prepared.read(folder) or ImageFiles.read(folder)) is not None:
                yield task, made, folder


def _line(task: str, made: Prepared | ImageFiles, folder: Path) -> str:
    content = _text(task, made) if isinstance(made, Prepared) else _images(made)
    other = "" if folder.name == f"{task}-{tasks.fingerprint(task)}" else " (of another copy or recipe)"
    return f"{task}: {content} in '{folder}'{other}"


def _text(task: str, made: Prepared) -> str:
    size = sum(size for shard in made.shards.values() for size in shard.sizes.values())
    train = [shard for shard in made.shards.values() if shard.split == "train"]
    documents, tokens = sum(s.documents for s in train), sum(s.tokens for s in train)
    return (
        f"{made.train_files} of {_corpus(task).train_files} training files, {documents} documents, "
        f"{display.count(tokens)} tokens, {display.memory(size)}"
    )


def _images(made: ImageFiles) -> str:
    counts = " and ".join(f"{made.count(part)} {part} images" for part in made.parts)
    return f"{counts} of {made.shape[1]}x{made.shape[2]} pixels, {display.memory(sum(made.sizes.values()))}"
