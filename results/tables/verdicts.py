"""What the judge says of the rows of a column: ranks, bold, and what would tell two rows apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from htbench.harness.choice.winner import grouped
from htbench.harness.show.note import Note
from htbench.results.compare import judge
from htbench.results.compare.contender import estimate_gains
from htbench.results.compare.judge import Judgement, Kind, Verdict
from htbench.results.compare.select import Choice, has_stages
from htbench.results.compare.stats import MIN_SEEDS
from htbench.results.frames.metrics import Metric

RULES = (Note("bold", level=judge.LEVEL), Note("bold_never", seeds=MIN_SEEDS))
_MOST = {"open_test_set": judge.MOST_ITEMS, "open_search": judge.MOST_SEARCH_SEEDS}
UNEQUAL_SPREAD = 0.05  # level of Bartlett's test below which rows are said to scatter unlike


@dataclass(frozen=True)
class Standing:
    """What the judge says of a row.

    Attributes:
        verdict: on it; None without values, or where nothing is compared.
        bold: whether it may be bold.
        notes: that it had more or fewer trials than the best one.
        outlook: of each column with an edge at its optimum whether it could be as good as the best beyond
            that; empty without a rival.
    """

    verdict: Verdict | None = None
    bold: bool = False
    notes: tuple[Note, ...] = ()
    outlook: Mapping[str, Note] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdicts:
    """The statistics of one column.

    Attributes:
        metric: of the column.
        judgement: of the rows with values; None if there is none.
        rows: what is said of each row.
        looks: how often replicas were added after a look at the table.
        lost: runs whose test items are damaged or gone.
        items: of the test split of a share; 0: not known.
    """

    metric: Metric
    judgement: Judgement | None
    rows: Sequence[Standing]
    looks: int = 0
    lost: int = 0
    items: int = 0

    @property
    def judged(self) -> list[Verdict]:
        """The verdicts there are."""
        return [row.verdict for row in self.rows if row.verdict is not None]

    @property
    def best(self) -> Verdict | None:
        """That on the row with the best mean."""
        return next((row for row in self.judged if row.kind is Kind.BEST), None)

    @property
    def untold(self) -> list[Verdict]:
        """Those on the other rows that can't be told from the best one."""
        rivals = [row for row in self.judged if row.kind is not Kind.BEST]
        return [row for row in rivals if row.kind is not Kind.WORSE or row.n < MIN_SEEDS]

    def would_tell(self, item_word: str, drawn: bool, planned: bool) -> list[Note]:
        """What would tell the other rows from the best one, by distance; rows that need the same are a line.

        Args:
            item_word: test items are called.
            drawn: whether a search drew settings. It has one seed for each, and a file that asks for more is
                refused.
            planned: whether a sweep file can ask for more seeds.
        """
        scale, unit = self.metric.gap
        notes = []
        for kind, rows in grouped(sorted(self.untold, key=lambda row: row.gap), _find_kind).items():
            is_drawn = drawn and kind == "open_search"
            needed = {row.name: None if is_drawn else _amount_needed(row) for row in rows}
            known = {name: count for name, count in needed.items() if count is not None}
            seeds = MIN_SEEDS if kind == "open_few" else max(known.values(), default=0)
            note = Note(
                kind,
                names=[*needed],
                best=self.best.name if self.best is not None else "",
                needed=[*needed.values()],
                rows=[Note("open_row", name=name, needed=count) for name, count in known.items()],
                over=[] if is_drawn else [name for name in needed if name not in known],
                most=_MOST.get(kind, judge.MOST_SEEDS),
                seeds=seeds,
                plan=seeds if planned else 0,
                margin=f"{scale * self.metric.margin:g}",
                unit=unit,
                items=self.items,
                what=item_word,
            )
            notes.append(note)
        return notes

    def notes(self, untold: Sequence[Note]) -> tuple[Note, ...]:
        """What stands under the table: what is not told apart, rules and method.

        Args:
            untold: as from `would_tell`.
        """
        judged = self.judgement
        if judged is None:
            return RULES
        parts = [row.parts for row in self.judged]
        causes = [
            Note("cause_seeds"),
            *((Note("cause_search"),) if any(part.tuning > 0 for part in parts) else ()),
            *((Note("cause_items"),) if any(part.items > 0 for part in parts) else ()),
        ]
        return (
            *((Note("untold", rows=untold),) if untold else ()),
            *RULES,
            Note("judged", level=1 - judge.LEVEL, unit=self.metric.gap[1], causes=causes),
            *((Note("looked", looks=self.looks, level=judged.level),) if self.looks else ()),
            *((Note("items_lost", count=self.lost),) if self.lost else ()),
            *((Note("spread_unlike", p=judged.bartlett),) if judged.bartlett < UNEQUAL_SPREAD else ()),
        )


