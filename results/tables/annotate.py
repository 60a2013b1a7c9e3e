"""What the statistics say of one column of a table: bold, groups of ties, and sentences for its footnotes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from results.compare.bootstrap import chance_of_best
from results.compare.power import POWER, seeds_needed
from results.compare.stats import MIN_SEEDS, SIGNIFICANCE, Sample
from results.compare.ties import Ranking, rank

RULES = (
    f"Bold is better than every other row: t-tests of all pairs of rows, at {SIGNIFICANCE:.0%} after Holm's "
    f"correction. A test is paired if both rows have the same seeds, else Welch's; for accuracies it counts "
    f"the sampling error of the test set, too.",
    f"Nothing is bold while a run of any row is missing or has failed, if a row has fewer than {MIN_SEEDS} "
    f"seeds, or if the best two print alike.",
)
_GROUPS = "Rows that share a letter (ties) can't be told apart by these tests; the best row has an A."
_CHANCE = (
    "P(best) is the share of bootstrap samples of the seeds in which the row has the best mean; with few "
    "seeds it is too sure of itself."
)
_SEEDS = (
    f"Seeds needed: per row, for a power of {POWER:g} at {SIGNIFICANCE:.0%} in one two-sided t-test, if the "
    f"gap and spread seen are the true ones."
)


@dataclass(frozen=True)
class Annotated:
    """The statistics of one column, one entry per row.

    Attributes:
        ranking: best row, adjusted p-values of all pairs.
        bold: which row may be bold.
        groups: letters of the groups of ties; empty for a row without values or with too few seeds.
        chances: the probability of being best; None if it is not known.
        notes: the footnotes of each row's cell: an unequal budget.
        sentences: for the notes under the table: which rows are tied with the best, and what would decide.
    """

    ranking: Ranking
    bold: list[bool]
    groups: list[str]
    chances: list[float | None]
    notes: list[tuple[str, ...]]
    sentences: tuple[str, ...]

    @property
    def explanations(self) -> tuple[str, ...]:
        """The sentences that explain what is there of groups, probabilities and numbers of seeds."""
        return (
            *((_GROUPS,) if any(self.groups) else ()),
            *((_CHANCE,) if any(chance is not None for chance in self.chances) else ()),
            *((_SEEDS,) if any("seeds needed" in sentence for sentence in self.sentences) else ()),
        )


def annotate(
    samples: Sequence[Sample | None],
    *,
    names: Sequence[str],
    higher_is_better: bool,
    digits: int,
    budgets: Sequence[int] | None = None,
    label: str = "",
) -> Annotated:
    """Compare the rows of one column.

    Args:
        samples: per row, in the printed unit; None is a row without values.
        names: of the rows, for the sentences.
        higher_is_better: the direction.
        digits: decimals printed.
        budgets: how many settings each row was chosen among; None if that says nothing here.
        label: the column's name, if a table has several.
    """
    ranking = rank(samples, higher_is_better=higher_is_better, digits=digits)
    return Annotated(
        ranking,
        ranking.bold(),
        ranking.groups,
        chance_of_best(samples, higher_is_better=higher_is_better),
        _unequal_budgets(ranking, names, budgets),
        _ties(ranking, samples, names, digits, label),
    )


def _unequal_budgets(
    ranking: Ranking, names: Sequence[str], budgets: Sequence[int] | None
) -> list[tuple[str, ...]]:
    """The footnote to each row that had more or fewer trials than the best one."""
    if budgets is None or ranking.best is None:
        return [()] * len(names)
    best = budgets[ranking.best]
    rivals = {row for pair in ranking.p_values for row in pair} - {ranking.best}
    return [
        (f"unequal budget: {own} against {best} trials of {names[ranking.best]}, the best row",)
        if row in rivals and own != best
        else ()
        for row, own in enumerate(budgets)
    ]


def _ties(
    ranking: Ranking, samples: Sequence[Sample | None], names: Sequence[str], digits: int, label: str
) -> tuple[str, ...]:
    tied = ranking.tied_with_best()
    if ranking.best is None or not tied:
        return ()
    best = samples[ranking.best]
    assert best is not None
    rows = "; ".join(f"{names[row]} ({_reason(ranking, row, best, samples[row], digits)})" for row in tied)
    head = f"{label}: not" if label else "Not"
    return (f"{head} told from the best row, {names[ranking.best]}: {rows}.",)


def _reason(ranking: Ranking, row: int, best: Sample, other: Sample | None, digits: int) -> str:
    """Why a row is tied with the best: "gap 0.12, p = 0.31, 9 seeds needed"."""
    assert other is not None and ranking.best is not None
    gap = f"gap {abs(best.mean - other.mean):.{digits}f}"
    if min(len(best.values), len(other.values)) < MIN_SEEDS:
        return f"{gap}, fewer than {MIN_SEEDS} seeds"
    p = ranking.p_of(ranking.best, row)
    if p is None:
        return f"{gap}, no spread to test it with"
    needed = seeds_needed(best, other)
    return f"{gap}, p = {p:.2g}, {f'{needed} seeds needed' if needed else 'no number of seeds would do'}"
