"""What tables, ledger and figures say of a store, as lines of values and lines of sentences.

Values are all that a redesign must keep: numbers, states, what is chosen and bold, n, spread, intervals,
names and labels of columns, how many notes a cell has, which runs it comes from. Sentences (titles, notes,
mixtures, warnings) are apart, as better words are welcome. Keys of runs are masked: r1 is the first one that
a table names.
"""

import argparse
import contextlib
import csv
import functools
import gzip
import io
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

# All that this needs of the packages.
from htbench.harness.cli import call
from htbench.harness.show.emit import as_bytes, as_text, emit
from htbench.harness.show.report import Report
from htbench.harness.store import Store
from htbench.results.figures.registry import FIGURES
from htbench.results.frames.load import load_rows
from htbench.results.frames.rows import Rows

# Draws a figure: its pictures are replaced by nothing, as they are slow.
RENDER = "htbench.results.figures.files.render"
LOAD = "htbench.results.commands.load_rows"
# What a command has made is read in two forms, as making it takes much longer.
AS_BYTES, EMIT = "htbench.results.commands.as_bytes", "htbench.results.commands.emit"

GOLDEN = Path(__file__).parents[1] / "golden" / "tables"


@dataclass
class Snapshot:
    """Lines, each with the name of its table before it."""

    values: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Said:
    """What a command has printed, and its exit status."""

    out: str
    err: str
    status: int


