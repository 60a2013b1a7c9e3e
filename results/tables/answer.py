"""The answer of a workload: who is better, by how much, how sure; what could change that; what to do next.

It is made of what the table `main_result` is made of, and says it in the unit of its values.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from htbench.harness.show.note import Note
from htbench.harness.show.numbers import setting as plain
from htbench.harness.show.progress import each
from htbench.harness.show.report import Cell, Column, Section, by_columns, dangers, without
from htbench.harness.show.status import Status
from htbench.harness.store import Store
from htbench.results.compare.judge import Kind, Verdict
from htbench.results.compare.stats import MIN_SEEDS
from htbench.results.compare.view import View
from htbench.results.compare.workload import Workload, find_workloads
from htbench.results.frames.metrics import Metric, is_number
from htbench.results.frames.rows import Rows
from htbench.results.frames.run_row import CHOSEN
from htbench.results.tables import footnotes, main_result
from htbench.results.tables.outcome import Outcome, Place, judge_workload
from htbench.results.tables.verdicts import Verdicts

_MOST_NAMES = 4  # that a sentence holds; more are counted


@dataclass(frozen=True)
class Answer:
    """What a person needs to know of one workload.

    Attributes:
        workload: its parts: task, model, and what else is fixed in words.
        metric: of the values.
        seeds: the fewest and the most fresh seeds of a row with a value; 0 without any.
        verdict: who is better, in a sentence.
        places: the rows, the best first.
        dangers: what could change the verdict, or mislead, each with what to do about it.
        open: what is not told apart, with what would tell.
        footer: how settings were chosen, and what the intervals are.
    """

    workload: tuple[str, ...]
    metric: Metric
    seeds: tuple[int, int]
    verdict: Note
    places: Sequence[Place]
    dangers: Sequence[Note]
    open: Sequence[Note]
    footer: Sequence[Note]

    @property
    def wins(self) -> list[bool]:
        """Which row is bold: the best, where it beats another one and can be told from all."""
        beats = any(place.kind is Kind.WORSE for place in self.places) and not self.ties
        return [beats and place.kind is Kind.BEST for place in self.places]

    @property
    def ties(self) -> list[Place]:
        """The other rows that can't be told from the best one."""
        return [place for place in self.places if place.kind in (Kind.EQUAL, Kind.UNKNOWN)]


def answers(frame: Rows, store: Store | None = None) -> list[Answer]:
    """One per workload.

    Args:
        frame: the tidy frame.
        store: where the test items are; None: they are not known.
    """
    outcomes = map(judge_workload, each(find_workloads(frame, store), "workloads"))
    return [make_answer(outcome, main_result.make_section(outcome)) for outcome in outcomes]


def make_answer(outcome: Outcome, whole: Section) -> Answer:
    """What a person needs of a workload.

    Args:
        outcome: what is known of it.
        whole: the table of it, whose footnotes say what could mislead.
    """
    notes = {
        place.name: _drop_repeated(note for cell in row for note in cell.notes)
        for place, row in zip(outcome.places, whole.rows, strict=True)
    }
    places = [replace(place, notes=notes[place.name]) for place in outcome.ranked]
    counts = [n for n in outcome.seeds if n]
    facts = [(place.name, note) for place in places for note in place.notes]
    return Answer(
        tuple(filter(None, footnotes.workload_columns(outcome.workload.part).values())),
        outcome.workload.metric,
        (min(counts, default=0), max(counts, default=0)),
        _note_verdict(outcome),
        places,
        dangers([*facts, *(("", note) for note in whole.notes)]),
        [note for note in outcome.open if note.kind != "open_rule"],  # that two rows are one is a danger
        [*whole.footer, *_note_methods(outcome)],
    )


def _drop_repeated(notes: Iterable[Note]) -> tuple[Note, ...]:
    """The notes of a row without those that another one says as well."""
    kinds = [note for note in dict.fromkeys(notes) if note.kind != "budget_unequal"]
    if any(note.kind == "replicas_count" for note in kinds):
        kinds = [note for note in kinds if note.kind != "fewer_reported"]
    return tuple(kinds)


# --- the screen ---


def make_section(workload: Workload, view: View) -> Section:
    """The table of a workload, and in brief its answer: made once for all that show it."""
    if workload not in view.sections:
        outcome = judge_workload(workload)
        whole = main_result.make_section(outcome)
        brief = _make_brief(make_answer(outcome, whole), whole, outcome)
        view.sections[workload] = replace(whole, brief=brief)
    return view.sections[workload]


def _make_brief(answer: Answer, whole: Section, outcome: Outcome) -> Section:
    """The answer as a table that fits into 80 columns."""
    metric, rows = answer.metric, answer.places
    counts = sorted(set(answer.seeds) - {0})
    title = Note(
        "answer_title",
        workload=answer.workload,
        split=outcome.workload.split,
        metric=metric.words,
        unit=metric.unit,
        arrow="↑" if metric.higher_is_better else "↓",
        seeds=counts if outcome.workload.staged else [],
        runs=counts if not outcome.workload.staged else [],
        count=max(answer.seeds),
    )
    size = max(len(row.rank) for row in rows)
    steps = [row.ms_per_step.number() for row in rows]
    digits = 1 if min(filter(None, steps), default=1.0) >= 1 else 3
    columns = {
        Column("rank", " "): [Cell(f"{row.rank:<{size}}") for row in rows],
        Column("optimizer", kind="text", importance=10): [
            Cell(row.name, bold=wins, notes=tuple(without(row.notes, row.ms_per_step.notes)))
            for row, wins in zip(rows, answer.wins, strict=True)
        ],
        Column("value", "mean ± sd", importance=9): [
            replace(row.value, bold=wins, notes=()) for row, wins in zip(rows, answer.wins, strict=True)
        ],
        Column("gap", "behind best [95 %]", "text", importance=8): _make_gap_cells(rows, metric.digits),
        Column("ms_per_step", "ms/step", importance=5): [
            Cell(value, digits, notes=row.ms_per_step.notes) for row, value in zip(rows, steps, strict=True)
        ],
        Column("setting", "setting", "text", least=12, importance=6): [
            Cell(" ".join(f"{name} {plain(value)}" for name, value in row.setting.items())) for row in rows
        ],
    }
    section = by_columns(columns, title=str(title), notes=whole.notes, above=[answer.verdict])
    return replace(section, open=tuple(answer.open), footer=tuple(answer.footer))


