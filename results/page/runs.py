"""The runs behind the shown cells: which they are, and what a click on a cell tells about each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.config.names import settings_of
from harness.errors import UsageError
from harness.show.numbers import duration, memory, milliseconds, setting
from harness.show.report import Cell, Report
from harness.store import Store, curve
from harness.store.record import IMPORTED, RUN, RunRecord, timestamp
from harness.store.run_folder import RunFolder
from results.frames.metrics import word
from results.page.curves import curves

MOST_RUNS = 2000  # on one page; about 4 KB each
_LOG_BYTES = 2000  # of the end of a log
_TIMES = ("began", "ended")  # of an attempt, in seconds since 1970
Pairs = dict[str, str]
Row = Mapping[Any, Any]  # of the tidy frame


@dataclass(frozen=True)
class Behind:
    """The runs behind cells: their numbers on the page by key, and how many had no room.

    Attributes:
        numbers: number of a run by its key, in reading order of the tables.
        left_out: runs beyond MOST_RUNS; their cells can't be clicked.
    """

    numbers: dict[str, int]
    left_out: int

    @classmethod
    def of(cls, tables: Iterable[Report], known: Iterable[str], most: int = MOST_RUNS) -> Behind:
        """Those of `known` that the tables name; the first of them, if they are too many."""
        allowed = set(known)
        sections = (section for report in tables for section in report.sections if not section.too_wide())
        cells = (cell for section in sections for row in section.rows for cell in row)
        keys = dict.fromkeys(key for cell in cells for key in cell.runs if key in allowed)
        return cls({key: number for number, key in enumerate(list(keys)[:most])}, max(0, len(keys) - most))

    def attributes(self, cell: Cell) -> str:
        """For the element of a cell: the numbers of its runs, and whether a grid has chosen it."""
        numbers = [str(self.numbers[key]) for key in cell.runs if key in self.numbers]
        chosen = " data-chosen" if cell.chosen else ""
        return f' data-runs="{" ".join(numbers)}"{chosen}' if numbers else ""


def label(row: Row) -> str:
    """A run in a few words: "htmuon lr 0.02 p 0.125 seed 1"."""
    tuned = [f"{name} {word(row[name])}" for name in ("lr", "p") if word(row.get(name)) != "none"]
    mark = f"run {row[RUN]}" if row[IMPORTED] else f"seed {row['seed']}"
    return " ".join([str(row["optimizer"]), *tuned, mark])


def details(store: Store, frame: pd.DataFrame, behind: Behind) -> dict[str, Any]:
    """What the page's script needs about the runs: plain values.

    Configs are written as a difference from the first with the same fields, environments once each.
    """
    rows: dict[str, list[Row]] = {}
    for row in frame[frame["key"].isin(list(behind.numbers))].to_dict("records"):
        rows.setdefault(row["key"], []).append(row)
    records = store.records(behind.numbers)
    configs: list[Pairs] = []
    environments: list[Pairs] = []
    runs, count = [], 0
    for key in behind.numbers:
        record, files = records.get(key), store.files(key)
        drawn, size = curves(curve.read(files.metrics))
        count += size
        config, environment = _config(record, files), _plain(record.environment if record else {})
        base = next((one for one in configs if one.keys() == config.keys()), None)
        if base is None:
            configs.append(base := config)
        if environment not in environments:
            environments.append(environment)
        runs.append(
            {
                **_facts(rows[key], record),
                "base": configs.index(base),
                "changed": {name: value for name, value in config.items() if base[name] != value},
                "environment": environments.index(environment),
                **{"attempts": _attempts(files), "log": _log(files), "curves": drawn},
            }
        )
    return {"configs": configs, "environments": environments, "runs": runs, "points": count}


def _facts(rows: Sequence[Row], record: RunRecord | None) -> dict[str, Any]:
    first = rows[0]
    places = (f"{row['sweep']} ({row['stage']})" if row["sweep"] else "not planned" for row in rows)
    facts = {"task and model": f"{first['task']}, {first['model']}", "setting": first["setting"]}
    facts |= {"sweeps": ", ".join(dict.fromkeys(places))}
    facts |= {"outcome": ": ".join(filter(None, [first["state"], first["reason"]]))}
    return {
        "key": first["key"],
        "label": label(first),
        "optimizer": first["optimizer"],
        "facts": {name: value for name, value in (facts | _measured(record)).items() if value},
    }


def _measured(record: RunRecord | None) -> Pairs:
    """What a record says of work and quality."""
    if record is None:
        return {}
    facts = {
        "steps": str(record.steps),
        "training time": duration(record.useful_seconds),
        "ms/step": milliseconds(record.seconds_per_step) if record.seconds_per_step else "",
        "peak memory": memory(record.peak_memory),
        "steps made again": str(record.repeated_steps or ""),
        "began": record.began,
        "ended": record.ended,
    }
    return facts | {name: f"{value:.6g}" for name, value in record.metrics.items() if value is not None}


def _config(record: RunRecord | None, files: RunFolder) -> Pairs:
    if record is not None:
        return _plain(record.settings)
    try:
        return _plain(settings_of(files.read_config()))
    except UsageError:  # the run has not started
        return {}


def _plain(values: Mapping[str, Any]) -> Pairs:
    return {str(name): setting(value) for name, value in values.items()}


def _attempts(files: RunFolder) -> list[Pairs]:
    """What is noted of each attempt, in words."""
    attempts = []
    for number in range(1, files.last_attempt() + 1):
        if not (noted := files.read_attempt(number)):
            continue
        owner, outcome = noted.get("owner") or {}, noted.get("outcome") or {}
        started, times = noted.get("start_step"), (noted.get(name) for name in _TIMES)
        told = {"attempt": str(number)} | {name: str(owner.get(name) or "") for name in ("host", "job")}
        told |= {n: timestamp(t) for n, t in zip(_TIMES, times, strict=True) if isinstance(t, int | float)}
        told["from step"] = "" if started is None else str(started)
        told["outcome"] = ": ".join(str(outcome[n]) for n in ("reason", "message") if outcome.get(n))
        attempts.append(told)
    return attempts


def _log(files: RunFolder) -> str:
    """The end of the log, whole lines."""
    try:
        with files.log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _LOG_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return text if size <= _LOG_BYTES else text.partition("\n")[2] or text
