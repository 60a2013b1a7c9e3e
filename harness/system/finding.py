"""Findings, and checks, which yield them. An exception in a check becomes a finding as well."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal

from htbench.harness.errors import UsageError
from htbench.harness.show.note import Note, text
from htbench.harness.show.report import Report

LEVELS = ("problem", "note", "ok")
_ASIDE = frozenset({"slurm", "data", "store", "records"})  # with which not all runs have to do


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes:
        level: `ok`; `note`: works, with a remark; `problem`: something will not work.
        subject: what was looked at.
        finding: what was found.
        advice: what to do; may be empty.
    """

    level: Literal["ok", "note", "problem"]
    subject: str
    finding: Note | str
    advice: Note | str = ""


Check = Callable[[Path], Iterator[Finding]]
ok, note, problem = (partial(Finding, level) for level in ("ok", "note", "problem"))


def examine(root: Path, checks: Sequence[Check]) -> list[Finding]:
    """All findings, in a fixed order.

    Args:
        root: the store; it need not exist.
        checks: what to look at.
    """
    with ThreadPoolExecutor(len(checks)) as pool:  # most checks wait for torch or SLURM
        return list(chain.from_iterable(pool.map(partial(_run_check, root), checks)))


def _run_check(root: Path, check: Check) -> list[Finding]:
    """The findings of one check."""
    try:
        return list(check(root))
    except UsageError as error:
        return [problem("store", text(str(error)))]
    except Exception as error:  # the command must report on any machine
        broken = Note("check_broke", error=type(error).__name__, why=one_line(str(error)))
        return [problem(check.__name__.strip("_"), broken)]


def report(findings: Sequence[Finding], where: str) -> Report:
    """Whether runs can start; what is wrong, with advice; and a line for each subject of which all is well.

    Args:
        findings: all of them.
        where: runs start.
    """
    counts = {level: Counter(f.subject for f in findings if f.level == level) for level in LEVELS}
    notes, problems = [], list(counts["problem"])
    for each in sorted(findings, key=lambda finding: LEVELS.index(finding.level)):
        more = counts["ok"].pop(each.subject, 0) - 1 if each.level == "ok" else 0
        if more >= 0:
            fields = {"level": each.level, "subject": each.subject, "what": str(each.finding)}
            notes.append(Note("finding", **fields, more=more))
            notes += [Note("advice", what=str(each.advice))] if each.advice else []
    kind = "can_start" if _ASIDE.issuperset(problems) else "can_not_start"
    title = Note(kind, where=where, problems=problems, remarks=list(counts["note"]))
    return Report("doctor", str(title), notes=notes, data=findings)


def one_line(text: str) -> str:
    """Join the lines of an error message, because a finding is printed on one line."""
    return " ".join(text.split())
