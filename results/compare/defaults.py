"""What each setting of a run would be if nobody had set it, and which settings of two runs are one setting.

The defaults of a class from outside stand in the record of its run (`harness.config.parts.described`).
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from htbench.harness.choice.winner import grouped
from htbench.harness.config import groups, hyper_schedules
from htbench.harness.config.programs import RULE
from htbench.harness.config.settings import FIELDS, params_of
from htbench.harness.show.note import Note
from htbench.harness.show.numbers import setting as printed
from htbench.harness.tasks import TASKS
from htbench.optimizers.zoo.grouped import KINDS, usual
from htbench.optimizers.zoo.registry import UNSET, ZOO
from htbench.optimizers.zoo.spec import aux
from htbench.results.frames.from_csv import FILE
from htbench.results.frames.identity import setting_name
from htbench.results.frames.metrics import is_missing

Defaults = Mapping[str, Any]  # of the settings that act in a run, by column
Runs = Mapping[str, Mapping[str, Any]]  # rows of the frame, by the name of their row of a table

_AUX_LR = "optimizer.aux_lr"
_OF_CLASS = ("optimizer.lr", "optimizer.weight_decay")  # every optimizer has a default of its own for these


def find_defaults(run: Mapping[str, Any], columns: Iterable[str]) -> dict[str, Any]:
    """The default of each setting that acts in a run, by column.

    None is a default and a value like others. UNSET: it has no default, or nobody has noted it.

    Args:
        run: a row of the frame whose run has ended.
        columns: some of its tuned ones.
    """
    if run["rule"] == RULE:
        # What the file of a program leaves out of a row has a value in the program, which nobody knows.
        return dict.fromkeys(columns, UNSET)
    if run.get(FILE):
        return {name: UNSET for name in columns if not is_missing(run[name])}
    row, task = ZOO.get(str(run["rule"])), TASKS.get(str(run["task"]))
    params, noted = params_of(row), read_outside(run).get("defaults", {})
    by_name: dict[str, Any] = {n: param.default for n, param in params.items() if row or n not in _OF_CLASS}
    has_aux = row is None and not is_missing(run.get("aux_lr"))  # a class from outside beside AdamW of ours
    by_name |= {} if not has_aux else {f"optimizer.{n}": param.default for n, param in aux(1e-8).items()}
    by_name |= {"schedule.name": row.schedules[0]} if row and row.schedules else {}
    by_name |= {_AUX_LR: UNSET if task is None else task.adamw_lr, **noted}
    defaults: dict[str, Any] = {}
    for column in columns:
        name, missing = setting_name(column), is_missing(run[column])
        if of_group := groups.parse(name):
            default = noted[name] if name in noted else _find_group_default(run, *of_group)
        elif name in by_name:
            default = by_name[name]
        elif row is None and hyper_schedules.split(name) is None:
            default = UNSET
        else:
            continue
        is_scheduled = not is_missing(run.get(f"schedule.{column}.name"))
        is_absent = missing and (default is UNSET or of_group or is_scheduled or name == _AUX_LR)
        if not is_absent and not (name in params and params[name].is_inert(run)):
            defaults[column] = default
    return defaults


def read_outside(run: Mapping[str, Any]) -> dict[str, Any]:
    """What the record of a run says of its parts from outside; empty if nothing."""
    noted = run.get("outside")
    return {} if is_missing(noted) or not noted else dict(json.loads(str(noted)))


def group_rows_by_setting(column: str, runs: Runs, acting: Mapping[str, Defaults]) -> list[list[str]]:
    """The names of the rows in which a setting acts, in a group for each meaning of its name.

    Args:
        column: of the setting.
        runs: a run of each row, by name.
        acting: the defaults of each.
    """
    having = [name for name in runs if column in acting[name]]
    return list(grouped(having, lambda name: _find_outside_class(runs[name], column)).values())


def _find_outside_class(run: Mapping[str, Any], column: str) -> str:
    """The class from outside whose setting it is; empty for ours. In one class a name is one setting."""
    name = setting_name(column)
    group, word = groups.parse(name) or ("", "")
    rule = str(run[f"groups.{group}.optimizer"] if group else run["rule"])
    is_shared = word in ("optimizer", "lr", "weight_decay", *groups.SCHEDULE) or name in FIELDS
    is_ours = rule in ZOO or name.startswith("optimizer.aux_")
    return "" if is_shared or is_ours else rule


def format_setting(value: Any) -> str:
    """A setting as people read it: None is "none"; UNSET, a default that does not exist, is empty."""
    return "" if value is UNSET else "none" if is_missing(value) else printed(value)


def note_values(column: str, names: Iterable[str], runs: Runs) -> list[Note]:
    """The values of a setting in some rows, each with the names of its rows."""
    values = grouped(names, lambda name: format_setting(runs[name][column]))
    return [Note("fixed_value", value=value, names=rows) for value, rows in values.items()]


def _find_group_default(run: Mapping[str, Any], group: str, word: str) -> Any:
    """What a named group has if it leaves a setting open (`optimizers.zoo.grouped`); UNSET: not known."""
    main, other = str(run["rule"]), str(run.get(f"groups.{group}.optimizer"))
    rule, taker = ZOO.get(main), ZOO.get(other)
    if word in groups.SCHEDULE:
        return run.get(f"schedule.{groups.SCHEDULE[word]}")
    if word == "optimizer":
        return UNSET if rule is None or group not in KINDS else usual(rule, group)
    if other == main:
        return run.get(word)
    if other == "adamw" and rule is not None and rule.has_aux:
        value = run.get(f"aux_{word}")
        return run.get(word) if is_missing(value) else value
    param = params_of(taker).get(f"optimizer.{word}")
    return UNSET if taker is None or param is None else param.default
