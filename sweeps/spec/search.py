"""The section `search` of a sweep file, and ranges. It imports neither torch nor Optuna."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from htbench.harness.config import Value, limits
from htbench.harness.errors import UsageError
from htbench.harness.store.points import is_tuned
from htbench.sweeps.spec import database, keys
from htbench.sweeps.spec.keys import key, one_of, whole, word

GRID, REFINE = "grid", "refine"
MODES = (GRID, REFINE, "tpe", "random", "sobol")
MOST_POINTS = 100_000  # each is a line of the plan and a folder
_MOST_VALUES = 1000  # of a range in a grid, each of them a point


@dataclass(frozen=True)
class Range:
    """An interval to search, or `num` points of a grid."""

    low: float = key(None, 0.0, "first value")
    high: float = key(None, 0.0, "last value")
    log: bool = key(None, False, "`true`: equal ratios instead of equal differences")
    num: int = key(
        whole(1, _MOST_VALUES), None, "number of values; only a grid needs it, and the other axes of `refine`"
    )

    def points(self) -> list[float]:
        """`num` points from low to high, rounded to four significant digits so that people can type them."""
        parts = [i / (self.num - 1) if self.num > 1 else 0.0 for i in range(self.num)]
        if self.log:
            values = [self.low * (self.high / self.low) ** part for part in parts]
        else:
            values = [self.low + (self.high - self.low) * part for part in parts]
        return [float(f"{value:.4g}") for value in values]

    def octaves(self) -> list[float]:
        """Values from low, each twice the one before, until one is at high or above."""
        count = math.ceil(round(math.log2(self.high) - math.log2(self.low), 2)) + 1
        return [float(f"{self.low * 2**n:.4g}") for n in range(min(count, _MOST_VALUES))]


@dataclass(frozen=True)
class Asha:
    """Options of the pruner `asha`."""

    min_resource: int = key(
        whole(1),
        None,
        "steps before the first decision (default: `evaluation.every`); the next comes after "
        "`reduction_factor` times as many, and so on",
    )
    reduction_factor: int = key(whole(2), 3, "of this many that have come so far, one goes on")


@dataclass(frozen=True)
class Median:
    """Options of the pruner `median`."""

    startup_trials: int = key(whole(1), 5, "that run to their end in any case")
    warmup_steps: int = key(whole(0), 0, "steps of each run before the first decision")


PRUNERS: dict[str, type] = {"asha": Asha, "median": Median}


def _seed(name: str, value: Any) -> int:
    seed: int = whole(0)(name, value)
    limits.check_seed(name, seed)
    return seed


@dataclass(frozen=True)
class Search:
    """The section `search` of a sweep file.

    Attributes:
        storage: URL of a database as written (`database`); empty: a journal file per study in the store.
        pruner_options: all of them, with their defaults.
    """

    mode: str = key(
        one_of(MODES),
        GRID,
        "`grid`: every setting; `refine`: octaves of a rate, finer around the best, see below; "
        "`tpe`: tree-structured Parzen estimator, runs under way counted as bad "
        "(constant liar); `random`; `sobol`: a scrambled Sobol sequence",
    )
    trials: int = key(
        whole(1, MOST_POINTS), None, "settings tried of each block, the same for all; of `refine`, at most"
    )
    rate: str = key(word(), "optimizer.lr", "the axis that `refine` refines; other axes are a grid beside it")
    seed: int = key(_seed, 0, "of the draws")
    pruner: str = key(
        None, "", "`{asha: {}}` or `{median: {}}` with its options; default: every run goes to its end"
    )
    storage: str = key(
        database.check, "", "URL of a database; default: a journal file per study in the store"
    )
    pruner_options: dict[str, int] = field(default_factory=dict)

    @property
    def has_slots(self) -> bool:
        """Whether points are slots at first, which the trials of an Optuna study fill."""
        return self.mode not in (GRID, REFINE)


def read_search(tree: Mapping[str, Any], evaluation_every: int) -> Search:
    """The section as written, checked.

    Args:
        tree: the section.
        evaluation_every: steps between two evaluations, after which a pruner decides; 0: no evaluations.

    Raises:
        UsageError: one sentence with the offending part.
    """
    given = keys.read(Search, tree, "search", before="search.")
    mode = given.get("mode", GRID)
    for name in tree:
        if mode == GRID and name != "mode":
            raise UsageError(f"search.{name} means nothing to mode 'grid', which runs every setting.")
        if mode == REFINE and name not in ("mode", "trials", "rate"):
            raise UsageError(f"search.{name} means nothing to mode 'refine', which draws and prunes nothing.")
        if mode != REFINE and name == "rate":
            raise UsageError(f"search.rate means nothing to mode '{mode}', which searches all axes alike.")
    if mode != GRID and "trials" not in given:
        raise UsageError(f"search.mode '{mode}' needs search.trials, the number of settings of each block.")
    if not is_tuned(rate := given.get("rate", Search.rate)):
        raise UsageError(f"search.rate '{rate}' is not tuned but fixed; use a rate such as optimizer.lr.")
    pruner, options = _pruner(given.pop("pruner", None), evaluation_every)
    return Search(**given, pruner=pruner, pruner_options=options)


def read_axis(setting: str, tree: Mapping[str, Any], search: Search) -> Sequence[Value] | Range:
    """A range as written, checked: the values that it stands for, or itself if it is searched.

    Args:
        setting: it is for.
        tree: low, high and maybe num and log.
        search: decides how it is read.

    Raises:
        UsageError: one sentence with the offending part.
    """
    where = f"the range of {setting}"
    given = keys.read(Range, tree, where, before="'", after=f"' in {where}")
    if search.has_slots and not is_tuned(setting):
        raise UsageError(
            f"{setting} is no setting to search; a list of values gives each a search of its own."
        )
    is_rate = search.mode == REFINE and setting == search.rate
    listed = not search.has_slots and not is_rate
    for name in ("low", "high", "num") if listed else ("low", "high"):
        if name not in given:
            needed = "a grid needs low, high and num" if listed else "a search needs low and high"
            raise UsageError(f"The range of {setting} lacks '{name}'; {needed}.")
    if type(given.get("log", False)) is not bool:  # the word 'false' would count as true
        raise UsageError(f"'log' in {where} must be true or false, not {given['log']!r}.")
    try:
        given |= {"low": float(given["low"]), "high": float(given["high"])}
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"The range of {setting} must hold numbers, not {dict(tree)}.") from None
    chosen = Range(**given)
    finite = math.isfinite(chosen.low) and math.isfinite(chosen.high)
    if not finite or chosen.low >= chosen.high or ((chosen.log or is_rate) and chosen.low <= 0):
        raise UsageError(
            f"The range of {setting} must have low < high, both finite (and above 0 if log), "
            f"not {dict(tree)}."
        )
    if search.has_slots:
        return chosen
    return chosen.octaves() if is_rate and chosen.num is None else chosen.points()


def _pruner(tree: Any, evaluation_every: int) -> tuple[str, dict[str, int]]:
    """The pruner and its options, with their defaults; neither if there is none."""
    if not tree:
        return "", {}
    tree = {tree: {}} if isinstance(tree, str) else tree
    if not isinstance(tree, Mapping) or len(tree) != 1:
        raise UsageError(
            f"search.pruner must be one pruner with its options, such as {{asha: {{}}}}, not {tree!r}."
        )
    keys.check_names(tree, PRUNERS, "search", "pruner")
    ((name, options),) = tree.items()
    where = f"search.pruner.{name}"
    if not isinstance(options or {}, Mapping):
        raise UsageError(f"{where} must be a mapping of options, not {options!r}.")
    given = keys.read(PRUNERS[name], options or {}, where, before=f"{where}.")
    if not evaluation_every:
        raise UsageError(
            f"The pruner '{name}' looks at evaluations: set evaluation.every in base, such as 100."
        )
    values = dataclasses.asdict(PRUNERS[name](**given))
    return name, {option: evaluation_every if value is None else value for option, value in values.items()}
