"""The ledger: every published number beside ours at full scale, every published ordering tested below it."""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from htbench.harness.choice.winner import grouped
from htbench.harness.paper import reported, scales
from htbench.harness.paper.reported import Reported
from htbench.harness.show.note import Note
from htbench.harness.show.report import Cell, Column, Report, Section
from htbench.harness.show.status import Status
from htbench.harness.store import Store
from htbench.results.compare import claims, judge, slips
from htbench.results.compare.censored import compare_times
from htbench.results.compare.claim_verdicts import (
    DISCOVERY_RATE,
    LEAST_POWER,
    ClaimVerdict,
    claim_verdict,
    power_at,
    stands,
)
from htbench.results.compare.claims import Claim
from htbench.results.compare.contender import reach
from htbench.results.compare.fixed import twins
from htbench.results.compare.idle import idle
from htbench.results.compare.measured import UNDECIDABLE, UNPLANNED, Measured, measured, pair
from htbench.results.compare.ours import Ours
from htbench.results.compare.quantities import is_time
from htbench.results.compare.stats import MIN_SEEDS, SIGNIFICANCE, Summary
from htbench.results.frames.rows import Frame
from htbench.results.tables import footnotes

FULL = scales.SCALES[0]
WITHIN, BETTER, WORSE = "within noise", "better", "worse"
NO_SPREAD, NOT_RUN, OTHER_SCALE, OTHER_HARDWARE = "no spread", "not run", "other scale", "other hardware"
FAILED = "failed"

_VERDICTS = (WITHIN, BETTER, WORSE, NO_SPREAD, NOT_RUN, OTHER_SCALE, OTHER_HARDWARE, FAILED)
_RULES_OF_NUMBERS = (
    Note("ledger_noise", share=1 - SIGNIFICANCE),
    Note("ledger_no_spread", seeds=MIN_SEEDS, noise=slips.NOISE),
    Note("ledger_scale"),
)
_RULES_OF_CLAIMS = (
    Note("claims_verdicts", level=1 - SIGNIFICANCE),
    Note("claims_families", rate=DISCOVERY_RATE, power=LEAST_POWER),
    Note("claims_few", seeds=MIN_SEEDS),
    Note("claims_first"),
)


def ledger(frame: Frame, store: Store, wanted: Sequence[str] = ()) -> list[Report]:
    """One report per scale: published numbers at full scale, claims at the others.

    Args:
        frame: the tidy frame of the whole store.
        store: where the curves and spectra are.
        wanted: scales; none means those that the store has planned, or full scale if it has none.
    """
    runs = {scale: Ours(frame, scale, store) for scale in scales.SCALES}
    planned = [scale for scale, ours in runs.items() if ours]
    return [
        _numbers(runs) if scale == FULL else _claims(runs[scale]) for scale in wanted or planned or [FULL]
    ]


# --- every published number ---


def _numbers(runs: dict[str, Ours]) -> Report:
    """A section for each published table, a row for each number."""
    others = [ours for scale, ours in runs.items() if scale != FULL and ours]
    counts: Counter[str] = Counter()
    sections = []
    for name in reported.tables():
        lines = reported.of_table(name)
        notes = {line: slips.of_line(line) for line in lines}
        shared = [note for note in notes[lines[0]] if all(note in own for own in notes.values())]
        rows = []
        for line in lines:
            own = measured(runs[FULL], line)
            word = verdict(line, own, others)
            counts[word] += 1
            rows.append(_number(line, own, word, [note for note in notes[line] if note not in shared]))
        columns = [
            Column("row", kind="text"),
            Column("dataset", kind="text"),
            Column("model", kind="text"),
            Column("metric", kind="text", importance=2),
            Column("published", importance=6),
            Column("ours", kind="summary", importance=6),
            Column("n", importance=3),
            Column("difference", importance=4),
            Column("verdict", kind="text", importance=6),
        ]
        identity = {"scale": FULL, "published_table": name}
        sections.append(Section(name, identity, columns, rows, notes=tuple(map(slips.sentence, shared))))
    total = Note(
        "ledger_total",
        numbers=len(reported.everything()),
        verdicts=[f"{counts[word]} {word}" for word in _VERDICTS if counts[word]],
    )
    title = "every published number beside ours at full scale"
    return Report("ledger", title, _noted(sections, total, _RULES_OF_NUMBERS))


