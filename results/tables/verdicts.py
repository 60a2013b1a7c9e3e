"""What the statistics say of the rows of a column: bold, ties, and what would tell two rows apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.show.note import Note
from results.compare.stats import MIN_SEEDS, POWER, SIGNIFICANCE, Sample, seeds_needed
from results.compare.ties import Ranking, chance_of_best, rank
from results.frames.metrics import Metric

RULES = (Note("bold", level=SIGNIFICANCE), Note("bold_never", seeds=MIN_SEEDS))


@dataclass(frozen=True)
class Verdicts:
    """The statistics of one column, one entry per row.

    Attributes:
        ranking: best row, letters of the groups of ties, adjusted p-values of all pairs.
        bold: which row may be bold.
        chances: the probability of being best; None if it is not known.
        budgets: the footnote to a row that had more or fewer trials than the best one.
        ties: why each row that is tied with the best is so; empty if none is.
    """

    ranking: Ranking
    bold: list[bool]
    chances: list[float | None]
    budgets: list[tuple[Note, ...]]
    ties: list[Note]

    def notes(self, names: Sequence[str]) -> tuple[Note, ...]:
        """What stands under the table: ties, the rules, and what letters, chances, numbers of seeds are."""
        best = self.ranking.best
        ties = [Note("ties", best=names[best], rows=self.ties)] if self.ties and best is not None else []
        explained = [
            (any(self.ranking.groups), Note("groups")),
            (any(chance is not None for chance in self.chances), Note("chances")),
            (
                any(tie.kind == "tie_seeds" for tie in self.ties),
                Note("needed", power=POWER, level=SIGNIFICANCE),
            ),
        ]
        return (*ties, *RULES, *(note for is_there, note in explained if is_there))


def compare(
    samples: Sequence[Sample | None], names: Sequence[str], tried: Sequence[int], metric: Metric
) -> Verdicts:
    """Compare the rows of one column.

    Args:
        samples: per row, in the printed unit; None is a row without values.
        names: of the rows.
        tried: how many settings each row was chosen among.
        metric: which says the direction, and the digits that are printed.
    """
    ranking = rank(samples, higher_is_better=metric.higher_is_better, digits=metric.digits)
    return Verdicts(
        ranking,
        ranking.bold(),
        chance_of_best(samples, higher_is_better=metric.higher_is_better),
        _unequal_budgets(ranking, names, tried),
        [_tie(ranking, samples, names, row, metric.digits) for row in ranking.tied_with_best()],
    )


def _unequal_budgets(ranking: Ranking, names: Sequence[str], tried: Iterable[int]) -> list[tuple[Note, ...]]:
    best, rivals = ranking.best, {row for pair in ranking.p_values for row in pair}
    tried = list(tried)
    return [
        (Note("budget_unequal", own=own, best=tried[best], name=names[best]),)
        if best is not None and row in rivals - {best} and own != tried[best]
        else ()
        for row, own in enumerate(tried)
    ]


def _tie(
    ranking: Ranking, samples: Sequence[Sample | None], names: Sequence[str], row: int, digits: int
) -> Note:
    """Why a row is tied with the best, and how many seeds it would take to tell them apart."""
    assert ranking.best is not None
    best, other = samples[ranking.best], samples[row]
    assert best is not None and other is not None
    fields = {"name": names[row], "gap": f"{abs(best.mean - other.mean):.{digits}f}"}
    if min(len(best.values), len(other.values)) < MIN_SEEDS:
        return Note("tie_few", seeds=MIN_SEEDS, **fields)
    p = ranking.p_of(ranking.best, row)
    if p is None:
        return Note("tie_no_spread", **fields)
    needed = seeds_needed(best, other)
    return Note("tie_seeds", p=p, needed=needed, **fields) if needed else Note("tie_never", p=p, **fields)
