"""Which row of a column is the best, which are as good, which are worse, and what would tell the others.

Numbers in, verdicts out; it knows no store. What decides:

- **Error.** The difference of a row to the best has up to three parts: seeds (`spread`), the noise of the
  search that chose its setting (`tuning`), and the finite test set (`items`). Degrees of freedom add up by
  Satterthwaite. No p-value is below that of the seeds alone: three seeds that happen to lie close together
  prove nothing.
- **Ties.** Among the rows that are left the one that differs most from the best is worse if its t exceeds
  that of the studentised range of as many rows (`ranges`), which pays for having picked both of them. It is
  left out, and the next one is compared with fewer rows. The first that does not differ ends it: all that are
  left tie with the best. So hopeless rows cost the others nothing.
- **Intervals** use the critical value of the step that decided the row: a row is worse if and only if its
  interval leaves out 0 and does not lie within the margin. All intervals of a table hold together in 95 %.

Simulated (`tests/helpers/simulate.py`): of 2 to 20 equal rows with 3 to 16 seeds any is called worse in 5 %
of tables. Where deviations differ by a factor of 3 or 4, it is 7 % with four seeds, and more with three;
`bartlett` marks a third of the tables that err.

Source: Tukey 1953 and Hsu, Multiple comparisons: theory and methods, 1996, chapters 3 to 5; Satterthwaite, An
approximate distribution of estimates of variance components, Biometrics Bulletin 2, 1946.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from htbench.results.compare import ranges
from htbench.results.compare.items import Discordant, Items, paired_variance
from htbench.results.compare.ranges import Array
from htbench.results.compare.spread import estimate_spread
from htbench.results.compare.tuning import Search, tuning_variance
from htbench.results.frames.metrics import MARGIN_NATS, MARGIN_SHARE

LEVEL = 0.05
POWER = 0.8
MOST_SEEDS = 1000  # above these a number is no plan any more
MOST_ITEMS = 1_000_000
MOST_SEARCH_SEEDS = 100
_TINY = 1e-200
_ROUNDING = 1e-9  # a relative spread below this is what rounding leaves of equal values

# The level of each of so many looks at which one of them errs in 5 %, by the number of looks after the first.
# Source: Pocock, Group sequential methods in the design and analysis of clinical trials, Biometrika 64, 1977;
# Jennison and Turnbull, Group sequential methods with applications to clinical trials, 2000, table 2.1.
_POCOCK = (0.05, 0.0294, 0.0221, 0.0182, 0.0158, 0.0142, 0.0130, 0.0120, 0.0112, 0.0106)


class Kind(str, Enum):
    """What is known of a row beside the best one."""

    BEST = "best"
    EQUAL = "equal"  # its interval lies within the margin
    WORSE = "worse"  # its interval leaves out 0
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Row:
    """What a row achieved.

    Attributes:
        name: of the row.
        values: at least one, by (seed, data_seed), on the scale of the comparison: log loss, a share of right
            answers, the logarithm of seconds.
        search: what it chose its setting among; None if nothing was chosen, or if it is not known.
        items: on each item of the test split; None if it is not known.
        item_count: items of the test split of a share; read where there are no `items`.
        lost: how many of its runs have test items that are damaged or gone, though the record names them.
        scored_on: which items its runs were scored on, by their digests. Other ones can't be compared.
    """

    name: str
    values: Mapping[tuple[int, int], float]
    search: Search | None = None
    items: Items | None = None
    item_count: int | None = None
    lost: int = 0
    scored_on: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Parts:
    """The variance of a row's difference to the best, by its causes."""

    seeds: float
    tuning: float = 0.0
    items: float = 0.0

    @property
    def total(self) -> float:
        """Of all of them."""
        return self.seeds + self.tuning + self.items


@dataclass(frozen=True)
class SeedsNeeded:
    """Seeds per row at which the gap that was seen would be found with power .8.

    Attributes:
        estimate: with the variance as estimated.
        low, high: with the ends of its 95 % interval; `high` is None above `MOST_SEEDS`. The gap is taken for
            the true one: that of an undecided row may always be 0, and then no number of seeds is enough.
    """

    estimate: int
    low: int
    high: int | None


