"""The settings of a point: all of them, those that are fixed, and the candidate that it belongs to.

The settings of a finished run are those in its record, not those of the plan with today's defaults. A changed
default, other data or other code make another candidate.
"""

import contextlib
import functools
import hashlib
import marshal
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from htbench import models
from htbench.harness import tasks
from htbench.harness.config import programs
from htbench.harness.config.key import run_key
from htbench.harness.config.names import canonical
from htbench.harness.config.settings import FIELDS, declarations, params_of, resolve_config, to_settings
from htbench.harness.errors import UsageError
from htbench.harness.store import Store
from htbench.harness.store.points import SEED_FIELDS, Point, is_tuned
from htbench.harness.store.record import RunRecord
from htbench.optimizers.zoo.registry import UNSET, ZOO, Param, resolve_value
from htbench.results.frames.columns import DATA

Values = Mapping[str, Any]

OPTIMIZER_CODE = "revisions.optimizer"
_REVISIONS = "revisions."
_UNKEYED = {name for name, field in declarations() if not field.metadata["key"]}
_SPLIT = ("micro_batch", "processes")  # how a batch is divided, which batch statistics depend on


def of_record(record: RunRecord) -> dict[str, Any]:
    """The settings by dotted names. A missing field gets the value that older code acted by."""
    values = record.settings
    values |= {name: tuple(value) for name, value in values.items() if type(value) is list}
    params, _ = _declared(str(values.get("optimizer.name")))
    if programs.is_program(values):  # our defaults mean nothing to it
        return values
    missing = {name: params[name] for name in params if name not in values}
    return {
        name: param.default if param.before is UNSET else param.before for name, param in missing.items()
    } | values


def of_plan(point: Point, origin_values: Mapping[tuple[str, ...], Values]) -> dict[str, Any]:
    """The settings of a point that has no record yet.

    If this machine's code or data would give the point another key, what it leaves open is taken from
    finished runs of its block, else of its sweep: tables may be printed on a machine that does not train.

    Args:
        point: the point.
        origin_values: as `origins` gives it.
    """
    overrides = _read_overrides(point)
    try:
        config = resolve_config(overrides)
    except UsageError:  # of older or newer code, or with a part from outside, which no table imports
        rule = overrides.get("optimizer.name", FIELDS["optimizer.name"].default)
        params = params_of(ZOO.get(str(rule)))
        values = {name: param.default for name, param in params.items()} | _task_defaults(overrides["task"])
        with contextlib.suppress(UsageError, ValueError):
            values[DATA] = tasks.fingerprint(overrides["task"])
        for name, value in overrides.items():
            with contextlib.suppress(ValueError):
                value = resolve_value(params[name], name, value) if name in params else value
            values[name] = _plain(value)
        return _add_origin(values, point, origin_values)
    values = {name: _plain(value) for name, value in to_settings(config).items()}
    return values if run_key(config) == point.key else _add_origin(values, point, origin_values)


def _read_overrides(point: Point) -> dict[str, Any]:
    return {canonical(name): value for name, value in point.overrides.items() if value is not None}


def _task_defaults(name: str) -> dict[str, Any]:
    """What a task of ours decides where a run leaves it open."""
    row = tasks.TASKS.get(name)
    return {} if row is None else {"seq_len": row.seq_len, **row.defaults}


def origins(points: Iterable[Point], store: Store) -> dict[tuple[str, ...], Values]:
    """What finished runs have that their points leave open, by (sweep, task, block): data, code and defaults.

    By (sweep, task) what no optimizer decides of it. The first run of each block is enough.
    """
    origin_values: dict[tuple[str, ...], Values] = {}
    blocks = set[tuple[str, ...]]()
    shared = (DATA, _REVISIONS, "seq_len", *tasks.OPTIONS)
    for point in points:
        block = (point.sweep, point.block, str(point.overrides.get("task")))
        record = store.record(point.key) if point.key and block not in blocks else None
        if record is not None:
            blocks.add(block)
            values, overrides = of_record(record), _read_overrides(point).keys() - {DATA}
            open_values = {name: value for name, value in values.items() if name not in overrides}
            origin_values.setdefault((point.sweep, values["task"], point.block), open_values)
            shared_values = {
                name: value
                for name, value in open_values.items()
                if name.startswith(shared) and name != OPTIMIZER_CODE
            }
            origin_values.setdefault((point.sweep, values["task"]), shared_values)
    return origin_values


