"""What a record keeps of an evaluation: one entry per task. Torch-free."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

Entry = dict[str, Any]  # `Figures`, and what else the program that asks the questions tells


class Figures(TypedDict, total=False):
    """The figures of a task. A task has those that make sense for it.

    Attributes:
        acc, acc_norm: accuracies, fractions.
        acc_stderr, acc_norm_stderr: their standard errors over questions, of this one model.
        questions: asked.
        limit: questions at most; null: all questions were asked.
        scorer: the program with its version.
        ended: when.
        version: of the task.
        fingerprint: of the questions of a local task.
    """

    acc: float | None
    acc_stderr: float | None
    acc_norm: float | None
    acc_norm_stderr: float | None
    questions: int
    limit: int | None
    scorer: str
    ended: str
    version: Any
    fingerprint: str


@dataclass(frozen=True)
class Evaluated:
    """All evaluations of a run.

    Attributes:
        tasks: by name.
        average_of_seven: accuracy over the paper's tasks, if all are there.
    """

    tasks: Mapping[str, Figures]
    average_of_seven: float | None


# The tasks of the paper's average, each with the data set that lm-evaluation-harness reads.
SEVEN = {
    "arc_challenge": "allenai/ai2_arc",
    "arc_easy": "allenai/ai2_arc",
    "piqa": "baber/piqa",
    "hellaswag": "Rowan/hellaswag",
    "openbookqa": "allenai/openbookqa",
    "winogrande": "allenai/winogrande",
    "boolq": "aps/super_glue",
}
CLOZE = "pydocs_cloze"  # ours: `harness/export/cloze.py`


def default_tasks(task: str) -> list[str]:
    """The evaluations of a model that was trained on `task`."""
    return [CLOZE] if task == "pydocs" else list(SEVEN)


def is_done(downstream: Mapping[str, Entry], task: str, limit: int | None) -> bool:
    """Whether there is an entry of all questions, or of as many as are asked for."""
    entry = downstream.get(task)
    return entry is not None and entry.get("limit") in (None, limit)


def missing(downstream: Mapping[str, Entry]) -> list[str]:
    """Those of the seven tasks that have no entry of all questions."""
    return [task for task in SEVEN if not is_done(downstream, task, None)]


def average(downstream: Mapping[str, Entry]) -> float | None:
    """The plain mean of the seven accuracies; None unless all seven are there, of all questions."""
    if missing(downstream):
        return None
    return math.fsum(downstream[task]["acc"] for task in SEVEN) / len(SEVEN)


def share(right: Sequence[bool]) -> tuple[float, float | None]:
    """The share of right answers and its standard error; one answer has none.

    As lm-evaluation-harness computes it: the sample standard deviation over the root of the number.
    """
    number, mean = len(right), sum(right) / len(right)
    if number < 2:
        return mean, None
    return mean, math.sqrt(mean * (1 - mean) / (number - 1))
