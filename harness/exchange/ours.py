"""Which column of other people's files means what: by its name, by `--map`, by `--set`, or nothing.

Our names: `result` (what is compared), `run`, `seed`, `step`, `task`, `model`, `hardware`,
`seconds_per_step`, metrics (`val_*`, `test_*`, `train_loss`), `metric` and `value` for a file with a line per
metric, and settings of a run as docs/config.md calls them.
"""

import difflib
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from harness.config import Value
from harness.config.settings import declarations, params_of
from harness.errors import UsageError, nearest
from harness.exchange import words
from optimizers.zoo.registry import ZOO

RESULT, RUN, SEED, STEP, TASK, MODEL = "result", "run", "seed", "step", "task", "model"
HARDWARE, SECONDS, METRIC, VALUE = "hardware", "seconds_per_step", "metric", "value"
STEPS = "schedule.steps"  # for how many steps the run was planned: as its schedule, a part of what competes
HELD_OUT, TRAIN_LOSS = ("val_", "test_"), "train_loss"

_WORDS, _WHOLE = (RESULT, RUN, TASK, MODEL, HARDWARE, METRIC), (STEP, SEED, STEPS)
_OURS = (RESULT, RUN, SEED, STEP, TASK, MODEL, HARDWARE, SECONDS, METRIC, VALUE, TRAIN_LOSS)
# Names that other trainers give to ours.
_ALSO = {
    **{"optimizer": RESULT, "optimizer.name": RESULT, "gpu": HARDWARE, "_step": STEP},
    **{"loss": TRAIN_LOSS, "train/loss": TRAIN_LOSS, "lr": "optimizer.lr", "learning_rate": "optimizer.lr"},
    **{"weight_decay": "optimizer.weight_decay", "total_steps": STEPS, "steps": STEPS},
}
# Fields of a config that the importer fills in itself.
_FILLED = {TASK, MODEL, SEED, "data_seed", "steps", "replica", "data_fingerprint", "optimizer.name"}
_SETTINGS = {name for name, declared in declarations() if declared.metadata["key"]} - _FILLED
_FREE = re.compile(r"(optimizer|schedule)(\.[A-Za-z]\w*){1,3}")
_FACTOR = re.compile(r"(.+)([*/])([^*/]+)")

# --- metrics: the last part of a name says what it is, `val_top1_accuracy` is an accuracy ---

_LOWER = "loss nll perplexity ppl error err mse rmse mae bpb bits_per_byte cross_entropy wer"
_HIGHER = "accuracy acc top1 top5 f1 auc map bleu precision recall r2"
_DIRECTIONS = dict.fromkeys(_LOWER.split(), False) | dict.fromkeys(_HIGHER.split(), True)
_SHARES = ("accuracy", "acc", "top1", "top5")
_SHORT = {"acc": "accuracy", "ppl": "perplexity"}
_HELD_OUT = re.compile(r"(val|test)[_/]([A-Za-z][A-Za-z0-9_.-]{0,60})")


def is_measured(name: str) -> bool:
    """Whether one of our names is that of a metric."""
    return name == TRAIN_LOSS or name.startswith(HELD_OUT)


def direction(name: str) -> bool | None:
    """Whether higher values of a metric are better; None if nothing says so."""
    known = (word for word in _DIRECTIONS if name == word or name.endswith(f"_{word}"))
    return next((_DIRECTIONS[word] for word in known), None)


def is_share(name: str) -> bool:
    """Whether a metric is a share of correct answers, in [0, 1]."""
    return any(name == word or name.endswith(f"_{word}") for word in _SHARES)


def of(name: str) -> str:
    """What a name means by itself; empty: nothing that we know."""
    for known in (name, name.lower()):
        if known in _ALSO or known in _OURS:
            return _ALSO.get(known, known)
    if name in _SETTINGS or _FREE.fullmatch(name):
        return name
    metric = _HELD_OUT.fullmatch(name)  # `val_accuracy`, `val/accuracy` or `val_acc`
    return f"{metric[1]}_{_SHORT.get(metric[2], metric[2])}" if metric else ""


# --- columns ---


