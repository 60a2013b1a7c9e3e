"""Settings that nobody searched: where they are not the defaults of an optimizer, and where rows are unlike.

A rival with crippled fixed settings loses as surely as one with a crippled grid.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from htbench.harness.choice.winner import grouped
from htbench.harness.config.programs import RULE
from htbench.harness.config.settings import USUAL
from htbench.harness.show.note import Note
from htbench.harness.show.numbers import setting as printed
from htbench.optimizers.zoo.registry import UNSET
from htbench.optimizers.zoo.same import EXACT, rule_of
from htbench.results.compare.defaults import (
    Defaults,
    find_defaults,
    format_setting,
    group_rows_by_setting,
    note_values,
    read_outside,
)
from htbench.results.compare.idle_settings import note_idle_settings
from htbench.results.compare.select import Choice, Row, list_winner_runs
from htbench.results.frames.from_csv import FILE
from htbench.results.frames.identity import setting_name
from htbench.results.frames.load import tuned_columns
from htbench.results.frames.metrics import is_missing

Notes = tuple[Note, ...]

_BESIDE = ("aux_", "groups.")  # what columns of settings begin with that are not of the main rule
_NEAR = 4.0  # numbers closer than by this factor are close


def note_fixed_settings(
    choices: Sequence[Choice], columns: Collection[str], twins: Mapping[str, Note]
) -> tuple[dict[str, Notes], Notes]:
    """The notes on fixed settings.

    Args:
        choices: a row each.
        columns: the fixed ones among the tuned columns of the frame.
        twins: as from `find_twins`.

    Returns:
        the footnotes to each row that has a winner, and the notes under the table: on settings that are no
        defaults in all rows alike, and on those that differ between rows.
    """
    runs = list_winner_runs(choices)
    columns = [name for name in columns if name != "routing"]  # `results.compare.routes` has a note on it
    acting = {name: find_defaults(run, columns) for name, run in runs.items()}
    changed = {name: _find_changed(run, acting[name]) for name, run in runs.items()}
    first = next(iter(changed.values()), {})
    everywhere = [name for name in first if all(row.get(name) == first[name] for row in changed.values())]
    far = [
        name for name in everywhere if any(_is_far(run, name, acting[at][name]) for at, run in runs.items())
    ]
    rows, in_rows = dict[str, Notes](), set[str]()
    for at, run in runs.items():
        apart = {name: note for name, note in changed[at].items() if name not in everywhere}
        rows[at] = _note_row(run, acting[at], apart)
        dangers = [note for note in rows[at] if note.danger()]
        in_rows |= {setting["name"] for note in dangers for setting in note["settings"]}
    unlike = [
        Note("fixed_values", name=column, values=values)
        for column in columns
        for group in group_rows_by_setting(column, runs, acting)
        if len(values := note_values(column, group, runs)) > 1
    ]
    parts = {
        "fixed_everywhere": [first[name] for name in far],
        "fixed_alike": [first[name] for name in everywhere if name not in far],
        "fixed_unlike": [note for note in unlike if note["name"] not in in_rows],
        "fixed_unlike_told": [note for note in unlike if note["name"] in in_rows],
    }
    below = [
        Note(kind, settings=settings, columns=[note["name"] for note in settings])
        for kind, settings in parts.items()
        if settings
    ]
    for name, run in runs.items():
        rows[name] = (*rows[name], *([twins[name]] if name in twins else []), *note_idle_settings(run))
    return rows, tuple(below)


def note_split(choices: Iterable[Choice], columns: Collection[str]) -> Notes:
    """The note on the settings of parameters that a rule does not update: tuned for a row, or fixed for all?

    None unless some row has tuned them or names groups of parameters.

    Args:
        choices: a row each.
        columns: all tuned columns of the frame.
    """
    beside = [name for name in columns if name.startswith(_BESIDE)]
    tuned, fixed = [], dict[tuple[tuple[str, str], ...], list[str]]()
    for choice in choices:
        name, run = choice.optimizer, choice.winner.runs[0] if choice.winner is not None else {}
        values = tuple((at, printed(run[at])) for at in beside if not is_missing(run.get(at)))
        if values and {at for at, _ in values}.intersection(choice.axes):
            tuned.append(name)
        elif values:
            fixed.setdefault(values, []).append(name)
    if not tuned and not any(at.startswith(_BESIDE[1]) for values in fixed for at, _ in values):
        return ()
    parts = [Note("split_tuned", names=tuned)] if tuned else []
    parts += [Note("split_fixed", names=rows) for rows in fixed.values()]
    return (Note("split", parts=parts),)


def find_rules(choices: Sequence[Choice], twins: Collection[str]) -> tuple[dict[str, str], Notes]:
    """The row of the zoo whose rule each row is, by its name, and the notes on rows that are one rule.

    Edited code and rows of a file are rules of their own.

    Args:
        choices: a row each.
        twins: names of those that are another one bit for bit.
    """
    reasons = {name: _note_rule(run, "rule_reason") for name, run in list_winner_runs(choices).items()}
    names = [choice.optimizer for choice in choices]
    rules = {name: str(reasons[name]["rule"]) if name in reasons else name for name in names}
    return rules, tuple(
        Note("one_rule", names=rows, reasons=[reasons[name] for name in rows if name != rule])
        for rule, rows in grouped([name for name in names if name not in twins], rules.__getitem__).items()
        if len(rows) > 1
    )


def find_twins(choices: Sequence[Choice]) -> dict[str, Note]:
    """The optimizers that equal another one bit for bit, but for the rate: their results are one result.

    Returns:
        the note on each by its name; its field `rule` is the one whose result is shown.
    """
    runs = list_winner_runs(choices)
    exact = {name: _note_rule(run, "twin") for name, run in runs.items() if run["rule"] in EXACT}
    return {
        name: note
        for name, note in exact.items()
        if note["rule"] != name and note["rule"] in runs and _are_set_alike(runs[name], runs[note["rule"]])
    }


def _note_rule(run: Row, kind: str) -> Note:
    """The row whose rule a run has, and the settings that make it so."""
    name, is_ours = str(run["optimizer"]), run["rule"] == run["optimizer"]
    settings = {at: None if is_missing(value) else value for at, value in run.items()}
    rule, needed = rule_of(name, settings) if is_ours else (name, {})
    values = [Note("rule_setting", name=at, value=printed(value)) for at, value in needed.items()]
    return Note(kind, name=name, settings=values, rule=rule)


def _are_set_alike(run: Row, other: Row) -> bool:
    """Whether two runs share all settings that both have, but for the rate, and all of named groups."""
    pairs = {at: (run[at], other.get(at)) for at in tuned_columns([run]) if at != "lr"}
    values = {at: [value for value in pair if not is_missing(value)] for at, pair in pairs.items()}
    return all(
        not known or (known[0] == known[-1] and (len(known) == 2 or not at.startswith(_BESIDE[1])))
        for at, known in values.items()
    )


def note_not_default(choice: Choice, searched: Collection[str]) -> tuple[Note, ...]:
    """The footnotes to the choice of one row: settings that nobody searched and that are no defaults.

    Args:
        choice: it has a note if it has a winner.
        searched: columns that were searched, or that the table fixes itself.
    """
    if choice.winner is None:
        return ()
    columns = [name for name in tuned_columns(choice.rows) if name not in searched]
    run = choice.winner.runs[0]
    acting = find_defaults(run, columns)
    return (*_note_row(run, acting, _find_changed(run, acting)), *note_idle_settings(run))


def _find_changed(run: Row, acting: Defaults) -> dict[str, Note]:
    """The settings of a run that are not the defaults, by column; a file of results has no defaults."""
    return {
        name: Note(
            "fixed_setting", name=name, value=format_setting(run[name]), default=format_setting(default)
        )
        for name, default in acting.items()
        if format_setting(run[name]) != format_setting(default) and not (run.get(FILE) or run["rule"] == RULE)
    }


def _note_row(run: Row, acting: Defaults, changed: Mapping[str, Note]) -> Notes:
    """The footnotes to a row: settings that could mislead, usual ones, and those whose default is unknown."""
    kinds: dict[str, list[Note]] = {"fixed_not_default": [], "fixed_usual": [], "fixed_unrecorded": []}
    unknown = not read_outside(run)
    for name, note in changed.items():
        is_unknown = unknown and acting[name] is UNSET and not name.startswith(_BESIDE[1])
        usual = run[name] in USUAL.get(setting_name(name), ())
        kind = "fixed_unrecorded" if is_unknown else "fixed_usual" if usual else "fixed_not_default"
        kinds[kind].append(note)
    return tuple(Note(kind, settings=settings) for kind, settings in kinds.items() if settings)


def _is_far(run: Row, column: str, default: Any) -> bool:
    """Whether a setting is a number far from its default, and not one that our own files have, too."""
    values, usual = (_read_numbers(run, column, value) for value in (run[column], default))
    if run[column] in USUAL.get(setting_name(column), ()):
        return False
    return len(values) != len(usual) or not all(map(_is_near, values, usual))


def _read_numbers(run: Row, column: str, value: Any) -> tuple[float, ...]:
    """The numbers in a setting; a warm-up in steps is a fraction of the run."""
    parts = value if isinstance(value, list | tuple) else (value,)
    if any(isinstance(x, bool) or not isinstance(x, int | float) or x != x for x in parts):
        return ()
    return tuple(x / run["steps"] if column == "schedule.warmup" and x >= 1 else x for x in parts)


def _is_near(a: float, b: float) -> bool:
    """Whether two numbers are close, and their distances from 1, too: a mean of .999 is not one of .9."""
    pairs = ((a, b), *([(1 - a, 1 - b)] if max(a, b) < 1 else []))
    return all(x == y or (x * y > 0 and 1 / _NEAR <= x / y <= _NEAR) for x, y in pairs)
