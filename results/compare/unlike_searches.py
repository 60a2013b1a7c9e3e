"""Where rows were not searched or evaluated alike: an axis that others have fixed, or far coarser.

A rival with a crippled grid loses as surely as one with crippled fixed settings.
"""

import math
from collections.abc import Mapping, Sequence

from htbench.harness.show.note import Note
from htbench.optimizers.zoo.registry import ZOO
from htbench.results.compare.defaults import find_defaults, group_rows_by_setting, note_values, read_outside
from htbench.results.compare.routes import find_group_columns
from htbench.results.compare.select import Choice, list_winner_runs

_COARSER = 4.0  # a note names a row whose steps are so many times as wide as another row's


def note_unlike_searches(choices: Sequence[Choice]) -> list[Note]:
    """The notes on the searches of some rows, and on the weights that they are evaluated at.

    Args:
        choices: a row each.
    """
    runs = list_winner_runs(choices)
    searched = {choice.optimizer: choice for choice in choices if choice.winner and choice.axes}
    notes: list[Note] = []
    columns = list(dict.fromkeys(column for choice in searched.values() for column in choice.axes))
    acting = {name: find_defaults(runs[name], columns) if name in searched else {} for name in runs}
    for column in columns:
        for group in group_rows_by_setting(column, runs, acting):
            along = [name for name in group if column in searched[name].axes]
            values = note_values(column, [name for name in group if name not in along], runs)
            if along and values:
                notes.append(Note("axis_fixed", column=column, names=along, values=values))
            notes += _note_coarser_axis(column, {name: searched[name] for name in group})
    switching = []  # their optimizers are evaluated at other weights than those they train
    for name, run in runs.items():
        rules = [ZOO.get(str(run[at])) for at in ("rule", *find_group_columns(tuple(run)))]
        if read_outside(run).get("switches") is True or any(rule and rule.switches for rule in rules):
            switching.append(name)
    if 0 < len(switching) < len(runs):
        notes.append(Note("averaged_in_some", names=switching, count=len(switching)))
    return notes


def _note_coarser_axis(column: str, choices: Mapping[str, Choice]) -> list[Note]:
    """The note on rows that were searched in far wider steps than another one."""
    tried = {
        name: sorted({x for row in choice.rows if isinstance(x := row[column], int | float) and x > 0})
        for name, choice in choices.items()
    }
    steps = {name: math.log2(x[-1] / x[0]) / (len(x) - 1) for name, x in tried.items() if len(x) > 1}
    fine = min(steps, key=steps.__getitem__, default="")
    coarse = [name for name in steps if steps[name] > _COARSER * steps[fine]]
    ranges = [
        Note("axis_range", name=name, count=len(x := tried[name]), low=x[0], high=x[-1])
        for name in (*coarse, *([fine] if coarse else []))
    ]
    return [Note("axis_coarse", column=column, names=coarse, best=fine, ranges=ranges)] if coarse else []
