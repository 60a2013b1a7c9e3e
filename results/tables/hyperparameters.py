"""The hyperparameters of the paper's experiments: what was tried and what was best, there and in our runs."""

from collections.abc import Sequence

from htbench.harness.choice.winner import grouped
from htbench.harness.paper import reported, scales
from htbench.harness.paper.reported import Place, Row
from htbench.harness.show.note import Note, text
from htbench.harness.show.report import Cell, Column, Report, Section
from htbench.results.compare.measured import UNDECIDABLE
from htbench.results.compare.paper_runs import PaperRuns
from htbench.results.compare.select import Choice
from htbench.results.compare.view import View
from htbench.results.tables import footnotes

_FIXED = ("weight_decay", "p", "rank_exponent", "interval")
_COLUMNS = (
    Column("optimizer", kind="text"),
    Column("source", kind="text"),
    Column("lr_tried", "lr tried", "text"),
    Column("lr", "best lr"),
    *(Column(name, name.replace("_", " ")) for name in _FIXED),
)


def make_table(view: View) -> Report:
    """One section per workload and scale, the optimizers in the order of the paper."""
    workloads = grouped(reported.rows("hyperparameters"), lambda row: (row["dataset"], row["model"]))
    sources: list[PaperRuns | None] = [None] if view.asked else [view.ours(scale) for scale in view.scales]
    sections = [
        _make_section(rows, our_runs, view.published) for rows in workloads.values() for our_runs in sources
    ]
    notes = footnotes.note_missing_languages(*view.scales)
    return Report("hyperparameters", "settings that were tried and chosen", sections, notes=notes)


def _make_section(rows: Sequence[Row], our_runs: PaperRuns | None, published: bool) -> Section:
    """The optimizers of one workload: a row of the paper, of our runs, or both.

    Fixed: the place (p, interval ...). Selected over: the learning rate.
    """
    cells = []
    for row in rows:
        if published:
            cells.append(_make_paper_row(row))
        if our_runs is not None:
            cells.append(_make_run_row(row, our_runs))
    scale = our_runs.scale if our_runs is not None else "paper"
    dataset, published_model = rows[0]["dataset"], rows[0]["model"]
    task, model = scales.workload(scale, dataset, published_model)
    notes = [Note("hyper_paper")] if published else []
    if our_runs is not None:
        notes.append(Note("hyper_ladder" if scale == "ladder" else "hyper_ours"))
    if scale != "paper" and (dataset, published_model) in scales.twins(scale):
        notes.append(
            Note("hyper_miniature", task=task, model=model, dataset=dataset, published=published_model)
        )
    source = f"{scale} scale" if our_runs is not None else "published"
    identity = {"scale": scale, "dataset": task, "model": model}
    return Section(f"{task}, {model}: {source}", identity, _COLUMNS, cells, notes=tuple(notes))


def _make_paper_row(row: Row) -> list[Cell]:
    return [
        Cell(row["optimizer"], notes=() if row["stated"] == "yes" else (text(row["stated"]),)),
        Cell("paper"),
        Cell(row["lr_grid"]),
        *(Cell(float(row[name]) if row[name] else None) for name in ("lr_best", *_FIXED)),
    ]


def _make_run_row(row: Row, our_runs: PaperRuns) -> list[Cell]:
    names = ("dataset", "model", "optimizer", "p", "rank_exponent", "interval")
    place = Place(**reported.read_numbers({name: row[name] for name in names})).at(our_runs.scale)
    choices = our_runs.choices(place)
    if not choices:
        why = Note("hyper_unplanned") if place.has_twin else UNDECIDABLE
        unplanned = Cell(row["optimizer"], notes=(why,))
        return [unplanned, Cell("ours"), *[Cell()] * (len(_COLUMNS) - 2)]
    choice = choices[-1]  # of several versions of code or data the one planned last
    rates = sorted({candidate.value("lr") for candidate in choice.candidates} - {None})
    if choice.winner is None:
        best = footnotes.explain_missing(choice)
    else:
        notes = footnotes.note_caveats(choice, ["lr"]).get("lr", ())
        best = Cell(choice.winner.value("lr"), notes=notes, runs=footnotes.list_keys(choice.winner.runs))
    return [
        Cell(row["optimizer"], notes=footnotes.note_unfinished(choice)),
        Cell("ours"),
        Cell(" ".join(f"{rate:g}" for rate in rates)),
        best,
        *(Cell(_read_setting(choice, name)) for name in _FIXED),
    ]


def _read_setting(choice: Choice, name: str) -> str | float | None:
    """A setting that the plan fixes; all its values if it does not."""
    cells = [footnotes.to_plain(candidate.runs[0].get(name)) for candidate in choice.candidates]
    values = list(dict.fromkeys(value for value in cells if value is not None))
    return values[0] if len(values) == 1 else " ".join(map(str, values)) or None
