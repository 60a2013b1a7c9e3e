"""Settings that nobody searched: where they are not the defaults of an optimizer, and where rows are unlike.

A rival with crippled fixed settings loses as surely as one with a crippled grid.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from htbench.harness.choice.winner import grouped
from htbench.harness.config.settings import USUAL
from htbench.harness.show.note import Note
from htbench.harness.show.numbers import setting as printed
from htbench.optimizers.zoo.registry import UNSET
from htbench.optimizers.zoo.same import EXACT, rule_of
from htbench.results.compare.defaults import Defaults, Runs, defaults, noted_outside, rows_with, setting_word
from htbench.results.compare.idle import idle
from htbench.results.compare.select import Choice, Row
from htbench.results.frames.from_csv import FILE
from htbench.results.frames.identity import setting_name
from htbench.results.frames.load import tuned_columns
from htbench.results.frames.metrics import is_missing

Notes = tuple[Note, ...]

_BESIDE = ("aux_", "groups.")  # what columns of settings begin with that are not of the main rule
_NEAR = 4.0  # numbers closer than by this factor are close


def notes(
    choices: Sequence[Choice], names: Sequence[str], columns: Collection[str]
) -> tuple[list[Notes], Notes]:
    """What is to be told of fixed settings.

    Args:
        choices: a row each.
        names: of the rows.
        columns: the fixed ones among the tuned columns of the frame.

    Returns:
        the footnotes to each row, and what stands under the table: what is no default in all rows alike, and
        what is not alike.
    """
    runs = {
        name: own.winner.runs[0] for name, own in zip(names, choices, strict=True) if own.winner is not None
    }
    columns = [name for name in columns if name != "routing"]  # `results.compare.routes` tells it
    acting = {name: defaults(run, columns) for name, run in runs.items()}
    other = {name: _not_defaults(run, acting[name]) for name, run in runs.items()}
    first = next(iter(other.values()), {})
    everywhere = [name for name in first if all(own.get(name) == first[name] for own in other.values())]
    far = [
        name for name in everywhere if any(_is_far(run, name, acting[at][name]) for at, run in runs.items())
    ]
    rows = {
        at: _of_row(run, acting[at], {name: other[at][name] for name in other[at] if name not in everywhere})
        for at, run in runs.items()
    }
    told = {own["name"] for row in rows.values() for note in row if note.danger() for own in note["settings"]}
    unlike = [note for column in columns for note in _unlike(column, runs, acting)]
    parts = {
        "fixed_everywhere": [first[name] for name in far],
        "fixed_alike": [first[name] for name in everywhere if name not in far],
        "fixed_unlike": [own for own in unlike if own["name"] not in told],
        "fixed_unlike_told": [own for own in unlike if own["name"] in told],
    }
    below = [
        Note(kind, settings=own, columns=[one["name"] for one in own]) for kind, own in parts.items() if own
    ]
    exact = twins(choices)
    for name, run in runs.items():
        rows[name] = (*rows[name], *([exact[name]] if name in exact else []), *idle(run))
    return [rows.get(name, ()) for name in names], tuple(below)


def split(choices: Sequence[Choice], names: Sequence[str], columns: Collection[str]) -> Notes:
    """What the parameters beside a rule's own get: was it tuned for a row, or fixed, for all rows alike?

    Told where some row has tuned it or names groups of parameters.

    Args:
        choices, names: as in `notes`.
        columns: all tuned columns of the frame.
    """
    beside = [name for name in columns if name.startswith(_BESIDE)]
    tuned, fixed = [], dict[tuple[tuple[str, str], ...], list[str]]()
    for name, own in zip(names, choices, strict=True):
        run = own.winner.runs[0] if own.winner is not None else {}
        values = tuple((at, printed(run[at])) for at in beside if not is_missing(run.get(at)))
        if values and {at for at, _ in values}.intersection(own.axes):
            tuned.append(name)
        elif values:
            fixed.setdefault(values, []).append(name)
    if not tuned and not any(at.startswith(_BESIDE[1]) for values in fixed for at, _ in values):
        return ()
    parts = [Note("split_tuned", names=tuned)] if tuned else []
    parts += [Note("split_fixed", names=own) for own in fixed.values()]
    return (Note("split", parts=parts),)


def rules(choices: Sequence[Choice], names: Sequence[str]) -> tuple[dict[str, str], Notes]:
    """The row of the zoo whose rule each row is, by its name, and what is told where two names are one rule.

    Edited code and rows of a file are rules of their own.

    Args:
        choices, names: as in `notes`.
    """
    runs = {name: own.winner.runs[0] for name, own in zip(names, choices, strict=True) if own.winner}
    reasons = {name: _rule(run, "rule_reason") for name, run in runs.items()}
    found = {name: str(reasons[name]["rule"]) if name in reasons else name for name in names}
    exact = twins(choices)
    return found, tuple(
        Note("one_rule", names=own, reasons=[reasons[name] for name in own if name != rule])
        for rule, own in grouped([name for name in names if name not in exact], found.__getitem__).items()
        if len(own) > 1
    )


def twins(choices: Iterable[Choice]) -> dict[str, Note]:
    """The optimizers that another one is bit for bit, but for the rate: they are one result, and one stands.

    Returns:
        by name of the optimizer what is told of it; `rule` is the one that stands.
    """
    runs = {str(own.fixed["optimizer"]): own.winner.runs[0] for own in choices if own.winner is not None}
    found = {name: _rule(run, "twin") for name, run in runs.items() if run["rule"] in EXACT}
    return {
        name: note
        for name, note in found.items()
        if note["rule"] != name and note["rule"] in runs and _are_set_alike(runs[name], runs[note["rule"]])
    }


def _rule(run: Row, kind: str) -> Note:
    """The row whose rule a run has, and the settings that make it so."""
    name, is_ours = str(run["optimizer"]), run["rule"] == run["optimizer"]
    settings = {at: None if is_missing(value) else value for at, value in run.items()}
    rule, needed = rule_of(name, settings) if is_ours else (name, {})
    values = [Note("rule_setting", name=at, value=printed(value)) for at, value in needed.items()]
    return Note(kind, name=name, settings=values, rule=rule)


def _are_set_alike(run: Row, other: Row) -> bool:
    """Whether two runs share all settings that both have, but for the rate, and all of named groups."""
    pairs = {at: (run[at], other.get(at)) for at in tuned_columns([run]) if at != "lr"}
    known = {at: [own for own in pair if not is_missing(own)] for at, pair in pairs.items()}
    return all(
        not own or (own[0] == own[-1] and (len(own) == 2 or not at.startswith(_BESIDE[1])))
        for at, own in known.items()
    )


def not_default(choice: Choice, searched: Collection[str]) -> tuple[Note, ...]:
    """The footnote to the choice of one row: what nobody searched and is no default.

    Args:
        choice: it has a note if it has a winner.
        searched: columns that were searched, or that the table fixes itself.
    """
    if choice.winner is None:
        return ()
    columns = [name for name in tuned_columns(choice.rows) if name not in searched]
    run = choice.winner.runs[0]
    acting = defaults(run, columns)
    return (*_of_row(run, acting, _not_defaults(run, acting)), *idle(run))


def _not_defaults(run: Row, acting: Defaults) -> dict[str, Note]:
    """The settings of a run that are not the defaults, by column; a file of results tells no defaults."""
    return {
        name: Note("fixed_setting", name=name, value=setting_word(run[name]), default=setting_word(default))
        for name, default in acting.items()
        if setting_word(run[name]) != setting_word(default) and not run.get(FILE)
    }


def _of_row(run: Row, acting: Defaults, other: Mapping[str, Note]) -> Notes:
    """The footnotes to a row: what could mislead, what is usual, and what has a default that nobody noted."""
    kinds: dict[str, list[Note]] = {"fixed_not_default": [], "fixed_usual": [], "fixed_unrecorded": []}
    unknown = not noted_outside(run)
    for name, note in other.items():
        is_unknown = unknown and acting[name] is UNSET and not name.startswith(_BESIDE[1])
        usual = run[name] in USUAL.get(setting_name(name), ())
        kinds["fixed_unrecorded" if is_unknown else "fixed_usual" if usual else "fixed_not_default"].append(
            note
        )
    return tuple(Note(kind, settings=own) for kind, own in kinds.items() if own)


def _is_far(run: Row, column: str, default: Any) -> bool:
    """Whether a setting is a number far from its default, and not one that our own files have, too."""
    own, usual = _numbers(run, column, run[column]), _numbers(run, column, default)
    if run[column] in USUAL.get(setting_name(column), ()):
        return False
    return len(own) != len(usual) or not all(map(_is_near, own, usual))


def _numbers(run: Row, column: str, value: Any) -> tuple[float, ...]:
    """The numbers in a setting; a warm-up in steps is a fraction of the run."""
    parts = value if isinstance(value, list | tuple) else (value,)
    if any(isinstance(x, bool) or not isinstance(x, int | float) or x != x for x in parts):
        return ()
    return tuple(x / run["steps"] if column == "schedule.warmup" and x >= 1 else x for x in parts)


def _is_near(one: float, other: float) -> bool:
    """Whether two numbers are close, and their distances from 1, too: a mean of .999 is not one of .9."""
    pairs = ((one, other), *([(1 - one, 1 - other)] if max(one, other) < 1 else []))
    return all(x == y or (x * y > 0 and 1 / _NEAR <= x / y <= _NEAR) for x, y in pairs)


def _unlike(column: str, runs: Runs, acting: Mapping[str, Defaults]) -> list[Note]:
    """The values of a setting that some rows have alike by name and meaning, and do not share."""
    found = []
    for names in rows_with(column, runs, acting):
        values = grouped(names, lambda name: setting_word(runs[name][column]))
        parts = [Note("fixed_value", value=value, names=own) for value, own in values.items()]
        found += [Note("fixed_values", name=column, values=parts)] if len(values) > 1 else []
    return found
