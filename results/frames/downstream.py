"""The downstream accuracies of a run as columns of the frame: `downstream_<task>`, fractions in [0, 1]."""

from typing import Any

from harness.export.results import average, is_done
from harness.store.record import RunRecord

PREFIX = "downstream_"
QUESTIONS = "_questions"


def outcome(record: RunRecord) -> dict[str, Any]:
    """Accuracy and number of questions of each task, and the average of the paper's seven.

    A task that was asked only a part of its questions has no column.
    """
    found: dict[str, Any] = {}
    for task, entry in record.downstream.items():
        if is_done(record.downstream, task, None):
            found[f"{PREFIX}{task}"] = entry["acc"]
            found[f"{PREFIX}{task}{QUESTIONS}"] = entry.get("questions")
    mean = average(record.downstream)
    return found if mean is None else found | {f"{PREFIX}average": mean}
