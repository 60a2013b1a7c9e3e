"""The hyperparameters of the paper's experiments: what was tried and what was best, there and in our runs."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from harness.paper import reported, scales
from harness.paper.experiments import Place
from harness.paper.reported import Row, Setting
from results.compare.ours import Ours
from results.compare.select import Choice
from results.formats.cells import Cell, Column, Section, Table
from results.tables import footnotes
from results.tables.view import View

_FIXED = ("weight_decay", "p", "rank_exponent", "interval")
_COLUMNS = (
    Column("optimizer", "optimizer", "text"),
    Column("source", "source", "text"),
    Column("lr_tried", "lr tried", "text"),
    Column("lr", "best lr"),
    *(Column(name, name.replace("_", " ")) for name in _FIXED),
)
_PAPER = "paper: as stated there; an empty cell is not stated, or the optimizer has no such setting."
_OURS = "ours: the learning rates of the plan and the chosen one; all else is fixed, as in the paper."
_UNPLANNED = "not in the plan of this scale"


def table(view: View) -> Table:
    """One section per workload and scale, the optimizers in the order of the paper."""
    workloads: dict[tuple[str, str], list[Row]] = {}
    for row in reported.rows("hyperparameters"):
        workloads.setdefault((row["dataset"], row["model"]), []).append(row)
    shown: list[Ours | None] = [view.ours(scale) for scale in view.scales]
    if view.asked:
        shown = [None]
    sections = [_section(rows, ours, view.published) for rows in workloads.values() for ours in shown]
    return Table("hyperparameters", "settings that were tried and chosen", sections)


def _section(rows: Sequence[Row], ours: Ours | None, published: bool) -> Section:
    """The optimizers of one workload: a row of the paper, of our runs, or both.

    Fixed: the place (p, interval ...). Selected over: the learning rate.
    """
    cells = [line for row in rows for line in _lines(row, ours, published)]
    first = rows[0]
    scale = ours.scale if ours is not None else "paper"
    task, model = scales.workload(scale, first["dataset"], first["model"])
    notes = [*([_PAPER] if published else []), *([_OURS] if ours is not None else [])]
    if ours is not None and scale != "paper":
        notes.append(f"In miniature: {task} {model} for {first['dataset']} {first['model']}.")
    source = f"{scale} scale" if ours is not None else "published"
    identity = {"scale": scale, "dataset": task, "model": model}
    return Section(f"{task}, {model}: {source}", identity, list(_COLUMNS), cells, notes=tuple(notes))


def _lines(row: Row, ours: Ours | None, published: bool) -> list[list[Cell]]:
    found = [_of_paper(row)] if published else []
    if ours is not None:
        found.append(_of_runs(row, ours))
    return found


def _of_paper(row: Row) -> list[Cell]:
    stated = () if row["stated"] == "yes" else (row["stated"],)
    return [
        Cell(row["optimizer"], notes=stated),
        Cell("paper"),
        Cell(row["lr_grid"]),
        *(_number(row[name]) for name in ("lr_best", *_FIXED)),
    ]


def _number(text: str) -> Cell:
    return Cell(float(text)) if text else Cell()


def _of_runs(row: Row, ours: Ours) -> list[Cell]:
    choices = ours.choices(place(row, ours.scale))
    if not choices:
        return [Cell(row["optimizer"], notes=(_UNPLANNED,)), Cell("ours"), *[Cell()] * (len(_COLUMNS) - 2)]
    choice = choices[-1]  # of several versions of code or data the one planned last
    rates = sorted({candidate.value("lr") for candidate in choice.candidates} - {None})
    return [
        Cell(row["optimizer"], notes=footnotes.unfinished(choice)),
        Cell("ours"),
        Cell(" ".join(f"{rate:g}" for rate in rates)),
        _best(choice, ours.runs(place(row, ours.scale))),
        *(Cell(_value(choice, name)) for name in _FIXED),
    ]


def place(row: Row, scale: str) -> Place:
    """The runs of a row of `hyperparameters.csv` at a scale."""
    numbers = {name: float(row[name]) if row[name] else None for name in ("p", "rank_exponent")}
    interval = int(row["interval"]) if row["interval"] else None
    setting = Setting(row["optimizer"], numbers["p"], numbers["rank_exponent"], interval)
    return Place(row["dataset"], row["model"], scales.setting(scale, setting))


def _best(choice: Choice, part: pd.DataFrame) -> Cell:
    """The chosen learning rate with its footnotes, or why there is none."""
    if choice.winner is None:
        return footnotes.missing(choice)
    notes = footnotes.caveats(part, choice, ["lr"]).get("lr", ())
    return Cell(choice.winner.value("lr"), notes=notes, runs=footnotes.keys(choice.winner.runs))


def _value(choice: Choice, name: str) -> str | float | None:
    """A setting that the plan fixes; all its values if it does not."""
    known = [footnotes.plain(one.runs[0].get(name)) for one in choice.candidates]
    values = list(dict.fromkeys(value for value in known if value is not None))
    return values[0] if len(values) == 1 else " ".join(map(str, values)) or None