def _noted(sections: Sequence[Section], total: Note, rules: tuple[Note, ...]) -> list[Section]:
    """The sections, with total and rules under the first one; on a screen the total stands above it."""
    first, *rest = sections
    noted = replace(first, notes=(total, *rules, *first.notes))
    return [replace(noted, brief=replace(noted, above=(total,))), *rest]


def _number(line: Reported, own: Measured, word: str, notes: Sequence[Note]) -> list[Cell]:
    summary = own.summary
    reason = f": {own.reason or own.state}" if word == FAILED else ""
    return [
        Cell(label(line)),
        Cell(line.dataset),
        Cell(line.model),
        Cell(line.metric),
        Cell(line.value, line.digits, notes=tuple(notes)),
        Cell(summary, line.digits, notes=own.notes, runs=own.keys),
        Cell(summary.n if summary else None),
        Cell(summary.mean - line.value if summary else None, line.digits),
        Cell(word + reason),
    ]


def label(line: Reported) -> str:
    """The row of a number, with what its table varies: "htmuon, p=0.1"."""
    setting, varies = line.setting, line.table.startswith
    parts = [line.row]
    parts += [f"p={setting.p:g}"] if setting.p is not None and varies("p_grid") else []
    parts += [f"interval {setting.interval}"] if setting.interval and varies(("interval", "wall")) else []
    parts += [f"lr {line.lr:g}"] if line.lr is not None and varies("lr_grid") else []
    return ", ".join(parts)


def verdict(line: Reported, own: Measured, elsewhere: Iterable[Ours]) -> str:
    """One of `_VERDICTS` on a number.

    Args:
        line: the published number.
        own: ours at full scale.
        elsewhere: the runs at other scales.
    """
    summary = own.summary
    if summary is None:
        if own.state not in (UNPLANNED, Status.WAITING, Status.RUNNING):
            return FAILED
        in_miniature = any(choice.winner is not None for other in elsewhere for choice in other.of(line))
        return OTHER_SCALE if in_miniature and own.state == UNPLANNED else NOT_RUN
    if summary.std is None or summary.n < MIN_SEEDS:
        return NO_SPREAD
    if line.hardware and not _on_same_hardware(line.hardware, own):
        return OTHER_HARDWARE
    return _compared(line, own, summary, summary.std)


def _compared(line: Reported, own: Measured, ours: Summary, std: float) -> str:
    from scipy import special

    assert own.metric is not None
    reach = float(special.stdtrit(ours.n - 1, 1 - SIGNIFICANCE / 2)) * std * math.sqrt(1 + 1 / ours.n)
    difference = ours.mean - line.value
    if abs(difference) <= reach or f"{ours.mean:.{line.digits}f}" == line.printed:
        return WITHIN
    return BETTER if (difference > 0) == own.metric.higher_is_better else WORSE


def _on_same_hardware(published: str, own: Measured) -> bool:
    """Whether all runs were on what the paper names, such as "4x A6000"."""
    number, _, name = published.partition("x ")
    return all(name in str(run["machine"]) and run["processes"] == int(number) for run in own.runs)


# --- every published ordering ---


@dataclass(frozen=True)
class Tested:
    """A claim with our figures.

    Attributes:
        claim: what the paper states.
        better, worse: ours of the two numbers, in the order of the claim.
        gap: how much better the number is that the paper calls better, as printed; None without both.
        theta, low, high: the gap as a logarithm of a ratio with its 95 % interval; None: there is no test.
        p: of the test.
        power: to find the published gap; None without a test, or if only a figure shows the numbers.
        is_open: whether the row that is behind could catch up beyond the edge of what was tried.
        stands: whether the verdict holds in its family.
    """

    claim: Claim
    better: Measured
    worse: Measured
    gap: float | None = None
    theta: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    power: float | None = None
    is_open: bool = False
    stands: bool = False

    @property
    def verdict(self) -> ClaimVerdict:
        """What the interval says of the claim."""
        if self.p is None or self.is_open:
            return ClaimVerdict.UNDECIDED
        if self.low is None or self.high is None:  # ranks of censored times have no interval
            sure = self.p < SIGNIFICANCE and self.gap is not None
            return ClaimVerdict.of_sign(self.gap or 0) if sure else ClaimVerdict.UNDECIDED
        if self.claim.ratio is None:
            return ClaimVerdict.of_sign(self.low if self.low > 0 else min(0.0, self.high))
        return claim_verdict(self.low, self.high, self.claim.ratio)

    @property
    def misnamed(self) -> tuple[Note, ...]:
        """Why a side is not what the paper compares: a setting that does nothing here, or one rule twice."""
        choices = [side.choice for side in (self.better, self.worse) if side.choice is not None]
        notes = [note for own in choices if own.winner is not None for note in idle(own.winner.runs[0])]
        return (*(note for note in notes if note.kind != "little_reach"), *twins(choices).values())

    @property
    def can_be_decided(self) -> bool:
        """Whether a test has the power to find the published gap, as far as that is known."""
        return self.power is None or self.power >= LEAST_POWER

    @property
    def are_alike(self) -> bool:
        """Whether both sides were measured alike, as far as it matters: times depend on the machine."""
        return not is_time(self.claim.better) or self.better.conditions == self.worse.conditions


