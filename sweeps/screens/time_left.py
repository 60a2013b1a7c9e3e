"""The time that is left of a sweep, estimated quickly for ten thousand points. Torch-free."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from harness.config import RunConfig
from harness.config.settings import resolve_config
from harness.cost import measure
from harness.cost.from_runs import LOOKED_AT, from_pace, from_records
from harness.cost.run_class import Cost, RunClass, run_class
from harness.errors import UsageError
from harness.show.status import Status
from harness.store import RunState, Store, curve
from harness.store.layout import cache_folder
from harness.store.points import SEED_FIELDS, Point, is_tuned
from harness.train.progress import warm_up

LONG = 10_000  # steps of a run whose steps nobody knows
_WITHOUT_COST = {"data_fingerprint": "-", "revisions.loop": 1}  # to find the true values takes long


class Estimate:
    """Estimates times from finished runs of the same class, from a measurement, or from runs at work.

    Args:
        store: the store.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.measured: dict[RunClass, Cost | None] = {}
        self.configs: dict[tuple[str, ...], tuple[RunConfig, RunClass] | None] = {}

    @functools.cached_property
    def finished(self) -> dict[RunClass, Cost]:
        """Costs from all finished runs of the store, read only if something is left."""
        return from_records(self.store, [record for _, record in self.store.index.rows().values()])

    def steps(self, point: Point) -> int | None:
        """Updates of a point's run; None if unknown."""
        if (found := self._config(point)) is None:
            return None
        config, kind = found
        known = None if config.steps else self.finished.get(kind)
        return known.steps(config) if known else config.steps

    def left(self, points: Sequence[tuple[Point, RunState]]) -> float | None:
        """Seconds of one worker for the points that are not settled; None if unknown."""
        total = 0.0
        for point, state in points:
            if state.status.is_settled:
                continue
            if (found := self._config(point)) is None:
                return None
            config, kind = found
            known = self._cost(config, kind, points)
            if known is None or (steps := known.steps(config)) is None:
                return None
            done = min(steps, self._done(point, state))
            total += known.seconds(config, steps) * (1 - done / steps)
        return total

    def is_warming_up(self, points: Sequence[tuple[Point, RunState]]) -> bool:
        """Whether a run at work will tell what nothing tells now: it is not past its warm-up."""
        found = [self._config(point) for point, state in points if state.status is Status.RUNNING]
        return any(one is not None and self._cost(*one, points) is None for one in found)

    def _done(self, point: Point, state: RunState) -> int:
        files = self.store.files(point.key)
        if not state.attempts or (state.status is not Status.RUNNING and not files.checkpoint.exists()):
            return 0
        return curve.last_step(files.metrics)

    def _cost(
        self, config: RunConfig, kind: RunClass, points: Sequence[tuple[Point, RunState]]
    ) -> Cost | None:
        if kind in self.finished:
            return self.finished[kind]
        if kind not in self.measured:
            at_work = [self.store.files(p.key) for p, state in points if state.status is Status.RUNNING]
            pace = from_pace(at_work[:LOOKED_AT], warm_up(config.steps or LONG))
            self.measured[kind] = pace or measure.remembered(cache_folder(self.store.root), kind)
        return self.measured[kind]

    def _config(self, point: Point) -> tuple[RunConfig, RunClass] | None:
        """A config that costs as much as the point's, made once for all that differ in tuned numbers."""
        unseeded = {k: v for k, v in point.overrides.items() if k not in SEED_FIELDS}
        shape = tuple(f"{k}={v}" for k, v in unseeded.items() if not (is_tuned(k) and isinstance(v, float)))
        if shape not in self.configs:
            try:
                config = resolve_config({**point.overrides, **_WITHOUT_COST})
                self.configs[shape] = config, run_class(config)
            except UsageError:  # planned by another version of the code
                self.configs[shape] = None
        return self.configs[shape]