def compare_rows(
    contenders: Sequence[judge.Row | None],
    rules: Mapping[str, str],
    choices: Sequence[Choice],
    metric: Metric,
) -> Verdicts:
    """Compare the rows of one column.

    Args:
        contenders: per row; None is a row without values, or one that is another row under a second name.
        rules: the rule of each row by its name: of some it is one under two names.
        choices: of the rows.
        metric: which says the direction, and the digits that are printed.
    """
    names, budgets = list(rules), [choice.budget for choice in choices]
    entered = [contender for contender in contenders if contender is not None]
    if not entered or len(frozenset().union(*(contender.scored_on for contender in entered))) > 1:
        return Verdicts(metric, None, [Standing()] * len(names))
    looks = max((int(run["look"]) for choice in choices for run in choice.replicas), default=0)
    judged = judge.judge(
        entered,
        higher_is_better=metric.higher_is_better,
        is_share=metric.is_share,
        margin=metric.margin,
        looks=looks,
    )
    best, verdicts = judged.verdicts[judged.best], iter(judged.verdicts)
    rows = [Standing(None if contender is None else next(verdicts)) for contender in contenders]
    at_best, is_clear = names.index(best.name), len(entered) > 1
    for at, (choice, standing) in enumerate(zip(choices, rows, strict=True)):
        row = standing.verdict
        if row is None:
            continue
        gains = estimate_gains(choice, metric) if has_stages(choice.rows[0]) else {}
        unequal = Note("budget_unequal", own=budgets[at], best=budgets[at_best], name=best.name)
        notes = (unequal,) if budgets[at] != budgets[at_best] else ()
        if row is not best:
            if rules[row.name] == rules[best.name]:
                row = replace(row, is_same_rule=True, seeds_needed=None)
            is_worse = row.kind is Kind.WORSE and min(row.n, best.n) >= MIN_SEEDS
            may_catch_up = any(map(row.may_catch_up, gains.values()))
            is_clear = (
                is_clear and is_worse and _print(row, metric) != _print(best, metric) and not may_catch_up
            )
        outlook = {name: _note_outlook(row, best, gain, metric) for name, gain in gains.items()}
        rows[at] = Standing(row, False, notes, outlook if len(entered) > 1 else {})
    rows[at_best] = replace(rows[at_best], bold=is_clear)
    lost = sum(contender.lost for contender in entered)
    return Verdicts(metric, judged, rows, looks, lost, min(map(judge.item_count, entered)))


def _print(row: Verdict, metric: Metric) -> str:
    return f"{metric.printed(row.mean):.{metric.digits}f}"


def _note_outlook(row: Verdict, best: Verdict, gain: float | None, metric: Metric) -> Note:
    """Whether a row could be as good as the best one with a gain; None: nobody knows how much it is."""
    if row.kind is Kind.BEST:
        return Note("outlook_leads")
    if gain is None:
        return Note("outlook_open")
    scale, unit = metric.gap
    figures = {"gain": f"{scale * gain:.3g}", "low": f"{scale * row.low:.3g}"}
    kind = "outlook_may" if row.may_catch_up(gain) else "outlook_excluded"
    return Note(kind, unit=unit, best=best.name, **figures)


def _amount_needed(row: Verdict) -> float | None:
    """How many seeds, test items or seeds of the search would tell a row from the best; None: not known."""
    if row.seeds_needed is not None:
        return row.seeds_needed.estimate
    return row.items_needed or row.search_seeds_needed


def _find_kind(row: Verdict) -> str:
    """The kind of line that says what would tell a row from the best."""
    if row.n < MIN_SEEDS:
        return "open_few"
    if row.is_same_rule:
        return "open_rule"
    if row.kind is Kind.EQUAL:
        return "open_equal"
    if row.gap == 0:
        return "open_same"
    if row.limited_by_test_set:
        return "open_test_set"
    if row.limited_by_search:
        return "open_search"
    if row.is_constant:
        return "open_constant"
    return "open_seeds" if row.seeds_needed is not None else "open_never"
