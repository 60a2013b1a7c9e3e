"""What leaves the store for a tracker: which runs, and what of each. Torch-free."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from htbench.harness.errors import UsageError
from htbench.harness.show.numbers import setting
from htbench.harness.show.status import Status
from htbench.harness.store import Store, curve
from htbench.harness.store.points import Point, read_points, sweep_names
from htbench.harness.store.record import RunRecord

ALONE = "no-sweep"  # the group of runs that no sweep wants
_LONGEST = 60  # characters of an optimizer's name within the name of a run


@dataclass(frozen=True)
class Outgoing:
    """One finished run as trackers get it.

    Attributes:
        key: identity of the run, 12 hex digits.
        name: for people: optimizer, learning rate, seed, key. It can name a folder.
        group: the sweep; of several that want the run the first in name order, ALONE without any.
        config: settings by dotted names, `htbench.key`, `htbench.stage`, `htbench.status`, `htbench.note`;
            no host and no user: a tracker may be public.
        summary: final figures by name; NaN where they are not finite.
        steps: updates made.
        began: when the first attempt began, in seconds since 1970; 0.0 if not known.
        seconds_per_step: mean; 0.0 if not known.
        curve: the file of the curve; it need not exist.
    """

    key: str
    name: str
    group: str
    config: Mapping[str, Any]
    summary: Mapping[str, float]
    steps: int
    began: float
    seconds_per_step: float
    curve: Path

    def rows(self) -> list[tuple[int, dict[str, float]]]:
        """The curve, a row for each step in their order. A value that is not finite is NaN."""
        rows: dict[int, dict[str, float]] = {}
        for row in curve.read(self.curve):
            values = rows.setdefault(row["step"], {})
            for name, value in _figures(row).items():
                if name != "step" and math.isnan(values.get(name, math.nan)):
                    values[name] = value
        return sorted(rows.items())

    def time(self, step: int) -> float:
        """About when a step was made, in seconds since 1970: a curve has no times, so each takes the mean."""
        return self.began + step * self.seconds_per_step


def choose(store: Store, sweeps: Sequence[str] = ()) -> tuple[list[Outgoing], int]:
    """The finished runs of some sweeps, of the whole store if none is named, and how many stay.

    Args:
        store: where they are.
        sweeps: names of some that the store has.

    Returns:
        the runs in the order of the sweeps' names and plans, then those without a sweep; and the number of
        those that have not finished, were pruned (another study may resume it), or were changed by somebody.

    Raises:
        UsageError: a damaged plan, or an empty store.
    """
    points = [point for name in sweep_names(store.root) for point in read_points(store.root, name)]
    first = {point.key: point for point in reversed(points)}
    planned_keys = {point.id: point.key for point in points if not sweeps or point.sweep in sweeps}
    keys = dict.fromkeys([*filter(None, planned_keys.values()), *([] if sweeps else store.keys())])
    if not (planned_keys or keys):
        raise UsageError(f"There are no runs in '{store.root}'; --root names another store.")
    records = store.records(keys).values()
    runs = [
        outgoing(store, record, first.get(record.key))
        for record in records
        if record.status is not Status.PRUNED and not record.digest
    ]
    return runs, len(keys) + sum(not key for key in planned_keys.values()) - len(runs)


def outgoing(store: Store, record: RunRecord, point: Point | None) -> Outgoing:
    """What leaves of a run; `point` is that of the first sweep that wants it."""
    settings = record.settings
    about = {"key": record.key, "stage": point.stage if point else "", "status": str(record.status)}
    about["note"] = record.note
    parts = [str(settings.get("optimizer.name", ""))[:_LONGEST]]
    for name, short in (("optimizer.lr", "lr"), ("seed", "seed")):
        if settings.get(name) is not None:
            parts.append(f"{short}{setting(settings[name])}")
    parts += [record.key, *([str(record.status)] if record.status != Status.COMPLETED else [])]
    names = ("steps", "useful_seconds", "seconds_per_step", "peak_memory", "attempts")
    of_run = {name: getattr(record, name) for name in names if getattr(record, name) is not None}
    of_run |= record.cost
    return Outgoing(
        key=record.key,
        name=re.sub(r"[^\w.+-]+", "_", "-".join(parts)).lstrip("."),
        group=point.sweep if point else ALONE,
        config=settings | {f"htbench.{name}": value for name, value in about.items() if value},
        summary=_figures(record.metrics | {f"run/{name}": value for name, value in of_run.items()}),
        steps=record.steps,
        began=datetime.fromisoformat(record.began).timestamp() if record.began else 0.0,
        seconds_per_step=record.seconds_per_step or 0.0,
        curve=store.files(record.key).metrics,
    )


def _figures(values: Mapping[str, Any]) -> dict[str, float]:
    """The numbers among some values; None, which is how the store has one that is not finite, is NaN."""
    numbers = {name: math.nan if value is None else value for name, value in values.items()}
    return {
        name: float(value)
        for name, value in numbers.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