def _add_origin(
    values: dict[str, Any], point: Point, origin_values: Mapping[tuple[str, ...], Values]
) -> dict[str, Any]:
    place = (point.sweep, values["task"])
    origin = origin_values.get((*place, point.block)) or origin_values.get(place)
    if origin is None:
        return values
    overrides = _read_overrides(point).keys() - {DATA}
    open_before = {name: value for name, value in origin.items() if name not in overrides}
    return {name: value for name, value in values.items() if not name.startswith(_REVISIONS)} | open_before


def candidate(values: Values) -> str:
    """A digest that is the same for runs that differ in their seeds only.

    As in the key, a value that older code acted by does not count, so that a new field changes no digest.
    """
    _, acted_by = _declared(str(values.get("optimizer.name")))
    counted = _list_counted(tuple(values), _is_divided(values))
    counted_values = [(n, values[n]) for n in counted if n not in acted_by or acted_by[n] != values[n]]
    try:
        plain = marshal.dumps(counted_values, 2)  # quicker than `repr`; later versions tell equal words apart
    except ValueError:  # a stranger's file may make other objects
        plain = repr(counted_values).encode()
    return hashlib.sha256(plain).hexdigest()[:8]


def setting(values: Values) -> str:
    """What is fixed besides task, model and data and differs from the default: "batch_size=64, steps=100"."""
    fixed = _list_fixed(tuple(values), _is_divided(values), values["task"])
    words = []
    for name in (name for name, default in fixed if values[name] != default):
        if name.startswith(_REVISIONS):
            words.append(f"{name.removeprefix(_REVISIONS)} {version(values[name])}")
        else:
            words.append(f"{name.removeprefix(programs.BASE)}={values[name]}")
    return ", ".join(words)


def version(revision: int | str) -> str:
    """A revision in words: 2 is "revision 2", "1+3fa1c2d4" is "edited 3fa1c2d4"."""
    if isinstance(revision, int):
        return f"revision {revision}"
    edit = find_edit(revision)
    return f"edited {edit}" if edit else revision


def find_edit(revision: int | str) -> str:
    """The digest of code that differs from a released revision; empty if none does."""
    released, _, edit = str(revision).partition("+")
    return edit if released.isdigit() else ""


# Ten thousand runs have few sets of names.
@functools.lru_cache(1024)
def _list_counted(names: tuple[str, ...], divided: bool) -> tuple[str, ...]:
    """The settings that say which run it is, besides the seeds; sorted.

    Args:
        names: of all settings.
        divided: whether it matters how a batch is divided.
    """
    apart = _UNKEYED.union(SEED_FIELDS)
    apart |= {
        name for name in names if name.startswith(programs.PREFIX) and not name.startswith(programs.BASE)
    }
    return tuple(sorted(name for name in names if (divided if name in _SPLIT else name not in apart)))


@functools.lru_cache(1024)
def _list_fixed(names: tuple[str, ...], divided: bool, task: str) -> tuple[tuple[str, Any], ...]:
    """Those of `_list_counted` that are no part of what competes, and have no column of their own.

    Each with its default beside this task; UNSET: there is none.
    """
    apart = {"task", "model", "optimizer.name", DATA, OPTIMIZER_CODE}
    defaults = {name: param.default for name, param in FIELDS.items()} | _task_defaults(task)
    fixed = (name for name in _list_counted(names, divided) if name not in apart and not is_tuned(name))
    return tuple((name, defaults.get(name, UNSET) if name in FIELDS else UNSET) for name in fixed)


def _is_divided(values: Values) -> bool:
    """Whether the model has statistics of batches; one from outside may have them."""
    row = models.SIZES.get(values["model"])
    return row is None or row.batch_norm


@functools.lru_cache(1024)
def _declared(rule: str) -> tuple[dict[str, Param], Values]:
    """The declarations of a run's settings, and the values by which code acted that did not have them yet."""
    params = params_of(ZOO.get(rule))
    return params, {name: param.before for name, param in params.items() if param.before is not UNSET}


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


# --- columns ---


def column(name: str, reserved: Collection[str] = ()) -> str:
    """The frame's column for a tuned setting: `optimizer.p` is `p`, `schedule.warmup` keeps its name.

    Args:
        name: of the setting.
        reserved: names of other columns; a user's optimizer may have a hyperparameter called `steps`.
    """
    short = name.removeprefix("optimizer.")
    return name if short in reserved else short


def setting_name(column: str) -> str:
    """The inverse of `column`: how a sweep file calls it."""
    return column if is_tuned(column) else f"optimizer.{column}"
