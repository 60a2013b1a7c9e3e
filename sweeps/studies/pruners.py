"""Which trials of a study are stopped early.

A decision is a function of what the trials have reported, and of nothing in the memory of a process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import optuna
from optuna.pruners import BasePruner, MedianPruner, NopPruner
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial

from sweeps.plan.slots import Study


def pruner(study: Study) -> BasePruner:
    """The pruner of a study."""
    options = study.pruner_options
    if study.pruner == "asha":
        return Asha(**options)
    if study.pruner == "median":
        return MedianPruner(options["startup_trials"], options["warmup_steps"])
    return NopPruner()


class Asha(BasePruner):
    """Asynchronous successive halving: of the trials at each rung the best fraction goes on.

    Rung i is at step min_resource * reduction_factor^i.

    A trial that arrives at a rung goes on if it is among the best 1 / reduction_factor of all that have
    arrived there so far, itself included, or the best of fewer than reduction_factor.

    Source: Li et al., A System for Massively Parallel Hyperparameter Tuning, 2020,
    https://arxiv.org/abs/1810.05934. The paper pauses a trial and may promote it later; here, as in Optuna's
    SuccessiveHalvingPruner, it ends. Optuna's stores each decision in the trial: the decision is lost
    when the process dies before that, and all are when a study is rebuilt. Ours needs the reports only.

    Args:
        min_resource: steps before the first decision.
        reduction_factor: of this many, one goes on.
    """

    def __init__(self, min_resource: int, reduction_factor: int) -> None:
        self.min_resource, self.reduction_factor = min_resource, reduction_factor

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Whether a trial ends at the rungs that its last report has reached."""
        if trial.last_step is None:
            return False
        value = trial.intermediate_values[trial.last_step]
        before = max((step for step in trial.intermediate_values if step < trial.last_step), default=0)
        trials = study.get_trials(deepcopy=False)
        rung = self.min_resource
        while rung <= trial.last_step:
            if rung > before:
                others = (_value_at(one, rung) for one in trials if one.number != trial.number)
                rivals = [other for other in others if other is not None]
                if not self._goes_on(value, rivals, study.direction):
                    return True
            rung *= self.reduction_factor
        return False

    def _goes_on(self, value: float, rivals: Sequence[float], direction: StudyDirection) -> bool:
        if math.isnan(value):
            return False
        sign = -1 if direction is StudyDirection.MAXIMIZE else 1
        better = sum(sign * rival < sign * value for rival in rivals)
        return better < max(1, (len(rivals) + 1) // self.reduction_factor)


def _value_at(trial: FrozenTrial, rung: int) -> float | None:
    """The first report of a trial at or after a rung; None if there is none."""
    steps = [step for step in trial.intermediate_values if step >= rung]
    return trial.intermediate_values[min(steps)] if steps else None
