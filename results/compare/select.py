"""Selection: who wins is decided on the validation split of the search stage, and only there.

A table says what it fixes (for example task, model and optimizer); all else that is tuned is selected over.
What it reports of the winner comes from the replicate stage: runs of its settings on other seeds.
"""

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from htbench.harness.choice.edge import numbers
from htbench.harness.choice.rates import apart, is_rate
from htbench.harness.choice.winner import Score, grouped, mean_score, winner
from htbench.harness.config.programs import RULE
from htbench.harness.show.status import ENDED, HOPEFUL_FIRST, UNFINISHED, WORST_FIRST, Status
from htbench.harness.store.points import DROPPED, ELSEWHERE, REPLICATE, SEARCH, SEED_FIELDS
from htbench.optimizers.zoo.registry import UNSET
from htbench.results.compare.defaults import find_defaults
from htbench.results.frames.identity import setting_name
from htbench.results.frames.load import tuned_columns
from htbench.results.frames.metrics import is_missing
from htbench.results.frames.rows import Rows

Row = Mapping[str, Any]  # of the tidy frame

WORKLOAD = ("task", "model", "setting")
OPTIMIZER = (*WORKLOAD, "optimizer")


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
    def state(self) -> Status:
        """The state of its worst run."""
        return min((Status(run["state"]) for run in self.runs), key=WORST_FIRST.index)

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
        settings: number of candidates; those that differ only in rates that are alike count once.
        replicas: the winner's replicate-stage rows, one per fresh seed; of runs without
            stages the winner's rows.
        stale: replicas that do not count, by the sweep whose search used their seed.
        dropped: number of other settings that were tried for it and that no plan has any more.
        rows: those of the search stage, also of a run that an earlier one of them stands for.
        elsewhere: number of further settings with a record, of sweeps that are not shown or of no sweep.
        left_out: runs of the winner's settings on further fresh seeds, which no plan that is shown wants.
        equal_seeds: on so many fresh seeds a program gave one result, so one of them counts; 0: it did not.
    """

    fixed: dict[str, Any]
    candidates: list[Candidate]
    winner: Candidate | None
    tied: list[Candidate]
    replicas: list[Row]
    stale: Counter[str]
    settings: int
    dropped: int = 0
    elsewhere: int = 0
    rows: Sequence[Row] = ()
    left_out: Sequence[Row] = ()
    equal_seeds: int = 0

    @property
    def optimizer(self) -> str:
        """Its name, where it is fixed."""
        return str(self.fixed["optimizer"])

    @property
    def reported(self) -> list[Row]:
        """What figures show: the replicas; the search runs if the paper's protocol has no others."""
        if self.winner is None or self.replicas or self.winner.value("protocol") != "paper":
            return self.replicas
        return self.winner.runs

    @functools.cached_property
    def axes(self) -> list[str]:
        """The tuned columns in which its rows have two values or more, over all sweeps."""
        return _find_varied(self.rows, tuned_columns(self.rows))

    @property
    def runs(self) -> list[Row]:
        """The search-stage rows of all candidates."""
        return [run for candidate in self.candidates for run in candidate.runs]

    @property
    def tried(self) -> int:
        """How many settings were tried, also those that can't win any more."""
        return self.settings + self.dropped + self.elsewhere

    @property
    def budget(self) -> int:
        """How many settings it may try: a search that has found its optimum ends before that."""
        blocks = {(run["sweep"], run["block"]): int(run["allowed"]) for run in self.rows}
        return max(self.tried, sum(blocks.values()))

    @property
    def state(self) -> Status:
        """`completed` with a winner; else that of the candidate that may still get a score most easily."""
        if self.winner is not None:
            return Status.COMPLETED
        return min((candidate.state for candidate in self.candidates), key=HOPEFUL_FIRST.index)

    @property
    def is_settled(self) -> bool:
        """Whether no run that is still to come, or to be tried again, can change the row."""
        if self.unfinished:
            return False
        states = {run["state"] for run in self.replicas}
        return self.winner is None or (bool(states) and states.isdisjoint(UNFINISHED))

    @property
    def unfinished(self) -> Counter[Status]:
        """How many candidates may still change the choice, by state."""
        states = (candidate.state for candidate in self.candidates if candidate.score is None)
        return Counter(state for state in states if state in UNFINISHED)


def choose(frame: Rows, fixed: Sequence[str]) -> list[Choice]:
    """Select within each group of the frame that agrees in the columns `fixed`, in the order of the plan."""
    stages = grouped(frame, itemgetter("stage"))
    place = itemgetter(*fixed)
    replicas = grouped(drop_repeated(stages.get(REPLICATE, ())), itemgetter("candidate"))
    dropped, elsewhere = (grouped(stages.get(stage, ()), place) for stage in (DROPPED, ELSEWHERE))
    return [
        _choose(
            dict(zip(fixed, values, strict=True)),
            group,
            replicas,
            dropped.get(values, []),
            elsewhere.get(values, []),
        )
        for values, group in grouped(stages.get(SEARCH, ()), place).items()
    ]


