"""What the statistics say of the figures in a section: which are comparable, and which one may be bold.

This is the one place where the paper's tables meet `results/tables/annotate.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.paper.reported import Reported
from results.analysis.select import UNFINISHED, Choice
from results.paper.measured import Measured
from results.tables import fields
from results.tables.annotate import RULES, Annotated, annotate

_TIMES = ("hours", "seconds", "s/step", "ms/step")  # labels of quantities that no row is to win


@dataclass(frozen=True)
class Verdict:
    """On one figure.

    Attributes:
        bold: whether it is better than every other one of its workload.
        notes: footnotes.
        rivals: the choices behind all figures of its workload.
        whole: the comparison that it is part of; None if nothing can be compared.
    """

    bold: bool = False
    notes: tuple[str, ...] = ()
    rivals: Sequence[Choice] = ()
    whole: Annotated | None = None


NONE = Verdict()


def verdicts(found: Mapping[Reported, Measured], names: Mapping[Reported, str]) -> dict[Reported, Verdict]:
    """The verdicts on the figures of a section. Rivals share workload and metric.

    Times have none, and neither has a p that was chosen: it was given more trials than a fixed one.

    Args:
        found: our figures.
        names: of them, for the sentences.
    """
    groups: dict[tuple[str, str, str], list[Reported]] = {}
    for line, one in found.items():
        if one.metric is not None and one.metric.label not in _TIMES and not fields.leaves_p_open(line):
            groups.setdefault((line.dataset, line.model, one.metric.label), []).append(line)
    return {
        line: verdict for own in groups.values() for line, verdict in _compared(own, found, names).items()
    }


def _compared(
    lines: Sequence[Reported], found: Mapping[Reported, Measured], names: Mapping[Reported, str]
) -> dict[Reported, Verdict]:
    rivals = [one for line in lines if (one := found[line].choice) is not None]
    if not all(_is_settled(found[line]) for line in lines):
        return {line: Verdict(rivals=rivals) for line in lines}
    metric = found[lines[0]].metric
    assert metric is not None
    whole = annotate(
        [found[line].as_sample for line in lines],
        names=[names[line] for line in lines],
        higher_is_better=metric.higher_is_better,
        digits=metric.digits,
        budgets=[len(choice.candidates) for choice in rivals],
    )
    verdicts = zip(lines, whole.bold, whole.notes, strict=True)
    return {
        line: Verdict(bold and not found[line].notes, notes, rivals, whole) for line, bold, notes in verdicts
    }


def _is_settled(one: Measured) -> bool:
    """Whether no run that is still to come, or to be tried again, can change it, and whether it is fair."""
    choice = one.choice
    if choice is None or choice.unfinished or one.state in UNFINISHED:
        return False
    unfinished = not {run["state"] for run in choice.replicas}.isdisjoint(UNFINISHED)
    return not unfinished and "protocol=paper" not in str(choice.fixed["setting"]).split(", ")


def sentences(found: Iterable[Verdict]) -> tuple[str, ...]:
    """Which figures are tied with the best one of their workload, and the rules of bold print."""
    wholes = list({id(one.whole): one.whole for one in found if one.whole is not None}.values())
    if not wholes:
        return ()
    ties = [sentence for whole in wholes for sentence in whole.sentences]
    explained = [note for whole in wholes for note in replace(whole, groups=[], chances=[]).explanations]
    return tuple(dict.fromkeys([*ties, *RULES, *explained]))
