"""What the statistics say of the figures in a section: which are comparable, and which one may be bold.

This is the one place where the paper's tables meet `results/tables/annotate.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.paper.reported import Reported
from results.compare.measured import Measured
from results.compare.select import UNFINISHED, Choice
from results.compare.ties import Ranking
from results.tables import fields
from results.tables.annotate import RULES, annotate
from results.tables.footnotes import listing
from results.tables.layouts import Layout

_TIMES = ("hours", "seconds", "s/step", "ms/step")  # labels of quantities that no row is to win


@dataclass(frozen=True)
class Verdict:
    """On one figure.

    Attributes:
        bold: whether it is better than every other one of its workload.
        notes: footnotes.
        rivals: the choices behind all figures of its workload.
        ties: a sentence on which figures can't be told from the best one; empty if all can, or none.
        is_tested: whether the figures of its workload were compared.
    """

    bold: bool = False
    notes: tuple[str, ...] = ()
    rivals: Sequence[Choice] = ()
    ties: str = ""
    is_tested: bool = False


NONE = Verdict()


def verdicts(layout: Layout, scale: str, found: Mapping[Reported, Measured]) -> dict[Reported, Verdict]:
    """The verdicts on the figures of a section. Rivals share workload and metric; in a grid also the row.

    Times have none, nor has a grid of learning rates, and neither has a p that was chosen: it was given more
    trials than a fixed one.

    Args:
        layout: of the table.
        scale: of the runs.
        found: our figures.
    """
    groups: dict[fields.Key, list[Reported]] = {}
    for line, one in found.items():
        timed = one.metric is None or one.metric.label in _TIMES
        if layout.axis != "lr" and not timed and not fields.leaves_p_open(line):
            row = fields.key(line, layout.rows) if layout.axis else ()
            groups.setdefault((line.dataset, line.model, line.metric, *row), []).append(line)
    return {
        line: verdict
        for own in groups.values()
        for line, verdict in zip(
            own, _compared(layout, scale, own, [found[line] for line in own]), strict=True
        )
    }


def _compared(
    layout: Layout, scale: str, lines: Sequence[Reported], found: Sequence[Measured]
) -> list[Verdict]:
    rivals = [one.choice for one in found if one.choice is not None]
    if not all(map(_is_settled, found)):
        return [Verdict(rivals=rivals)] * len(lines)
    metric = found[0].metric
    assert metric is not None
    label, names = _names(layout, scale, lines)
    whole = annotate(
        [one.as_sample for one in found],
        names=names,
        higher_is_better=metric.higher_is_better,
        digits=metric.digits,
        budgets=[choice.tried for choice in rivals],
    )
    ties = _ties(label, names, whole.ranking)
    verdicts = zip(found, whole.bold, whole.notes, strict=True)
    return [Verdict(bold and not one.notes, notes, rivals, ties, True) for one, bold, notes in verdicts]


def _is_settled(one: Measured) -> bool:
    """Whether no run that is still to come, or to be tried again, can change it, and whether it is fair."""
    choice = one.choice
    if choice is None or choice.unfinished or one.state in UNFINISHED:
        return False
    unfinished = not {run["state"] for run in choice.replicas}.isdisjoint(UNFINISHED)
    return not unfinished and "protocol=paper" not in str(choice.fixed["setting"]).split(", ")


def _names(layout: Layout, scale: str, lines: Sequence[Reported]) -> tuple[str, list[str]]:
    """What figures have in common, in words, and what tells them apart."""
    for shared, own in ((layout.columns, layout.rows), (layout.rows, layout.columns)):
        if len(fields.distinct(lines, shared)) == 1:
            return fields.words(lines[0], shared, scale), [fields.words(line, own, scale) for line in lines]
    return "", [fields.words(line, (*layout.rows, *layout.columns), scale) for line in lines]


def _ties(label: str, names: Sequence[str], ranking: Ranking) -> str:
    """ "llama-60m: muon and soap can't be told from htmuon, the best one."."""
    tied = [names[row] for row in ranking.tied_with_best()]
    if ranking.best is None or not tied:
        return ""
    head = f"{label}: " if label else ""
    return f"{head}{listing(tied)} can't be told from {names[ranking.best]}, the best one."


def sentences(found: Iterable[Verdict]) -> tuple[str, ...]:
    """Which figures are tied with the best one of their workload, and the rules of bold print."""
    tested = [one for one in found if one.is_tested]
    return (*dict.fromkeys(one.ties for one in tested if one.ties), *(RULES if tested else ()))
