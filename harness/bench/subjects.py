"""Which optimizers are measured, with which settings, and what each may cost in units of `muon`.

Does not import torch, so that a mistyped name is refused at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from htbench import models
from htbench.harness.config import parts
from htbench.harness.errors import UsageError
from htbench.optimizers.zoo.registry import PERIODS, ZOO, resolve, spec

# The most that a step may take, in units of a step of `muon`.
_TARGETS: Final[tuple[tuple[str, dict[str, object], float], ...]] = (
    ("htmuon", {"interval": 1, "spectral": "gram_power"}, 2.0),
    ("htmuon_ns", {"interval": 1, "gram_side": "small"}, 8.0),
    ("htmuon_mix", {"interval": 1, "mix_set": "k5"}, 1.05),
    ("htmuon_mix", {"interval": 1, "mix_set": "k6"}, 1.22),
    ("htmuon_mix", {"interval": 1, "mix_set": "k7"}, 1.35),
)

# Settings that are measured beside the defaults of their rows.
_MORE: Final = {
    "htmuon": ("htmuon:gram_dtype=float64", "htmuon:spectral=svd_power"),
    "htmuon_ns": ("htmuon_ns:gram_side=small",),
    "htmuon_mix": ("htmuon_mix:mix_set=k5", "htmuon_mix:mix_set=k7"),
}


@dataclass(frozen=True)
class Entry:
    """An optimizer as it is measured.

    Attributes:
        label: as typed.
        name: a row of `ZOO`.
        hyper: its hyperparameters, all of them.
        period: T, if only every T-th step is a full one.
        measured: the hyperparameters to measure with, where T is 2.
    """

    label: str
    name: str
    hyper: Mapping[str, Any]
    period: int = 1
    measured: Mapping[str, Any] = field(default_factory=dict)

    @property
    def target(self) -> float | None:
        """The most that a step may take in units of `muon`."""
        for name, settings, most in _TARGETS:
            if self.name == name and all(self.hyper[key] == value for key, value in settings.items()):
                return most
        return None


def entry(typed: str, ns_dtype: str | None = None) -> Entry:
    """The entry for `NAME` or `NAME:key=value,key=value`.

    Args:
        typed: an optimizer, with settings or without.
        ns_dtype: precision of the Newton-Schulz iterations where `typed` does not say.

    Raises:
        UsageError: an unknown optimizer or hyperparameter, or a value that it can't have.
    """
    name, _, words = typed.partition(":")
    settings = {}
    for word in filter(None, words.split(",")):
        key, equals, settings[key] = word.partition("=")
        if not equals:
            raise UsageError(f"'{typed}' can't be measured: '{word}' is no setting; write key=value.")
    parts.allow([name])
    try:
        if ns_dtype is not None and "ns_dtype" in spec(name).params:
            settings.setdefault("ns_dtype", ns_dtype)
        hyper = resolve(name, settings)
    except ValueError as error:
        raise UsageError(f"'{typed}' can't be measured: {error}") from None
    for key in PERIODS:
        period: Any = hyper.get(key, 1)
        if period > 1:
            return Entry(typed, name, hyper, period, {**hyper, key: 2})
    return Entry(typed, name, hyper, measured=dict(hyper))


def entries(words: str | None, ns_dtype: str | None = None) -> list[Entry]:
    """The entries of a comma-separated list; for None every row of `ZOO` and the settings of `_MORE`.

    Raises:
        UsageError: as `entry`.
    """
    labels = [label for name in ZOO for label in (name, *_MORE.get(name, ()))]
    if words is not None:
        labels = []
        for word in words.split(","):
            if labels and "=" in word and ":" not in word:  # another setting of the previous entry
                labels[-1] += f",{word}"
            else:
                labels.append(word)
    return [entry(label, ns_dtype) for label in dict.fromkeys(labels)]


def count_parameters(model: str, overrides: Mapping[str, int]) -> int:
    """The number of parameters of a model. Raises UsageError if it can't be built."""
    try:
        return models.count_parameters(model, **overrides)
    except (ValueError, RuntimeError) as error:
        raise UsageError(f"The model can't be built: {error}.") from None