def examine(ours: Ours) -> list[Tested]:
    """Every claim that the scale has a metric for. Families are those of all such claims, run or not."""
    known = [claim for claim in claims.at(ours.scale) if claims.is_testable(claim, ours.scale)]
    tested = [_tested(ours, Tested(claim, *pair(ours, claim.better, claim.worse))) for claim in known]
    families = grouped(range(len(tested)), lambda at: tested[at].claim.family)
    for family in families.values():
        held = stands([tested[at].p if tested[at].can_be_decided else None for at in family])
        for at, holds in zip(family, held, strict=True):
            tested[at] = replace(
                tested[at], stands=holds and tested[at].verdict is not ClaimVerdict.UNDECIDED
            )
    return tested


def _tested(ours: Ours, own: Tested) -> Tested:
    sides = (own.better, own.worse)
    higher = own.claim.higher_is_better
    if own.misnamed:
        return own
    if all(side.times for side in sides) and any(time.is_censored for side in sides for time in side.times):
        found = compare_times(*(side.times for side in sides))
        enough = min(len(side.times) for side in sides) >= MIN_SEEDS and own.are_alike
        return replace(own, gap=float(found.score), p=found.p_value if enough else None)
    first, second = (side.contender("", ours.store) for side in sides)
    metric = own.better.metric
    if first is None or second is None or metric is None or len(first.scored_on | second.scored_on) > 1:
        return own
    means = [statistics.fmean(side.sample.values()) for side in sides]
    own = replace(own, gap=(means[0] - means[1]) * (1 if higher else -1))
    if min(len(side.sample) for side in sides) < MIN_SEEDS or not own.are_alike:
        return own
    rows = [first.row, second.row]
    if not metric.is_log and not metric.is_share:  # times and norms are compared by their ratio, too
        log = replace(metric, is_log=True).on_scale
        rows = [replace(row, values={at: log(x) for at, x in row.values.items()}) for row in rows]
    judged = judge.judge(
        rows, higher_is_better=higher, is_share=metric.is_share, paired=not is_time(own.claim.better)
    )
    behind = judged.verdicts[1 - judged.best]
    if not math.isfinite(behind.high):
        return own
    # A share's difference over the share is the logarithm of their ratio, for small ones.
    size = statistics.fmean(row.mean for row in judged.verdicts) if metric.is_share else 1.0
    theta, low, high = behind.gap / size, behind.low / size, behind.high / size
    if judged.best == 1:
        theta, low, high = -theta, -high, -low
    delta = own.claim.ratio
    choice = sides[1 - judged.best].choice
    gains = reach(choice, metric).values() if choice is not None and ours.scale != FULL else ()
    return replace(
        own,
        theta=theta,
        low=low,
        high=high,
        p=behind.p_value,
        power=None if delta is None else power_at(delta * size, behind.parts.total, behind.freedom),
        is_open=any(map(behind.may_catch_up, gains)),
    )


