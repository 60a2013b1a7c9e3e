"""A job's side of a search: draw the settings of a slot, ask the pruner, say that the run has ended.

The study of a search is made from slots and run folders whenever it is needed, so a job that dies leaves
nothing to repair:

    slot not written            the next job that comes to an empty slot draws the trial again
    slot written, no record     the same slot again: the run goes on from its checkpoint
    record on disk              the study has it

One lock per study orders the drawing jobs on all machines.
"""

import copy
import logging
from collections.abc import Mapping
from typing import Any

from htbench.harness.config import Value
from htbench.harness.config.key import run_key
from htbench.harness.config.settings import resolve_config
from htbench.harness.errors import PrunedError
from htbench.harness.store import Store
from htbench.harness.store.points import slot_path
from htbench.harness.store.record import RunRecord
from htbench.harness.store.study import Study
from htbench.harness.system import atomic, seal
from htbench.sweeps.plan import slots
from htbench.sweeps.studies import drawing, refresh
from htbench.sweeps.studies.drawing import NoRepeats, make_distribution
from htbench.sweeps.studies.study import load_search, number_or_nan

log = logging.getLogger("htbench")


class Trial:
    """The trial of one slot, for the process that works on it.

    Args:
        store: the store.
        study: of the slot.
        content: what fills the slot.

    Attributes:
        key: of its run.
        settings: of the run.
        study: the name of its study.
    """

    def __init__(self, store: Store, study: Study, content: Mapping[str, Any]) -> None:
        self._store, self._search, self._number = store, study, int(content["trial"])
        self._reports: dict[int, float] = {}  # by step
        self.key = str(content["key"])
        self.settings: dict[str, Value] = dict(content["overrides"])
        self.study = study.name

    def report(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """Ask the pruner about an evaluation, which the curve on disk has, too.

        A run does not depend on its study: an error is logged, and the run goes on.

        Raises:
            PrunedError: the pruner ends the trial.
        """
        if not self._search.pruner:
            return
        try:
            ends = self._is_pruned(step, metrics)
        except Exception as error:
            log.warning("%s did not judge step %s: %s: %s", self.study, step, type(error).__name__, error)
            return
        if ends:
            raise PrunedError(f"stopped at step {step} by {self.study}")

    def _is_pruned(self, step: int, metrics: Mapping[str, float | None]) -> bool:
        filled = slots.read_slots(self._store.root, self._search)
        study = load_search(self._store, self._search, filled)
        assert study.metric_names is not None
        self._reports[step] = number_or_nan(metrics.get(study.metric_names[0]))
        trial = copy.copy(study.get_trials(deepcopy=False)[self._number])
        # A resumed run has reports beyond its checkpoint. The pruner shall decide as it did the first time.
        reports = trial.intermediate_values | self._reports
        trial.intermediate_values = {at: value for at, value in reports.items() if at <= step}
        return bool(study.pruner.prune(study, trial))

    def tell(self, record: RunRecord) -> None:
        """Bring the study up to date after the run has ended; its record must be on disk."""
        atomic.crash_point("tell")
        try:
            refresh.refresh_search(self._store, self._search)
        except Exception as error:  # the next command does it
            log.warning("%s lacks run %s: %s: %s", self.study, record.key, type(error).__name__, error)


def take(store: Store, sweep: str, slot: str) -> Trial:
    """The trial of a slot: the one that fills it, else a new one.

    Args:
        store: the store.
        sweep: the sweep's name.
        slot: `<study>/<number>`.

    Raises:
        UsageError: the study was never planned.
    """
    study = slots.read_study(store.root, sweep, slot.rpartition("/")[0])
    path = slot_path(store.root, sweep, slot)
    with slots.locked(store.root, study):
        filled = slots.read_slots(store.root, study)
        content = filled.get(int(path.stem))
        if content is None:
            content = _draw(store, study, filled)
            atomic.remove_temporaries(path.parent)
            atomic.write_json(path, seal.sealed(content))
    return Trial(store, study, content)


def _draw(store: Store, study: Study, filled: slots.Slots) -> dict[str, Any]:
    """What fills the next slot: the first trial that is in no slot."""
    taken = {content["trial"] for content in filled.values()}
    number = next(number for number in range(len(taken) + 1) if number not in taken)
    axes = {name: make_distribution(axis) for name, axis in study.axes.items()}
    search = load_search(store, study, filled)
    search.sampler = NoRepeats(drawing.make_sampler(study, number), axes)
    drawn = search.ask(axes).params
    values = {name: drawing.decode_value(axis, drawn[name]) for name, axis in study.axes.items()}
    overrides = study.fixed | values
    key = run_key(resolve_config(overrides))
    return {"study": study.name, "trial": number, "key": key, "overrides": overrides}
