"""One row of the tidy frame: what a run and its settings say, whichever sweep asked for it."""

import functools
from typing import Any

from htbench.harness.choice.winner import score
from htbench.harness.config import programs
from htbench.harness.show.status import Status
from htbench.harness.store import Store, integrity
from htbench.harness.store.points import SEED_FIELDS, Point, is_tuned
from htbench.harness.store.record import RunRecord
from htbench.results.frames import identity, metrics
from htbench.results.frames.columns import DATA, FIRST, LAST, read_record

Row = dict[str, Any]

# Entries of a row that do not become columns: the names of its tuned settings, whether the optimizer's code
# is of no release, the studies that pruned its run (None: it was not pruned), the candidate without the word
# of a deliberate rerun.
TUNED, EDITED, PRUNED_BY, TWIN = "tuned", "edited", "pruned_by", "twin"
CHOSEN = "chosen"  # a protocol: a program reports what its settings are chosen by
HIDDEN = (TUNED, EDITED, PRUNED_BY, TWIN)

_TAKEN = {*FIRST, *LAST, *SEED_FIELDS, *metrics.TASK, *HIDDEN}


def finished(record: RunRecord) -> Row:
    """The row of a run that has ended. Its state is `damaged` if the record was changed later."""
    wrong = integrity.CHANGED if record.digest else None
    values = identity.of_record(record)
    candidate = identity.candidate(values)
    program = record.config.get("program") or {}
    of_program = {name: program[name] for name in ("paired", "seeds", "take") if name in program}
    outcome = {
        **record.metrics,
        **({"attempts": record.attempts} | of_program if of_program else {}),
        **metrics.columns(record),
        **read_record(record),
    }
    return {
        "key": record.key,
        "state": "damaged" if wrong else str(record.status),
        "reason": str(wrong or record.note),
        **_setting_columns(values),
        "candidate": candidate,
        TWIN: identity.candidate({**values, "replica": ""}) if values["replica"] else candidate,
        "score": None if wrong else score(record),
        PRUNED_BY: tuple(record.pruned_by) if record.status is Status.PRUNED else None,
        **({} if wrong else outcome),
    }


def unfinished(point: Point, store: Store, values: identity.Values) -> Row:
    """The row of a point whose run has no sound record, or has ended for other studies only.

    Args:
        point: the point; in an empty slot, what is tuned has no value yet.
        store: where the run is.
        values: the settings of the point.
    """
    row = {
        "key": point.key or point.slot,
        "state": "waiting",
        "reason": "",
        **_setting_columns(values),
        "score": None,
    }
    if not point.key:
        return row | dict.fromkeys(row[TUNED]) | {"candidate": point.slot}
    row |= {"candidate": identity.candidate(values)}
    state = store.state(point.key, point.study)
    if state.record is not None:  # written in the meantime, or damaged: then the plan's settings count
        ended = finished(state.record)
        damage = {name: ended[name] for name in ("state", "reason")}
        return row | damage if ended["state"] == "damaged" else ended
    if state.lost_record is not None:
        return row | {"state": "damaged", "reason": str(state.lost_record)}
    return row | {"state": str(state.status), "reason": str(state.reason or "")}


def _setting_columns(values: identity.Values) -> Row:
    """The columns of the settings.

    Each part of a schedule has a column (`schedule.p.to`), and what follows the schedule has no value.
    """
    tuned = {
        column: None if scheduled else values[name]
        for name, column, scheduled in _tuned_columns(tuple(values))
    }
    protocol, code = values.get("protocol", ""), values.get(identity.OPTIMIZER_CODE, "")
    if programs.is_program(values) and values.get("program.report") in (None, "", values["program.metric"]):
        protocol = CHOSEN
    return {
        "task": values["task"],
        "model": values["model"],
        "setting": identity.setting(values),
        "protocol": protocol,
        "replica": values["replica"],
        "rule": values["optimizer.name"],
        "variant": identity.version(code),
        "optimizer": values["optimizer.name"],
        **tuned,
        TUNED: tuple(tuned),
        EDITED: identity.find_edit(code) != "",
        **{name: values[name] for name in SEED_FIELDS},
        DATA: values[DATA],
    }


@functools.lru_cache(1024)  # ten thousand runs have few sets of names
def _tuned_columns(names: tuple[str, ...]) -> tuple[tuple[str, str, bool], ...]:
    """The settings that are tuned, each with its column, and whether a schedule takes its place."""
    return tuple(
        (name, identity.column(name, _TAKEN), f"schedule.{name.removeprefix('optimizer.')}.name" in names)
        for name in names
        if is_tuned(name)
    )
