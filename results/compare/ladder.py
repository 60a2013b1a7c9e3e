"""A ladder: workloads that differ in size and length only, and what a rule is worth on it in tokens.

How many times the tokens would AdamW need to end where another rule ends? Its losses at several lengths of a
size are a law, L = E_N + A_N D^-beta with one beta for all sizes, and the law of that size answers. It
interpolates, and says nothing beyond AdamW's longest run. What could make such numbers up is a `Guard`.

Several batches at a size would make the length of a run mean two things: the batch with most lengths of AdamW
is the ladder's, of equals the one with more rows, then the smaller one. Rows of another batch are a control:
compared with each other, never part of a law. The figure has multipliers at the ratio of tokens to parameters
at which most are known: a rule that is better than AdamW at AdamW's longest run is out of sight there.
"""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from htbench.harness.choice.winner import grouped
from htbench.results.compare.draws import DRAWS, Draws, Estimate, draw_losses, estimate_interval, measure_miss
from htbench.results.compare.judge import judge
from htbench.results.compare.ladder_points import BASELINE, HORIZONS, Guard, Rung
from htbench.results.compare.law import Law, fit_law
from htbench.results.compare.ranges import Array

SECOND = "muon"
MISSES = 2.0  # standard errors by which the law may miss what was left out


@dataclass(frozen=True)
class Entry:
    """What is known of a rung.

    Attributes:
        rung: it.
        loss: in nats per token.
        to_baseline, to_second: its loss less that of AdamW and of Muon at its place, by the judge; None:
            there is none.
        tokens: how many times the tokens AdamW would need; None where a guard withholds it.
        compute, time: the same in operations, and in seconds on one machine.
        is_main: whether it is part of the ladder: no control of the batch, no rule at one place only.
        guards: why there is no number, or what to know about it.
    """

    rung: Rung
    loss: float
    to_baseline: Estimate | None = None
    to_second: Estimate | None = None
    tokens: Estimate | None = None
    compute: Estimate | None = None
    time: Estimate | None = None
    is_main: bool = True
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True)
class Check:
    """How the law does on AdamW's longest run of the largest size, which is left out of its fit.

    Attributes:
        misses: by how many standard errors it misses the loss of that run.
        nats: the same in nats per token; positive: the run is better than the law says.
        effect: how much better the best other rule is there than AdamW, in nats; None: there is none.
    """

    misses: float
    nats: float
    effect: float | None = None


@dataclass(frozen=True, eq=False)
class Ladder:
    """A ladder.

    Attributes:
        task: of all its runs.
        sizes: of each model its group in AdamW's law, or why it has none.
        law: AdamW's; None where no size has one, or if it misses what was left out.
        check: of the law; None where too few points are left without that run.
        guards: of the law.
        entries: of its rungs, by size, batch and length, the best first.
        ratio: of tokens to parameters, at which most multipliers are known; without any, that of most rows.
    """

    task: str
    sizes: Mapping[str, int | Guard]
    law: Law | None = field(default=None, repr=False)
    check: Check | None = None
    guards: tuple[Guard, ...] = ()
    entries: tuple[Entry, ...] = ()
    ratio: float = 0.0

    @property
    def exponent(self) -> Estimate | None:
        """Beta of L = E + A D^-beta."""
        return None if self.law is None else estimate_interval(self.law.exponent)

    @property
    def groups(self) -> dict[str, int]:
        """Of each model that has a law its group in it."""
        return {model: group for model, group in self.sizes.items() if not isinstance(group, Guard)}

    @property
    def floors(self) -> dict[str, Estimate]:
        """E of each model that has a law."""
        if self.law is None:
            return {}
        return {model: estimate_interval(self.law.floors[at]) for model, at in self.groups.items()}


# --- the law ---


