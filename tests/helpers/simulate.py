"""What the judge does on tables whose truth is known: for the long tests and the picture of docs/decides.md.

Runs of a seed correlate by .76, the median of our losses; standard deviations are those of one run. A table
errs if any row that is as good as the best is called worse.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from htbench.results.compare.judge import LEVEL, Judgement, Row, judge
from htbench.results.compare.ranges import Array, critical
from htbench.results.compare.tuning import Search, Setting
from htbench.results.tables.verdicts import UNEQUAL_SPREAD

CORRELATION = 0.76  # of two rows over seeds
LOOKS = (3, 10)  # seeds at the first and at the last look
SMALL_GAPS = ((1.3, 3, 0.43), (2.0, 3, 0.88), (1.1, 4, 0.47), (1.6, 4, 0.87))  # sd, seeds, least power
TAILS = (0.0, 10.0, 5.0)  # sd
_NO_OUTLOOK = math.inf  # a margin with which no row is unknown, so that nobody asks what would tell


@dataclass(frozen=True)
class Share:
    """How often something happens.

    Attributes:
        what: in words.
        rows, seeds: of each table.
        tables: simulated ones.
        share: of them.
        least, most: where it should lie; None: no promise.
        counted: the share as it was counted, where what chance does to an exact test is taken off it.
    """

    what: str
    rows: int
    seeds: int
    tables: int
    share: float
    least: float | None = None
    most: float | None = None
    counted: float | None = None

    @property
    def holds(self) -> bool:
        """Whether it lies where it should."""
        return (self.least is None or self.share >= self.least) and (
            self.most is None or self.share <= self.most
        )


def rows_of(values: Array, searches: Sequence[Search | None] | None = None) -> list[Row]:
    """Rows of values by seed."""
    found = searches if searches is not None else [None] * len(values)
    return [
        Row(str(i), {(seed, seed): float(value) for seed, value in enumerate(row)}, search)
        for i, (row, search) in enumerate(zip(values, found, strict=True))
    ]


def drawn(
    source: np.random.RandomState, means: Array, sds: Array, seeds: int, correlation: float = CORRELATION
) -> Array:
    """Values of rows by seeds.

    Args:
        source: of noise.
        means: of each row, in standard deviations of a run of a quiet one.
        sds: of what is each row's own, in the same unit for a quiet row.
        seeds: per row.
        correlation: of two quiet rows.
    """
    own = source.standard_normal((len(means), seeds)) * sds[:, None] * (1 - correlation) ** 0.5
    together = source.standard_normal(seeds) * correlation**0.5
    values: Array = means[:, None] + own + together
    return values


def _tables(means: Array, sds: Array, seeds: int, tables: int, correlation: float = CORRELATION) -> Array:
    source = np.random.RandomState(seeds + 100 * len(means))
    return np.array([drawn(source, means, sds, seeds, correlation) for _ in range(tables)])


def _judged(tables: Array, *, paired: bool = True) -> list[Judgement]:
    return [judge(rows_of(values), paired=paired, margin=_NO_OUTLOOK) for values in tables]


def _tukey_errs(tables: Array, *, paired: bool) -> float:
    """How often Tukey's test errs on these tables of equal rows: 5 %, but for the luck of the draw."""
    _, rows, seeds = tables.shape
    means = tables.mean(axis=2)
    residual = tables - means[:, :, None]
    if paired:
        residual = residual - residual.mean(axis=1, keepdims=True)
    freedom = float((seeds - 1) * (rows - paired))
    error = np.sqrt(2 / seeds * (residual**2).sum(axis=(1, 2)) / freedom)
    return float(np.mean(np.ptp(means, axis=1) > error * critical(rows, np.array(freedom), LEVEL)))


def _errs(judged: Judgement, means: Array) -> bool:
    """Whether a row that is as good as the best is called worse."""
    worse = [row.low > 0 for row in judged.verdicts]
    return bool(np.any(worse & (means == means.min())))


def _covers(judged: Judgement, means: Array) -> bool:
    """Whether all intervals hold."""
    gaps = means - means[judged.best]
    return all(row.low <= gap <= row.high for row, gap in zip(judged.verdicts, gaps, strict=True))


def _marked(what: str, judged: Sequence[Judgement], means: Array, seeds: int) -> Share:
    """How often tables that err say that their rows scatter unlike."""
    erring = [one for one in judged if _errs(one, means)]
    marked = float(np.mean([one.bartlett < UNEQUAL_SPREAD for one in erring])) if erring else 1.0
    return Share(f"{what}: marked, of tables that err", len(means), seeds, len(erring), marked)


