"""What leaves the store, the same for every tracker: which runs, and what of each. Torch-free.

Finished runs leave whose record nobody has changed. The identity is the run's key. A tracker keeps the
digest of what it was given: an export writes a run again only if the digest differs.
"""

import functools
import hashlib
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.config.names import flatten
from harness.errors import UsageError
from harness.show.note import Note
from harness.show.numbers import setting
from harness.show.status import Status
from harness.store import Store, curve
from harness.store.integrity import CHANGED
from harness.store.points import REPLICATE, Point, read_points, sweep_names
from harness.store.record import RunRecord

FORMAT = 1  # raised when the same run would leave with other content
ALONE = "no-sweep"  # the group of runs that no sweep wants
_ENVIRONMENT = ("code", "python", "torch", "device")  # no host and no user: a tracker may be public
_LONGEST = 60  # characters of an optimizer's name within the name of a run


@dataclass(frozen=True)
class Outgoing:
    """One finished run as trackers get it.

    Attributes:
        key: identity of the run, 12 hex digits.
        name: for people: optimizer, learning rate, seed, key. It can name a folder.
        group: the sweep; of several that want the run the first in name order, ALONE without any.
        job_type: the word of a deliberate rerun (`replica`), else `search` or `replicate`, else `run`.
        place: texts about the run: `htbench.key`, `htbench.sweeps`, `htbench.block`, `htbench.status` ...
        config: settings by dotted names, and `environment.torch` and so on; plain values.
        summary: final figures by name; NaN where they are not finite.
        steps: updates made.
        began: when the first attempt began, in seconds since 1970; 0.0 if not known.
        seconds_per_step: mean; 0.0 if not known.
        curve: the file of the curve; it need not exist.
    """

    key: str
    name: str
    group: str
    job_type: str
    place: dict[str, str]
    config: dict[str, Any]
    summary: Mapping[str, float]
    steps: int
    began: float
    seconds_per_step: float
    curve: Path

    @functools.cached_property
    def digest(self) -> str:
        """32 hex digits over all that leaves; the curve counts by its bytes, which is quick."""
        values = {name: value for name, value in vars(self).items() if name != "curve"}
        bytes_of_curve = self.curve.read_bytes() if self.curve.exists() else b""
        text = json.dumps([FORMAT, values], sort_keys=True)
        return hashlib.sha256(text.encode() + bytes_of_curve).hexdigest()[:32]

    def rows(self) -> list[tuple[int, dict[str, float]]]:
        """The curve, a row for each step in their order. A value that is not finite is NaN."""
        rows: dict[int, dict[str, float]] = {}
        for row in curve.read(self.curve):
            values = rows.setdefault(row["step"], {})
            for name, value in row.items():
                if name != "step" and _is_figure(value) and math.isnan(values.get(name, math.nan)):
                    values[name] = _number(value)
        return sorted(rows.items())

    def rows_and_summary(self) -> list[tuple[int, dict[str, float]]]:
        """As `rows`, with what only the summary has at the last step: for trackers that have no summary."""
        rows = dict(self.rows())
        known = {name for values in rows.values() for name in values}
        rest = {name: value for name, value in self.summary.items() if name not in known}
        rows[self.steps] = rows.get(self.steps, {}) | rest
        return sorted(rows.items())

    def time(self, step: int) -> float:
        """About when a step was made, in seconds since 1970: a curve has no times, so each takes the mean."""
        return self.began + step * self.seconds_per_step


@dataclass
class Chosen:
    """What an export is about.

    Attributes:
        runs: those that leave, in the order of the sweeps' names and plans, then runs without a sweep.
        unfinished: how many stay, by status: running, waiting, failed or pruned.
        refused: run -> what is wrong with its record.
    """

    runs: list[Outgoing] = field(default_factory=list)
    unfinished: Counter[Status] = field(default_factory=Counter)
    refused: dict[str, Note] = field(default_factory=dict)


