"""Two records of one run: what one has besides the other, and where they contradict."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.store.record import RunRecord

_FIGURES = ("acc", "acc_norm")  # of multiple-choice questions


@dataclass(frozen=True)
class Difference:
    """A value in which two records of one run differ.

    Attributes:
        name: `status`, `steps`, a metric, a figure of multiple-choice questions (`piqa.acc`), or `digest` if
            one of the records was changed since it was written.
        here: the value that counts.
        there: that of the other copy.
    """

    name: str
    here: Any
    there: Any


def same_result(ours: RunRecord, theirs: RunRecord) -> bool:
    """Whether two records tell the same of the training, but for what depends on the machine."""
    return _result(ours) == _result(theirs)


def differences(ours: RunRecord, theirs: RunRecord) -> list[Difference]:
    """All in which two records contradict each other; what only one of them has is no contradiction."""
    here, there = _result(ours), _result(theirs)
    compared = [Difference(name, here.get(name), there.get(name)) for name in here | there]
    for task in sorted(ours.downstream.keys() & theirs.downstream.keys()):
        here, there = ours.downstream[task], theirs.downstream[task]
        if _questions(here) == _questions(there):
            compared += [Difference(f"{task}.{name}", here.get(name), there.get(name)) for name in _FIGURES]
    return [difference for difference in compared if difference.here != difference.there]


def completed(ours: RunRecord, theirs: RunRecord) -> RunRecord:
    """Our record with what only theirs has: downstream figures, also of more questions, and newer fields."""
    more = {
        task: entry
        for task, entry in theirs.downstream.items()
        if _questions(entry) > _questions(ours.downstream.get(task, {}))
    }
    return dataclasses.replace(ours, downstream=ours.downstream | more, rest=theirs.rest | ours.rest)


def _result(record: RunRecord) -> dict[str, Any]:
    return {"status": record.status, "steps": record.steps, **record.metrics, "digest": record.digest}


def _questions(entry: Mapping[str, Any]) -> float:
    """How many questions an entry is about; less than none if there is no entry."""
    number = entry.get("questions", 0)
    return number if entry and isinstance(number, int) else -1