def fit_ladder(task: str, points: Sequence[Rung], draws: int = DRAWS) -> Ladder:
    """What some rungs say.

    A rule at one place only does not climb: it is held against the others there, but how much it scatters
    says nothing of them. Else whoever adds a noisy rule at one size would widen the intervals at every other.

    Args:
        task: of all.
        points: rungs of one ladder.
        draws: of the bootstrap.
    """
    times = Counter(point.optimizer for point in points)
    climbing = [point for point in points if times[point.optimizer] > 1]
    if len(climbing) in (0, len(points)):
        return _fit_points(task, points, draws)
    ladder, every = _fit_points(task, climbing, draws), _fit_points(task, points, draws)
    asides = [replace(entry, is_main=False) for entry in every.entries if times[entry.rung.optimizer] == 1]
    entries = sorted((*ladder.entries, *asides), key=lambda entry: _sort_key(entry.rung))
    return replace(ladder, entries=tuple(entries))


def _sort_key(rung: Rung) -> tuple[float, str, int, float, float]:
    return (rung.parameters, rung.model, rung.batch, rung.tokens, _mean_loss(rung))


def _fit_points(task: str, points: Sequence[Rung], draws: int) -> Ladder:
    batches = _choose_batches(points)
    ordered = sorted(points, key=_sort_key)
    noise = draw_losses([point.row for point in ordered], [point.place for point in ordered], draws)
    drawn = noise or Draws(np.array([[_mean_loss(point)] for point in ordered]), np.ones(len(ordered)))
    is_main = [point.batch == batches[point.model] for point in ordered]
    ladder = _fit_baseline(task, ordered, is_main, drawn)
    places = {place: _Place(part) for place, part in grouped(ordered, lambda point: point.place).items()}
    entries = [
        _make_entry(point, places[point.place], losses, ladder, main)
        for point, losses, main in zip(ordered, drawn.losses, is_main, strict=True)
    ]
    in_sight = [entry.rung for entry in entries if entry.tokens and entry.tokens.value]
    among = in_sight or [entry.rung for entry in entries if entry.is_main]
    ratios = (rung.ratio for rung in among)
    ratio = max(ratios, key=lambda x: (sum(rung.is_at(x) for rung in among), x), default=0.0)
    guards = (*ladder.guards, *(() if noise else (Guard.NO_SPREAD,)))
    return replace(ladder, entries=tuple(entries), guards=guards, ratio=ratio)


def _mean_loss(rung: Rung) -> float:
    return statistics.fmean(rung.row.values.values())


def _choose_batches(points: Iterable[Rung]) -> dict[str, int]:
    """The batch of each size that is the ladder's."""

    def order(same_batch: Sequence[Rung]) -> tuple[int, int, int]:
        lengths = len({point.tokens for point in same_batch if point.optimizer == BASELINE})
        return lengths, len(same_batch), -same_batch[0].batch

    by_size = grouped(points, lambda point: point.model)
    return {
        model: max(grouped(same_size, lambda point: point.batch).values(), key=order)[0].batch
        for model, same_size in by_size.items()
    }


def _fit_baseline(task: str, ordered: Sequence[Rung], is_main: Sequence[bool], drawn: Draws) -> Ladder:
    """The ladder with AdamW's law, without its entries."""
    lengths = grouped(
        (at for at, point in enumerate(ordered) if is_main[at] and point.optimizer == BASELINE),
        lambda at: ordered[at].model,
    )
    sizes: dict[str, int | Guard] = {}
    points: list[int] = []
    groups: list[int] = []
    for model, at in lengths.items():
        if len({ordered[i].tokens for i in at}) < HORIZONS:
            sizes[model] = Guard.FEW_HORIZONS
        elif any(ordered[i].at_edge for i in at):
            sizes[model] = Guard.BASELINE_EDGE
        else:
            sizes[model] = group = len(set(groups))
            points += at
            groups += [group] * len(at)
    if not points:
        return Ladder(task, sizes)
    tokens = np.array([ordered[at].tokens for at in points])
    losses, variances = drawn.losses[points], drawn.variances[points]
    check = _check_longest(tokens, groups, losses, variances)
    if check is not None:
        rivals = [
            drawn.losses[at, 0]
            for at, point in enumerate(ordered)
            if point.place == ordered[points[-1]].place
        ]
        check = replace(check, effect=float(losses[-1, 0] - min(rivals)) or None)
        if abs(check.misses) > MISSES:
            missed = {model: at if isinstance(at, Guard) else Guard.MISSED for model, at in sizes.items()}
            return Ladder(task, missed, None, check, (Guard.MISSED,))
    law = fit_law(tokens, groups, losses, variances)
    for model, at_size in sizes.items():
        if not isinstance(at_size, Guard) and law.scales[at_size, 0] <= 0:
            sizes[model] = Guard.RISING
    return Ladder(task, sizes, law, check, (Guard.UNCHECKED,) if check is None else ())


