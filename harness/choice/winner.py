"""Which setting wins: the rule by which sweeps choose what to run again and tables choose what to report.

A candidate is a setting of everything that is tuned, whatever its seeds. Candidates that agree in all else
compete.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from htbench.harness import tasks
from htbench.harness.store.record import RunRecord

MIN_SEEDS = 3  # fewer than this give no verdict: two values say almost nothing about their spread
Score = tuple[float, ...]  # to be minimised
Name = TypeVar("Name", bound=Hashable)
Run = TypeVar("Run")


def score(record: RunRecord) -> Score | None:
    """What to minimise: the task's metric on the validation split, then the validation loss to break ties.

    Returns:
        None if the run has no such metric (diverged or pruned): it can't win.
    """
    task = tasks.recorded(record.config["task"], record.environment)
    metric = record.metrics.get(f"val_{task.metric}")
    if record.status != "completed" or metric is None:
        return None
    least = -metric if task.higher_is_better else metric
    loss = record.metrics.get("val_loss", least)  # a program may report none
    return None if loss is None else (least, loss)


def mean_score(scores: Sequence[Score | None]) -> Score | None:
    """The score of a candidate over its seeds; None if one seed has no score."""
    sound = [seed for seed in scores if seed is not None]
    if not scores or len(sound) < len(scores):
        return None
    return tuple(sum(column) / len(sound) for column in zip(*sound, strict=True))


def winner(candidates: Mapping[Name, Score | None]) -> tuple[Name | None, list[Name]]:
    """The candidate with the least score, the first of equals, and all others whose metric equals its metric.

    Args:
        candidates: in the order in which equals are preferred.

    Returns:
        winner (None if no candidate has a score) and the tied ones.
    """
    scored = {name: figures for name, figures in candidates.items() if figures is not None}
    if not scored:
        return None, []
    best = min(scored, key=lambda name: scored[name])
    return best, [name for name in scored if name != best and scored[name][0] == scored[best][0]]


def best_runs(
    runs: Iterable[Run], name: Callable[[Run], Hashable], score: Callable[[Run], Score | None]
) -> list[Run]:
    """The runs of the best candidate, one for each seed; empty if no candidate has all its scores.

    Args:
        runs: that compete.
        name: of a run's candidate.
        score: of a run; None: it has none.
    """
    groups = grouped(runs, name)
    best, _ = winner(
        {candidate: mean_score([score(run) for run in twins]) for candidate, twins in groups.items()}
    )
    return groups[best] if best is not None else []


def grouped(runs: Iterable[Run], name: Callable[[Run], Name]) -> dict[Name, list[Run]]:
    """Runs by a word for each, both in their order."""
    groups: dict[Name, list[Run]] = {}
    for run in runs:
        groups.setdefault(name(run), []).append(run)
    return groups