def one_noisy(sd: float, seeds: int, tables: int) -> list[Share]:
    """Eight equal rows, one of them with so many times the deviation of the others."""
    means, sds = np.zeros(8), np.array([sd] + [1.0] * 7)
    judged = _judged(_tables(means, sds, seeds, tables))
    wrong = float(np.mean([_errs(one, means) for one in judged]))
    what = f"equal rows, one of sd {sd:g}"
    return [
        Share(f"{what}: one is worse", 8, seeds, tables, wrong, None, 0.08 if seeds > 3 else None),
        _marked(what, judged, means, seeds),
    ]


def small_gap(gap: float, seeds: int, least: float, tables: int) -> list[Share]:
    """The best of five rows by a gap that is found half of the time, or nine times of ten."""
    means = np.array([0.0] + [gap] * 4)
    judged = _judged(_tables(means, np.ones(5), seeds, tables))
    clear = float(np.mean([_is_clear(one, 5) for one in judged]))
    return [Share(f"best of five by {gap:g} sd", 5, seeds, tables, clear, least)]


def bad_tail(rows: int, tail: float, tables: int) -> list[Share]:
    """The best of some rows by a gap; one of ten seeds of the last row ends so many sd worse.

    How often the best is clear of all but that row: without the run in nine of ten tables.
    """
    gap, seeds = {3: 0.8, 5: 0.9}[rows], 10
    means = np.array([0.0] + [gap] * (rows - 1))
    values = _tables(means, np.ones(rows), seeds, tables)
    source = np.random.RandomState(rows)
    values[np.arange(tables), -1, source.randint(seeds, size=tables)] += tail
    clear = float(np.mean([_is_clear(one, rows - 1) for one in _judged(values)]))
    what = f"best by {gap:g} sd" + (f", one run of another row {tail:g} sd worse" if tail else "")
    return [Share(what, rows, seeds, tables, clear, 0.8)]


def _is_clear(judged: Judgement, count: int) -> bool:
    """Whether the first row is better than so many, itself among them."""
    return judged.best == 0 and all(row.low > 0 for row in judged.verdicts[1:count])


def size(rows: int, seeds: int, tables: int, *, paired: bool = True, ratio: float = 1.0) -> list[Share]:
    """Equal rows: how often one of them is called worse, and how often all intervals hold.

    Where rows scatter alike, Tukey's test is exact: what chance makes it err more on the same tables is taken
    off, so that few tables tell much.

    Args:
        rows, seeds, tables: as in `Share`.
        paired: whether seeds are shared.
        ratio: of the standard deviations of every second row to the others.
    """
    means, sds = np.zeros(rows), np.where(np.arange(rows) % 2, 1.0, ratio)
    values = _tables(means, sds, seeds, tables, CORRELATION if paired else 0.0)
    judged = _judged(values, paired=paired)
    wrong, held = (float(np.mean([ask(one, means) for one in judged])) for ask in (_errs, _covers))
    how = "" if paired else ", unpaired"
    if ratio != 1:
        # Three seeds are few, and rows that are not paired have less to tell their deviations: no promise.
        most = 0.075 if rows == 5 and seeds > 3 and paired else None
        what = f"equal rows, sd 1 to {ratio:g}{how}"
        return [
            Share(f"{what}: one is worse", rows, seeds, tables, wrong, None, most),
            _marked(what, judged, means, seeds),
        ]
    luck = _tukey_errs(values, paired=paired) - LEVEL
    return [
        Share(f"equal rows{how}: one is worse", rows, seeds, tables, wrong - luck, 0.04, 0.06, wrong),
        Share(f"equal rows{how}: all intervals hold", rows, seeds, tables, held + luck, 0.93, 0.97, held),
    ]


def partly_equal(equal: int, worse: int, gap: float, seeds: int, tables: int) -> list[Share]:
    """Some rows are the best together, others worse by `gap` standard deviations."""
    means = np.repeat([0.0, gap], [equal, worse])
    judged = _judged(_tables(means, np.ones(len(means)), seeds, tables))
    wrong, held = (float(np.mean([ask(one, means) for one in judged])) for ask in (_errs, _covers))
    what = f"{equal} equal, {worse} worse by {gap:g} sd"
    return [
        Share(f"{what}: an equal one is worse", len(means), seeds, tables, wrong, None, 0.06),
        Share(f"{what}: all intervals hold", len(means), seeds, tables, held, 0.93, None),
    ]