@dataclass(frozen=True)
class Column:
    """One column of a file.

    Attributes:
        index: where it stands.
        words: what it is called, with its factor: "step_ms/1000".
        factor: what its numbers are multiplied with.
    """

    index: int
    words: str
    factor: Fraction = Fraction(1)

    def number(self, cells: Sequence[str], name: str) -> float:
        """Its cell of a line as a number in our unit.

        Raises:
            UsageError: it is none; a sentence that begins with `name`.
        """
        with words.beginning(name):
            return words.scaled(cells[self.index], self.factor)


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
        mapped = {our: column for our, text in self.maps.items() if (column := _find(text, header))}
        taken = {column.index for column in mapped.values()}
        columns: dict[str, Column] = {}
        for index, name in sorted(enumerate(header), key=lambda pair: pair[1] != of(pair[1])):
            our = "" if name in self.dropped else of(name)
            free = our not in columns and our not in mapped and our not in self.constants
            if our and free and (index not in taken or our == RUN):
                columns[our] = Column(index, name)
        columns |= mapped
        used = {column.index for column in columns.values()}
        left = [name for index, name in enumerate(header) if index not in used and name not in self.dropped]
        return columns, [name or "(no name)" for name in left]

    def of_metric(self, theirs: str, index: int) -> tuple[str, Column]:
        """What a name in the column `metric` means, and its column of values; empty: nothing that we know."""
        for our, text in self.maps.items():
            if column := _find(text, [theirs]):
                return our, replace(column, index=index)
        return ("" if theirs in self.dropped else of(theirs)), Column(index, theirs)

    def check_used(self, names: Iterable[str]) -> None:
        """Raise UsageError if a column of `maps` or `dropped` is none of `names`."""
        known = sorted(set(names))
        lost = [("--map", text) for text in self.maps.values() if not _find(text, known)]
        for flag, text in lost + [("--drop", name) for name in sorted(self.dropped - set(known))]:
            close = difflib.get_close_matches(text, known, n=1, cutoff=0.5)
            hint = (
                f"did you mean {words.shown(close[0])}?"
                if close
                else f"the columns are: {words.listed(known)}"
            )
            raise UsageError(f"{flag}: no file has a column '{text}'; {hint}")


def _find(text: str, header: Sequence[str]) -> Column | None:
    """The column that `--map` names: "step_ms/1000" is the column step_ms unless one is called so."""
    if text in header:
        return Column(header.index(text), text)
    parts = _FACTOR.fullmatch(text)
    factor = words.factor(parts[3]) if parts else None
    if parts is None or factor is None or (name := parts[1].strip()) not in header:
        return None
    factor = factor if parts[2] == "*" else 1 / factor
    return Column(header.index(name), f"{name}{parts[2]}{parts[3]}", factor)


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


def _pair(text: str, flag: str, example: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    our = of(name.strip())
    if not equals or not value.strip():
        raise UsageError(f"{flag} {text}: it is not of the form OURS=THEIRS, for example {example}.")
    if not our:
        known = {*_OURS, *_SETTINGS, "val_loss", "val_accuracy", "test_loss"}
        raise UsageError(f"{flag} {text}: '{name}' is none of our names; {nearest(name, known)}")
    return our, value.strip()


def constant(name: str, text: str, where: str) -> Value:
    """A value that holds for a whole run, by our name of it.

    Raises:
        UsageError: one sentence that begins with `where`.
    """
    with words.beginning(where):
        kind = _kinds().get(name)
        if kind is int:
            return words.whole(words.number(text))
        if kind is float:
            return words.finite(text)
        if kind is str:
            return words.word(text)
        if name != SECONDS:
            return words.plain(text)
        value = words.number(text)
        if not 0 < value < float("inf"):
            raise UsageError(f"{value:g} is no number of seconds above 0")
        return value


@functools.cache
def _kinds() -> dict[str, object]:
    """The types of settings that we know: a table can't sort a word among numbers."""
    rows = (params_of(row) for row in ZOO.values())
    known: dict[str, object] = {name: param.type for row in rows for name, param in row.items()}
    return known | dict.fromkeys(_WORDS, str) | dict.fromkeys(_WHOLE, int)
