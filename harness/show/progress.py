"""The progress of long work on stderr: a bar with an ETA on a terminal, a line for each part elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from htbench.harness.show.harmless import in_a_line, obeyed
from htbench.harness.show.numbers import clock

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


Item = TypeVar("Item")
_PATIENCE = 1.0  # seconds of a command that nobody minds


class Progress:
    """Counts units of work, of which some may be done already. Use it as a context, or call `close`.

    Args:
        total: units; None: not known yet.
        unit: what is counted.
        quiet: show nothing.
        brief: it seldom takes long: a bar after a second, which goes when all is done.

    Attributes:
        pace: seconds per unit, as known before; None: not known.
        few: calls of `eta` before what was seen says more than `pace`, such as one for each that works.
    """

    def __init__(self, total: float | None, unit: str, *, quiet: bool = False, brief: bool = False) -> None:
        self.total, self.done, self._unit = total, 0.0, unit
        self._quiet = quiet
        self._start, self._drawn = time.monotonic(), 0.0
        self.pace: float | None = None
        self.few = 1
        self._ends: list[tuple[float, float]] = []  # time and units done at each call of `eta`
        self._said: str | None = None
        self._patience = _PATIENCE if brief else 0.0
        self._bar: Bar | None = None
        if not quiet and sys.stderr.isatty():
            self._bar = _bar(unit, transient=brief)
            self._task = self._bar.add_task("", total=total, said="")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End; the bar stays on the screen."""
        if self._bar is not None:
            with obeyed(sys.stderr):
                self._bar.stop()
            self._bar = None

    def to(self, done: float, total: float | None = None, said: str | None = None) -> None:
        """Show that so many units are done, of another total if one is given, with a word beside the bar."""
        self.done, self.total = done, self.total if total is None else total
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=self.total)
            if said is not None:
                self._bar.update(self._task, said=in_a_line(said))
            # Ten times a second at most, and by this thread: another would not survive a fork.
            now = time.monotonic()
            is_due = now - self._drawn > 0.1 or done == self.total
            if is_due and now - self._start >= self._patience:
                self._drawn = now
                with obeyed(sys.stderr):
                    self._bar.start()  # only now, so that what was said before stands above
                    self._bar.console.show_cursor(True)  # which a killed process would not restore
                    self._bar.refresh()
        elif said and not done and said != self._said and not self._patience:
            self._said = said
            self.note(f"{said} ...")

    def advance(self) -> None:
        """Show that one more unit is done."""
        self.to(self.done + 1)

    def note(self, line: str) -> None:
        """A line above the bar, or in the file."""
        if self._bar is not None:
            with obeyed(sys.stderr):
                self._bar.console.print(in_a_line(line), markup=False, highlight=False, emoji=False)
        elif not self._quiet:
            print(in_a_line(line), file=sys.stderr, flush=True)

    def eta(self) -> str:
        """What is done and what is left, in words, for the end of a part: "40 %, ETA 1:05"; else "ETA ?".

        The time before the first end is left out: much of it was spent on what is done once.
        """
        if not self.done or not self.total:
            return "ETA ?"
        now, remaining = time.monotonic(), max(0.0, self.total - self.done)
        self._ends.append((now, self.done))
        (began, before), pace = self._ends[0], self.pace
        if len(self._ends) > self.few and self.done > before:
            pace = (now - began) / (self.done - before)
        percent = min(100, int(100 * self.done // self.total))
        return f"{percent:3d} %, ETA {clock(remaining * (pace or 0.0)) if pace or not remaining else '?'}"


def each(items: Sequence[Item], unit: str) -> Iterator[Item]:
    """The items one by one, for work that seldom takes long; words are told beside the bar."""
    with Progress(len(items), unit, brief=True) as progress:
        for number, item in enumerate(items):
            progress.to(number, said=item if isinstance(item, str) else None)
            yield item


def _bar(unit: str, *, transient: bool) -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Done(ProgressColumn):
        def render(self, task: object) -> Text:
            completed, total = task.completed, task.total  # type: ignore[attr-defined]
            return Text("/".join(f"{n:,.0f}" for n in (completed, total) if n is not None) + f" {unit}")

    return Progress(
        BarColumn(),
        Done(),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[said]}", markup=False),
        console=Console(stderr=True),
        auto_refresh=False,
        transient=transient,
        redirect_stdout=False,
        redirect_stderr=False,
    )
