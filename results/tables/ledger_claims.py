"""The ledger of claims: each ordering that the paper states, tested on our runs at a small scale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.paper import scales
from results.compare import claims, slips
from results.compare.claims import Claim
from results.compare.holm import adjusted
from results.compare.ours import Ours
from results.compare.stats import MIN_SEEDS, SIGNIFICANCE, p_value
from results.formats.cells import Cell, Column, Section
from results.tables.ledger_sides import Side, sides

AGREES, DISAGREES, UNDECIDED = "agrees", "disagrees", "undecided"
VERDICTS = (AGREES, DISAGREES, UNDECIDED)

RULES = (
    f"{AGREES}, {DISAGREES}: our means are ordered as published, or the other way, and a t-test says so at "
    f"{SIGNIFICANCE:.0%} (paired by seed where seeds are shared). Else {UNDECIDED}.",
    "Each claim is tested as if it were alone, since the paper stated it before our runs: of claims where "
    "there is no difference, one in 20 gets a verdict by chance. Bold verdicts also hold after Holm's "
    "correction for all claims of the ledger.",
    f"With fewer than {MIN_SEEDS} seeds, and for times of unlike machines, nothing is decided.",
    "A claim that several tables state stands at the first. Miniatures compare orderings, never numbers.",
)


@dataclass(frozen=True)
class Tested:
    """A claim with our figures.

    Attributes:
        claim: what the paper states.
        better, worse: ours of the two numbers, in the order of the claim.
        p: of the t-test; None: there is none.
        adjusted: p after Holm's correction over all claims of the ledger.
    """

    claim: Claim
    better: Side
    worse: Side
    p: float | None
    adjusted: float | None

    @property
    def gap(self) -> float | None:
        """How much better the number is that the paper calls better; None without both values."""
        if self.better.sample is None or self.worse.sample is None:
            return None
        difference = self.better.sample.mean - self.worse.sample.mean
        return difference if self.claim.higher_is_better else -difference

    @property
    def verdict(self) -> str:
        """One of VERDICTS."""
        if self.p is None or self.gap is None or self.p >= SIGNIFICANCE:
            return UNDECIDED
        return AGREES if self.gap > 0 else DISAGREES

    @property
    def is_sure(self) -> bool:
        """Whether the verdict holds after the correction."""
        return self.adjusted is not None and self.adjusted < SIGNIFICANCE


def examine(ours: Ours) -> list[Tested]:
    """Every claim that the scale has a metric for."""
    known = [claim for claim in claims.at(ours.scale) if claims.is_testable(claim, ours.scale)]
    pairs = [(claim, *sides(ours, claim)) for claim in known]
    p_values = [_p_value(better, worse) for _, better, worse in pairs]
    holm = adjusted([p for p in p_values if p is not None])
    corrected = iter(holm)
    return [
        Tested(claim, better, worse, p, None if p is None else next(corrected))
        for (claim, better, worse), p in zip(pairs, p_values, strict=True)
    ]


def _p_value(better: Side, worse: Side) -> float | None:
    if better.sample is None or worse.sample is None or better.machines != worse.machines:
        return None
    if min(len(better.sample.values), len(worse.sample.values)) < MIN_SEEDS:
        return None
    return p_value(better.sample, worse.sample)


# --- the sections ---


def sections(tested: Iterable[Tested], scale: str) -> list[Section]:
    """One section per table or figure of the paper, one row per claim."""
    by_source: dict[str, list[Tested]] = {}
    for one in tested:
        by_source.setdefault(one.claim.source, []).append(one)
    return [_section(source, scale, own) for source, own in by_source.items()]


def _section(source: str, scale: str, tested: list[Tested]) -> Section:
    columns = [
        Column("claim", "claim", "text"),
        Column("on", "on", "text"),
        Column("metric", "metric", "text"),
        Column("published_better", "published"),
        Column("published_worse", "and"),
        Column("ours_better", "ours", "summary"),
        Column("ours_worse", "and", "summary"),
        Column("gap", "gap"),
        Column("p", "p"),
        Column("p_holm", "p (Holm)"),
        Column("verdict", "verdict", "text"),
    ]
    rows = [_row(one) for one in tested]
    identity = {"scale": scale, "source": source}
    return Section(f"{source}, {scale}", identity, columns, rows, notes=(_twins(tested, scale),))


def _twins(tested: list[Tested], scale: str) -> str:
    """What stands for the workloads of the paper: "Tested on pydocs, llama-nano-60m for c4, llama-60m"."""
    workloads = dict.fromkeys((one.claim.better.dataset, one.claim.better.model) for one in tested)
    pairs = [f"{', '.join(scales.workload(scale, *own))} for {', '.join(own)}" for own in workloads]
    return f"Tested on {'; '.join(pairs)}."


def _row(one: Tested) -> list[Cell]:
    claim, digits = one.claim, one.better.digits
    notes = dict.fromkeys((*slips.of_number(claim.better), *slips.of_number(claim.worse)))
    return [
        Cell(claim.text(), notes=tuple(notes)),
        Cell(f"{claim.better.dataset}, {claim.better.model}"),
        Cell(one.better.label),
        *(Cell(line.value if line.printed else None, line.digits) for line in (claim.better, claim.worse)),
        *(Cell(side.summary, digits, notes=side.notes, runs=side.keys) for side in (one.better, one.worse)),
        Cell(one.gap, digits),
        Cell(_probability(one.p)),
        Cell(_probability(one.adjusted)),
        Cell(one.verdict, bold=one.is_sure, notes=_why(one)),
    ]


def _probability(p: float | None) -> float | None:
    """To two significant digits."""
    return None if p is None else float(f"{p:.2g}")


def _why(one: Tested) -> tuple[str, ...]:
    """Why there is no test."""
    if one.p is not None:
        return ()
    reasons = [side.reason for side in (one.better, one.worse) if side.sample is None]
    if not reasons and one.better.machines != one.worse.machines:
        return ("measured on unlike machines",)
    few = (
        min(len(side.sample.values) for side in (one.better, one.worse) if side.sample) if not reasons else 0
    )
    return tuple(dict.fromkeys(reasons)) or (f"{few} seeds" if few < MIN_SEEDS else "no spread",)


def tally(tested: Iterable[Tested]) -> Mapping[str, int]:
    """How many claims have each verdict."""
    words = [one.verdict for one in tested]
    return {word: words.count(word) for word in VERDICTS}


def summary(tested: list[Tested], scale: str) -> str:
    """The ledger in one sentence."""
    counts = tally(tested)
    sure = sum(one.is_sure for one in tested)
    leaning = [one.gap > 0 for one in tested if one.verdict == UNDECIDED and one.gap is not None]
    untestable = sum(not claims.is_testable(claim, scale) for claim in claims.at(scale))
    return (
        f"{len(tested)} claims at {scale} scale: {counts[AGREES]} agree, {counts[DISAGREES]} disagree, "
        f"{counts[UNDECIDED]} are undecided ({sum(leaning)} of them are ordered as published, "
        f"{len(leaning) - sum(leaning)} are not). {sure} of the verdicts hold{'s' * (sure == 1)} after "
        f"Holm's correction; "
        f"{untestable} more claims are about metrics that this scale does not have."
    )
