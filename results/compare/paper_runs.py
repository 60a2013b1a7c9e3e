"""Our runs of the paper's experiments, found by the published number that they stand beside."""

import functools
from operator import itemgetter

from htbench.harness.choice.winner import grouped
from htbench.harness.paper import experiments
from htbench.harness.paper.reported import Place
from htbench.harness.store import Store
from htbench.results.compare.select import OPTIMIZER, Choice, choose
from htbench.results.compare.workload import Workload, find_workloads
from htbench.results.frames.rows import Rows

# The columns that a place fixes, besides hyperparameters.
_PLACE = ("task", "model", "rule", "replica")


def select_scale(frame: Rows, scale: str) -> Rows:
    """The rows of the sweeps of a scale; if `scale` is empty, of those that have others."""
    sweeps = {row["sweep"] for row in frame}
    accepted = (scale,) if scale else ("", "ladder")
    names = {name for name in sweeps if experiments.scale_of(str(name)) in accepted}
    return [row for row in frame if row["sweep"] in names]


class PaperRuns:
    """The runs of one scale. Only sweeps of the list of experiments count: other sweeps may train otherwise.

    Args:
        frame: the tidy frame.
        scale: one of `scales.SCALES`.
        store: where the curves are; None: times to a target are not known.
    """

    def __init__(self, frame: Rows, scale: str, store: Store | None = None) -> None:
        self.scale = scale
        self.store = store
        self.frame = select_scale(frame, scale)
        self._groups = grouped(self.frame, itemgetter(*_PLACE))

    def __bool__(self) -> bool:
        """Whether anything is planned at this scale."""
        return bool(self.frame)

    @functools.cached_property
    def workloads(self) -> list[Workload]:
        """Without deliberate reruns: they are no second chance."""
        return find_workloads([run for run in self.frame if run["replica"] == ""], self.store)

    @functools.cache  # noqa: B019 - lives as long as one command
    def runs(self, place: Place) -> Rows:
        """The rows of the frame at a place; none if it is not planned."""
        group = self._groups.get((*place.workload, place.optimizer, place.replica), [])
        hyper = place.hyper.items()
        return [row for row in group if all(row.get(name) == value for name, value in hyper)]

    @functools.cache  # noqa: B019 - lives as long as one command
    def choices(self, place: Place, lr: float | None = None) -> list[Choice]:
        """What was chosen at a place, one per version of its code and data: usually one.

        Fixed: all but what a scale tunes (the learning rate; on the ladder also the weight decay), and the
        rate, too, if it is given.
        """
        return choose([row for row in self.runs(place) if lr is None or row["lr"] == lr], OPTIMIZER)
