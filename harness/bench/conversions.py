"""Which settings of ours make the steps of another package's class, and at which rate. Torch-free.

`conversions.csv` beside this file has a row for each pair that was run: `python -m benchmarks.paths` measures
the rows again, and `tests/harness/bench/test_conversions.py` holds them where a package is installed.
"""

import csv
import difflib
import functools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from htbench import models
from htbench.harness.config.yaml_text import read_words
from htbench.harness.errors import UsageError
from htbench.harness.show.note import Note
from htbench.harness.show.numbers import setting, write_shape
from htbench.harness.show.report import Column, Report, Section, by_columns, table
from htbench.optimizers.zoo.registry import ZOO, nearest, resolve

SHAPES: Final = ((256, 128), (128, 256), (512, 512))  # of the matrices that were run
# How many times theirs our rate is, of an m x n matrix; any other word is a number.
_FACTORS: Final[Mapping[str, Callable[[int, int], float]]] = {
    "1 / sqrt(max(1, m/n))": lambda m, n: 1 / math.sqrt(max(1, m / n)),
    "sqrt(n)": lambda m, n: math.sqrt(n),
}
KNOWN = (
    Column("class", kind="text"),
    Column("settings", kind="text", least=16),
    Column("ours", kind="text", least=12),
    Column("rate", "our rate / theirs", "text"),
    Column("difference", "differs by", "text"),
)


@dataclass(frozen=True)
class Conversion:
    """A class of another package at some settings beside a row of ours at some.

    Attributes:
        package, version: that was run.
        name: "module:Class".
        theirs: settings of the class that differ from its defaults, beside rate and decay.
        row, ours: of the zoo, likewise.
        rate: our rate over theirs: a number, or a function of our m x n matrix (m outputs, n inputs; n x m in
            JAX). Our decay is as much smaller, so that each step takes the same part off.
        carried: settings that both have: by their names in the class those in our row.
        weight_decay: the default of the class.
        difference: of the two paths, as `benchmarks/paths.py` measures it.
        obstacle: why they are not equal, the end of the kind of a note; empty if they are.
    """

    package: str
    version: str
    name: str
    theirs: Mapping[str, Any]
    row: str
    ours: Mapping[str, Any]
    rate: str
    carried: Mapping[str, str]
    weight_decay: float
    difference: float
    obstacle: str

    @property
    def rate_name(self) -> str:
        """What the class calls its learning rate."""
        return next((theirs for theirs, ours in self.carried.items() if ours == "lr"), "lr")

    def factor(self, m: int, n: int) -> float:
        """Our rate over theirs for an m x n matrix."""
        return _FACTORS[self.rate](m, n) if self.rate in _FACTORS else float(Fraction(self.rate))

    def fits(self, name: str, given: Mapping[str, Any]) -> bool:
        """Whether `name`, the class or our row, is meant here at the settings that are given to it."""
        own, carried = (
            (self.ours, {*self.carried.values()}) if name == self.row else (self.theirs, self.carried)
        )
        sides = [
            {key: tuple(x) if isinstance(x, list) else x for key, x in one.items()} for one in (given, own)
        ]
        if "weight_decay" not in own:
            sides[0].pop("weight_decay", None)
        if name == self.row:
            decays = [side.pop("weight_decay", None) for side in sides]
            sides = [
                {**resolve(name, side), "weight_decay": x} for side, x in zip(sides, decays, strict=True)
            ]
        return all(sides[0].get(key) == sides[1].get(key) for key in {*sides[0], *sides[1]} - {*carried})


@functools.cache
def conversions() -> tuple[Conversion, ...]:
    """The rows of the table."""
    with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        return tuple(_read(row) for row in csv.DictReader(file))


def _read(row: dict[str, str]) -> Conversion:
    theirs, ours = (read_words(row[side].split()) for side in ("theirs", "ours"))
    both = [word.partition(":") for word in row["carried"].split()]
    carried = {theirs: ours or theirs for theirs, _, ours in both}
    numbers = {key: float(row[key]) for key in ("weight_decay", "difference")}
    return Conversion(**{**row, **numbers, "theirs": theirs, "ours": ours, "carried": carried})  # type: ignore[arg-type]


# --- the report ---


@dataclass(frozen=True)
class Rate:
    """A rate and a decay.

    Attributes:
        shape: rows and columns of a matrix; empty: any.
        matrices: of this shape in the model; None: no model was named.
        lr, weight_decay: for these.
    """

    shape: Sequence[int]
    matrices: int | None
    lr: float
    weight_decay: float


@dataclass(frozen=True)
class Converted:
    """An optimizer that makes the steps of another.

    Attributes:
        optimizer: its name.
        settings: of it, beside rate and decay.
        rate_name: what it calls its learning rate.
        rates: by shapes of matrices.
        package, version: with which it was measured.
        difference: of the two paths, as a part of the way, after ten steps on three matrices.
        obstacle: a word for why the two are not equal, empty if they are.
    """

    optimizer: str
    settings: Mapping[str, Any]
    rate_name: str
    rates: Sequence[Rate]
    package: str
    version: str
    difference: float
    obstacle: str