@dataclass(frozen=True)
class Verdict:
    """What is known of a row.

    Attributes:
        name: of the row.
        kind: beside the best.
        rank, is_tied: 1 for the best and all that can't be told from it and have better means than all that
            can; never better than that of a row with a better mean. Those that share a rank are tied.
        mean, n: of its values.
        gap: how much it is worse than the best by its mean, on the scale of the comparison; not negative, and
            0 where only rounding differs.
        low, high: the simultaneous interval of the gap; infinite where nothing tells the spread.
        p_value: adjusted for all rows; 1 for the best.
        parts: the variance of the gap.
        seeds_needed: to tell an unknown row from the best; None if seeds alone can't, or more than
            `MOST_SEEDS` would be needed.
        limited_by_test_set: whether the test set is too small to tell an unknown row, whatever the seeds.
        items_needed: how many items it would need then; None above `MOST_ITEMS`.
        limited_by_search: whether the test set would do, but the noise of the search is too large for it.
        search_seeds_needed: how many seeds each setting would need in the search then. Half of the error that
            the gap allows is left to the fresh seeds. None above `MOST_SEARCH_SEEDS`.
        is_same_rule: whether it is the best one's rule under another name. Then nothing would tell it.
        is_constant: whether no seed is seen to change the difference of an unknown row to the best. Then its
            error is not known, and no number of seeds is known to tell it.
    """

    name: str
    kind: Kind
    rank: int
    is_tied: bool
    mean: float
    n: int
    gap: float
    low: float
    high: float
    p_value: float
    parts: Parts
    seeds_needed: SeedsNeeded | None = None
    limited_by_test_set: bool = False
    items_needed: int | None = None
    limited_by_search: bool = False
    search_seeds_needed: int | None = None
    is_same_rule: bool = False
    is_constant: bool = False

    @property
    def rank_word(self) -> str:
        """Its rank as tables print it: "3", or "1=" of rows that share it."""
        return f"{self.rank}{'=' * self.is_tied}"

    def may_catch_up(self, gain: float | None) -> bool:
        """Whether the row would be as good as the best if it gained so much; None: an unknown amount."""
        return gain is None or gain >= self.low


@dataclass(frozen=True)
class Judgement:
    """The rows of a column.

    Attributes:
        verdicts: in the order of the rows.
        best: the index of the row with the best mean.
        bartlett: p-value of equal variances; small: the rows scatter differently, and errors are less sure.
        level: at which each interval errs, after all looks.
    """

    verdicts: tuple[Verdict, ...]
    best: int
    bartlett: float
    level: float


def judge(
    rows: Sequence[Row],
    *,
    higher_is_better: bool = False,
    is_share: bool = False,
    paired: bool = True,
    margin: float | None = None,
    level: float = LEVEL,
    looks: int = 0,
) -> Judgement:
    """Judge the rows of a column.

    Args:
        rows: at least one.
        higher_is_better: the direction.
        is_share: whether values are shares of right answers; then items are counted exactly.
        paired: whether a seed does the same to all rows that have it. It does for losses, not for times.
        margin: differences up to it do not matter; None: .005, or .002 for shares.
        level: at which one table in all errs.
        looks: how often replicas are added after a look at the table, as planned beforehand or as it came to
            be, whichever is more. Every look then has Pocock's smaller level.

    Raises:
        ValueError: there is no row, or one without a finite value, or rows were scored on different items.
    """
    for row in rows:
        if not row.values or not all(map(math.isfinite, row.values.values())):
            raise ValueError(f"The row '{row.name}' needs at least one value, and finite ones only.")
    if not rows:
        raise ValueError("There is no row to judge.")
    if margin is None:
        margin = MARGIN_SHARE if is_share else MARGIN_NATS
    level *= _POCOCK[min(looks, len(_POCOCK) - 1)] / LEVEL
    column = _Column(rows, higher_is_better, is_share, paired)
    undecided = list(range(len(rows)))
    decided = first = _decide(column, undecided, level)
    gap = first.gaps.gap
    ranks: dict[int, tuple[int, bool]] = {}
    while undecided:
        # Above all that are worse: whoever stands behind one of them shares no rank with the best.
        nearest = min((gap[i] for i in undecided if decided.kind(i, margin) is Kind.WORSE), default=math.inf)
        group = [i for i in undecided if gap[i] < nearest]
        ranks |= {i: (1 + len(rows) - len(undecided), len(group) > 1) for i in group}
        undecided = [i for i in undecided if i not in group]
        decided = _decide(column, undecided, level) if undecided else first
    return Judgement(
        tuple(_make_verdict(column, first, i, ranks[i], margin, level) for i in range(len(rows))),
        first.best,
        column.own.bartlett,
        level,
    )


