"""Writes docs/reproduction.md and its figures from a store in which `htbench reproduce nano` has run.

    python -m docs.reproduction_page --root STORE           prints the page
    python -m docs.reproduction_page --root STORE --write   writes it into docs/, and for `reproduce` how long
                                                            experiments take

All is made from the records but docs/reproduction_discussion.md, which people write and this page includes.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import pandas as pd
from PIL import Image

from harness.paper import experiments, reported, scales
from harness.show import numbers
from harness.show.emit import as_text
from harness.show.report import Report, Section
from harness.store import Store
from results.compare.view import View
from results.figures.declared import FIGURES
from results.figures.files import update, views
from results.frames.load import load
from results.page import overview
from results.tables.ledger import ledger
from results.tables.registry import TABLES
from sweeps.reproduce_card import SEEN

SCALE = "nano"
PLACE = Path(__file__).with_name("reproduction.md")
PICTURES = Path(__file__).with_name("reproduction")
DISCUSSION = Path(__file__).with_name("reproduction_discussion.md")
MOST_LINES = 16  # of a table that is not folded
MOST_NOTES = 2
COLOURS = 128  # of a picture; more make it larger and look the same
_OWN = ("hyperparameters", "flops")  # tables beside those with published numbers

_HEAD = """\
# The paper in miniature

Written by `python -m docs.reproduction_page --write --root STORE` from the records of `htbench reproduce
nano`. Don't edit it; its discussion is [a page of its own](reproduction_discussion.md).