def _check_longest(tokens: Array, groups: Sequence[int], losses: Array, variances: Array) -> Check | None:
    """What the law says of the longest run of the largest size, fitted without it; None: it has no fit."""
    last = len(tokens) - 1  # rungs are in the order of size and length
    if last < 2 * (groups[last] + 1) + 1:
        return None
    law = fit_law(tokens[:last], groups[:last], losses[:last], variances[:last])
    differences = law.loss(tokens[last], groups[last]) - losses[last]
    misses = measure_miss(differences)
    return None if misses is None else Check(misses, float(differences[0]))


class _Place:
    """The rungs of a workload, and what the judge says of them."""

    def __init__(self, points: Sequence[Rung]) -> None:
        self.by_rule = {point.optimizer: point for point in points}
        self._judged = judge([point.row for point in self.by_rule.values()])

    def distance(self, name: str, other: str) -> Estimate | None:
        """The loss of a rule less that of another one; None if that is not here, or the same.

        Where one of them leads, it is what the judge says of all rows here, as in the table of the workload.
        The judge compares rows with the best one only, so two others are compared alone.
        """
        if other not in self.by_rule or name == other:
            return None
        names, judged = [*self.by_rule], self._judged
        if names[judged.best] not in (name, other):
            names, judged = [name, other], judge([self.by_rule[rule].row for rule in (name, other)])
        leads = names[judged.best] == name
        behind = judged.verdicts[names.index(other if leads else name)]
        ends = [end if math.isfinite(end) else None for end in (behind.low, behind.high)]
        low, high = [None if end is None else -end for end in reversed(ends)] if leads else ends
        return Estimate(-behind.gap if leads else behind.gap, low, high)


def _make_entry(rung: Rung, place: _Place, losses: Array, ladder: Ladder, is_main: bool) -> Entry:
    """What is known of a rung."""
    to_baseline, to_second = (place.distance(rung.optimizer, name) for name in (BASELINE, SECOND))
    guards = (Guard.EDGE,) if rung.at_edge else ()
    entry = Entry(rung, float(losses[0]), to_baseline, to_second, is_main=is_main, guards=guards)
    group = ladder.sizes.get(rung.model, Guard.FEW_HORIZONS)
    withheld = [Guard.CONTROL] if not is_main else [group] if isinstance(group, Guard) else []
    if rung.optimizer == BASELINE or withheld or rung.at_edge:
        causes = withheld if rung.optimizer != BASELINE or not is_main else []
        return replace(entry, guards=(*entry.guards, *causes))
    assert ladder.law is not None and not isinstance(group, Guard)
    least, most = (end / rung.tokens for end in ladder.law.ends[group])
    values = ladder.law.inverse(losses, group) / rung.tokens
    # Of a law through its points the ends are those points, but for what rounding does.
    tokens = estimate_interval(values, least * (1 - 1e-9), most * (1 + 1e-9))
    beyond = [Guard.ABOVE] if tokens.is_above else [Guard.BELOW] if tokens.is_below else []
    compute = time = None
    base = place.by_rule.get(BASELINE)
    if base is not None:
        compute = _convert(tokens, base.step_flops, rung.step_flops)
        time = _convert(tokens, base.step_seconds, rung.step_seconds)
        time = time if base.conditions == rung.conditions else None
    return replace(entry, tokens=tokens, compute=compute, time=time, guards=tuple(beyond))


def _convert(tokens: Estimate, of_baseline: float | None, of_rule: float | None) -> Estimate | None:
    """An estimate in tokens in another unit, by what a step costs in it."""
    if not of_baseline or not of_rule:
        return None
    factor = of_baseline / of_rule
    times: dict[str, Any] = {
        name: None if (end := getattr(tokens, name)) is None else factor * end
        for name in ("value", "low", "high", "least", "most")
    }
    return replace(tokens, **times)
