"""Two copies of one run: what one has besides the other, and where they contradict.

A run may be in its folder and in archives, as a command was killed, or stores were copied into one another.
It may be in a store that is imported, too. The copy that readers see counts. Nothing that only another one
has is given up: it is merged if both tell the same results, else both stay, and people are told.
"""

import contextlib
import dataclasses
import functools
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.store import Store, archive
from harness.store.archive import Content
from harness.store.layout import RECORD, run_keys
from harness.store.record import RunRecord
from harness.system import atomic
from harness.system.links import OwnFile, leads_away

_FIGURES = ("acc", "acc_norm")  # of multiple-choice questions


@dataclass(frozen=True)
class Difference:
    """A value in which two records of one run differ.

    Attributes:
        name: `status`, `steps`, a metric, a figure of multiple-choice questions (`piqa.acc`), or `digest` if
            one of the records was changed since it was written.
        here: the value that counts.
        there: that of the other copy.
    """

    name: str
    here: Any
    there: Any


# --- two records ---


def same_result(ours: RunRecord, theirs: RunRecord) -> bool:
    """Whether two records tell the same of the training, but for what depends on the machine."""
    return _result(ours) == _result(theirs)


def differences(ours: RunRecord, theirs: RunRecord) -> list[Difference]:
    """All in which two records contradict each other; what only one of them has is no contradiction."""
    here, there = _result(ours), _result(theirs)
    compared = [Difference(name, here.get(name), there.get(name)) for name in here | there]
    for task in sorted(ours.downstream.keys() & theirs.downstream.keys()):
        here, there = ours.downstream[task], theirs.downstream[task]
        if _questions(here) == _questions(there):
            compared += [Difference(f"{task}.{name}", here.get(name), there.get(name)) for name in _FIGURES]
    return [difference for difference in compared if difference.here != difference.there]


def completed(ours: RunRecord, theirs: RunRecord) -> RunRecord:
    """Our record with what only theirs has: downstream figures, also of more questions, and newer fields."""
    more = {
        task: entry
        for task, entry in theirs.downstream.items()
        if _questions(entry) > _questions(ours.downstream.get(task, {}))
    }
    return dataclasses.replace(ours, downstream=ours.downstream | more, rest=theirs.rest | ours.rest)


def _result(record: RunRecord) -> dict[str, Any]:
    return {"status": record.status, "steps": record.steps, **record.metrics, "digest": record.digest}


def _questions(entry: Mapping[str, Any]) -> float:
    """How many questions an entry is about; less than none if there is no entry."""
    number = entry.get("questions", 0)
    return number if entry and isinstance(number, int) else -1


# --- the copies in one store ---


@dataclass(frozen=True)
class Copy:
    """A run in one place.

    Attributes:
        place: its folder, or an archive.
        names: of its files.
        read: the content of a file by its name.
    """

    place: Path
    names: Collection[str]
    read: Callable[[str], Content]

    @functools.cached_property
    def record(self) -> RunRecord | None:
        """None if there is none, or a damaged one."""
        with contextlib.suppress(ValueError):
            if RECORD in self.names:
                return RunRecord.from_json(atomic.parse_json(self.read(RECORD).data))
        return None


@dataclass(frozen=True)
class Run:
    """One run of a store, wherever it is.

    Attributes:
        seen: the copies whose files readers see: the folder, then the archive that counts.
        others: those in other archives, the highest number first.
    """

    seen: list[Copy]
    others: list[Copy]

    @property
    def record(self) -> RunRecord | None:
        """The record that readers see, unless it is damaged."""
        return next((copy.record for copy in self.seen if RECORD in copy.names), None)

    def contradictions(self) -> dict[Path, list[Difference]]:
        """The archives whose record contradicts the one that readers see, with all differences."""
        ours = self.record
        compared = {
            copy.place: differences(ours, copy.record)
            for copy in (*self.seen, *self.others)
            if ours is not None and copy.record is not None
        }
        return {place: different for place, different in compared.items() if different}

    def merged(self) -> RunRecord | None:
        """The record that readers see, with what other copies have besides."""
        whole = self.record
        for copy in self._fitting():
            if copy.record is not None:
                whole = completed(whole, copy.record) if whole is not None else copy.record
        return whole

    def adds(self) -> bool:
        """Whether other copies have something that readers don't see."""
        known = {name for copy in self.seen for name in copy.names}
        more = {name for copy in self._fitting() for name in copy.names}
        return not more <= known or self.merged() != self.record

    def files(self) -> Iterator[tuple[str, Content]]:
        """All files of the run, from all copies that tell the same results, in the order of their names."""
        first = {name: copy for copy in reversed([*self.seen, *self._fitting()]) for name in copy.names}
        merged = self.merged()
        for name in sorted(first):
            content = first[name].read(name)
            if name == RECORD and merged is not None and merged != self.record:
                content = Content(atomic.json_text(merged.to_json()).encode(), content.modified)
            yield name, content

    def _fitting(self) -> list[Copy]:
        """The copies that tell the same results as the record that readers see, as far as they tell any."""
        ours = self.record
        return [
            copy
            for copy in (*self.seen, *self.others)
            if ours is None or copy.record is None or same_result(ours, copy.record)
        ]


def find(store: Store, key: str) -> Run:
    """A run of a store, with all its copies.

    Raises:
        DamagedError: an archive can't be read.
    """
    packed = store.packed.now()
    archives = [packed.runs[key], *packed.others.get(key, ())] if key in packed.runs else []
    packed_copies = [
        Copy(whole.path, whole.runs[key], functools.partial(whole.content, key)) for whole in archives
    ]
    files = packable(store.run_folder(key))

    def read(name: str) -> Content:
        return Content(files[name].read_bytes(), files[name].stat().st_mtime_ns)

    return Run([Copy(store.run_folder(key), files, read), *packed_copies[:1]], packed_copies[1:])


def several(store: Store, keys: Iterable[str]) -> dict[str, Run]:
    """Those of these packed runs that are in a folder or in another archive, too, in the order of their keys.

    Raises:
        DamagedError: an archive can't be read.
    """
    packed = store.packed.now()
    wanted = {*packed.others, *(packed.runs.keys() & run_keys(store.root))}
    return {key: find(store, key) for key in sorted(wanted.intersection(keys))}


# --- the files in a folder ---


def packable(folder: Path) -> dict[str, Path]:
    """The files in the folder of a run that may go into an archive, by their names."""
    return {name: path for name, path in paths(folder).items() if not unpackable(name, path)}


def unpackable(name: str, path: Path) -> str:
    """Why a file of a run stays out of archives, in a word or two; empty if it can be packed."""
    file = path.lstat()
    if not stat.S_ISREG(file.st_mode):
        return "with links"
    if not archive.may_have(name):
        return "with other files"
    return "with large files" if file.st_size > archive.LARGEST else ""


def paths(folder: Path) -> dict[str, Path]:
    """What is in the folder of a run by its name there, sorted; of links only that they are there."""
    files = dict[str, Path]()
    for place, folders, names in () if leads_away(str(folder), 2, again=True) else os.walk(folder):
        for name in (*names, *(inner for inner in folders if os.path.islink(f"{place}/{inner}"))):
            files[os.path.relpath(f"{place}/{name}", folder)] = OwnFile(place, name)
    return dict(sorted(files.items()))
