"""What the judge says of the rows of a column: ranks, bold, and what would tell two rows apart."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from htbench.harness.choice.winner import grouped
from htbench.harness.show.note import Note
from htbench.harness.show.report import Cell, Column
from htbench.results.compare import judge
from htbench.results.compare.contender import Contender, estimate_gains
from htbench.results.compare.judge import Judgement, Kind, Verdict
from htbench.results.compare.select import Choice, has_stages
from htbench.results.compare.stats import MIN_SEEDS
from htbench.results.compare.untuned_settings import find_twins
from htbench.results.frames.metrics import Metric

RULES = (Note("bold", level=judge.LEVEL), Note("bold_never", seeds=MIN_SEEDS))
_MOST = {"open_test_set": judge.MOST_ITEMS, "open_search": judge.MOST_SEARCH_SEEDS}
UNEQUAL_SPREAD = 0.05  # level of Bartlett's test below which rows are said to scatter unlike


@dataclass(frozen=True)
class Verdicts:
    """The statistics of one column, one entry per row.

    Attributes:
        metric: of the column.
        judgement: of the rows with values; None if there is none.
        rows: the verdict on each row; None without values.
        gains: how much better each row might get beyond each edge at which its optimum lies, by column
            (`contender.reach`).
        bold: which row may be bold.
        budgets: the footnote to a row that had more or fewer trials than the best one.
        looks: how often replicas were added after a look at the table.
        lost: runs whose test items are damaged or gone.
        items: of the test split of a share; 0: not known.
    """

    metric: Metric
    judgement: Judgement | None
    rows: list[Verdict | None]
    gains: Sequence[Mapping[str, float | None]]
    bold: list[bool]
    budgets: list[tuple[Note, ...]]
    looks: int = 0
    lost: int = 0
    items: int = 0

    @property
    def best(self) -> str:
        """The name of the row with the best mean."""
        return next((row.name for row in self.rows if row is not None and row.kind is Kind.BEST), "")

    @property
    def untold(self) -> list[Verdict]:
        """The other rows that can't be told from the best one."""
        rivals = [row for row in self.rows if row is not None and row.kind is not Kind.BEST]
        return [row for row in rivals if row.kind is not Kind.WORSE or row.n < MIN_SEEDS]

    def outlook(self, at: int, column: str) -> Note | str:
        """Whether a row could be as good as the best beyond an edge; empty if there is none, or no rival.

        Args:
            at: its index.
            column: of the edge.
        """
        row = self.rows[at]
        if row is None or column not in self.gains[at] or sum(other is not None for other in self.rows) < 2:
            return ""
        gain = self.gains[at][column]
        if row.kind is Kind.BEST:
            return Note("outlook_leads")
        if gain is None:
            return Note("outlook_open")
        scale, unit = self.metric.gap
        figures = {"gain": f"{scale * gain:.3g}", "low": f"{scale * row.low:.3g}"}
        kind = "outlook_may" if row.may_catch_up(gain) else "outlook_excluded"
        return Note(kind, unit=unit, best=self.best, **figures)

    def columns(self) -> list[tuple[Column, list[Cell]]]:
        """Rank, distance to the best with its interval, and what is known of each row."""
        scale, unit = self.metric.gap
        ranked = [row if row is not None and row.n >= MIN_SEEDS else None for row in self.rows]
        behind = [None if row is None or row.kind is Kind.BEST else row for row in ranked]

        def numbers(value: Callable[[Verdict], float | None], digits: int | None = None) -> list[Cell]:
            return [Cell(None if row is None else value(row), digits) for row in behind]

        def words(word: Callable[[Verdict], str]) -> list[Cell]:
            return [Cell("" if row is None else word(row)) for row in ranked]

        def needed(end: str) -> Callable[[Verdict], float | None]:
            return lambda row: None if row.seeds_needed is None else getattr(row.seeds_needed, end)

        place, digits = {"nats": "gap_nats", "points": "gap_points"}.get(unit, "gap"), 4 if scale == 1 else 2
        return [
            (Column("rank", kind="text"), words(lambda row: row.rank_word)),
            (Column(place, f"gap ({unit})"), numbers(lambda row: scale * row.gap, digits)),
            (Column(f"{place}_low95", "from"), numbers(lambda row: scale * row.low, digits)),
            (Column(f"{place}_high95", "to"), numbers(lambda row: scale * row.high, digits)),
            (Column("p", "p-value"), numbers(lambda row: float(f"{row.p_value:.2g}"))),
            (Column("verdict", kind="text"), words(lambda row: row.kind.value)),
            (Column("seeds_needed", "seeds needed"), numbers(needed("estimate"), 0)),
            (Column("seeds_needed_low", "from"), numbers(needed("low"), 0)),
            (Column("seeds_needed_high", "to"), numbers(needed("high"), 0)),
        ]

    def would_tell(self, item_word: str, drawn: bool, planned: bool) -> list[Note]:
        """What would tell the other rows from the best one, by distance; rows that need the same are a line.

        Args:
            item_word: test items are called.
            drawn: whether a search drew settings. It has one seed for each, and a file that asks for more is
                refused.
            planned: whether a sweep file can ask for more seeds.
        """
        lines = grouped(sorted(self.untold, key=lambda row: row.gap), _find_kind)
        return [self._would_tell(kind, alike, item_word, drawn, planned) for kind, alike in lines.items()]

    def _would_tell(
        self, kind: str, rows: Sequence[Verdict], item_word: str, drawn: bool, planned: bool
    ) -> Note:
        scale, unit = self.metric.gap
        drawn = drawn and kind == "open_search"
        needed = [None if drawn else _amount_needed(row) for row in rows]
        pairs = list(zip([row.name for row in rows], needed, strict=True))
        seeds = MIN_SEEDS if kind == "open_few" else max(filter(None, needed), default=0)
        return Note(
            kind,
            names=[name for name, _ in pairs],
            best=self.best,
            needed=needed,
            rows=[Note("open_row", name=name, needed=count) for name, count in pairs if count is not None],
            over=[name for name, count in pairs if count is None and not drawn],
            most=_MOST.get(kind, judge.MOST_SEEDS),
            seeds=seeds,
            plan=seeds if planned else 0,
            margin=f"{scale * self.metric.margin:g}",
            unit=unit,
            items=self.items,
            what=item_word,
        )

    def notes(self, untold: Sequence[Note]) -> tuple[Note, ...]:
        """What stands under the table: what is not told apart, rules and method.

        Args:
            untold: as from `would_tell`.
        """
        judged = self.judgement
        if judged is None:
            return RULES
        parts = [row.parts for row in self.rows if row is not None]
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
    contenders: Sequence[Contender | None],
    rules: Mapping[str, str],
    choices: Sequence[Choice],
    metric: Metric,
) -> Verdicts:
    """Compare the rows of one column.

    Args:
        contenders: per row; None is a row without values.
        rules: the rule of each row by its name: of some it is one under two names.
        choices: of the rows. Those that are another row under a second name (`find_twins`) have no verdict.
        metric: which says the direction, and the digits that are printed.
    """
    names, budgets, twins = list(rules), [choice.budget for choice in choices], find_twins(choices)
    gains = [estimate_gains(choice, metric) if has_stages(choice.rows[0]) else {} for choice in choices]
    looks = max((int(run["look"]) for choice in choices for run in choice.replicas), default=0)
    compared = [None if name in twins else row for name, row in zip(names, contenders, strict=True)]
    judged_rows = [contender.row for contender in compared if contender is not None]
    scored_on = {digest for contender in compared if contender is not None for digest in contender.scored_on}
    if not judged_rows or len(scored_on) > 1:
        return Verdicts(metric, None, [None] * len(names), gains, [False] * len(names), [()] * len(names))
    judged = judge.judge(
        judged_rows,
        higher_is_better=metric.higher_is_better,
        is_share=metric.is_share,
        margin=metric.margin,
        looks=looks,
    )
    verdicts = iter(judged.verdicts)
    rows = [None if contender is None else next(verdicts) for contender in compared]
    at_best, best = next(
        (at, row) for at, row in enumerate(rows) if row is not None and row.kind is Kind.BEST
    )
    printed = [None if row is None else f"{metric.printed(row.mean):.{metric.digits}f}" for row in rows]
    is_clear, unequal = len(judged_rows) > 1, list[tuple[Note, ...]]()
    for at, row in enumerate(rows):
        is_unequal = row is not None and budgets[at] != budgets[at_best]
        note = Note("budget_unequal", own=budgets[at], best=budgets[at_best], name=names[at_best])
        unequal.append((note,) if is_unequal else ())
        if row is None or row is best:
            continue
        if rules[row.name] == rules[best.name]:
            rows[at] = row = replace(row, is_same_rule=True, seeds_needed=None)
        is_worse = row.kind is Kind.WORSE and min(row.n, best.n) >= MIN_SEEDS
        may_catch_up = any(row.may_catch_up(gain) for gain in gains[at].values())
        is_clear = is_clear and is_worse and printed[at] != printed[at_best] and not may_catch_up
    return Verdicts(
        metric,
        judged,
        rows,
        gains,
        [is_clear and row is best for row in rows],
        unequal,
        looks,
        sum(contender.lost for contender in compared if contender is not None),
        min(map(judge.item_count, judged_rows)),
    )


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
    return "open_seeds" if row.seeds_needed is not None else "open_never"
