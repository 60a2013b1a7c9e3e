"""What a record keeps of an evaluation: one entry per task. Torch-free.

An entry has `acc` and its standard error `acc_stderr` (over questions, of this one model), `acc_norm` and
`acc_norm_stderr` where the task has them, `questions`, `limit` (questions at most; None: all), `scorer` (the
program and its version), `version` (of the task), and `ended`. That of a local task has the `fingerprint` of
its questions, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Entry = dict[str, Any]

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