def say(*words: str | Path, fails: bool = False) -> Said:
    """Call a command, whose exit status is 0 unless `fails`."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = call([str(word) for word in words])
    assert fails or status == 0, f"{words}: {status}, {err.getvalue()}"
    return Said(out.getvalue(), err.getvalue(), status)


def take(root: Path, source: str = "both", ledger: bool = True) -> Snapshot:
    """All tables, the ledger and the values of all figures of a store.

    Args:
        root: the store; its folder is written to.
        source: of `htbench table` and `htbench figure`.
        ledger: whether to hold its runs against the paper, which is long where it has none of the paper's.
    """
    found, keys = Snapshot(), _keys(root)
    with mock.patch(LOAD, _once(load_rows)):
        _tables(found, root, keys, source)
        if ledger:
            _ledger(found, root, keys)
        _figures(found, root, keys, source)
    return found


def _once(load: Callable[..., Rows]) -> Callable[..., Rows]:
    """The rows of a whole store, which are made once for all commands; each gets their warnings."""
    told: list[object] = []
    kept = functools.cache(lambda store: load(store, None, told.append))

    def again(store: Store, sweeps: Sequence[str] | None, warn: Callable[[object], object]) -> Rows:
        assert sweeps is None
        rows = kept(store)
        for one in told:
            warn(one)
        return rows

    return again


def _keys(root: Path) -> list[str]:
    """The keys of all runs and the names of all slots, which have a digest, too.

    They are read from names and lines, so that no reader of ours is needed.
    """
    found = {path.name for path in root.glob("runs/*/*")}
    texts = [*root.glob("sweeps/*/points.jsonl"), *root.glob("sweeps/*/slots/*/*.json")]
    for path in texts:
        text = path.read_text()
        found |= set(re.findall(r'"key": "([0-9a-f]{12})"', text))
        found |= set(re.findall(r'"slot": "([^"]+)"', text))
    return sorted(found, reverse=True)  # slot 10 before slot 1


def _masked(keys: Iterable[str], root: Path) -> Callable[[str], str]:
    """Replaces keys by r1, r2 ... in the order in which it first meets them, and the store by ROOT."""
    names: dict[str, str] = {}
    pattern = re.compile("|".join(map(re.escape, keys)) or "(?!)")

    def name(match: re.Match[str]) -> str:
        return names.setdefault(match[0], f"r{len(names) + 1}")

    return lambda text: pattern.sub(name, text.replace(str(root), "ROOT"))


# --- tables and ledger ---


def _tables(found: Snapshot, root: Path, keys: Sequence[str], source: str) -> None:
    out, texts = root.parent / "tables", dict[str, str]()
    command = ("table", "--root", root, "--source", source)

    def both(report: Report, form: str) -> bytes:
        texts[report.name] = as_text([report], "csv")
        return as_bytes(report, form)

    with mock.patch(AS_BYTES, both):
        err = say(*command, "--out", out, "--format", "json").err
    found.words += [_masked(keys, root)(f"table | warning: {line}") for line in err.splitlines()]
    for path in sorted(out.glob("*.json")):
        (table,) = json.loads(path.read_text())
        _table(found, f"table {path.stem}", table, texts[path.stem], _masked(keys, root))
    strict = say(*command, "--strict", "main_result", "lr_grid", fails=True)
    found.values.append(f"table --strict | exit status {strict.status}")


def _ledger(found: Snapshot, root: Path, keys: Sequence[str]) -> None:
    texts: list[str] = []

    def both(reports: Sequence[Report], args: argparse.Namespace) -> None:
        texts.append(as_text(reports, "csv"))
        emit(reports, args)

    with mock.patch(EMIT, both):
        tables, mask = json.loads(say("ledger", "--root", root, "--json").out), _masked(keys, root)
    for number, table in enumerate(tables):
        _table(found, f"ledger {table['name']}", table, "" if number else texts[0], mask)


def _table(found: Snapshot, name: str, table: dict[str, Any], text: str, mask: Callable[[str], str]) -> None:
    values, words = [f"{len(table['sections'])} sections"], [f"title: {table['title']}"]
    for number, section in enumerate(table["sections"]):
        own, said_there = _section(section)
        values += [f"section {number} | {line}" for line in own]
        words += [f"section {number} | {line}" for line in said_there]
    values += [f"csv | {line}" for line in _csv(text)]
    found.values += [mask(f"{name} | {line}") for line in values]
    found.words += [mask(f"{name} | {line}") for line in words]


def _section(section: dict[str, Any]) -> tuple[list[str], list[str]]:
    values = [f"identity {json.dumps(section['identity'])}", f"axis {section['axis']}"]
    values += [f"column {json.dumps(_rounded(list(column.values())))}" for column in section["columns"]]
    notes: dict[str, int] = {}
    marks = []
    for at, row in enumerate(section["rows"]):
        values += [f"row {at} {json.dumps(_cell(cell), ensure_ascii=False)}" for cell in row]
        own = [[notes.setdefault(note, len(notes)) for note in cell["notes"]] for cell in row]
        marks += [f"notes of row {at}: {own}"] if any(own) else []
    values.append(f"{len(section['notes'])} notes, {len(section['mixtures'])} mixtures")
    words = [f"title: {section['title']}"]
    words += [f"of all: {note}" for note in section["notes"]]
    words += [f"mixture: {mixture}" for mixture in section["mixtures"]]
    words += [f"note {number}: {note}" for note, number in notes.items()]
    return values, [*words, *marks]


def _cell(cell: dict[str, Any]) -> list[Any]:
    """The value as printed and as a number, and all else that is said of it, as short as it can be."""
    marks = "".join(mark for mark, name in (("*", "chosen"), ("b", "bold")) if cell[name])
    spread = [cell["std"], cell["n"], cell["interval"]]
    whole = [cell["text"], cell["value"], spread, cell["state"], marks, len(cell["notes"])]
    whole.append(" ".join(cell["runs"]))
    known = {"text", "value", "std", "n", "interval", "state", "chosen", "bold", "notes", "kinds", "runs"}
    return _rounded([*whole, *(cell[name] for name in sorted(cell.keys() - known))])


def _rounded(value: Any) -> Any:
    """Ten digits of each number: the order of a sum may decide the others."""
    if isinstance(value, float):
        return float(f"{value:.10g}")
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value


def _csv(text: str) -> list[str]:
    """The lines of a CSV file; of notes only whether there are any."""
    rows = list(csv.reader(io.StringIO(text)))
    if not rows:
        return []
    apart = rows[0].index("notes")
    short = [[*row[:apart], "..." if row[apart] else "", *row[apart + 1 :]] for row in rows[1:]]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([rows[0], *short])
    return out.getvalue().splitlines()


# --- figures ---


def _figures(found: Snapshot, root: Path, keys: Sequence[str], source: str) -> None:
    """The CSV file of each figure. Nothing is drawn: that takes a hundred times as long."""
    out = root.parent / "figures"
    with mock.patch(RENDER, _undrawn):
        done = say("figure", "--root", root, "--source", source, "--out", out)
    mask = _masked(keys, root)
    found.words += [mask(f"figure | warning: {line}") for line in done.err.splitlines()]
    said = done.out.replace(str(out), "OUT").splitlines()
    found.words += [mask(f"figure | {line}") for line in said]
    for name in FIGURES:
        path, mask = out / f"{name}.csv", _masked(keys, root)
        rows = path.read_text().splitlines() if path.exists() else ["nothing"]
        found.values += [mask(f"figure {name} | {row}") for row in rows]


def _undrawn(picture: Any) -> dict[str, bytes]:
    return {"png": b"", "pdf": b""}


# --- the golden files ---


def read(name: str) -> Snapshot:
    """What is in the golden files of a store."""
    values, words = _paths(name)
    return Snapshot(
        gzip.decompress(values.read_bytes()).decode().splitlines(), words.read_text("utf-8").splitlines()
    )


def write(name: str, found: Snapshot) -> None:
    """Write the golden files of a store. Same lines, same bytes.

    Sentences are plain text, as people read how they change; values are many and stay.
    """
    values, words = _paths(name)
    values.write_bytes(gzip.compress(("\n".join(found.values) + "\n").encode(), mtime=0))
    words.write_text("\n".join(found.words) + "\n", "utf-8")


def _paths(name: str) -> tuple[Path, Path]:
    return GOLDEN / f"{name}.values.gz", GOLDEN / f"{name}.words.txt"
