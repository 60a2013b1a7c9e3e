"""Where rows were not searched or evaluated alike: an axis that others have fixed, or far coarser.

A rival with a crippled grid loses as surely as one with crippled fixed settings.
"""

import math
from collections.abc import Mapping, Sequence

from htbench.harness.choice.winner import grouped
from htbench.harness.show.note import Note
from htbench.optimizers.zoo.registry import ZOO
from htbench.results.compare.defaults import Runs, defaults, noted_outside, rows_with, setting_word
from htbench.results.compare.select import Choice, Row

_COARSER = 4.0  # steps so many times as wide as another row's are told


def unlike(choices: Sequence[Choice], names: Sequence[str]) -> list[Note]:
    """What is to be told of the searches of some rows, and of the weights that they are evaluated at.

    Args:
        choices: a row each.
        names: of the rows.
    """
    runs = {name: own.winner.runs[0] for name, own in zip(names, choices, strict=True) if own.winner}
    searched = {name: own for name, own in zip(names, choices, strict=True) if name in runs and own.axes}
    found: list[Note] = []
    columns = list(dict.fromkeys(column for own in searched.values() for column in own.axes))
    acting = {name: defaults(runs[name], columns) if name in searched else {} for name in runs}
    for column in columns:
        for own in rows_with(column, runs, acting):
            found += _fixed_in_some(column, {name: searched[name] for name in own}, runs)
            found += _coarser_in_some(column, {name: searched[name] for name in own})
    switching = [name for name, run in runs.items() if _switches(run)]
    mixed = 0 < len(switching) < len(runs)
    return [*found, *([Note("averaged_in_some", names=switching, count=len(switching))] if mixed else [])]


def _fixed_in_some(column: str, choices: Mapping[str, Choice], runs: Runs) -> list[Note]:
    """The note on an axis of some rows that is no axis of others, which have the setting, too."""
    along = [name for name, own in choices.items() if column in own.axes]
    values = grouped(
        (name for name in choices if name not in along), lambda at: setting_word(runs[at][column])
    )
    parts = [Note("fixed_value", value=value, names=names) for value, names in values.items()]
    return [Note("axis_fixed", column=column, names=along, values=parts)] if along and parts else []


def _coarser_in_some(column: str, choices: Mapping[str, Choice]) -> list[Note]:
    """The note on rows that were searched in far wider steps than another one."""
    tried = {
        name: sorted({x for row in own.rows if isinstance(x := row[column], int | float) and x > 0})
        for name, own in choices.items()
    }
    steps = {name: math.log2(x[-1] / x[0]) / (len(x) - 1) for name, x in tried.items() if len(x) > 1}
    fine = min(steps, key=steps.__getitem__, default="")
    coarse = [name for name in steps if steps[name] > _COARSER * steps[fine]]
    ranges = [
        Note("axis_range", name=name, count=len(x := tried[name]), low=x[0], high=x[-1])
        for name in (*coarse, *([fine] if coarse else []))
    ]
    return [Note("axis_coarse", column=column, names=coarse, best=fine, ranges=ranges)] if coarse else []


def _switches(run: Row) -> bool:
    """Whether an optimizer of a run is evaluated at other weights than those it trains."""
    takers = [name for name in run if name.startswith("groups.") and name.endswith(".optimizer")]
    rows = [ZOO.get(str(run[name])) for name in ("rule", *takers)]
    return noted_outside(run).get("switches") is True or any(row is not None and row.switches for row in rows)