def choose(store: Store, sweeps: Sequence[str] = ()) -> Chosen:
    """The runs of some sweeps; of the whole store if none is named.

    Args:
        store: where they are.
        sweeps: names of some that the store has.

    Raises:
        UsageError: a damaged plan, or an empty store.
    """
    known, keys = sweep_names(store.root), store.keys()
    chosen, points = Chosen(), [point for name in known for point in read_points(store.root, name)]
    wanted = [point for point in points if not sweeps or point.sweep in sweeps]
    if not (wanted or keys):
        raise UsageError(f"There are no runs in '{store.root}'; --root names another store.")
    planned = [point.key for point in wanted if point.key]
    chosen.unfinished[Status.WAITING] += len(wanted) - len(planned)  # slots that have no settings yet
    keys = list(dict.fromkeys(planned if sweeps else planned + keys))
    wanting: dict[str, list[Point]] = defaultdict(list)
    for point in points:
        wanting[point.key].append(point)
    ended = set()
    for key, record in store.each_record(keys):
        ended.add(key)
        if record.status == Status.PRUNED:  # another study may resume it
            chosen.unfinished[Status.PRUNED] += 1
        elif record.digest:
            chosen.refused[key] = CHANGED
        else:
            chosen.runs.append(outgoing(record, wanting[key], store.files(key).metrics))
    chosen.unfinished.update(store.state(key).status for key in keys if key not in ended)
    return chosen


def outgoing(record: RunRecord, points: Sequence[Point], path: Path) -> Outgoing:
    """What leaves of one run.

    Args:
        record: of the run, completed or diverged.
        points: those of all sweeps that want it, in the order of the sweeps' names.
        path: of its curve.
    """
    settings = record.settings
    stages = [point.stage for point in points if point.sweep == points[0].sweep]
    stage = REPLICATE if REPLICATE in stages else next(iter(stages), "")
    place = {
        "key": record.key,
        "sweeps": ",".join(sorted({point.sweep for point in points})),
        "block": points[0].block if points else "",
        "stage": stage,
        "status": str(record.status),
        "note": record.note,
    }
    parts = [str(settings.get("optimizer.name", ""))[:_LONGEST]]
    for name, short in (("optimizer.lr", "lr"), ("seed", "seed")):
        if settings.get(name) is not None:
            parts.append(f"{short}{setting(settings[name])}")
    parts += [record.key, *([str(record.status)] if record.status != Status.COMPLETED else [])]
    where = record.environment
    environment = {name: where[name] for name in _ENVIRONMENT if name in where}
    if machine := where.get("gpu") or where.get("cpu"):
        environment["machine"] = machine
    return Outgoing(
        key=record.key,
        name=re.sub(r"[^\w.+-]+", "_", "-".join(parts)).lstrip("."),
        group=points[0].sweep if points else ALONE,
        job_type=str(settings.get("replica") or stage or "run"),
        place={f"htbench.{name}": text for name, text in place.items() if text},
        config=settings | {f"environment.{name}": value for name, value in environment.items()},
        summary=_summary(record),
        steps=record.steps,
        began=datetime.fromisoformat(record.began).timestamp() if record.began else 0.0,
        seconds_per_step=record.seconds_per_step or 0.0,
        curve=path,
    )


def _summary(record: RunRecord) -> dict[str, float]:
    """The metrics by their own names; other figures as `run/NAME`, questions as `downstream/NAME`."""
    names = ("steps", "useful_seconds", "seconds_per_step", "peak_memory", "attempts")
    of_run = {name: getattr(record, name) for name in names} | dict(record.cost)
    figures: dict[str, Any] = dict(record.metrics)
    for group, values in (("run", of_run), ("downstream", flatten(record.downstream))):
        figures |= {f"{group}/{name}": value for name, value in values.items() if value is not None}
    return {name: _number(value) for name, value in figures.items() if _is_figure(value)}


def _is_figure(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
