"""Numbers and plain values as text: times, bytes, counts, percentages, settings."""

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any


def duration(seconds: float | None) -> str:
    """A time in the unit that fits: `85 ms`, `12 s`, `3.4 h`."""
    if seconds is None:
        return "-"
    for unit, size, until in (("ms", 0.001, 1), ("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172800)):
        if seconds < until:
            return f"{three_digits(seconds / size)} {unit}"
    return f"{three_digits(seconds / 86400)} d"


def clock(seconds: float) -> str:
    """A time as a clock shows it: `0:20`, `3:31`, `12:05:00`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def bar(completed: int, total: int, width: int = 10) -> str:
    """How much is done, as a bar; full only when all is: `███████░░░`."""
    full = width * completed // total if total else 0
    return "█" * full + "░" * (width - full)


def memory(size: float) -> str:
    """Bytes, in memory or on a disk: `12 KiB`, `350 MiB`, `1.2 GiB`."""
    for unit, bytes_of_it in (("GiB", 2**30), ("MiB", 2**20)):
        if size >= bytes_of_it:
            return f"{three_digits(size / bytes_of_it)} {unit}"
    return f"{three_digits(size / 2**10)} KiB"


def count(number: float) -> str:
    """A count: `850`, `19.8k`, `1.3M`."""
    for unit, size in (("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{three_digits(number / size)}{unit}"
    return str(number)


def counted(number: int, singular: str, plural: str = "") -> str:
    """A number and what it counts: `1 job`, `2 jobs`; `1 job waits`, `2 jobs wait`.

    Args:
        number: how many there are.
        singular: the words after 1.
        plural: those after other numbers; empty: with an s at the end of `singular`.
    """
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def hours(number: float) -> str:
    """Hours of processors: `6.6`, `142`, `9,320`."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def worked(number: float, unit: str) -> str:
    """Hours of processors in the unit that fits: `45 core-seconds`, `12 core-minutes`, `3.4 GPU-hours`."""
    for size, of in ((3600, "seconds"), (60, "minutes")):
        if number * size < 120:
            return f"{three_digits(number * size)} {unit}-{of}"
    return f"{hours(number)} {unit}-hours"


def three_digits(value: float) -> str:
    """A number with two or three digits: `0.85`, `12.3`, `4567`."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}" if value >= 10 else f"{value:.2g}"


def milliseconds(seconds: float) -> str:
    """A time of a step in ms: `0.123`, `45.6`."""
    value = seconds * 1000
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def listing(words: list[str] | tuple[str, ...], last: str = "and") -> str:
    """Several words in a sentence: `a, b and c`."""
    return f" {last} ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def setting(value: object) -> str:
    """A plain value as in a YAML file: `true`, `null`, `[0.9,0.95]`."""
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(setting, value)) + "]"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def pairs(settings: Mapping[str, Any]) -> str:
    """Settings with their values: `lr 0.04 p 0`."""
    return " ".join(f"{name} {setting(value)}" for name, value in settings.items())


def write_shape(shape: Iterable[int]) -> str:
    """The sizes of a tensor: `320 x 48`."""
    return " x ".join(map(str, shape))


# How a column with this unit prints a number.
UNITS: dict[str, Callable[[float], str]] = {
    "s": duration,
    "ms": lambda value: milliseconds(value / 1000),
    "B": memory,
    "digits": lambda value: f"{value:,}",  # an exact count: 13,824
    "%": lambda value: f"{value:.0%}",
    "4": lambda value: f"{value:.4g}",
}


def plain(value: Any) -> Any:
    """A dataclass, an enum, or what holds some, as values of JSON; what is not finite is None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {f.name: plain(getattr(value, f.name)) for f in fields if not f.name.startswith("_")}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(plain(name)): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(part) for part in value]
    return value if value is None or isinstance(value, str | int) else str(value)


def document(value: Any, *, in_a_line: bool = False) -> str:
    """Facts as one JSON document (docs/json.md). JSON has no NaN: what is not finite is null.

    Args:
        value: dataclasses, mappings, lists and plain values.
        in_a_line: without line breaks, for a stream of documents.
    """
    return json.dumps(plain(value), indent=None if in_a_line else 1, allow_nan=False)
