"""Findings, and checks, which yield them. An exception in a check becomes a finding as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from harness.display import document, terminal_width, wrapped

T = TypeVar("T")


@dataclass(frozen=True)
class Finding:
    """One line of the report. Levels: ok; note: works, with a remark; problem: something will not work."""

    level: Literal["ok", "note", "problem"]
    subject: str
    finding: str
    advice: str = ""


Check = Callable[[Path], Iterator[Finding]]
ok, note, problem = (partial(Finding, level) for level in ("ok", "note", "problem"))


def examine(root: Path, checks: Sequence[Check]) -> list[Finding]:
    """All findings, in a fixed order.

    Args:
        root: the store; it need not exist.
        checks: what to look at.
    """
    with ThreadPoolExecutor(len(checks)) as pool:  # most checks wait for torch or SLURM
        return [one for found in pool.map(partial(guarded, root), checks) for one in found]


def guarded(what: T, check: Callable[[T], Iterator[Finding]]) -> list[Finding]:
    """The findings of one check of `what`."""
    try:
        return list(check(what))
    except Exception as error:  # the command must report on any machine
        said = f"could not be looked at: {type(error).__name__}: {one_line(str(error))}"
        return [problem(check.__name__.strip("_"), said)]


def show(report: Sequence[Finding], *, as_json: bool) -> int:
    """Print the findings; return exit status 1 if one is a problem, else 0."""
    if as_json:
        print(document([asdict(one) for one in report]))
    else:
        width = terminal_width()
        for one in report:
            lines = wrapped(f"{one.level:8} {one.subject:8} {one.finding}", width, f"{'':18}")
            lines += wrapped(f"{'':17} -> {one.advice}", width, f"{'':21}") if one.advice else []
            print("\n".join(lines))
    return 1 if any(one.level == "problem" for one in report) else 0


def one_line(text: str) -> str:
    """Join the lines of an error message, because a finding is printed on one line."""
    return " ".join(text.split())