def convert(given_words: Sequence[str], to: str, model: str | None = None) -> Report:
    """What equals an optimizer at some settings: ours for a class of another package, or the other way.

    Args:
        given_words: the name, and key=value for its settings, the learning rate among them.
        to: the name of the other.
        model: of ours; its matrices get a rate each.

    Raises:
        UsageError: a name that is in neither table, two that were never run beside each other, no rate, or a
            setting that a row of ours can't have.
    """
    name, given = given_words[0], read_words(given_words[1:])
    known = [row for row in conversions() if {row.name, row.row} == {name, to}]
    if not known:
        raise UsageError(_why_unknown(name, to))
    outward = name in ZOO
    rate_name, default = (
        ("lr", ZOO[name].weight_decay.default) if outward else (known[0].rate_name, known[0].weight_decay)
    )
    if not outward:
        measured = {rate_name, "weight_decay"}.union(*(row.theirs.keys() | row.carried for row in known))
        for key in given.keys() - measured:  # it may have more, but not spelt nearly alike
            if difflib.get_close_matches(key, measured, n=1, cutoff=0.8):
                raise UsageError(f"{name} was not run with '{key}'; {nearest(key, measured)}")
    lr = _number(name, rate_name, given.pop(rate_name, None))
    decay = _number(name, "weight_decay", given.setdefault("weight_decay", default))
    try:
        fitting = [row for row in known if row.fits(name, given)]
        for row in fitting if not outward else ():
            resolve(to, {ours: given[theirs] for theirs, ours in row.carried.items() if theirs in given})
    except ValueError as error:
        raise UsageError(str(error)) from None
    if not fitting:
        note = Note("convert_unmeasured", name=name, to=to)
        return Report("convert", "", [table(KNOWN, map(words, known), above=[note])], data=[])
    row = fitting[0]
    names = {ours: theirs for theirs, ours in row.carried.items()} if outward else row.carried
    carried = {names[key]: value for key, value in given.items() if key in names}
    settings = {**(row.theirs if outward else row.ours), **carried}
    settings.pop("weight_decay", None)
    if outward:  # defaults of ours that are others there
        defaults = resolve(name, {})
        settings |= {names[key]: defaults[key] for key in row.ours if key in names and key not in given}
    rate_name = row.rate_name if outward else "lr"
    rates = list[Rate]()
    if row.obstacle:
        section = _of_unequal(row, [one for one in known if not one.obstacle], name, to)
    else:
        for shape, matrices in _shapes(row, model):
            factor = row.factor(*shape or SHAPES[0]) ** (-1 if outward else 1)
            rates.append(Rate(shape, matrices, lr * factor, decay / factor))
        section = _of_equal(row, rates, settings, rate_name, name, to)
    of_row = {key: getattr(row, key) for key in ("package", "version", "difference", "obstacle")}
    fact = Converted(to, settings, rate_name, rates, **of_row)
    return Report("convert", "", [section], data=[fact])


def _number(name: str, key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{key}={value} is no number; give the {key} of {name}, such as {key}=0.02.")
    return value


def _why_unknown(name: str, to: str) -> str:
    known = {*ZOO, *(row.name for row in conversions())}
    for word in (name, to):
        if word not in known:
            return f"Nothing is known of '{word}'; {nearest(word, known)}"
    beside = {
        row.row if row.name == name else row.name for row in conversions() if name in (row.name, row.row)
    }
    return f"'{name}' was not run beside '{to}'; it was beside {', '.join(sorted(beside)) or 'none'}."


def _shapes(row: Conversion, model: str | None) -> list[tuple[Any, int | None]]:
    """The shapes to give a rate to, with how many a model has; a kernel is the matrix that our rules see."""
    if model is None:
        return [(shape, None) for shape in SHAPES] if row.rate in _FACTORS else [((), None)]
    import torch

    from htbench.optimizers.routing import split_parameters

    try:
        with torch.device("meta"):
            built = models.build(model)
    except ValueError as error:
        raise UsageError(str(error)) from None
    chosen, _ = split_parameters(built, "released", ZOO[row.row].released)
    matrices = Counter((len(p), p.numel() // len(p)) for p in chosen if p.ndim >= 2)
    return sorted(matrices.items())


def _of_unequal(row: Conversion, equal: Sequence[Conversion], name: str, to: str) -> Section:
    """Why nothing is equal, below what is at other settings."""
    reason, at = Note(f"convert_{row.obstacle}"), f"{row.package} {row.version}"
    note = Note("convert_unequal", name=name, to=to, at=at, reason=reason, difference=row.difference)
    return table(KNOWN if equal else (), map(words, equal), above=[note])


def _of_equal(
    row: Conversion, rates: Sequence[Rate], settings: Mapping[str, Any], rate_name: str, name: str, to: str
) -> Section:
    at, typed = f"{row.package} {row.version}", _typed(settings)
    head = Note("convert_equal", name=name, to=to, at=at, settings=typed, difference=row.difference)
    columns: dict[Column, list[Any]] = {
        Column("shape", kind="text"): [write_shape(rate.shape) or "any" for rate in rates],
        Column("matrices", importance=4): [rate.matrices for rate in rates],
        Column("lr", rate_name, unit="4"): [rate.lr for rate in rates],
        Column("weight_decay", unit="4"): [rate.weight_decay for rate in rates],
    }
    notes = [Note("convert_by_shape")] if row.rate in _FACTORS else []
    return by_columns(columns, above=[head], notes=notes)


def _typed(settings: Mapping[str, Any]) -> str:
    """Settings as on a command line."""
    return " ".join(f"{name}={setting(value)}" for name, value in settings.items())


def words(row: Conversion) -> tuple[str, ...]:
    """What the table of all rows says of one."""
    rate = "none" if row.obstacle else row.rate
    return (
        row.name,
        _typed(row.theirs),
        f"{row.row} {_typed(row.ours)}".strip(),
        rate,
        f"{row.difference:g}",
    )
