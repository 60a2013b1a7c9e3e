"""Compact records: of each sweep that a page is made of, one small archive that is a store again.

    python -m docs.reproduction_records --root STORE nano-imagenet ...    writes docs/reproduction/records/
    python -m docs.reproduction_records --root STORE --to docs/ladder/records --points 50 ladder-s1 ...

An archive has the plan of a sweep and of each run what tables and figures read: record, curve, spectra, and
of fresh seeds the losses of the test split, those of text summed by document. There is no second format:
unpacked side by side they are a store that every command reads, `htbench runs import` takes them into another
one, and records are still held against their curves. With `--points` a curve of training has at most so many
rows, each the mean of the updates since the one before; all evaluations stay, since tables read them. Logs,
attempts and weights stay out. Same runs, same bytes.
"""

import argparse
import io
import itertools
import json
import math
import sys
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from htbench.harness.store import Store, curve, items
from htbench.harness.store.compact import SUFFIX, unpack
from htbench.harness.store.importing import list_plan_files
from htbench.harness.store.layout import METRICS, RECORD, SPECTRA, STORE, TEST_ITEMS
from htbench.harness.store.points import POINTS, REPLICATE, SPEC, read_points, sweep_folder
from htbench.harness.store.run_folder import RunFolder

PLACE = Path(__file__).with_name("reproduction") / "records"
DEMO = ("demo-pydocs", "demo-digits")
_KEPT = (RECORD, METRICS, SPECTRA)
_OF_REPLICAS = (TEST_ITEMS,)


def write(store: Store, sweep: str, folder: Path = PLACE, points: int | None = None) -> Path:
    """Write the archive of a sweep.

    Args:
        store: which has the sweep; it is only read.
        sweep: the name. Of its runs those that have ended are kept.
        folder: where.
        points: rows of a curve of training, at most; None: all.

    Raises:
        UsageError: the sweep is unknown or its plan is damaged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{sweep}{SUFFIX}"
    with tarfile.open(place, "w:xz", preset=9, format=tarfile.PAX_FORMAT) as archive:
        for path in _files(store, sweep):
            content = _content(store, path, points)
            member = tarfile.TarInfo(path.relative_to(store.root).as_posix())
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return place


def _files(store: Store, sweep: str) -> Iterator[Path]:
    """The files of a sweep; those of one kind stand together, since they are alike."""
    points = [point for point in read_points(store.root, sweep) if store.record(point.key)]
    plan = sweep_folder(store.root, sweep)
    names = [POINTS, SPEC, *(name for name in list_plan_files(plan) if name not in (POINTS, SPEC))]
    yield from (store.root / STORE, *(plan / name for name in names))
    fresh = {point.key for point in points if point.stage == REPLICATE}
    for name in (*_KEPT, *_OF_REPLICAS):
        for key in sorted(fresh if name in _OF_REPLICAS else {point.key for point in points}):
            path = store.files(key).record.with_name(name)
            if path.is_file():
                yield path


def _content(store: Store, path: Path, points: int | None) -> bytes:
    """What the archive has of a file."""
    if path.name == TEST_ITEMS:
        files = RunFolder(path.parent)
        record = store.record(path.parent.name)
        kept = items.read(files, record) if record is not None else None
        if isinstance(kept, items.TestItems):  # else it is damaged, and shall be seen to be
            return items.packed(kept, by_document=True)
    if path.name == METRICS and points:
        rows = thinned(curve.read(path), points)
        return "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    return path.read_bytes()


def thinned(rows: Sequence[Mapping[str, Any]], points: int) -> list[Mapping[str, Any]]:
    """The rows of a curve with at most `points` rows of training (at least ten), and all evaluations.

    The last tenth of the updates, whose mean is the record's training loss, has rows of its own.
    """
    training = [row for row in rows if "loss" in row]
    if len(training) <= points:
        return list(rows)
    last = training[-1]["step"]
    late = [row for row in training if row["step"] > last - max(1, last // 10)]
    early = training[: len(training) - len(late)]
    blocks = [*_blocks(early, points - points // 10), *_blocks(late, points // 10)]
    kept = [*map(_mean, blocks), *(row for row in rows if "loss" not in row)]
    return sorted(kept, key=lambda row: int(row["step"]))


def _blocks(rows: Sequence[Mapping[str, Any]], most: int) -> list[Sequence[Mapping[str, Any]]]:
    count = min(most, len(rows))
    edges = [len(rows) * i // count for i in range(count + 1)]
    return [rows[start:end] for start, end in itertools.pairwise(edges)]


def _mean(block: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    losses = [row["loss"] for row in block]
    known = None not in losses
    mean = float(f"{math.fsum(losses) / len(losses):.11g}") if known else None
    return {**block[-1], "loss": mean, "updates": len(block)}


def sweeps(folder: Path = PLACE) -> list[str]:
    """The sweeps that have an archive."""
    return sorted(path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}"))


def unpacked(target: Path, wanted: Iterable[str], folder: Path = PLACE) -> Store:
    """A store with the runs of some archives, in an empty folder."""
    for sweep in wanted:
        unpack(folder / f"{sweep}{SUFFIX}", target)
    return Store(target)


def main(words: Sequence[str] | None = None) -> int:
    """Write archives."""
    parser = argparse.ArgumentParser(prog="python -m docs.reproduction_records", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="the store, which is only read")
    parser.add_argument("--to", type=Path, default=PLACE, help="the folder of the archives")
    parser.add_argument("--points", type=int, help="rows of a curve of training, at most (default: all)")
    parser.add_argument("sweeps", nargs="+", help="names of its sweeps")
    args = parser.parse_args(words)
    for sweep in args.sweeps:
        place = write(Store(args.root, read_only=True), sweep, args.to, args.points)
        print(f"{place}: {place.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