class _Column:
    """The rows as arrays, the lower the better.

    Attributes:
        means, n: of each row.
        own: the moderated variances.
        scatters: whether the values of each row differ over seeds, and whether they do so by more than what a
            seed does to all rows. The error of a gap is known if one of its rows does the first and one the
            second: what others scatter tells nothing of two rows without spread.
    """

    def __init__(self, rows: Sequence[Row], higher_is_better: bool, is_share: bool, paired: bool) -> None:
        self.rows, self.is_share = rows, is_share
        self.sign = -1 if higher_is_better else 1
        seeds = sorted({seed for row in rows for seed in row.values})
        values = np.array([[row.values.get(seed, math.nan) for seed in seeds] for row in rows])
        self.n = np.isfinite(values).sum(axis=1)
        self.means = self.sign * np.nanmean(values, axis=1)
        # Single values are like runs that do not differ: nothing tells their spread.
        some = values if self.n.max() > 1 else np.zeros((len(rows), 2))
        self._spread = estimate_spread(some, paired=paired)
        self.own = self._spread.own
        sds = np.where(self.n > 1, np.nanstd(values, axis=1), math.inf), np.sqrt(self.own.variance)
        self.scatters = np.array(sds) > _ROUNDING * np.nanmax(np.abs(values))
        self._added = functools.cache(self._tuning_variance)  # all other rows ask for that of the best
        self._tuning = np.array([self._added(i, 1) for i in range(len(rows))])

    def _tuning_variance(self, i: int, times: int) -> float:
        """What the search adds to the variance of a row, had each of its settings so many times the seeds."""
        search = self.rows[i].search
        if search is None or self.n[i] < 2:
            return 0.0
        of_run, mean = (self.own.variance[i] / times, self.own.freedom[i]), self.sign * self.means[i]
        return tuning_variance(search, mean, *of_run, higher_is_better=self.sign < 0)

    def search_seeds_needed(self, i: int, best: int, allowed: float) -> int | None:
        """Seeds of each setting with which two searches add no more than so much to the variance of a gap."""
        searches = [row.search for row in (self.rows[i], self.rows[best]) if row.search is not None]
        had = max(len(setting.values) for search in searches for setting in search.settings)

        def is_enough(times: int) -> bool:
            return self._added(i, times) + self._added(best, times) <= allowed

        counts = range(2, MOST_SEARCH_SEEDS // had + 1)
        if not counts or not is_enough(counts[-1]):
            return None
        return had * counts[bisect_left(counts, True, key=is_enough)]

    def against(self, best: int) -> _Gaps:
        """How each row compares with one of them."""
        count = len(self.rows)
        items, item_freedom, discordant = self._compare_items(best)
        of_mean, whole, spread = self.own.variance / self.n, self.own.freedom, self._spread
        together = of_mean + of_mean[best]
        common = spread.seeds * ((spread.shares - spread.shares[best]) ** 2).sum(axis=1)
        freedom = self.own.freedom_beside(best, self.n)
        seeds, freedom = _add((together, freedom), (common, np.full(count, spread.seeds_freedom)))
        is_constant = ~(self.scatters | self.scatters[:, [best]]).all(axis=0)
        untold = (self.n < 2) | (self.n[best] < 2) | (is_constant & (items == 0))
        tuning, search_freedom = self._tuning + self._tuning[best], np.minimum(whole, whole[best])
        _, full = _add((seeds, freedom), (tuning, search_freedom), (items, item_freedom))
        gaps = self.means - self.means[best]
        gaps[np.abs(gaps) <= _ROUNDING * np.abs(self.means)] = 0.0
        return _Gaps(gaps, np.where(untold, math.inf, seeds), freedom, tuning, items, full, discordant)

    def _compare_items(self, best: int) -> tuple[Array, Array, list[Discordant | None]]:
        """What the test set adds to the variance of each gap, its degrees of freedom, and exact counts."""
        variances, freedoms = np.zeros(len(self.rows)), np.full(len(self.rows), math.inf)
        discordant: list[Discordant | None] = [None] * len(self.rows)
        top = self.rows[best]
        for i, row in enumerate(self.rows):
            worse, better = (row, top) if self.sign > 0 else (top, row)  # by their values, not by merit
            if row.items is not None and top.items is not None:
                variances[i], documents = paired_variance(row.items, top.items)
                freedoms[i] = max(1, documents - 1)
                if self.is_share:
                    discordant[i] = Discordant.of_items(worse.items, better.items)  # type: ignore[arg-type]
            elif self.is_share and row.item_count and top.item_count:
                shares = [abs(self.means[j]) for j in (i, best)]
                total = min(row.item_count, top.item_count)
                # With one right and one wrong answer more, no variance is 0 (Agresti and Caffo 2000).
                near = [(share * total + 1) / (total + 2) for share in shares]
                variances[i] = sum(share * (1 - share) / total for share in near)
                first, second = shares if self.sign > 0 else shares[::-1]
                discordant[i] = Discordant.of_shares(first, second, total)
        return variances, freedoms, discordant


def _add(*parts: tuple[Array, Array]) -> tuple[Array, Array]:
    """The sum of independent variances, and its degrees of freedom by Satterthwaite."""
    total = np.asarray(sum(variance for variance, _ in parts))
    inverse = sum((variance / np.maximum(total, _TINY)) ** 2 / freedom for variance, freedom in parts)
    return total, np.where(inverse > _TINY, 1 / np.maximum(inverse, _TINY), math.inf)


@dataclass(frozen=True)
class _Gaps:
    """How each row of a column compares with one of them, as arrays.

    Attributes:
        gap: how much worse its mean is.
        seeds, seeds_freedom: the variance of the gap over seeds; infinite where nothing tells it.
        tuning, items: its other parts.
        freedom: of all parts.
        discordant: exact counts of a share.
    """

    gap: Array
    seeds: Array
    seeds_freedom: Array
    tuning: Array
    items: Array
    freedom: Array
    discordant: list[Discordant | None]

    def errors(self) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Standard error and degrees of freedom, of all parts and of the seeds alone."""
        total = np.sqrt(self.seeds + self.tuning + self.items)
        return (total, self.freedom), (np.sqrt(self.seeds), self.seeds_freedom)

    def p_values(self, k: int) -> Array:
        """If the rows are the outermost of k."""
        from scipy import special

        p_values = [
            ranges.p_value(self.gap / np.maximum(se, _TINY), k, freedom) for se, freedom in self.errors()
        ]
        exact = np.array([0.0 if counts is None else counts.p_value for counts in self.discordant])
        if exact.any():
            z = special.ndtri(1 - exact / 2)
            p_values.append(np.where(exact > 0, ranges.p_value(z, k, np.full(len(z), math.inf)), 0.0))
        return np.max(p_values, axis=0)  # type: ignore[no-any-return]

    def intervals(self, k: int, level: float) -> tuple[Array, Array]:
        """Those that leave out 0 where the p-value is below the level."""
        from scipy import special

        half = np.max([ranges.critical(k, freedom, level) * se for se, freedom in self.errors()], axis=0)
        low, high = self.gap - half, self.gap + half
        z = ranges.critical(k, np.array(math.inf), level)
        for i, counts in enumerate(self.discordant):
            if counts is not None:
                exact = counts.interval(2 * float(special.ndtr(-z)))
                low[i], high[i] = min(low[i], exact[0]), max(high[i], exact[1])
        return low, high


@dataclass(frozen=True)
class _Decided:
    """The step-down comparison of some rows with the best of them.

    Attributes:
        best: its index.
        gaps: of all rows of the column.
        k: how many rows there were when a row was decided.
        low, high, p_value: of each row.
    """

    best: int
    gaps: _Gaps
    k: Array
    low: Array
    high: Array
    p_value: Array

    def kind(self, row: int, margin: float) -> Kind:
        """What is known of a row."""
        if row == self.best:
            return Kind.BEST
        if -margin <= self.low[row] and self.high[row] <= margin:
            return Kind.EQUAL
        return Kind.WORSE if self.low[row] > 0 else Kind.UNKNOWN


def _decide(column: _Column, undecided: list[int], level: float) -> _Decided:
    best = min(undecided, key=lambda i: column.means[i])
    gaps = column.against(best)
    low, high, k = (np.zeros(len(column.rows)) for _ in range(3))
    p_value, largest = np.ones(len(column.rows)), 0.0
    rivals = [i for i in undecided if i != best]
    while rivals:
        count = len(rivals) + 1
        p_values, (lows, highs) = gaps.p_values(count), gaps.intervals(count, level)
        worst = min(rivals, key=lambda i: (p_values[i], -gaps.gap[i]))
        settled = [worst] if lows[worst] > 0 else rivals
        largest = max(largest, p_values[worst])
        for i in settled:
            low[i], high[i], k[i], p_value[i] = lows[i], highs[i], count, max(largest, p_values[i])
        rivals = [i for i in rivals if i not in settled]
    return _Decided(best, gaps, k, low, high, p_value)


def _make_verdict(
    column: _Column, decided: _Decided, i: int, place: tuple[int, bool], margin: float, level: float
) -> Verdict:
    row, gaps = column.rows[i], decided.gaps
    kind = decided.kind(i, margin)
    verdict = Verdict(
        row.name,
        kind,
        *place,
        mean=float(column.sign * column.means[i]),
        n=int(column.n[i]),
        gap=float(gaps.gap[i]),
        low=float(decided.low[i]),
        high=float(decided.high[i]),
        p_value=float(decided.p_value[i]),
        parts=Parts(float(gaps.seeds[i]), float(gaps.tuning[i]), float(gaps.items[i])),
    )
    if kind is not Kind.UNKNOWN or verdict.gap == 0:
        return verdict
    return replace(verdict, **_estimate_needs(column, decided, i, level))


def _estimate_needs(column: _Column, decided: _Decided, i: int, level: float) -> dict[str, Any]:
    """What would tell an unknown row from the best: seeds, a larger test set, or a better search."""
    from scipy import special

    gaps, moderated, best, k = decided.gaps, column.own, decided.best, int(decided.k[i])
    pair = [i, best]
    squared = float(ranges.critical(k, np.array(math.inf), level) + special.ndtri(POWER)) ** 2
    gap, items = gaps.gap[i] ** 2, gaps.items[i]
    if gap <= squared * items:
        needed = math.ceil(item_count(column.rows[i]) * squared * items / gap)
        return {"limited_by_test_set": True, "items_needed": needed if needed <= MOST_ITEMS else None}
    if not column.scatters[:, pair].any(axis=1).all():
        return {"is_constant": True}
    if gap <= squared * (items + gaps.tuning[i]):
        needed = column.search_seeds_needed(i, best, (gap / squared - items) / 2)
        return {"limited_by_search": True, "search_seeds_needed": needed}
    freedom = float(moderated.freedom[pair].min())
    ends = special.chdtri(freedom, np.array([0.025, 0.975])) / freedom
    of_run = moderated.variance[pair].sum() / np.array([1.0, *ends])
    # n = (t_critical + t_power)^2 variance / gap^2, where both t depend on n.
    n = np.maximum(2, squared * of_run / (gap - squared * (items + gaps.tuning[i])))
    for _ in range(4):
        freedoms = freedom / max(1, column.n[pair].min() - 1) * np.maximum(1, n - 1)
        needed = (ranges.critical(k, freedoms, level) + special.stdtrit(freedoms, POWER)) ** 2
        rest = gap - needed * (items + gaps.tuning[i])
        n = np.where(
            rest > 0, np.clip(needed * of_run / np.maximum(rest, _TINY), 2, 2 * MOST_SEEDS), 2 * MOST_SEEDS
        )
    least = int(column.n[pair].min()) + 1  # as many as there are have not told
    estimate, low, high = (max(least, math.ceil(count)) for count in n)
    if estimate > MOST_SEEDS:
        return {}
    return {"seeds_needed": SeedsNeeded(estimate, low, high if high <= MOST_SEEDS else None)}


def item_count(row: Row) -> int:
    """The items of a row's test split; 0: not known."""
    return (row.items.total or len(row.items.weights)) if row.items is not None else row.item_count or 0
