"""The study of a search: `<root>/sweeps/<sweep>/slots/<study>/study.json`. Sweeps write, results read."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from htbench.harness.config import Value
from htbench.harness.store.points import SLOTS, STUDY, read_sealed, sweep_folder
from htbench.harness.system import typed


class Axis(TypedDict, total=False):
    """What is searched of a setting: a range, or choices."""

    low: float
    high: float
    log: bool
    whole: bool
    choices: list[Any]


@dataclass(frozen=True)
class Study:
    """One objective's search, in plain values.

    Attributes:
        name: `<sweep>.<block>[.<fixed axes>].<digest>`, see `sweeps.plan.slots.study_name`.
        sweep: the sweep's name.
        block: the block's name.
        trials: how many slots it has.
        mode: a row of `sweeps.spec.search.MODES`.
        seed: of the draws.
        pruner: a row of `sweeps.spec.search.PRUNERS`, or empty.
        pruner_options: its options.
        storage: URL as written (`sweeps.spec.database`), or empty for a journal file.
        fixed: settings that all trials share.
        axes: the searched settings.
        rest: what older or newer code has written besides, by name.
    """

    name: str
    sweep: str
    block: str
    trials: int
    mode: str
    seed: int
    pruner: str
    pruner_options: dict[str, int]
    storage: str
    fixed: dict[str, Value]
    axes: dict[str, Axis]
    rest: dict[str, Any] = field(default_factory=dict, compare=False, metadata=typed.REST)

    def slot(self, number: int) -> str:
        """The id of a slot."""
        return f"{self.name}/{number}"


def study_path(root: Path, sweep: str, study: str) -> Path:
    """The file of a study, beside those of its slots."""
    return sweep_folder(root, sweep) / SLOTS / study / STUDY


def find_study(root: Path, sweep: str, name: str) -> Study | None:
    """What the file of a study says; None if it is missing or damaged."""
    return typed.make(Study, read_sealed(study_path(root, sweep, name)))
