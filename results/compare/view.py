"""What is to be shown: which runs, and what of the paper beside them. For tables and figures."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from htbench.harness.paper import experiments, scales
from htbench.harness.show.report import Section
from htbench.harness.store import Store
from htbench.harness.store.points import ELSEWHERE
from htbench.results.compare.caveats import Caveats, find_caveats
from htbench.results.compare.ladder import Ladder, fit_ladder
from htbench.results.compare.ladder_points import find_rungs
from htbench.results.compare.paper_runs import PaperRuns, select_scale
from htbench.results.compare.workload import Workload, find_workloads
from htbench.results.frames.rows import Rows

PUBLISHED, RUNS, BOTH = "published", "runs", "both"
SOURCES = (BOTH, PUBLISHED, RUNS)


@dataclass(frozen=True)
class Side:
    """The published numbers, our runs at a scale, or both: those at full scale train the same workloads.

    Attributes:
        published: whether the published numbers are shown.
        ours: our runs; None if they are not shown.
    """

    published: bool
    ours: PaperRuns | None = None

    @property
    def store(self) -> Store | None:
        """Where curves and spectra of our runs are; None without runs."""
        return None if self.ours is None else self.ours.store

    @property
    def scale(self) -> str:
        """Whose workloads are shown."""
        return self.ours.scale if self.ours is not None else scales.SCALES[0]


class View:
    """What tables and figures are made of.

    Args:
        frame: the tidy frame; None: no runs are shown.
        source: one of SOURCES.
        chosen: the scales of the paper's experiments to show; None: those that are planned.
        store: where the curves are; without it times to a target are not known.
    """

    def __init__(
        self,
        frame: Rows | None = None,
        source: str = BOTH,
        chosen: Sequence[str] | None = None,
        store: Store | None = None,
    ) -> None:
        self.frame = None if source == PUBLISHED or frame is None else frame
        self.published = source != RUNS
        self.asked = source == PUBLISHED  # for published numbers, whatever is planned
        self.store = store
        self.sections: dict[Workload, Section] = {}  # the tables of workloads that were made
        self._chosen = chosen

    @functools.cached_property
    def scales(self) -> list[str]:
        """The scales whose runs are shown."""
        if self.frame is None:
            return []
        sweeps = {row["sweep"] for row in self.frame if row["stage"] != ELSEWHERE}
        planned = {experiments.scale_of(str(name)) for name in sweeps}
        return [name for name in scales.SCALES if name in (planned if self._chosen is None else self._chosen)]

    @functools.cached_property
    def sides(self) -> list[Side]:
        """The published numbers and our runs at each scale.

        At full scale runs have the workloads and units of the paper: they stand beside its numbers. What is
        in miniature stands alone.
        """
        runs = [Side(self.published and name == scales.SCALES[0], self.ours(name)) for name in self.scales]
        alone = self.published and not any(side.published for side in runs) and (self.asked or runs)
        return [*([Side(True)] if alone else []), *runs]

    @functools.cached_property
    def drawn_sides(self) -> list[Side]:
        """What figures show of the paper's experiments: a scale without runs has nothing to draw."""
        shown = (side for side in self.sides if side.published or side.ours)
        return [side if side.ours is None or side.ours else Side(published=True) for side in shown]

    @functools.cached_property
    def workloads(self) -> list[Workload]:
        """All of them."""
        return find_workloads(self.frame, self.store)

    @functools.cached_property
    def other_workloads(self) -> list[Workload]:
        """Those of sweeps that belong to no experiment of the paper, and of the ladder."""
        whole = {tuple(map(id, workload.part)): workload for workload in self.workloads}
        others = find_workloads(None if self.frame is None else select_scale(self.frame, ""), self.store)
        return [whole.get(tuple(map(id, workload.part)), workload) for workload in others]

    @functools.cached_property
    def caveats(self) -> Caveats:
        """What could change the values that figures show."""
        return find_caveats(self.frame or (), self.workloads)

    @functools.cached_property
    def ladders(self) -> list[Ladder]:
        """The ladders of all runs."""
        return [fit_ladder(task, rungs) for task, rungs in find_rungs(self.workloads)]

    @functools.cache  # noqa: B019 - lives as long as one command
    def ours(self, scale: str) -> PaperRuns:
        """The runs of a scale."""
        assert self.frame is not None
        return PaperRuns(self.frame, scale, self.store)
