"""A sweep while it runs: its points, those that are settled, and what follows on them."""

from collections.abc import Iterator

from htbench.harness.config import RunConfig
from htbench.harness.store import Store
from htbench.harness.store.record import RunRecord
from htbench.sweeps.plan.planned import Planned, block_of, by_objective, filled
from htbench.sweeps.plan.replicas import next_round, replicas
from htbench.sweeps.plan.stored import searched, write_plan
from htbench.sweeps.spec.sweep import SweepSpec
from htbench.sweeps.studies import refresh


def updates_of(config: RunConfig) -> int:
    """The updates of a run; one of a program counts as one, as nobody knows how many it makes."""
    return 1 if config.program else config.steps or 0


class Sweep:
    """The state of one sweep during the command: its points, the settled ones, and the replicas so far."""

    def __init__(self, spec: SweepSpec, store: Store) -> None:
        self.spec, self.store = spec, store
        self.search = searched(store.root, spec)
        self.groups = by_objective(spec, self.search)
        self.replicas: dict[int, list[Planned]] = {}  # by objective
        self.settled: dict[str, RunRecord | None] = {}
        self._open = {i: {one.point.id for one in group} for i, group in enumerate(self.groups)}
        self._written: list[Planned] = []

    @property
    def planned(self) -> list[Planned]:
        """All points known so far. The slots of a search are in it as planned, without settings."""
        return self.search + [one for i in sorted(self.replicas) for one in self.replicas[i]]

    def sharing(self) -> Iterator[int]:
        """Of each known run that may use a GPU: how many runs may share one."""
        for one in self.planned:
            if one.config.device != "cpu":
                yield block_of(self.spec, one.point).resources.on_a_gpu(one.point.processes)

    def steps_left(self) -> int:
        """The number of updates that are left, with an estimate for replicas that are not known yet."""
        steps = {one.point.id: updates_of(one.config) for one in self.planned}
        unknown = len(self._open) * self.spec.fresh_seeds
        known = sum(count for name, count in steps.items() if name not in self.settled)
        return known + unknown * updates_of(self.search[0].config)

    def settle(self, name: str, record: RunRecord | None) -> list[Planned]:
        """Note the record of the point with id `name` (None: none).

        Returns:
            the points that are now due: the next round of an objective, or the replicas of its winner.
        """
        self.settled[name] = record
        due = []
        for i in [i for i, names in self._open.items() if name in names]:
            self._open[i].discard(name)
            while i in self._open and not self._open[i]:
                group = filled(self.store.root, self.groups[i])
                settled = {one.point.key: self.settled[one.point.id] for one in group}
                records = {key: record for key, record in settled.items() if record is not None}
                if new := next_round(self.spec, group, records):
                    self.search += new
                    self.groups[i] += new  # another block may have trained a run of it already
                    self._open[i] = {one.point.id for one in new} - self.settled.keys()
                else:
                    del self._open[i]
                    self.replicas[i] = new = replicas(self.spec, group, records)
                due += new
        return due

    def write(self, *, replace: bool = True) -> None:
        """Write the points known so far into the store as the plan, if there are new ones.

        Args:
            replace: whether stored points that the file lacks may be dropped; it matters for the first time.
        """
        if self.planned != self._written:
            self._written = self.planned
            write_plan(self.store.root, self.spec, self.planned, replace=replace)

    def refresh_studies(self, *, under_way: bool = False) -> None:
        """Bring the Optuna studies up to date. Those of a running search are updated by its workers."""
        if not (self.spec.search.has_slots and under_way):
            refresh.refresh(self.store, self.spec, self.planned)
