"""The tables of the paper, from their layouts: published numbers, our runs, or both.

`layouts.csv` says of each what its rows and columns are, what divides it into sections, what is chosen in a
cell and what is fixed. Fields are those of `value`.
"""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from htbench.harness.choice.winner import grouped
from htbench.harness.paper import experiments, reported, scales
from htbench.harness.paper.reported import Reported
from htbench.harness.show.note import Note
from htbench.harness.show.report import Cell, Column, Report, Section
from htbench.harness.show.status import UNFINISHED, Status
from htbench.harness.store.points import SEARCH
from htbench.results.compare import slips
from htbench.results.compare.contender import reach
from htbench.results.compare.fixed import twins
from htbench.results.compare.measured import UNDECIDABLE, UNPLANNED, Measured, at_rate, measured
from htbench.results.compare.ours import Ours
from htbench.results.compare.quantities import QUESTIONS, is_decidable, is_time, metric_of, quantity
from htbench.results.compare.select import Choice
from htbench.results.compare.stats import Summary
from htbench.results.compare.view import Side, View
from htbench.results.frames.metrics import is_missing
from htbench.results.tables import footnotes, timing
from htbench.results.tables.verdicts import RULES, compare

Value = str | float | None
Key = tuple[Value, ...]
_STEPS = ("lr", "p", "interval")  # fields that are numbers and ascend
_LAST = {"p": float("inf")}  # where a number is missing: of p it means any, the column of the tuned p
Outlook = Callable[[str], Note | str]
_NOT_PRINTED = ""
_HEAVY_TAILED = {"muon": "htmuon", "normuon": "htmuon_normuon"}  # what tables over p call these, at p = 0


