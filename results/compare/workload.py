"""A workload, and what was chosen of each optimizer on it: found once for all tables and figures."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from htbench.harness.choice.winner import grouped
from htbench.harness.store import Store
from htbench.harness.store.points import SEARCH
from htbench.results.compare.select import OPTIMIZER, WORKLOAD, Choice, choose, has_stages
from htbench.results.frames.from_csv import FILE, SPLIT
from htbench.results.frames.load import tuned_columns
from htbench.results.frames.metrics import Metric, is_missing, reported
from htbench.results.frames.rows import Rows, parts
from htbench.results.frames.run_row import CHOSEN


@dataclass(frozen=True, eq=False)
class Workload:
    """The runs of one workload.

    Attributes:
        part: its rows of the frame.
        store: where curves, spectra and test items are; None: they are not known.
    """

    part: Rows
    store: Store | None = None

    @functools.cached_property
    def choices(self) -> list[Choice]:
        """The best setting of each optimizer, in the order of the plan."""
        return choose(self.part, OPTIMIZER)

    @functools.cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics of its task, first that by which runs are chosen."""
        return reported(self.part)

    @property
    def metric(self) -> Metric:
        """That by which runs are chosen."""
        return self.metrics[0]

    @property
    def file(self) -> str:
        """The file of results that its runs were read from; empty for those of a store."""
        return str(self.part[0].get(FILE, ""))

    @property
    def staged(self) -> bool:
        """Whether a plan, or a file of results, says which runs choose and which are reported."""
        return has_stages(self.part[0])

    @property
    def is_fair(self) -> bool:
        """Whether what chose a setting is not what is reported, as in the paper."""
        return self.staged and self.part[0]["protocol"] != "paper"

    @property
    def split(self) -> str:
        """What is reported: a program may report what chose its settings; a file need not say it."""
        first = self.part[0]
        return "val" if first["protocol"] == CHOSEN else str(first.get(SPLIT, "test"))

    @functools.cached_property
    def axes(self) -> list[str]:
        """The tuned columns along which any optimizer was searched."""
        searched = {name for choice in self.choices for name in choice.axes}
        return [name for name in tuned_columns(self.part) if name in searched]

    def choose_along(self, axis: str) -> dict[str, list[Choice]]:
        """The best setting of each optimizer at each value of a column."""
        with_value = [run for run in self.part if not is_missing(run[axis])]
        return grouped(choose(with_value, (*OPTIMIZER, axis)), lambda choice: choice.optimizer)


def find_workloads(
    frame: Rows | None, store: Store | None = None, columns: Sequence[str] = WORKLOAD
) -> list[Workload]:
    """The workloads of a frame on which something was searched, in the order of their first rows.

    Others have replicas only: data may have changed since their search.

    Args:
        frame: the tidy frame.
        store: as of a workload.
        columns: what tells workloads apart; with `select.OPTIMIZER` each has one choice.
    """
    searched = (part for part in parts(frame, columns) if any(run["stage"] == SEARCH for run in part))
    return [Workload(part, store) for part in searched]
