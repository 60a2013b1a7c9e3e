"""The ledger: every published number beside ours at full scale, every published ordering tested below it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from harness.choice.winner import grouped
from harness.paper import reported, scales
from harness.paper.reported import Reported
from harness.show.note import Note
from harness.show.report import Cell, Column, Report, Section
from harness.show.status import Status
from harness.store import Store
from results.compare import claims, slips
from results.compare.claims import Claim
from results.compare.measured import UNPLANNED, Measured, is_time, measured, pair
from results.compare.ours import Ours
from results.compare.stats import MIN_SEEDS, SIGNIFICANCE, Summary, p_value
from results.compare.ties import adjusted
from results.frames.rows import Frame

FULL = scales.SCALES[0]
WITHIN, BETTER, WORSE = "within noise", "better", "worse"
NO_SPREAD, NOT_RUN, OTHER_SCALE, OTHER_HARDWARE = "no spread", "not run", "other scale", "other hardware"
FAILED = "failed"
AGREES, DISAGREES, UNDECIDED = "agrees", "disagrees", "undecided"

_VERDICTS = (WITHIN, BETTER, WORSE, NO_SPREAD, NOT_RUN, OTHER_SCALE, OTHER_HARDWARE, FAILED)
_RULES_OF_NUMBERS = (
    Note("ledger_noise", share=1 - SIGNIFICANCE),
    Note("ledger_no_spread", seeds=MIN_SEEDS, noise=slips.NOISE),
    Note("ledger_scale"),
)
_RULES_OF_CLAIMS = (
    Note("claims_verdicts", level=SIGNIFICANCE),
    Note("claims_alone"),
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
            Column("dataset", "data", "text"),
            Column("model", kind="text"),
            Column("metric", kind="text"),
            Column("published"),
            Column("ours", kind="summary"),
            Column("n"),
            Column("difference"),
            Column("verdict", kind="text"),
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
    """The sections, with the total and the rules under the first one."""
    first, *rest = sections
    return [replace(first, notes=(total, *rules, *first.notes)), *rest]


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
        p: of the t-test; None: there is none.
        adjusted: p after Holm's correction over all claims of the ledger.
    """

    claim: Claim
    better: Measured
    worse: Measured
    p: float | None
    adjusted: float | None = None

    @property
    def gap(self) -> float | None:
        """How much better the number is that the paper calls better; None without both values."""
        better, worse = self.better.as_sample, self.worse.as_sample
        if better is None or worse is None:
            return None
        difference = better.mean - worse.mean
        return difference if self.claim.higher_is_better else -difference

    @property
    def verdict(self) -> str:
        """AGREES, DISAGREES or UNDECIDED."""
        if self.p is None or self.gap is None or self.p >= SIGNIFICANCE:
            return UNDECIDED
        return AGREES if self.gap > 0 else DISAGREES

    @property
    def is_sure(self) -> bool:
        """Whether the verdict holds after the correction."""
        return self.adjusted is not None and self.adjusted < SIGNIFICANCE

    @property
    def are_alike(self) -> bool:
        """Whether both sides were measured alike, as far as it matters: times depend on the machine."""
        return not is_time(self.claim.better) or self.better.conditions == self.worse.conditions


def examine(ours: Ours) -> list[Tested]:
    """Every claim that the scale has a metric for."""
    known = [claim for claim in claims.at(ours.scale) if claims.is_testable(claim, ours.scale)]
    tested = [Tested(claim, *pair(ours, claim.better, claim.worse), None) for claim in known]
    tested = [replace(own, p=_p_value(own)) for own in tested]
    corrected = iter(adjusted([own.p for own in tested if own.p is not None]))
    return [own if own.p is None else replace(own, adjusted=next(corrected)) for own in tested]


def _p_value(own: Tested) -> float | None:
    better, worse = own.better.as_sample, own.worse.as_sample
    if better is None or worse is None or not own.are_alike:
        return None
    enough = min(len(better.values), len(worse.values)) >= MIN_SEEDS
    return p_value(better, worse) if enough else None


def _claims(ours: Ours) -> Report:
    """One section per table or figure of the paper, one row per claim."""
    tested = examine(ours)
    sources = grouped(tested, lambda own: own.claim.source)
    sections = [_source(source, ours.scale, own) for source, own in sources.items()]
    counts = Counter(own.verdict for own in tested)
    leaning = [own.gap > 0 for own in tested if own.verdict == UNDECIDED and own.gap is not None]
    total = Note(
        "claims_total",
        claims=len(tested),
        scale=ours.scale,
        agree=counts[AGREES],
        disagree=counts[DISAGREES],
        undecided=counts[UNDECIDED],
        leaning=sum(leaning),
        against=len(leaning) - sum(leaning),
        sure=sum(own.is_sure for own in tested),
        untestable=sum(not claims.is_testable(claim, ours.scale) for claim in claims.at(ours.scale)),
    )
    title = f"every ordering that the paper states, at {ours.scale} scale"
    return Report(f"ledger_{ours.scale}", title, _noted(sections, total, _RULES_OF_CLAIMS))


def _source(source: str, scale: str, tested: Sequence[Tested]) -> Section:
    columns = [
        *(Column(name, kind="text") for name in ("claim", "on", "metric")),
        Column("published_better", "published"),
        Column("published_worse", "and"),
        Column("ours_better", "ours", "summary"),
        Column("ours_worse", "and", "summary"),
        Column("gap"),
        Column("p"),
        Column("p_holm", "p (Holm)"),
        Column("verdict", kind="text"),
    ]
    workloads = dict.fromkeys((own.claim.better.dataset, own.claim.better.model) for own in tested)
    twins = [f"{', '.join(scales.workload(scale, *own))} for {', '.join(own)}" for own in workloads]
    identity = {"scale": scale, "source": source}
    notes = (Note("claims_twins", pairs=twins),)
    return Section(f"{source}, {scale}", identity, columns, list(map(_claim, tested)), notes=notes)


def _claim(own: Tested) -> list[Cell]:
    claim, metric = own.claim, own.better.metric
    assert metric is not None  # claims without one are not tested
    lines = (claim.better, claim.worse)
    notes = dict.fromkeys(note for line in lines for note in slips.of_number(line))
    return [
        Cell(claim.text(), notes=tuple(notes)),
        Cell(f"{claim.better.dataset}, {claim.better.model}"),
        Cell(metric.label),
        *(Cell(line.value if line.printed else None, line.digits) for line in lines),
        *(
            Cell(side.summary, metric.digits, notes=side.notes, runs=side.keys)
            for side in (own.better, own.worse)
        ),
        Cell(own.gap, metric.digits),
        *(Cell(None if p is None else float(f"{p:.2g}")) for p in (own.p, own.adjusted)),
        Cell(own.verdict, bold=own.is_sure, notes=_why(own)),
    ]


def _why(own: Tested) -> tuple[Note, ...]:
    """Why there is no test."""
    if own.p is not None:
        return ()
    missing = [side for side in (own.better, own.worse) if not side.sample]
    if missing:
        return tuple(dict.fromkeys(side.reason or Note(f"reason_{side.state}") for side in missing))
    if not own.are_alike:
        return (Note("claim_unlike"),)
    seeds = min(len(own.better.sample), len(own.worse.sample))
    return (Note("claim_few", count=seeds) if seeds < MIN_SEEDS else Note("claim_no_spread"),)
