"""Which run is better: the rule by which sweeps choose winners and tables choose runs. Torch-free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from harness import tasks
from harness.store.record import RunRecord, is_imported

Score = tuple[float, ...]
Name = TypeVar("Name")


def score(record: RunRecord) -> Score | None:
    """What to minimise: the task's metric on the validation split, then the validation loss to break ties.

    Returns:
        None if the run has no such metric (diverged or pruned): it can't win.
    """
    task = tasks.recorded(record.config["task"], record.environment)
    metric, loss = record.metrics.get(f"val_{task.metric}"), record.metrics.get("val_loss")
    if loss is None and is_imported(record.config):
        loss = 0.0  # others need not have told it
    if record.status != "completed" or metric is None or loss is None:
        return None
    return (-metric if task.higher_is_better else metric, loss)


def mean_score(scores: Sequence[Score | None]) -> Score | None:
    """The score of a candidate over its seeds; None if one seed has no score."""
    if not scores or any(one is None for one in scores):
        return None
    sound = [one for one in scores if one is not None]
    return tuple(sum(column) / len(sound) for column in zip(*sound, strict=True))


def winner(candidates: Mapping[Name, Score | None]) -> tuple[Name | None, list[Name]]:
    """The candidate with the least score, the first of equals, and all others whose metric equals its metric.

    Args:
        candidates: in the order in which equals are preferred.

    Returns:
        winner (None if no candidate has a score) and the tied ones.
    """
    scored = {name: one for name, one in candidates.items() if one is not None}
    if not scored:
        return None, []
    best = min(scored, key=lambda name: scored[name])
    return best, [name for name, one in scored.items() if name != best and one[0] == scored[best][0]]
