"""Files of other trainers to runs: every file to tables, tables to lines, lines to runs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.exchange import gather, tensorboard_export, wandb_export, words
from harness.exchange.csv_file import Table, read_csv
from harness.exchange.gather import Gathered
from harness.exchange.mapping import RUN, STEP, Meaning, is_measured
from harness.exchange.tidy import Reader


@dataclass(frozen=True)
class Read:
    """What the files say.

    Attributes:
        runs: as `harness.exchange.assemble` takes them.
        remarks: for people: what was left out.
        files: name, bytes and SHA-256 of every file.
        meanings: of the columns of every file, in words.
    """

    runs: list[Gathered]
    remarks: list[str]
    files: list[dict[str, Any]]
    meanings: list[str]


def read(curves: Sequence[Path], runs: Path | None, means: Meaning, restarts: str = "") -> Read:
    """Read files with curves, and perhaps one with a line per run.

    Args:
        curves: CSV files, or folders of event files.
        runs: a CSV file.
        means: of their columns.
        restarts: a word of `gather.RESTARTS`, or empty.

    Raises:
        UsageError: a file can't be read, or does not say what it must; one sentence.
    """
    files = _files([*curves, *([runs] if runs is not None else [])])
    readers = [Reader(table, means) for path in curves for table in _tables(path)]
    _check_names(readers)
    found = gather.gather((line for reader in readers for line in reader.lines()), restarts)
    tables, remarks = [reader.table for reader in readers], [_left(reader, reader.left) for reader in readers]
    if runs is not None:
        about = Reader(wandb_export.runs(read_csv(runs)), means, is_curve=False)
        remarks += gather.join(found, list(about.lines()), about.table.name)
        unused = [name for name in about.columns if name == STEP or is_measured(name)]
        remarks.append(_left(about, [*about.left, *unused]))
        readers.append(about)
    remarks += _note(found, tables)
    means.check_used(name for reader in readers for name in reader.names)
    meanings = [f"'{reader.table.name}': {reader.meanings()}" for reader in readers]
    return Read(found, [one for one in dict.fromkeys(remarks) if one], files, meanings)


def _tables(path: Path) -> list[Table]:
    """The tables of a file, or of a folder, by its format."""
    if path.is_dir():
        return tensorboard_export.events(path)
    table = read_csv(path)
    if wandb_export.is_chart(table):
        return [wandb_export.chart(table)]
    if wandb_export.is_history(table):
        return [wandb_export.history(table)]
    return [tensorboard_export.scalars(table) if tensorboard_export.is_scalars(table) else table]


def _check_names(readers: Sequence[Reader]) -> None:
    names = [reader.run for reader in readers if reader.run]
    for reader in readers:
        if names.count(reader.run) > 1:
            raise UsageError(
                f"Two files would be the run '{reader.run}', one of them '{reader.table.name}'; give them "
                "other names, or a column run."
            )


def _note(runs: Sequence[Gathered], tables: Sequence[Table]) -> list[str]:
    """Add to each run the notes of the tables, which are by its word; also for people."""
    for run in runs:
        found = (table.notes.get(str(run.facts.get(RUN))) for table in tables)
        run.notes += [note for note in found if note]
    return [f"{run.name}: {note}" for run in runs for note in run.notes]


def _left(reader: Reader, names: Sequence[str]) -> str:
    if not names:
        return ""
    return f"'{reader.table.name}': left out, as nothing says what they mean: {words.listed(names)}"


def _files(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """What was read, so that it can be found again. Folders are named with their event files."""
    found: list[dict[str, Any]] = []
    for path in paths:
        inside = tensorboard_export.event_files(path) if path.is_dir() else [path]
        for one in inside:
            data = _bytes(one)
            name = _name(str(one.relative_to(path.parent)))
            found.append({"file": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()})
            if found[-1] in found[:-1]:
                raise UsageError(f"'{path}' is given twice; name each file once.")
    return found


def _name(path: str) -> str:
    try:
        return words.word(path)
    except UsageError as error:
        raise UsageError(f"The file {error}.") from None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"There is no file '{path}'.") from None
    except OSError as error:
        raise UsageError(f"'{path}' can't be read: {error.strerror or error}.") from None
