"""Findings, and checks, which yield them. An exception in a check becomes a finding as well."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal, TypeVar

from htbench.harness.errors import UsageError
from htbench.harness.show.note import Note, text
from htbench.harness.show.report import Report

T = TypeVar("T")


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
        return list(chain.from_iterable(pool.map(partial(run_check, root), checks)))


def run_check(subject: T, check: Callable[[T], Iterator[Finding]]) -> list[Finding]:
    """The findings of one check of `subject`."""
    try:
        return list(check(subject))
    except UsageError as error:
        return [problem("store", text(str(error)))]
    except Exception as error:  # the command must report on any machine
        broken = Note("check_broke", error=type(error).__name__, why=one_line(str(error)))
        return [problem(check.__name__.strip("_"), broken)]


def report(findings: Sequence[Finding]) -> Report:
    """The findings, each with its advice in a line of its own."""
    notes = []
    for each in findings:
        notes.append(Note("finding", level=each.level, subject=each.subject, what=str(each.finding)))
        notes += [Note("advice", what=str(each.advice))] if each.advice else []
    return Report("doctor", "", notes=notes, data=findings)


def one_line(text: str) -> str:
    """Join the lines of an error message, because a finding is printed on one line."""
    return " ".join(text.split())
