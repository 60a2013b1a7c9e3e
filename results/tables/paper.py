"""The tables of the paper, from their layouts: published numbers, our runs, or both."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from htbench.harness.choice.winner import grouped
from htbench.harness.paper import reported
from htbench.harness.paper.reported import Reported
from htbench.harness.show.note import Note
from htbench.harness.show.report import Cell, Column, Report, Section
from htbench.harness.show.status import Status
from htbench.results.compare import paper_errata
from htbench.results.compare.contender import make_judge_row
from htbench.results.compare.layouts import (
    LAYOUTS,
    STEPS,
    Key,
    Layout,
    label_field,
    leaves_p_open,
    list_lines,
    read_field,
    read_fields,
    word_fields,
)
from htbench.results.compare.measured import UNDECIDABLE, UNPLANNED, Measured, measure_line
from htbench.results.compare.paper_runs import PaperRuns
from htbench.results.compare.quantities import QUESTIONS, find_metric, find_quantity, is_decidable, is_time
from htbench.results.compare.stats import Summary
from htbench.results.compare.untuned_settings import find_twins
from htbench.results.compare.view import Side, View
from htbench.results.tables import footnotes, timing
from htbench.results.tables.verdicts import RULES, Standing, compare_rows

_LAST = {"p": float("inf")}  # where a number is missing: of p it means any, the column of the tuned p


def make_table(name: str, view: View) -> Report:
    """A table of the paper; without sections if there is nothing to show."""
    layout, sides, notes = LAYOUTS[name], view.sides, []
    if any(line.metric in QUESTIONS for line in reported.of_table(name)):
        sides, notes = (
            [replace(side, ours=None) for side in sides if side.published],
            [Note("asked_of_export")],
        )
    parts = grouped(reported.of_table(name), lambda line: read_fields(line, layout.sections))
    sections = [
        _make_section(layout, [line.at(side.scale) for line in lines], side)
        for lines in parts.values()
        for side in sides
    ]
    empty = [scale for scale in view.scales if not any(map(is_decidable, reported.of_table(name, scale)))]
    return Report(name, layout.title, sections, notes=[*notes, *footnotes.note_missing_languages(*empty)])


# --- a section ---


def _make_section(layout: Layout, lines: Sequence[Reported], side: Side) -> Section:
    """The rows in the order of the paper; below a row of published numbers that of ours."""
    scale, our_runs = side.scale, side.ours
    # A printed number is one run, without spread.
    published = {
        line: Cell(Summary(line.value, None, 1), line.digits, notes=paper_errata.note_rate(line))
        for line in lines
    }
    cells = {"paper": published} if side.published else {}
    below = list[Note]()
    if our_runs is not None:
        lines = list_lines(lines, our_runs)
        cells["ours"], below = _make_run_cells(layout, our_runs, lines)
    steps = grouped(lines, lambda line: read_fields(line, layout.columns))
    steps = dict(sorted(steps.items(), key=lambda item: _sort_key(layout.columns, item[0])))
    rows = []
    for of_row in grouped(lines, lambda line: read_fields(line, layout.rows)).values():
        labels = [Cell(label_field(of_row[0], field)) for field in layout.rows]
        at = {read_fields(line, layout.columns): line for line in of_row}
        for source, of_source in cells.items():
            head = [*labels, *([Cell(source)] if len(cells) > 1 else [])]
            rows.append(
                [*head, *(of_source.get(at[step], Cell()) if step in at else Cell() for step in steps)]
            )
    behind = (run for line in lines for run in our_runs.runs(line.place)) if our_runs is not None else ()
    runs = [*{id(run): run for run in behind}.values()]
    hardware = list(dict.fromkeys(line.hardware for line in lines if line.hardware))
    several = scale == "ladder" and len({run.get("weight_decay") for run in runs}) > 1
    notes = (
        Note(
            "paper_choice",
            split="the reported split" if scale == "paper" else "validation",
            selects=[*filter(None, [layout.selects]), *(["the weight decay"] if several else [])],
            fixes=layout.fixes,
        ),
        *below,
        *(note_stand_ins(lines) if scale != "paper" else ()),
        *([Note("paper_published")] if side.published else ()),
        *([Note("paper_hardware", hardware=hardware)] if side.published and hardware else ()),
        *(footnotes.note_origin(runs) if runs else ()),
    )
    section = Section(
        _make_title(layout, lines, side),
        {
            "scale": scale,
            **{field: str(label_field(lines[0], field)) for field in layout.sections},
            **({"source": next(iter(cells))} if len(cells) == 1 else {}),
        },
        [
            *(Column(name, kind="number" if name in STEPS else "text") for name in layout.rows),
            *([Column("source", kind="text")] if len(cells) > 1 else []),
            *(_make_column(layout, line) for line, *_ in steps.values()),
        ],
        rows,
        layout.axis,
        notes,
    )
    return section if our_runs is None else footnotes.complete_section(section, runs)


def _sort_key(fields: Iterable[str], step: Key) -> tuple[float, ...]:
    """What to sort keys by, so that numbers ascend and words keep their order."""
    pairs = [(field, value) for field, value in zip(fields, step, strict=True) if field in STEPS]
    return tuple(_LAST.get(field, -1.0) if value is None else float(value) for field, value in pairs)


def _make_column(layout: Layout, line: Reported) -> Column:
    metric = find_metric(line)
    step = read_field(line, layout.axis) if layout.axis else None
    place = []
    for field in layout.columns:
        label = label_field(line, field)
        missing = "tuned" if field == "p" else ""
        place.append((field, missing if label is None else label if isinstance(label, str) else f"{label:g}"))
    return Column(
        "accuracy_percent" if line.metric in QUESTIONS else metric.column,
        word_fields(line, layout.columns),
        "summary",
        across=step if isinstance(step, float) else None,
        place=tuple(place),
        bounds=metric.bounds,
    )


def _make_title(layout: Layout, lines: Sequence[Reported], side: Side) -> str:
    """ "c4, llama-60m: perplexity, published"."""
    where = ", ".join(str(label_field(lines[0], field)) for field in layout.sections)
    labels = list(dict.fromkeys(find_metric(line).label for line in lines))
    quantity = " and ".join(labels) if len(labels) < 3 else "accuracy (%)"  # of several tasks
    quantity = f"validation {quantity}" if layout.axis == "lr" and side.scale != "paper" else quantity
    source = f"{side.scale} scale" if side.ours is not None else "published"
    return ", ".join(filter(None, [where, quantity, source]))


def note_stand_ins(lines: Iterable[Reported]) -> list[Note]:
    """Which embedded data and models stand for the published ones."""
    twins = {(line.dataset, line.model): line.workload for line in lines if line.has_twin}
    pairs = [f"{' '.join(twin)} for {' '.join(workload)}" for workload, twin in twins.items()]
    return [Note("miniature", pairs=pairs)] if pairs else []


# --- cells ---


def _make_run_cells(
    layout: Layout, our_runs: PaperRuns, lines: Sequence[Reported]
) -> tuple[dict[Reported, Cell], list[Note]]:
    """Our figures beside some published numbers, with footnotes on what is missing and how far to trust them.

    Returns:
        the cells, and the notes under the section.
    """
    figures = {line: measure_line(our_runs, line) for line in lines}
    judged, ties = judge_figures(layout, our_runs, figures)
    times = _note_unlike_times(figures)
    seeds = [len(figure.sample) for figure in figures.values()]
    cells = {}
    for line, figure in figures.items():
        standing = judged.get(line, Standing())
        few = footnotes.note_fewer_seeds("fewer_seeds", len(figure.sample), seeds) if figure.sample else ()
        cell = replace(_make_cell(figure), bold=standing.bold and not few)
        cell = cell.noted(*few, *standing.notes, *times.get(line, ()))
        cells[line] = _add_choice_notes(layout, our_runs, line, cell, figure, standing.outlook)
    if our_runs.scale == "paper":
        reported_runs = Note("paper_selected")
    elif layout.axis == "lr":
        reported_runs = Note("paper_search")
    else:
        reported_runs = Note("paper_seeds", seeds=sorted({*seeds} - {0}) or [0])
    quantities = map(find_quantity, figures)
    methods = dict.fromkeys(quantity.note for quantity in quantities if quantity and quantity.note)
    spread = [footnotes.SPREAD] if max(seeds, default=0) > 1 else []
    return cells, [reported_runs, *spread, *methods, *ties]


def _make_cell(figure: Measured) -> Cell:
    if figure.summary is not None and figure.metric is not None:
        return Cell(figure.summary, figure.metric.digits, notes=figure.notes, runs=figure.keys)
    if figure.state == UNPLANNED:
        return Cell(notes=(UNDECIDABLE,) if figure.reason == UNDECIDABLE else ())
    if not figure.runs:
        return Cell(
            state=Status(figure.state), notes=(*((figure.reason,) if figure.reason else ()), *figure.notes)
        )
    return footnotes.explain(figure.runs).noted(*figure.notes)


def _note_unlike_times(figures: Mapping[Reported, Measured]) -> dict[Reported, tuple[Note, ...]]:
    """Footnotes to times that were not measured like most others of their workload."""
    timed = [line for line, figure in figures.items() if is_time(line) and figure.sample]
    notes: dict[Reported, tuple[Note, ...]] = {}
    for rivals in grouped(timed, lambda line: (line.model, line.metric)).values():
        conditions = timing.note_other_conditions([figures[line].runs for line in rivals])
        notes |= zip(rivals, conditions, strict=True)
    return notes


def _add_choice_notes(
    layout: Layout,
    our_runs: PaperRuns,
    line: Reported,
    cell: Cell,
    figure: Measured,
    outlook: Mapping[str, Note],
) -> Cell:
    """The cell with footnotes to the choice. In a grid of learning rates only the best one has them."""
    if layout.axis != "lr":
        choice, notes = figure.choice, footnotes.note_choice(figure.choice, None, line.hyper, outlook)
        if choice is not None and choice.winner is not None and leaves_p_open(line):
            p, tried = choice.winner.value("p"), [candidate.value("p") for candidate in choice.candidates]
            end = {min(tried): "smallest", max(tried): "largest"}.get(p, "")
            notes = (Note("chosen_p", p=p, end=end, tried=choice.tried), *notes)
        return cell.noted(*notes)
    best = our_runs.choices(line.place)[-1] if figure.summary else None
    if best is None or best.winner is None or best.winner.value("lr") != line.lr:
        return cell
    return replace(cell, chosen=True).noted(*footnotes.note_choice(best, None, line.hyper))


# --- verdicts ---


def judge_figures(
    layout: Layout, our_runs: PaperRuns, figures: Mapping[Reported, Measured]
) -> tuple[dict[Reported, Standing], list[Note]]:
    """What the judge says of a section. Rivals share workload and metric; in a grid also the row.

    Times have none, nor has a grid of learning rates, and neither has a p that was chosen: it was given more
    trials than a fixed one.

    Returns:
        the verdicts; which figures are tied with the best one of their workload, and the rules of bold print.
    """
    compared = [
        line
        for line, figure in figures.items()
        if layout.axis != "lr" and figure.metric is not None and not is_time(line) and not leaves_p_open(line)
    ]
    fields = ("dataset", "model", "metric", *(layout.rows if layout.axis else ()))
    judged: dict[Reported, Standing] = {}
    ties, tested = [], False
    for lines in grouped(compared, lambda line: read_fields(line, fields)).values():
        rival_figures = [figures[line] for line in lines]
        rivals = [figure.choice for figure in rival_figures if figure.choice is not None]
        metric = rival_figures[0].metric
        # No run that is still to come, or to be tried again, may change one of them, and all are fair.
        are_final = all(one.is_settled and one.rows[0]["protocol"] != "paper" for one in rivals)
        if metric is None or len(rivals) < len(rival_figures) or not are_final:
            continue
        tested = True
        head, names = _name_figures(layout, lines)
        twins = find_twins(rivals)
        contenders = [
            None
            if name in twins
            else make_judge_row(name, own.sample, metric, own.runs, own.choice, our_runs.store)
            for name, own in zip(names, rival_figures, strict=True)
        ]
        whole = compare_rows(contenders, dict(zip(names, names, strict=True)), rivals, metric)
        if whole.best is not None and whole.untold:
            tied = [row.name for row in whole.untold]
            ties.append(Note("ties_with", label=head, names=tied, best=whole.best.name))
        for line, figure, name, standing in zip(lines, rival_figures, names, whole.rows, strict=True):
            notes = (*standing.notes, *([twins[name]] if name in twins else []))
            judged[line] = replace(standing, bold=standing.bold and not figure.notes, notes=notes)
    return judged, [*dict.fromkeys(ties), *(RULES if tested else ())]


def _name_figures(layout: Layout, lines: Sequence[Reported]) -> tuple[str, list[str]]:
    """What figures have in common, in words, and what tells them apart."""
    for shared, telling in ((layout.columns, layout.rows), (layout.rows, layout.columns)):
        if len({read_fields(line, shared) for line in lines}) == 1:
            return word_fields(lines[0], shared), [word_fields(line, telling) for line in lines]
    return "", [word_fields(line, (*layout.rows, *layout.columns)) for line in lines]