def _claims(ours: Ours) -> Report:
    """One section per table or figure of the paper, one row per claim."""
    tested = examine(ours)
    sources = grouped(tested, lambda own: own.claim.source)
    sections = [_source(source, ours.scale, own) for source, own in sources.items()]
    decidable = [own for own in tested if own.can_be_decided]
    counts = Counter(own.verdict for own in decidable)
    undecided = [own.gap for own in decidable if own.verdict is ClaimVerdict.UNDECIDED]
    gaps = [gap for gap in undecided if gap is not None]
    total = Note(
        "claims_total",
        claims=len(tested),
        scale=ours.scale,
        powerless=len(tested) - len(decidable),
        verdicts=[f"{counts[verdict]} {verdict.value}" for verdict in ClaimVerdict],
        missing=len(undecided) - len(gaps),
        leaning=sum(gap > 0 for gap in gaps),
        against=sum(gap <= 0 for gap in gaps),
        sure=sum(own.stands for own in tested),
        untestable=sum(not claims.is_testable(claim, ours.scale) for claim in claims.at(ours.scale)),
        why=UNDECIDABLE,
    )
    title = f"every ordering that the paper states, at {ours.scale} scale"
    noted = _noted(sections, total, _RULES_OF_CLAIMS)
    return Report(f"ledger_{ours.scale}", title, noted, notes=footnotes.without_languages(ours.scale))


def _source(source: str, scale: str, tested: Sequence[Tested]) -> Section:
    columns = [
        Column("claim", kind="text"),
        Column("on", kind="text", least=18, importance=7),
        Column("metric", kind="text", importance=2),
        Column("published_better", "published", importance=3),
        Column("published_worse", "and", importance=3),
        Column("ours_better", "ours", "summary", importance=5),
        Column("ours_worse", "and", "summary", importance=5),
        Column("gap", importance=3),
        Column("theta", importance=6),
        Column("theta_low95", "from", importance=6),
        Column("theta_high95", "to", importance=6),
        Column("delta", importance=4),
        Column("p", "p-value", importance=4),
        Column("power", importance=3),
        Column("family", kind="text", importance=2),
        Column("verdict", kind="text", importance=8),
    ]
    identity = {"scale": scale, "source": source}
    section = Section(f"{source}, {scale}", identity, columns, [_claim(own, scale) for own in tested])
    return footnotes.complete(
        section, [run for own in tested for side in (own.better, own.worse) for run in side.runs]
    )


def _claim(own: Tested, scale: str) -> list[Cell]:
    claim, metric = own.claim, own.better.metric
    assert metric is not None  # claims without one are not tested
    lines = (claim.better, claim.worse)
    notes = dict.fromkeys(note for line in lines for note in slips.of_number(line))
    return [
        Cell(claim.text(), notes=tuple(notes)),
        Cell(_place(scale, claim.better)),
        Cell(metric.label),
        *(Cell(line.value if line.printed else None, line.digits) for line in lines),
        *(
            Cell(
                side.summary,
                metric.digits,
                notes=(
                    *side.notes,
                    *(footnotes.on_choice(side.choice, None, line.setting.hyper) if side.sample else ()),
                ),
                runs=side.keys,
            )
            for side, line in zip((own.better, own.worse), lines, strict=True)
        ),
        Cell(own.gap, metric.digits),
        *(Cell(figure, 4) for figure in (own.theta, own.low, own.high, claim.ratio)),
        *(Cell(None if figure is None else float(f"{figure:.2g}")) for figure in (own.p, own.power)),
        Cell(claim.family),
        Cell(own.verdict.value, bold=own.stands, notes=_why(own)),
    ]


def _place(scale: str, line: Reported) -> str:
    """What was run, then what it stands for: "pydocs, llama-s1 (for c4, llama-60m)"."""
    published = (line.dataset, line.model)
    here = ", ".join(scales.workload(scale, *published))
    return f"{here} (for {', '.join(published)})"


def _why(own: Tested) -> tuple[Note, ...]:
    """Why there is no test, or no verdict."""
    if own.p is not None:
        powerless = () if own.can_be_decided else (Note("claim_powerless", power=own.power),)
        return (*powerless, *((Note("claim_open"),) if own.is_open else ()))
    missing = [side for side in (own.better, own.worse) if not side.sample]
    if missing:
        return tuple(dict.fromkeys(side.reason or Note(f"reason_{side.state}") for side in missing))
    if own.misnamed or not own.are_alike:
        return own.misnamed or (Note("claim_unlike"),)
    seeds = min(len(own.better.sample), len(own.worse.sample))
    return (Note("claim_few", count=seeds) if seeds < MIN_SEEDS else Note("claim_no_spread"),)