`htbench reproduce nano` trains every experiment of the HTMuon paper in miniature: the same optimizers, the
same comparisons, the same tables, on data that every installation has. Learning rates are chosen on
validation, from as many for every row. What is reported is the test result of the chosen one on three fresh
seeds, as mean ± sample standard deviation. The published numbers stand beside ours and can't be compared with
them: models, data and length differ. Which of two optimizers is better can be compared; the ledger does."""

_FIGURES = "Our runs only. Each figure is also a PDF and a CSV file after `htbench figure`."
_DISAGREE = (
    "Orderings that our runs contradict: the 95% interval of our gap lies on the other side of 0. "
    "Bold ones also hold in their family (Benjamini and Hochberg)."
)


def main(words: Sequence[str] | None = None) -> int:
    """Print or write the page."""
    parser = argparse.ArgumentParser(prog="python -m docs.reproduction_page", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="the store, which is only read")
    parser.add_argument("--write", action="store_true", help="into docs/")
    args = parser.parse_args(words)
    store = Store(args.root)
    own = [experiments.sweep(SCALE, one) for one in experiments.experiments(SCALE)]
    frame = load(store, own)
    if not args.write:
        print(page(store, frame, list(FIGURES)), end="")
        return 0
    drawn = write_pictures(store, frame)
    PLACE.write_text(page(store, frame, drawn), encoding="utf-8")
    SEEN.write_text(seen(frame), encoding="utf-8")
    print(f"{PLACE}, {SEEN} and {len(drawn)} pictures in {PICTURES}", file=sys.stderr)
    return 0


def page(store: Store, frame: pd.DataFrame, pictures: Iterable[str]) -> str:
    """The whole page, as Markdown."""
    view = View(frame, "both", [SCALE], store)
    tables = [TABLES[name](view) for name in (*reported.tables(), *_OWN) if name in TABLES]
    (claims,) = ledger(frame, store, [SCALE])
    return assembled(
        facts=facts(frame),
        twins=twins(frame),
        first=readable(tables[0]),
        verdict=claims.sections[0].notes[0],
        contradicted=without_title(readable(rows_with(claims, "verdict", "contradicts"))),
        discussion=DISCUSSION.read_text(encoding="utf-8") if DISCUSSION.exists() else "",
        tables=[readable(table) for table in tables[1:]],
        pictures=list(pictures),
        ledger=without_title(readable(claims)),
        cost=[readable(table) for table in (*overview.cost(frame), overview.environments(frame))],
    )


def assembled(
    *,
    facts: str,
    twins: str,
    first: str,
    verdict: str,
    contradicted: str,
    discussion: str,
    tables: Sequence[str],
    pictures: Sequence[str],
    ledger: str,
    cost: Sequence[str],
) -> str:
    """The page from its parts."""
    parts = [_HEAD, facts, f"**{verdict}**", "## What stands for what", twins, "## The main result", first]
    parts += ["## What disagrees with the paper", _DISAGREE, contradicted]
    parts += ["## Discussion", under_heading(discussion)] if discussion else []
    parts += ["## The other tables", *tables, "## Figures", _FIGURES, *map(_picture, pictures)]
    parts += ["## Every claim", ledger, "## What it cost", *cost]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


# --- facts ---


def facts(frame: pd.DataFrame) -> str:
    """How many runs, how long, on what."""
    done = overview.finished(frame)
    lost = frame.drop_duplicates("key")["state"].value_counts().drop("completed", errors="ignore")
    others = ", ".join(f"{count} {state}" for state, count in sorted(lost.items())) or "none"
    machines = ", ".join(sorted({str(name) for name in done["machine"].dropna()}))
    busy, spans = elapsed(done), sum(_seconds(done))
    return (
        f"{len(done)} runs on {machines} took {numbers.duration(busy)}, pauses left out, with "
        f"{spans / busy if busy else 0:.1f} at a time on average. Points without a completed run: {others}."
    )


def elapsed(done: pd.DataFrame) -> float:
    """Seconds in which at least one of the runs was under way."""
    began, ended = (pd.to_datetime(done[name]).map(pd.Timestamp.timestamp) for name in ("began", "ended"))
    total, until = 0.0, float("-inf")
    for start, end in sorted(zip(began, ended, strict=True)):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def _seconds(done: pd.DataFrame) -> pd.Series[float]:
    began, ended = (pd.to_datetime(done[name]) for name in ("began", "ended"))
    return (ended - began).dt.total_seconds()


def seen(frame: pd.DataFrame) -> str:
    """What `htbench reproduce` tells of the time of experiments that nobody has run yet, as CSV."""
    done = overview.finished(frame)
    done = done.assign(seconds=_seconds(done))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["experiment", "runs", "steps", "seconds"])
    for sweep, part in done.groupby("sweep", sort=False):
        experiment = str(sweep).partition("-")[2]
        writer.writerow([experiment, len(part), int(part["steps"].sum()), round(part["seconds"].sum())])
    return out.getvalue()


def twins(frame: pd.DataFrame) -> str:
    """The workloads of the paper and what stands for them here."""
    done = overview.finished(frame)
    head = ["published", "here", "parameters", "steps", "tokens seen"]
    rows = []
    for dataset, model in scales.WORKLOADS:
        task, twin = scales.workload(SCALE, dataset, model)
        part = done[(done["task"] == task) & (done["model"] == twin)]
        if not part.empty:
            rows.append([f"{dataset}, {model}", f"{task}, {twin}", *_size(part)])
    return table([head, *rows])


def _size(runs: pd.DataFrame) -> list[str]:
    """Parameters, steps and tokens; of images there are none."""
    counts = [runs[name].max() for name in ("parameters", "steps", "tokens")]
    return [numbers.count(int(count)) if pd.notna(count) and count else "" for count in counts]


# --- Markdown ---


def table(rows: Sequence[Sequence[str]]) -> str:
    """A plain table; the first row is the head."""
    head, *body = (f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)
    return "\n".join([head, "|" + " --- |" * len(rows[0]), *body])


def rows_with(found: Report, column: str, word: str) -> Report:
    """A table of those rows alone that have a word in a column, without the notes on whole sections."""
    sections = []
    for section in found.sections:
        place = [one.name for one in section.columns].index(column)
        rows = [row for row in section.rows if row[place].text() == word]
        if rows:
            sections.append(Section(section.title, section.identity, section.columns, rows))
    return Report(found.name, found.title, sections)


def readable(found: Report) -> str:
    """A table two headings deeper, with long grids and footnotes folded away."""
    lines = as_text([found], "md").strip("\n").split("\n")
    blocks = ((kind, list(block)) for kind, block in groupby(lines, key=_kind))
    return "\n".join(line for kind, block in blocks for line in _folded(kind, block))


def _kind(line: str) -> str:
    return {"|": "rows", "-": "notes", "#": "heading"}.get(line[:1], "text")


def _folded(kind: str, block: list[str]) -> Iterator[str]:
    if kind == "heading":
        yield from (f"#{line}" for line in block)
    elif kind == "rows" and len(block) > MOST_LINES:
        yield from _details(f"{len(block) - 2} rows", block)
    elif kind == "notes" and len(block) > MOST_NOTES:
        yield from _details("Footnotes", block)
    else:
        yield from block


def _details(summary: str, block: list[str]) -> list[str]:
    return ["<details>", f"<summary>{summary}</summary>", "", *block, "", "</details>"]


def without_title(text: str) -> str:
    """A table under a heading of the page, which says what it is."""
    return re.sub(r"\A### .*\n", "", text)


def under_heading(text: str) -> str:
    """A page as a part of another: without its title, its headings one deeper."""
    text = re.sub(r"\A# .*\n", "", text)
    return re.sub(r"^(#+ )", r"#\1", text, flags=re.MULTILINE).strip("\n")


def _picture(name: str) -> str:
    words = name.replace("_", " ")
    return f"### {words}\n\n![{words}]({PICTURES.name}/{name}.png)"


# --- pictures ---


def write_pictures(store: Store, frame: pd.DataFrame) -> list[str]:
    """Draw all figures; returns the names of those that have something to show."""
    shown = views(frame, store, "runs", [SCALE])
    PICTURES.mkdir(exist_ok=True)
    for old in PICTURES.glob("*.png"):
        old.unlink()
    names = []
    with tempfile.TemporaryDirectory() as folder:
        for name in FIGURES:
            for path in update(name, frame, store, Path(folder), shown).paths:
                if path.suffix == ".png":
                    (PICTURES / path.name).write_bytes(smaller(path.read_bytes()))
                    names.append(name)
    return names


def smaller(png: bytes) -> bytes:
    """The picture with fewer colours."""
    out = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS).save(out, "PNG", optimize=True)
    return out.getvalue()


if __name__ == "__main__":
    sys.exit(main())