@dataclass(frozen=True)
class Layout:
    """How the published numbers of one table are arranged.

    Attributes:
        title: what it shows.
        rows, columns, sections: the fields that tell its rows, columns and sections apart.
        axis: the field that the columns are steps of, if it is a grid. One over p has a column more: p chosen
            on validation together with the learning rate.
        selects: what is chosen, in words; empty if nothing is.
        fixes: what else is tuned elsewhere and fixed here, in words.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    sections: tuple[str, ...]
    axis: str
    selects: str
    fixes: str


def _layouts() -> dict[str, Layout]:
    with Path(__file__).with_name("layouts.csv").open(encoding="utf-8", newline="") as file:
        return {
            row.pop("name"): Layout(
                **row | {name: tuple(row[name].split()) for name in ("rows", "columns", "sections")}
            )
            for row in csv.DictReader(file)
        }


LAYOUTS = _layouts()


def table(name: str, view: View) -> Report:
    """A table of the paper; without sections if there is nothing to show."""
    layout = LAYOUTS[name]
    parts = grouped(reported.of_table(name), lambda line: key(line, layout.sections))
    sides, notes = view.sides, []
    if any(line.metric in QUESTIONS for line in reported.of_table(name)):
        sides, notes = (
            [replace(side, ours=None) for side in sides if side.published],
            [Note("asked_of_export")],
        )
    sections = [_section(layout, lines, side) for lines in parts.values() for side in sides]
    empty = [
        own for own in view.scales if not any(is_decidable(line, own) for line in reported.of_table(name))
    ]
    return Report(name, layout.title, sections, notes=[*notes, *footnotes.without_languages(*empty)])


# --- the fields of a published number ---


def value(line: Reported, field: str) -> Value:
    """A field of a published number; None if its optimizer has none."""
    over_p = LAYOUTS[line.table].axis == "p"
    if field == "optimizer":
        return _HEAVY_TAILED.get(line.setting.optimizer, line.row) if over_p else line.row
    if field == "p":
        return 0.0 if over_p and line.setting.optimizer in _HEAVY_TAILED else line.setting.p
    if field == "interval":
        return line.setting.interval
    return str(getattr(line, field)) if field in ("dataset", "model", "metric") else line.lr


def leaves_p_open(line: Reported) -> bool:
    """Whether the cell is that of the best p (see `_at_scale`)."""
    return LAYOUTS[line.table].axis == "p" and value(line, "p") is None


def key(line: Reported, fields: Iterable[str]) -> Key:
    """The values of several fields."""
    return tuple(value(line, field) for field in fields)


def label(line: Reported, field: str, scale: str) -> Value:
    """A field in the words of a scale: data sets and models are those that stand for the published ones."""
    if field in ("dataset", "model"):
        return scales.workload(scale, line.dataset, line.model)[field == "model"]
    if field == "metric":
        return metric_of(line, scale).words
    return value(line, field)


def words(line: Reported, fields: Iterable[str], scale: str) -> str:
    """Several labels as one: "llama-60m hours", "lr 0.01", "p 0.1"."""
    labels = [(field, label(line, field, scale)) for field in fields]
    return " ".join(
        ("tuned p" if field == "p" else f"no {field}")
        if own is None
        else (own if isinstance(own, str) else f"{field} {own:g}")
        for field, own in labels
    )


def _in_csv(line: Reported, fields: Iterable[str], scale: str) -> tuple[tuple[str, str], ...]:
    labels = {field: label(line, field, scale) for field in fields}
    missing = {"p": "tuned"}
    return tuple(
        (field, missing.get(field, "") if own is None else own if isinstance(own, str) else f"{own:g}")
        for field, own in labels.items()
    )


# --- a section ---


def _section(layout: Layout, lines: Sequence[Reported], side: Side) -> Section:
    """The rows in the order of the paper; below a row of published numbers that of ours."""
    scale, ours = side.scale, side.ours
    both = side.published and ours is not None
    lines = _at_scale(layout, lines, ours) if ours is not None else lines
    heads = grouped(lines, lambda line: key(line, layout.rows))
    steps = grouped(lines, lambda line: key(line, layout.columns))
    steps = dict(sorted(steps.items(), key=lambda item: _place(layout.columns, item[0])))
    by_place = {(key(line, layout.rows), key(line, layout.columns)): line for line in lines}
    cells, notes = _of_runs(layout, ours, lines) if ours is not None else ({}, ())
    rows = []
    for head, (first, *_) in heads.items():
        labels = [Cell(label(first, field, scale)) for field in layout.rows]
        own = [by_place.get((head, step)) for step in steps]
        if side.published:
            rows.append([*labels, *([Cell("paper")] if both else []), *map(_published, own)])
        if ours is not None:
            made = [cells[line] if line is not None else Cell() for line in own]
            rows.append([*labels, *([Cell("ours")] if both else []), *made])
    places = dict.fromkeys(experiments.place(line, scale) for line in lines)
    runs = ours.runs(*places) if ours is not None else None
    several = scale == "ladder" and len({run.get("weight_decay") for run in runs or ()}) > 1
    notes = (
        Note(
            "paper_choice",
            split="the reported split" if scale == "paper" else "validation",
            selects=[*filter(None, [layout.selects]), *(["the weight decay"] if several else [])],
            fixes=layout.fixes,
        ),
        *notes,
        *(stand_ins(lines, scale) if scale != "paper" else ()),
        *(_on_published(lines) if side.published else ()),
        *(footnotes.origin(runs) if runs is not None and len(runs) else ()),
    )
    source = {} if both else {"source": "paper" if ours is None else "ours"}
    names = {field: str(label(lines[0], field, scale)) for field in layout.sections}
    section = Section(
        _title(layout, lines, side),
        {"scale": scale, **names, **source},
        [
            *(Column(name, kind="number" if name in _STEPS else "text") for name in layout.rows),
            *([Column("source", kind="text")] if both else []),
            *(_column(layout, line, scale) for line, *_ in steps.values()),
        ],
        rows,
        layout.axis,
        notes,
    )
    return section if runs is None else footnotes.complete(section, runs)


def _place(fields: Iterable[str], step: Key) -> tuple[float, ...]:
    """What to sort keys by, so that numbers ascend and words keep their order."""
    pairs = [(field, own) for field, own in zip(fields, step, strict=True) if field in _STEPS]
    return tuple(_LAST.get(field, -1.0) if own is None else float(own) for field, own in pairs)


def _column(layout: Layout, line: Reported, scale: str) -> Column:
    metric = metric_of(line, scale)
    step = value(line, layout.axis) if layout.axis else None
    return Column(
        "accuracy_percent" if line.metric in QUESTIONS else metric.column,
        words(line, layout.columns, scale),
        "summary",
        across=step if isinstance(step, float) else None,
        place=_in_csv(line, layout.columns, scale),
        bounds=metric.bounds,
    )


def _title(layout: Layout, lines: Sequence[Reported], side: Side) -> str:
    """ "c4, llama-60m: perplexity, published"."""
    where = ", ".join(str(label(lines[0], field, side.scale)) for field in layout.sections)
    labels = list(dict.fromkeys(metric_of(line, side.scale).label for line in lines))
    what = " and ".join(labels) if len(labels) < 3 else "accuracy (%)"  # of several tasks
    what = f"validation {what}" if layout.axis == "lr" and side.scale != "paper" else what
    source = f"{side.scale} scale" if side.ours is not None else "published"
    return ", ".join(filter(None, [where, what, source]))


def _on_published(lines: Iterable[Reported]) -> list[Note]:
    hardware = list(dict.fromkeys(line.hardware for line in lines if line.hardware))
    return [Note("paper_published"), *([Note("paper_hardware", hardware=hardware)] if hardware else [])]


def stand_ins(lines: Iterable[Reported], scale: str) -> list[Note]:
    """Which embedded data and models stand for the published ones."""
    twins, workloads = scales.twins(scale), dict.fromkeys((line.dataset, line.model) for line in lines)
    pairs = [f"{' '.join(twins[own])} for {' '.join(own)}" for own in workloads if own in twins]
    return [Note("miniature", pairs=pairs)] if pairs else []


def _at_scale(layout: Layout, lines: Iterable[Reported], ours: Ours) -> list[Reported]:
    """The published numbers that a scale has runs for, and further cells that are not printed in the paper.

    In miniature a grid has other learning rates: a cell for each of the plan, one without a rate if nothing
    is planned. A column "tuned p" has all values of p at once; deliberate reruns don't compete there.
    """
    shown = [line for line in lines if quantity(line, ours.scale) is not None]
    if layout.axis == "lr" and ours.scale != "paper":
        without = dict.fromkeys(replace(line, lr=None, printed=_NOT_PRINTED) for line in shown)
        shown = [replace(line, lr=rate) for line in without for rate in _planned_rates(line, ours)]
    if layout.axis != "p":
        return shown
    tuned = [
        replace(line, setting=replace(line.setting, p=None, replica=""), printed=_NOT_PRINTED)
        for line in shown
        if line.setting.p is not None
    ]
    return [*shown, *dict.fromkeys(tuned)]


def _planned_rates(line: Reported, ours: Ours) -> Sequence[float | None]:
    runs = ours.runs(experiments.place(line, ours.scale))
    rates = (row["lr"] for row in runs if row["stage"] == SEARCH)
    return sorted({float(rate) for rate in rates if not is_missing(rate)}) or [None]


# --- cells ---


def _published(line: Reported | None) -> Cell:
    """A printed number: one run, without spread. Empty where the paper has none."""
    if line is None or not line.printed:
        return Cell()
    return Cell(Summary(line.value, None, 1), line.digits, notes=slips.of_rate(line))


@dataclass(frozen=True)
class FigureVerdict:
    """On one figure.

    Attributes:
        bold: whether it is better than every other one of its workload.
        notes: footnotes.
        outlook: what a better setting beyond an edge would mean (`Verdicts.outlook`); None: no comparison.
        kind, rank: what the judge says of it; empty: nothing.
    """

    bold: bool = False
    notes: tuple[Note, ...] = ()
    outlook: Outlook | None = None
    kind: str = ""
    rank: str = ""


NO_VERDICT = FigureVerdict()


def _of_runs(
    layout: Layout, ours: Ours, lines: Sequence[Reported]
) -> tuple[dict[Reported, Cell], tuple[Note, ...]]:
    """Our figures beside some published numbers, with footnotes on what is missing and how far to trust them.

    Returns:
        the cells, and the notes under the section.
    """
    found = {
        line: at_rate(ours, line, line.lr)
        if layout.axis == "lr" and line.lr is not None
        else measured(ours, line)
        for line in lines
    }
    judged, ties = verdicts(layout, ours, found)
    times = _unlike_times(found)
    seeds = [len(own.sample) for own in found.values()]
    cells = {}
    for line, own in found.items():
        verdict = judged.get(line, NO_VERDICT)
        few = footnotes.fewer("fewer_seeds", len(own.sample), seeds) if own.sample else ()
        cell = replace(_cell(own), bold=verdict.bold and not few)
        cell = cell.noted(*few, *verdict.notes, *times.get(line, ()))
        cells[line] = _with_choice(layout, ours, line, cell, own, verdict.outlook)
    special = [what.note for line in found if (what := quantity(line, ours.scale)) is not None]
    notes = (
        _reported(layout, ours.scale, found.values()),
        *([footnotes.SPREAD] if any(size > 1 for size in seeds) else []),
        *(note for note in dict.fromkeys(special) if note is not None),
        *ties,
    )
    return cells, notes


def _cell(own: Measured) -> Cell:
    if own.summary is not None and own.metric is not None:
        return Cell(own.summary, own.metric.digits, notes=own.notes, runs=own.keys)
    if own.state == UNPLANNED:
        return Cell(notes=(UNDECIDABLE,) if own.reason == UNDECIDABLE else ())
    if not own.runs:
        return Cell(state=Status(own.state), notes=(*((own.reason,) if own.reason else ()), *own.notes))
    return footnotes.explain(own.runs).noted(*own.notes)


def _reported(layout: Layout, scale: str, found: Iterable[Measured]) -> Note:
    """Which runs are reported, over how many seeds."""
    if scale == "paper":
        return Note("paper_selected")
    if layout.axis == "lr":
        return Note("paper_search")
    return Note("paper_seeds", seeds=sorted({len(own.sample) for own in found if own.sample}) or [0])


def _unlike_times(found: Mapping[Reported, Measured]) -> dict[Reported, tuple[Note, ...]]:
    """Footnotes to times that were not measured like most others of their workload."""
    timed = [line for line, own in found.items() if is_time(line) and own.sample]
    groups = grouped(timed, lambda line: (line.model, line.metric))
    return {
        line: notes
        for own in groups.values()
        for line, notes in zip(own, timing.notes([found[line].runs for line in own]), strict=True)
    }


def _with_choice(
    layout: Layout, ours: Ours, line: Reported, cell: Cell, own: Measured, outlook: Outlook | None
) -> Cell:
    """The cell with footnotes to the choice. In a grid of learning rates only the best one has them."""
    if layout.axis != "lr":
        return cell.noted(
            *_chosen_p(line, own.choice), *footnotes.on_choice(own.choice, None, line.setting.hyper, outlook)
        )
    best = ours.of(line)[-1] if own.summary else None
    if best is None or best.winner is None or best.winner.value("lr") != line.lr:
        return cell
    return replace(cell, chosen=True).noted(*footnotes.on_choice(best, None, line.setting.hyper))


def _chosen_p(line: Reported, choice: Choice | None) -> tuple[Note, ...]:
    """The footnote that says which p was chosen, where it was not fixed."""
    if choice is None or choice.winner is None or not leaves_p_open(line):
        return ()
    p, tried = choice.winner.value("p"), [candidate.value("p") for candidate in choice.candidates]
    end = {min(tried): "smallest", max(tried): "largest"}.get(p, "")
    return (Note("chosen_p", p=p, end=end, tried=choice.tried),)


# --- verdicts ---


def verdicts(
    layout: Layout, ours: Ours, found: Mapping[Reported, Measured]
) -> tuple[dict[Reported, FigureVerdict], list[Note]]:
    """The verdicts on the figures of a section. Rivals share workload and metric; in a grid also the row.

    Times have none, nor has a grid of learning rates, and neither has a p that was chosen: it was given more
    trials than a fixed one.

    Returns:
        the verdicts; which figures are tied with the best one of their workload, and the rules of bold print.
    """
    compared = [
        line
        for line, own in found.items()
        if layout.axis != "lr" and own.metric is not None and not is_time(line) and not leaves_p_open(line)
    ]
    fields = ("dataset", "model", "metric", *(layout.rows if layout.axis else ()))
    judged: dict[Reported, FigureVerdict] = {}
    ties, tested = [], False
    for lines in grouped(compared, lambda line: key(line, fields)).values():
        own = [found[line] for line in lines]
        rivals = [figure.choice for figure in own if figure.choice is not None]
        metric = own[0].metric
        if metric is None or not all(map(_is_settled, own)):
            continue
        tested = True
        head, names = _names(layout, ours.scale, lines)
        exact = twins(rivals)
        whole = compare(
            [figure.contender(name, ours.store) for name, figure in zip(names, own, strict=True)],
            dict(zip(names, names, strict=True)),
            [choice.budget for choice in rivals],
            metric,
            [reach(choice, metric) for choice in rivals],
            max((int(run["look"]) for choice in rivals for run in choice.replicas), default=0),
            exact,
        )
        if whole.untold:
            tied = [row.name for row in whole.untold]
            ties.append(Note("ties_with", label=head, names=tied, best=whole.best))
        for at, (line, figure) in enumerate(zip(lines, own, strict=True)):
            bold = whole.bold[at] and not figure.notes
            one = (exact[names[at]],) if names[at] in exact else ()
            row = whole.rows[at]
            told = ("", "") if row is None else (row.kind.value, f"{row.rank}{'=' * row.is_tied}")
            judged[line] = FigureVerdict(bold, (*whole.budgets[at], *one), partial(whole.outlook, at), *told)
    return judged, [*dict.fromkeys(ties), *(RULES if tested else ())]


def _is_settled(own: Measured) -> bool:
    """Whether no run that is still to come, or to be tried again, can change it, and whether it is fair."""
    choice = own.choice
    if choice is None or choice.unfinished or own.state in UNFINISHED:
        return False
    runs = [run for candidate in choice.candidates for run in candidate.runs]
    unfinished = any(run["state"] in UNFINISHED for run in choice.replicas)
    return not unfinished and all(run["protocol"] != "paper" for run in runs)


def _names(layout: Layout, scale: str, lines: Sequence[Reported]) -> tuple[str, list[str]]:
    """What figures have in common, in words, and what tells them apart."""
    for shared, own in ((layout.columns, layout.rows), (layout.rows, layout.columns)):
        if len({key(line, shared) for line in lines}) == 1:
            return words(lines[0], shared, scale), [words(line, own, scale) for line in lines]
    return "", [words(line, (*layout.rows, *layout.columns), scale) for line in lines]
