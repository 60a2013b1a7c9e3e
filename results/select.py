"""Selection: who wins is decided on the validation split of the search stage, and only there.

A table says what it fixes (for example task, model and optimizer); everything else that is tuned is selected over.
What it reports of the winner comes from the replicate stage: the same settings on seeds that no choice has seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.plans import REPLICATE, SEARCH
from harness.score import Score, mean_score, winner

WORKLOAD = ("task", "model", "setting")
OPTIMIZER = (*WORKLOAD, "optimizer")

# What a candidate without score is called, by its worst run; what a group without winner is called, by its hope.
_WORST_FIRST = ("diverged", "pruned", "failed", "running", "waiting", "completed")
_HOPE_FIRST = ("running", "waiting", "failed", "diverged", "pruned", "completed")
_UNFINISHED = ("running", "waiting", "failed")


@dataclass(frozen=True, eq=False)
class Candidate:
    """One setting of everything that is tuned.

    Attributes:
        name: its word in the frame's column `candidate`.
        runs: its search-stage rows, one per seed.
        score: what to minimise; None if a seed has no figure.
    """

    name: str
    runs: pd.DataFrame
    score: Score | None

    @property
    def state(self) -> str:
        """The state of its worst run."""
        return min(self.runs["state"], key=_WORST_FIRST.index)

    def value(self, column: str) -> Any:
        """One of its settings."""
        return self.runs[column].iloc[0]


@dataclass(frozen=True, eq=False)
class Choice:
    """What was selected among the candidates that agree in the fixed columns.

    Attributes:
        fixed: those columns and their values.
        candidates: all of them, in the order of the plan.
        winner: the best one, or None if none has a score.
        tied: others with the same validation metric.
        replicas: the winner's replicate-stage rows, one per fresh seed.
    """

    fixed: dict[str, Any]
    candidates: list[Candidate]
    winner: Candidate | None
    tied: list[Candidate]
    replicas: pd.DataFrame

    @property
    def state(self) -> str:
        """`completed` with a winner; else what the group waits for or died of."""
        if self.winner is not None:
            return "completed"
        return min((candidate.state for candidate in self.candidates), key=_HOPE_FIRST.index)

    @property
    def unfinished(self) -> Counter[str]:
        """How many candidates may still change the choice, by state."""
        states = (one.state for one in self.candidates if one.score is None)
        return Counter(state for state in states if state in _UNFINISHED)


def choose(frame: pd.DataFrame, fixed: Sequence[str]) -> list[Choice]:
    """Select within each group of the frame that agrees in the columns `fixed`, in the order of the plan."""
    search = frame[frame["stage"] == SEARCH].drop_duplicates("key")  # sweeps share runs
    # A run that took part in a choice is not fresh, whatever another sweep calls it.
    fresh = frame[(frame["stage"] == REPLICATE) & ~frame["key"].isin(search["key"])].drop_duplicates("key")
    groups = search.groupby(list(fixed), sort=False, dropna=False)
    return [_choose(dict(zip(fixed, values, strict=True)), group, fresh) for values, group in groups]


def _choose(fixed: dict[str, Any], group: pd.DataFrame, fresh: pd.DataFrame) -> Choice:
    candidates = {
        str(name): Candidate(str(name), runs, mean_score(list(runs["score"])))
        for name, runs in group.groupby("candidate", sort=False)
    }
    best, tied = winner({name: candidate.score for name, candidate in candidates.items()})
    return Choice(
        fixed,
        list(candidates.values()),
        candidates[best] if best is not None else None,
        [candidates[name] for name in tied],
        fresh[fresh["candidate"] == best],
    )


def searched(frame: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """Those of `columns` in which the search-stage rows of some block have two values or more."""
    search = frame[frame["stage"] == SEARCH]
    counts = search.groupby(["sweep", "block"], sort=False)[list(columns)].nunique()
    return [name for name in columns if (counts[name] > 1).any()]