def drop_repeated(runs: Iterable[Row]) -> list[Row]:
    """The rows by key, in the order of the plan. A run that two sweeps share counts once."""
    unique: dict[str, Row] = {}
    for row in runs:
        unique.setdefault(row["key"], row)
    return list(unique.values())


def _choose(
    fixed: dict[str, Any],
    rows: list[Row],
    replicas: Mapping[str, list[Row]],
    dropped: list[Row],
    elsewhere: list[Row],
) -> Choice:
    group = drop_repeated(rows)
    candidates = {
        name: Candidate(name, runs, mean_score([run["score"] for run in runs]))
        for name, runs in grouped(group, itemgetter("candidate")).items()
    }
    best, tied = winner({name: candidate.score for name, candidate in candidates.items()})
    chosen = candidates[best] if best is not None else None
    fresh, stale = [], Counter[str]()
    users = [*group, *(other for other in elsewhere if other["sweep"])]
    for run in replicas.get(best, ()) if best is not None else ():
        user = _search_with_seed_of(run, users)
        if user is None:
            fresh.append(run)
        else:
            stale[user] += 1
    if not has_stages(group[0]):  # with one setting nothing is chosen
        chosen = next(iter(candidates.values())) if len(candidates) == 1 else chosen
        fresh = chosen.runs if chosen is not None else []
    fresh, equal_seeds = _drop_equal_seeds(fresh)
    searched = count_settings(group)
    planned = count_settings(group + dropped) if dropped else searched
    tried = count_settings(group + dropped + elsewhere) if elsewhere else planned
    ties = [candidates[name] for name in tied]
    counts = searched, planned - searched, tried - planned
    reported = {run["key"] for run in (*group, *replicas.get(best or "", ()))}
    twins = (run for run in drop_repeated([*dropped, *elsewhere]) if run["candidate"] == best)
    left_out = [run for run in twins if run["key"] not in reported and not _search_with_seed_of(run, users)]
    return Choice(
        fixed, list(candidates.values()), chosen, ties, fresh, stale, *counts, rows, left_out, equal_seeds
    )


def _drop_equal_seeds(fresh: list[Row]) -> tuple[list[Row], int]:
    """The fresh runs of a program, but one only if all of their results are equal to the last digit.

    Returns:
        the runs that count, and on how many seeds the result is one and the same.
    """
    results = {
        tuple(value for name, value in run.items() if name.startswith(("val_", "test_")))
        for run in fresh
        if run["rule"] == RULE and run["state"] == Status.COMPLETED
    }
    is_ignored = len(results) == 1 < len(fresh) and all(run["state"] == Status.COMPLETED for run in fresh)
    return (fresh[:1], len(fresh)) if is_ignored else (fresh, 0)


def count_settings(runs: Iterable[Row]) -> int:
    """How many settings the runs of a row have: padding a grid makes it no longer.

    Rates that are alike count once, with all else as it is; draws of a search each, as nobody chose them.
    """
    first = {run["candidate"]: run for run in runs}
    listed = [run for run in first.values() if not run["slot"]]
    tuned, least = tuned_columns(listed) if listed else [], dict[str, dict[float, float]]()
    for name in _rates(tuple(tuned)):
        values = numbers(x for run in listed if not is_missing(x := run[name]))
        if len(few := apart(values)) < len(values):
            least[name] = {value: max(x for x in few if x <= value) for value in values}
    if not least:
        return len(first)
    ways = {tuple(least[at].get(run[at]) if at in least else repr(run[at]) for at in tuned) for run in listed}
    return len(first) - len(listed) + len(ways)


@functools.cache  # a frame has hundreds of columns, and thousands of rows of tables
def _rates(columns: tuple[str, ...]) -> list[str]:
    """Those columns that have settings tried on a logarithmic scale."""
    return [name for name in columns if is_rate(setting_name(name))]


def _search_with_seed_of(replica: Row, group: Iterable[Row]) -> str | None:
    """The sweep in whose search a run has the replica's `seed` or `data_seed`; None: both are fresh."""
    seed, data_seed = (replica[name] for name in SEED_FIELDS)
    users = (run["sweep"] for run in group if run["seed"] == seed or run["data_seed"] == data_seed)
    return next(map(str, users), None)


def list_winner_runs(choices: Iterable[Choice]) -> dict[str, Row]:
    """A run of the winner of each choice that has one, by its optimizer."""
    return {choice.optimizer: choice.winner.runs[0] for choice in choices if choice.winner is not None}


def has_stages(run: Row) -> bool:
    """Whether a plan, or a file of results, says which runs choose and which are reported."""
    return bool(run["sweep"])


def _find_varied(group: Sequence[Row], columns: Iterable[str]) -> list[str]:
    """The columns with two values or more, None among them; most are of others, and NaN in all rows."""
    several = [name for name in columns if len({row[name] for row in group}) > 1]
    return [
        name
        for name in several
        if len({x for row in group if (x := _read_value(row, name)) is not UNSET}) > 1
    ]


def _read_value(row: Row, column: str) -> Any:
    """A setting of a run; UNSET: there is none, or it is not known before the run has ended."""
    if not is_missing(value := row[column]):
        return value
    return None if row["state"] in ENDED and column in find_defaults(row, [column]) else UNSET
