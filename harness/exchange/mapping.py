"""Which column of other people's files means what: by its name, by `--map`, by `--set`, or nothing.

Our names: `result` (what is compared), `run`, `seed`, `step`, `task`, `model`, `hardware`,
`seconds_per_step`, metrics (`val_*`, `test_*`, `train_loss`), `metric` and `value` for a file with a line per
metric, and settings of a run as docs/config.md calls them.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.config import Value
from harness.config.settings import declarations, params_of
from harness.errors import UsageError, nearest
from harness.exchange import words
from harness.exchange.metrics import HELD_OUT, TRAIN_LOSS, held_out
from optimizers.zoo.registry import ZOO

RESULT, RUN, SEED, STEP, TASK, MODEL = "result", "run", "seed", "step", "task", "model"
HARDWARE, SECONDS, METRIC, VALUE = "hardware", "seconds_per_step", "metric", "value"
STEPS = "schedule.steps"  # for how many steps the run was planned: as its schedule, a part of what competes

_OURS = (RESULT, RUN, SEED, STEP, TASK, MODEL, HARDWARE, SECONDS, METRIC, VALUE, TRAIN_LOSS)
# Names that other trainers give to ours.
_ALSO = {
    **{"optimizer": RESULT, "optimizer.name": RESULT, "gpu": HARDWARE, "_step": STEP},
    **{"loss": TRAIN_LOSS, "train/loss": TRAIN_LOSS, "lr": "optimizer.lr", "learning_rate": "optimizer.lr"},
    **{"weight_decay": "optimizer.weight_decay", "total_steps": STEPS, "steps": STEPS},
}
# Fields of a config that the importer fills in itself.
_FILLED = {TASK, MODEL, SEED, "data_seed", "steps", "replica", "data_fingerprint", "optimizer.name"}
_SETTINGS = {name for name, one in declarations() if one.metadata["key"]} - _FILLED
_FREE = re.compile(r"(optimizer|schedule)(\.[A-Za-z]\w*){1,3}")
_FACTOR = re.compile(r"(.+)([*/])([^*/]+)")


def ours(name: str) -> str:
    """What a name means by itself; empty: nothing that we know."""
    for known in (name, name.lower()):
        if known in _ALSO or known in _OURS:
            return _ALSO.get(known, known)
    is_setting = name in _SETTINGS or _FREE.fullmatch(name) is not None
    return name if is_setting else held_out(name)


def is_measured(name: str) -> bool:
    """Whether one of our names is that of a metric."""
    return name == TRAIN_LOSS or name.startswith(HELD_OUT)


@dataclass(frozen=True)
class Column:
    """One column of a file: where it stands, and what its numbers are multiplied with and divided by."""

    index: int
    times: str = "1"
    over: str = "1"

    def told(self, name: str) -> str:
        """The column in words: "step_ms/1000"."""
        return (
            name
            + ("" if self.times == "1" else f"*{self.times}")
            + ("" if self.over == "1" else f"/{self.over}")
        )

    def number(self, cells: Sequence[str]) -> float:
        """Its cell of a line as a number in our unit. Raises UsageError, as `words.number` does."""
        return words.scaled(cells[self.index], self.times, self.over)


@dataclass(frozen=True)
class Meaning:
    """What the command line says of the columns of all files.

    Attributes:
        maps: by our name their column, perhaps with a factor: {"seconds_per_step": "step_ms/1000"}.
        constants: by our name the value of every run.
        dropped: their columns that mean nothing.
    """

    maps: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, Value] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()

    def columns(self, header: Sequence[str]) -> tuple[dict[str, Column], list[str]]:
        """The columns of a file by our names, and the names of those that are left out.

        A mapped column has no other meaning, but that of a run's name.
        """
        found: dict[str, Column] = {}
        mapped = {our: one for our, text in self.maps.items() if (one := _find(text, header))}
        taken = {one.index for one in mapped.values()}
        for index, name in sorted(enumerate(header), key=lambda pair: pair[1] != ours(pair[1])):
            our = "" if name in self.dropped else ours(name)
            free = our not in found and our not in mapped and our not in self.constants
            if our and free and (index not in taken or our == RUN):
                found[our] = Column(index)
        found |= mapped
        used = {one.index for one in found.values()}
        left = [name for index, name in enumerate(header) if index not in used and name not in self.dropped]
        return found, [name or "(no name)" for name in left]

    def name(self, theirs: str) -> tuple[str, Column]:
        """What a name in the column `metric` means, and the factor; empty: nothing that we know."""
        for our, text in self.maps.items():
            if one := _find(text, [theirs]):
                return our, one
        return ("" if theirs in self.dropped else ours(theirs)), Column(0)

    def check_used(self, names: Iterable[str]) -> None:
        """Raise UsageError if a column of `maps` or `dropped` is none of `names`."""
        known = set(names)
        for text in self.maps.values():
            if not _find(text, list(known)):
                raise UsageError(f"--map: no file has a column '{text}'; {_near(text, known)}")
        for name in sorted(self.dropped - known):
            raise UsageError(f"--drop: no file has a column '{name}'; {_near(name, known)}")


def _near(text: str, known: Iterable[str]) -> str:
    """The end of a sentence on a column that is not there."""
    known = sorted(known)
    close = difflib.get_close_matches(text, known, n=1, cutoff=0.5)
    return f"did you mean {words.shown(close[0])}?" if close else f"the columns are: {words.listed(known)}"


def _find(text: str, header: Sequence[str]) -> Column | None:
    """The column that `--map` names: "step_ms/1000" is the column step_ms unless one is called so."""
    if text in header:
        return Column(header.index(text))
    parts = _FACTOR.fullmatch(text)
    if parts is None or parts[1].strip() not in header or not words.is_factor(parts[3]):
        return None
    index = header.index(parts[1].strip())
    return Column(index, times=parts[3]) if parts[2] == "*" else Column(index, over=parts[3])


# --- the command line ---


def meaning(maps: Iterable[str], sets: Iterable[str], dropped: Iterable[str]) -> Meaning:
    """Read the words of `--map`, `--set` and `--drop`.

    Raises:
        UsageError: a word that is not of the form OURS=..., or a name that is none of ours.
    """
    given: dict[str, str] = {}
    constants: dict[str, Value] = {}
    for text in maps:
        name, value = _pair(text, "--map", "seconds_per_step=step_ms/1000")
        if given.setdefault(name, value) != value:
            raise UsageError(f"--map gives {name} twice, {given[name]} and {value}; leave one out.")
    for text in sets:
        name, value = _pair(text, "--set", "task=fineweb")
        if is_measured(name) or name == VALUE:
            raise UsageError(f"--set {text}: {name} is measured, so it must be in the file.")
        if name in given or name in constants:
            raise UsageError(f"{name} is given twice by --map and --set; leave one out.")
        constants[name] = constant(name, value, f"--set {name}")
    return Meaning(given, constants, frozenset(dropped))


def constant(name: str, text: str, where: str) -> Value:
    """A value that holds for a whole run, by our name of it.

    Raises:
        UsageError: one sentence that begins with `where`.
    """
    try:
        kind = _kinds().get(name)
        if kind is int:
            return words.whole(words.number(text))
        if kind is float:
            return words.finite(text)
        if kind is str:
            return words.word(text)
        return positive(words.number(text)) if name == SECONDS else words.plain(text)
    except UsageError as error:
        raise UsageError(f"{where}: {error}.") from None


@functools.cache
def _kinds() -> dict[str, object]:
    """The types of settings that we know: a table can't sort a word among numbers."""
    rows = (params_of(row) for row in ZOO.values())
    known: dict[str, object] = {name: param.type for row in rows for name, param in row.items()}
    named = dict.fromkeys((RESULT, RUN, TASK, MODEL, HARDWARE, METRIC), str)
    return known | named | dict.fromkeys((STEP, SEED, STEPS), int)


def positive(value: float) -> float:
    """A time. Raises UsageError, a part of a sentence, unless it is finite and above 0."""
    if not 0 < value < float("inf"):
        raise UsageError(f"{value:g} is no number of seconds above 0")
    return value


def _pair(text: str, flag: str, example: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    our = ours(name.strip())
    if not equals or not value.strip():
        raise UsageError(f"{flag} {text}: it is not of the form OURS=THEIRS, for example {example}.")
    if not our:
        known = {*_OURS, *_SETTINGS, "val_loss", "val_accuracy", "test_loss"}
        raise UsageError(f"{flag} {text}: '{name}' is none of our names; {nearest(name, known)}")
    return our, value.strip()
