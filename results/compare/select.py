"""Selection: who wins is decided on the validation split of the search stage, and only there.

A table says what it fixes (for example task, model and optimizer); all else that is tuned is selected over.
What it reports of the winner comes from the replicate stage: runs of its settings on other seeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.choice.winner import Score, mean_score, winner
from harness.store.points import DROPPED, REPLICATE, SEARCH, SEED_FIELDS
from harness.store.record import IMPORTED
from results.frames.rows import Rows, rows

Row = Mapping[str, Any]  # of the tidy frame

WORKLOAD = ("task", "model", "setting")
OPTIMIZER = (*WORKLOAD, "optimizer")

# The state of a candidate is that of its worst run.
_WORST_FIRST = ("damaged", "diverged", "pruned", "failed", "running", "waiting", "completed")
# The state of a choice without winner is that of the candidate that may still get a score most easily.
_MOST_HOPEFUL_FIRST = ("running", "waiting", "failed", "damaged", "diverged", "pruned", "completed")
UNFINISHED = ("running", "waiting", "failed", "damaged")


@dataclass(frozen=True)
class Candidate:
    """One setting of everything that is tuned.

    Attributes:
        name: its word in the frame's column `candidate`.
        runs: its search-stage rows, one per seed.
        score: what to minimise; None if the run of a seed has no score.
    """

    name: str
    runs: list[Row]
    score: Score | None

    @property
    def state(self) -> str:
        """The state of its worst run."""
        return min((str(run["state"]) for run in self.runs), key=_WORST_FIRST.index)

    def value(self, column: str) -> Any:
        """One of its settings."""
        return self.runs[0][column]


@dataclass(frozen=True)
class Choice:
    """What was selected among the candidates that agree in the fixed columns.

    Attributes:
        fixed: those columns and their values.
        candidates: all of them, in the order of the plan.
        winner: the best one, or None if none has a score.
        tied: others with the same validation metric.
        replicas: the winner's replicate-stage rows, one per fresh seed; of runs that others made, or that no
            sweep plans, the winner's rows.
        stale: replicas that do not count, by the sweep whose search used their seed.
        dropped: number of other settings that were tried for it and that no plan has any more.
    """

    fixed: dict[str, Any]
    candidates: list[Candidate]
    winner: Candidate | None
    tied: list[Candidate]
    replicas: list[Row]
    stale: Counter[str]
    dropped: int = 0

    @property
    def tried(self) -> int:
        """The budget: how many settings were tried, also those that can't win any more."""
        return len(self.candidates) + self.dropped

    @property
    def state(self) -> str:
        """`completed` with a winner; else the most hopeful state of a candidate."""
        if self.winner is not None:
            return "completed"
        return min((candidate.state for candidate in self.candidates), key=_MOST_HOPEFUL_FIRST.index)

    @property
    def unfinished(self) -> Counter[str]:
        """How many candidates may still change the choice, by state."""
        states = (one.state for one in self.candidates if one.score is None)
        return Counter(state for state in states if state in UNFINISHED)


def choose(frame: pd.DataFrame | Rows, fixed: Sequence[str]) -> list[Choice]:
    """Select within each group of the frame that agrees in the columns `fixed`, in the order of the plan."""
    found = rows(frame)
    replicas = _grouped(_unique(found, REPLICATE).values(), ["candidate"])
    groups = _grouped(_unique(found, SEARCH).values(), fixed)
    dropped = _grouped(_unique(found, DROPPED).values(), fixed)
    return [
        _choose(dict(zip(fixed, values, strict=True)), group, replicas, dropped.get(values, ()))
        for values, group in groups.items()
    ]


def has_stages(run: Row) -> bool:
    """Whether a plan says which runs choose and which are reported; none does of others' runs."""
    return bool(run["sweep"]) and not run[IMPORTED]


def _choose(
    fixed: dict[str, Any],
    group: list[Row],
    replicas: Mapping[tuple[Any, ...], list[Row]],
    dropped: Iterable[Row],
) -> Choice:
    candidates = {
        name: Candidate(name, runs, mean_score([run["score"] for run in runs]))
        for (name,), runs in _grouped(group, ["candidate"]).items()
    }
    best, tied = winner({name: candidate.score for name, candidate in candidates.items()})
    users = [_search_with_seed_of(replica, group) for replica in replicas.get((best,), [])]
    fresh = [run for run, user in zip(replicas.get((best,), []), users, strict=True) if user is None]
    chosen = candidates[best] if best is not None else None
    if not has_stages(group[0]):  # with one setting nothing is chosen
        chosen = next(iter(candidates.values())) if len(candidates) == 1 else chosen
        fresh = chosen.runs if chosen is not None else []
    return Choice(
        fixed,
        list(candidates.values()),
        chosen,
        [candidates[name] for name in tied],
        fresh,
        Counter(user for user in users if user is not None),
        len({run["candidate"] for run in dropped} - candidates.keys()),
    )


def _search_with_seed_of(replica: Row, group: Iterable[Row]) -> str | None:
    """The sweep in whose search a run has the replica's `seed` or `data_seed`; None: both are fresh."""
    return next(
        (str(run["sweep"]) for run in group if any(run[name] == replica[name] for name in SEED_FIELDS)), None
    )


def _unique(found: Iterable[Row], stage: str) -> dict[str, Row]:
    """The rows of a stage by key, in the order of the plan. A run that two sweeps share counts once."""
    unique: dict[str, Row] = {}
    for row in found:
        if row["stage"] == stage:
            unique.setdefault(str(row["key"]), row)
    return unique


def _grouped(found: Iterable[Row], columns: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in found:
        groups.setdefault(tuple(row[name] for name in columns), []).append(row)
    return groups


def searched(frame: pd.DataFrame | Rows, columns: Sequence[str]) -> list[str]:
    """Those of `columns` in which the candidates of some choice have two values or more, over all sweeps."""
    groups = _grouped((row for row in rows(frame) if row["stage"] == SEARCH), OPTIMIZER).values()
    return [name for name in columns if any(_has_two_values(group, name) for group in groups)]


def _has_two_values(group: Iterable[Row], name: str) -> bool:
    found = {row[name] for row in group}
    return len(found) > 1 and len({x for x in found if x is not None and x == x}) > 1  # NaN: no such setting