def power(tables: int) -> list[Share]:
    """The best of five rows by 4 sd: how often it is clear of all; with hopeless and noisy rows beside."""
    five = np.array([0.0, 4, 4, 4, 4])
    beside = {
        "": ([], [], 0.98),
        ", and six hopeless ones": ([200.0] * 6, [1.0] * 6, 0.98),
        ", and six hopeless ones of 20 sd": ([200.0] * 6, [20.0] * 6, 0.93),
        ", and four like it of 5 sd": ([4.0] * 4, [5.0] * 4, 0.85),
    }
    found = []
    for what, (more, noise, least) in beside.items():
        means, sds = np.array([*five, *more]), np.array([1.0] * 5 + noise)
        judged = _judged(_tables(means, sds, 3, tables))
        clear = np.mean([all(row.low > 0 for row in one.verdicts[1:5]) for one in judged])
        found.append(Share(f"best of five by 4 sd{what}", len(means), 3, tables, float(clear), least))
    return found


def tuning(seeds: int, tables: int) -> list[Share]:
    """One optimizer under two names, each with its own search.

    Five rates one octave apart, the optimum anywhere between two of them; .02 nats per octave squared; one
    search seed; sd .01 of a run beside what a seed does to all.
    """
    source, wrong = np.random.RandomState(seeds), np.zeros(2)
    rates = np.arange(-2.0, 3.0)
    for _ in range(tables):
        truth = 0.02 * (rates - source.uniform(-0.5, 0.5, (2, 1))) ** 2
        runs = truth + 0.01 * source.standard_normal((2, 5))
        chosen = runs.argmin(axis=1)
        values = truth[[0, 1], chosen][:, None] + 0.01 * source.standard_normal((2, seeds))
        searches = [
            Search(
                [Setting(str(rate), [value], rate) for rate, value in zip(rates, row, strict=True)],
                str(rates[best]),
            )
            for row, best in zip(runs, chosen, strict=True)
        ]
        for at, known in enumerate((None, searches)):
            found = judge(rows_of(values, known), paired=False, margin=_NO_OUTLOOK)
            wrong[at] += any(row.low > 0 for row in found.verdicts)
    without, counted = map(float, wrong / tables)
    return [
        Share("one optimizer tuned twice, tuning ignored: one is worse", 2, seeds, tables, without),
        Share("one optimizer tuned twice: one is worse", 2, seeds, tables, counted, None, 0.065),
    ]


def looking(tables: int) -> list[Share]:
    """Two equal rows, looked at with each number of seeds from 3 to 10 until one is worse."""
    first, last = LOOKS
    source, wrong = np.random.RandomState(0), np.zeros(2)
    for _ in range(tables):
        values = drawn(source, np.zeros(2), np.ones(2), last)
        for at, looks in enumerate((0, last - first)):
            wrong[at] += any(
                row.low > 0
                for n in range(first, last + 1)
                for row in judge(rows_of(values[:, :n]), looks=looks, margin=_NO_OUTLOOK).verdicts
            )
    ignored, counted = map(float, wrong / tables)
    return [
        Share("looks at 3 to 10 seeds, not counted: one is worse", 2, last, tables, ignored),
        Share("looks at 3 to 10 seeds, counted: one is worse", 2, last, tables, counted, None, 0.06),
    ]


def measure(tables: int) -> list[Share]:
    """Run all simulations with this many tables for each share."""
    simulations: list[Callable[[int], list[Share]]] = [
        *(partial(size, rows, seeds) for rows in (2, 5, 10, 20) for seeds in (3, 16)),
        *(partial(size, rows, 3, paired=False) for rows in (2, 5, 20)),
        *(partial(size, rows, seeds, ratio=4.0) for rows in (2, 5, 10, 20) for seeds in (3, 16)),
        *(partial(partly_equal, 3, 5, gap, 3) for gap in (1.0, 3.0, 10.0)),
        *(partial(size, 5, seeds, ratio=4.0) for seeds in (4, 5)),
        *(partial(one_noisy, 3.0, seeds) for seeds in (3, 4, 5)),
        power,
        *(partial(small_gap, *gap) for gap in SMALL_GAPS),
        *(partial(bad_tail, rows, tail) for rows in (3, 5) for tail in TAILS),
        *(partial(tuning, seeds) for seeds in (5, 20)),
        looking,
    ]
    return [share for simulation in simulations for share in simulation(tables)]
