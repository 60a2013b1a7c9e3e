"""What a study says of itself, in a grid as in a search: its metric and what all of its trials share."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner
from optuna.storages import BaseStorage

from harness import tasks
from harness.config import RunConfig, Value
from harness.config.settings import to_settings


@dataclass(frozen=True)
class Description:
    """What a study says of itself.

    Attributes:
        metric: the name of its objective, a key in the metrics of a record, such as `val_loss`.
        maximize: whether more of it is better.
        attributes: what all of its trials share, for people, who see them in the dashboard.
    """

    metric: str
    maximize: bool
    attributes: Mapping[str, Any]

    def open(self, name: str, storage: BaseStorage, pruner: BasePruner | None = None) -> optuna.Study:
        """The study of this name, which is created if the storage lacks it."""
        study = _load(name, storage, pruner) or optuna.create_study(
            study_name=name,
            storage=storage,
            direction="maximize" if self.maximize else "minimize",
            pruner=pruner,
            load_if_exists=True,
        )
        self._describe(study)
        return study

    def _describe(self, study: optuna.Study) -> None:
        """Write into a study what it does not say yet; one of an earlier version goes on with its trials."""
        if study.metric_names != [self.metric]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ExperimentalWarning)
                study.set_metric_names([self.metric])
        known = study.user_attrs
        for name, value in self.attributes.items():
            if name not in known or known[name] != value:
                study.set_user_attr(name, value)


def describe(
    config: RunConfig,
    more: Mapping[str, Value],
    *,
    without: Collection[str],
    trials: Sequence[Mapping[str, Value]] = (),
) -> Description:
    """The description of a study.

    Args:
        config: of one of its trials.
        more: what else to say, such as the block.
        without: settings that its trials say for themselves.
        trials: the settings of all its trials. Those that differ among them are left out, too.
    """
    task = tasks.spec(config.task)
    settings = {name: value for name, value in to_settings(config).items() if name not in without}
    shared = {n: plain(v) for n, v in settings.items() if all(n in one and one[n] == v for one in trials)}
    return Description(f"val_{task.metric}", task.higher_is_better, {**more, **shared})


def plain(value: Value) -> Any:
    """A value as it comes back from a storage, which keeps JSON."""
    return list(value) if isinstance(value, tuple) else value


def _load(name: str, storage: BaseStorage, pruner: BasePruner | None) -> optuna.Study | None:
    with contextlib.suppress(KeyError):  # a journal would note that somebody wanted to create it once more
        return optuna.load_study(study_name=name, storage=storage, pruner=pruner)
    return None