def _make_gap_cells(rows: Sequence[Place], digits: int) -> list[Cell]:
    """ "0.22 [-0.15, 0.58]"; the best row has a dash."""
    gaps = ["" if row.gap is None else f"{row.gap:.{digits}f}" for row in rows]
    size = max(map(len, gaps))
    ends = [
        "" if row.low is None or row.high is None else f" [{row.low:.{digits}f}, {row.high:.{digits}f}]"
        for row in rows
    ]
    return [
        Cell("–" if row.kind is Kind.BEST else f"{gap:>{size}}{interval}")
        for row, gap, interval in zip(rows, gaps, ends, strict=True)
    ]


# --- the verdict ---


def _note_verdict(outcome: Outcome) -> Note:
    verdicts = outcome.verdicts
    if verdicts is None or (best := verdicts.best) is None:
        return _note_no_test(outcome)
    if len(verdicts.judged) == 1:
        return Note("answer_alone", best=best.name)
    ranked = [place.judged for place in outcome.ranked if place.judged]
    if not ranked:
        return Note("answer_few_seeds", seeds=MIN_SEEDS)
    beaten = [row.name for row in ranked if row.kind is Kind.WORSE]
    ties = [row.name for row in ranked if row.kind in (Kind.EQUAL, Kind.UNKNOWN)]
    if not beaten:
        return _note_undecided(outcome, verdicts, ranked)
    bold = any(place.value.bold for place in outcome.places)
    kind = "answer_ahead" if ties else "answer_best" if bold else "answer_leads"
    few, tied = len(beaten) <= _MOST_NAMES, len(ties) <= _MOST_NAMES
    return Note(
        kind,
        best=best.name,
        names=beaten if few else [],
        count=0 if few else len(beaten),
        ties=ties if tied else [],
        more=0 if tied else len(ties),
    )


def _note_no_test(outcome: Outcome) -> Note:
    """Why the rows are not compared."""
    ahead = outcome.ranked[0].name
    if all(place.value.spread is None for place in outcome.places):
        return _note_no_values(outcome)
    if len(outcome.places) == 1:
        return Note("answer_alone", best=ahead)
    if outcome.verdicts is not None:
        return Note("answer_other_items")
    workload = outcome.workload
    if not workload.staged and not workload.file:
        return Note("answer_unplanned", best=ahead)
    return Note("answer_provisional" if workload.is_fair else "answer_chosen_here", best=ahead)


def _note_no_values(outcome: Outcome) -> Note:
    """That no row has a value, and of those whose runs have ended what became of them."""
    ended, lower = [], 0
    for place in outcome.places:
        choice = place.choice
        runs = choice.replicas if choice.winner else choice.runs
        if runs and all(Status(run["state"]).is_settled for run in runs):
            diverged = [run["steps"] for run in runs if run["state"] == Status.DIVERGED]
            lower |= bool(diverged)
            step = min(map(int, filter(is_number, diverged)), default=0)  # a file may have no steps
            fresh, rest = "fresh seeds" if choice.winner else "", footnotes.count_by_state(runs)
            ended.append(Note("answer_ended", name=place.name, fresh=fresh, rest=rest, step=step))
    return Note("answer_none", rows=ended, over=int(len(ended) == len(outcome.places)), lower=lower)


def _note_undecided(outcome: Outcome, verdicts: Verdicts, leaders: Sequence[Verdict]) -> Note:
    """No row is worse than the best: what keeps them together?"""
    rivals = [row for row in leaders if row.kind is not Kind.BEST]
    if all(row.kind is Kind.EQUAL for row in rivals):
        return Note("answer_equal", rows=len(leaders))
    if all(row.is_same_rule for row in rivals):
        return Note("answer_rule", rows=len(leaders))
    apart = [row for row in rivals if row.gap > 0 and not row.is_same_rule]
    if apart and all(row.limited_by_test_set for row in apart):
        return Note("answer_items", rows=len(leaders), items=verdicts.items, what=outcome.items)
    if apart and all(row.limited_by_search for row in apart):
        return Note("answer_search", rows=len(leaders))
    return Note("answer_seeds", seeds=max(row.n for row in leaders), rows=len(leaders))


def _note_methods(outcome: Outcome) -> list[Note]:
    """How settings were chosen, and what the intervals are."""
    workload = outcome.workload
    tried = sorted({choice.tried for choice in workload.choices})
    chosen = "answer_chosen_by_search" if workload.file else "answer_chosen"
    chosen = "answer_chosen_and_reported" if workload.part[0]["protocol"] == CHOSEN else chosen
    kind = "answer_one_setting" if tried == [1] else chosen if workload.staged else "answer_settings"
    compared = any(place.low is not None for place in outcome.places)
    return [Note(kind, tried=tried), *([Note("answer_intervals")] if compared else [])]
