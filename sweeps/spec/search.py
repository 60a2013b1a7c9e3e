"""The section `search` of a sweep file: sampler, pruner and storage. It imports neither torch nor Optuna."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.errors import UsageError, nearest
from harness.store.points import is_tuned
from sweeps.spec import database
from sweeps.spec.shape import check_keys, whole

GRID = "grid"
MODES = {
    GRID: "every point of the grid",
    "tpe": "tree-structured Parzen estimator with constant liar",
    "random": "independent draws",
    "sobol": "a scrambled Sobol sequence",
}
# Pruner -> its options and their defaults; None: the steps between two evaluations. All are whole numbers.
PRUNERS: dict[str, dict[str, int | None]] = {
    "asha": {"min_resource": None, "reduction_factor": 3},
    "median": {"startup_trials": 5, "warmup_steps": 0},
}
_LEAST = {"min_resource": 1, "reduction_factor": 2, "startup_trials": 1, "warmup_steps": 0}
_KEYS = {"mode", "trials", "seed", "pruner", "storage"}
RANGE_KEYS = {"low", "high", "log", "num"}
_MOST_VALUES = 1000  # of a range in a grid, each of them a point


@dataclass(frozen=True)
class Range:
    """An interval to search, or `num` points of a grid.

    Attributes:
        low: first value.
        high: last value.
        log: the scale is logarithmic.
        num: number of grid points; a search ignores it.
    """

    low: float
    high: float
    log: bool = False
    num: int | None = None

    def points(self) -> list[float]:
        """`num` points from low to high, rounded to four significant digits so that people can type them."""
        assert self.num is not None
        parts = [i / (self.num - 1) if self.num > 1 else 0.0 for i in range(self.num)]
        return [float(f"{self.at(part):.4g}") for part in parts]

    def at(self, part: float) -> float:
        """The value at the fraction `part` of the way from low to high, in [0, 1]."""
        if self.log:
            return self.low * float((self.high / self.low) ** part)
        return self.low + (self.high - self.low) * part


@dataclass(frozen=True)
class Search:
    """The section `search` of a sweep file.

    Attributes:
        mode: a row of MODES.
        trials: of every objective; the same for all blocks, so that all optimizers are tuned equally.
        seed: of the sampler. A draw depends on it, on the trial's number and on the results so far.
        pruner: a row of PRUNERS; empty: no trial is pruned.
        pruner_options: its options.
        storage: URL of a database as written (`database`); empty: a journal file per study in the store.
    """

    mode: str = GRID
    trials: int = 0
    seed: int = 0
    pruner: str = ""
    pruner_options: dict[str, int] = field(default_factory=dict)
    storage: str = ""

    @property
    def is_grid(self) -> bool:
        """Whether all points are known from the start."""
        return self.mode == GRID


def read_search(tree: Mapping[str, Any], evaluation_every: int) -> Search:
    """The section as written, checked.

    Args:
        tree: the section.
        evaluation_every: steps between two evaluations, after which a pruner decides; 0: no evaluations.

    Raises:
        UsageError: one sentence with the offending part.
    """
    mode = tree.get("mode", GRID)
    if not isinstance(mode, str) or mode not in MODES:
        raise UsageError(f"search.mode '{mode}' is not available; {nearest(str(mode), MODES)}")
    check_keys(tree, _KEYS, "search")
    if mode == GRID:
        if extra := [key for key in tree if key != "mode"]:
            raise UsageError(f"search.{extra[0]} means nothing to mode 'grid', which runs every point.")
        return Search()
    if "trials" not in tree:
        raise UsageError(f"search.mode '{mode}' needs search.trials, the number of trials of each block.")
    pruner, options = _pruner(tree.get("pruner"), evaluation_every)
    return Search(
        mode=mode,
        trials=whole("search.trials", tree["trials"], 1),
        seed=whole("search.seed", tree.get("seed", 0), 0),
        pruner=pruner,
        pruner_options=options,
        storage=database.check(tree.get("storage")),
    )


def read_range(name: str, tree: Mapping[str, Any], grid: bool) -> Range:
    """A range as written, checked.

    Args:
        name: the setting it is for.
        tree: low, high and maybe num and log.
        grid: whether its points are listed; else it is searched.

    Raises:
        UsageError: one sentence with the offending part.
    """
    check_keys(tree, RANGE_KEYS, f"the range of {name}")
    if not grid and not is_tuned(name):
        raise UsageError(f"{name} is no setting to search; a list of values gives each a search of its own.")
    tree = tree if grid else {"num": 1, **tree}
    try:
        low, high, count = float(tree["low"]), float(tree["high"]), int(tree["num"])
    except KeyError as error:
        needed = "a grid needs low, high and num" if grid else "a search needs low and high"
        raise UsageError(f"The range of {name} lacks {error}; {needed}.") from None
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"The range of {name} must hold numbers, not {dict(tree)}.") from None
    log = tree.get("log", False)
    if type(log) is not bool:  # the word 'false' would count as true
        raise UsageError(f"'log' in the range of {name} must be true or false, not {log!r}.")
    if count != float(tree["num"]) or not 1 <= count <= _MOST_VALUES:
        raise UsageError(
            f"'num' in the range of {name} must be a whole number from 1 to {_MOST_VALUES}, "
            f"not {tree['num']!r}."
        )
    if not low < high or math.isinf(low) or math.isinf(high) or (log and low <= 0):
        raise UsageError(
            f"The range of {name} must have low < high, both finite (and above 0 if log), not {dict(tree)}."
        )
    return Range(low, high, log, count)


def _pruner(tree: Any, evaluation_every: int) -> tuple[str, dict[str, int]]:
    if not tree:
        return "", {}
    if isinstance(tree, str):
        tree = {tree: {}}
    if not isinstance(tree, Mapping) or len(tree) != 1:
        raise UsageError(
            f"search.pruner must be one pruner with its options, such as {{asha: {{}}}}, not {tree!r}."
        )
    check_keys(tree, PRUNERS, "search", "pruner")
    ((name, given),) = tree.items()
    given = given or {}
    if not isinstance(given, Mapping):
        raise UsageError(f"search.pruner.{name} must be a mapping of options, not {given!r}.")
    check_keys(given, PRUNERS[name], f"search.pruner.{name}")
    if not evaluation_every:
        raise UsageError(
            f"The pruner '{name}' looks at evaluations: set evaluation.every in base, such as 100."
        )
    chosen = {key: evaluation_every if value is None else value for key, value in PRUNERS[name].items()}
    return name, {
        key: whole(f"search.pruner.{name}.{key}", given.get(key, value), _LEAST[key])
        for key, value in chosen.items()
    }
