"""Settings that nobody searched: where they are not the defaults of an optimizer, and where rows are unlike.

A rival with crippled fixed settings loses as surely as one with a crippled grid.
"""

from collections.abc import Collection, Sequence
from typing import Any

from harness.choice.winner import grouped
from harness.config import groups
from harness.config.settings import params_of
from harness.show.note import Note
from harness.show.numbers import setting as printed
from harness.store.record import IMPORTED
from optimizers.zoo.grouped import KINDS, usual
from optimizers.zoo.registry import ZOO
from optimizers.zoo.same import rule_of
from results.compare.select import Choice, Row
from results.frames.identity import setting_name
from results.frames.load import tuned_columns
from results.frames.metrics import is_missing

Notes = tuple[Note, ...]

_BESIDE = ("aux_", "groups.")  # what columns of settings begin with that are not of the main rule


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
    runs = [choice.winner.runs[0] if choice.winner is not None else None for choice in choices]
    other = [{} if run is None else _not_defaults(run, columns) for run in runs]
    known = [own for own, run in zip(other, runs, strict=True) if run is not None]
    everywhere = (
        [note for note in known[0].values() if all(note in own.values() for own in known)] if known else []
    )
    of_rows = [tuple(note for note in own.values() if note not in everywhere) for own in other]
    unlike = [note for name in columns if (note := _unlike(name, names, runs)) is not None]
    return (
        [(Note("fixed_not_default", settings=list(own)),) if own else () for own in of_rows],
        (
            *((Note("fixed_everywhere", settings=everywhere),) if everywhere else ()),
            *(
                (Note("fixed_unlike", settings=unlike, columns=[own["name"] for own in unlike]),)
                if unlike
                else ()
            ),
        ),
    )


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

    Edited code and runs of others are rules of their own.

    Args:
        choices, names: as in `notes`.
    """
    found, reasons = dict[str, str](), dict[str, Note]()
    for name, own in zip(names, choices, strict=True):
        run = own.winner.runs[0] if own.winner is not None else {}
        is_ours = run.get("rule") == name and not run[IMPORTED]
        settings = {at: None if is_missing(value) else value for at, value in run.items()}
        found[name], needed = rule_of(name, settings) if is_ours else (name, {})
        values = [Note("rule_setting", name=at, value=printed(value)) for at, value in needed.items()]
        reasons[name] = Note("rule_reason", name=name, settings=values, rule=found[name])
    return found, tuple(
        Note("one_rule", names=own, reasons=[reasons[name] for name in own if name != rule])
        for rule, own in grouped(names, found.__getitem__).items()
        if len(own) > 1
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
    own = _not_defaults(choice.winner.runs[0], columns)
    return (Note("fixed_not_default", settings=list(own.values())),) if own else ()


def _not_defaults(run: Row, columns: Collection[str]) -> dict[str, Note]:
    """The settings of a run that are not its optimizer's defaults. One from outside the zoo has none."""
    spec = ZOO.get(str(run["rule"]))
    params = params_of(spec) if spec is not None else {}
    found = {}
    for name in columns:
        if is_missing(run[name]):
            continue
        param, of_group = params.get(setting_name(name)), groups.parse(setting_name(name))
        default = _around(run, *of_group) if of_group else None if param is None else param.default
        if (is_missing(default) and not of_group) or printed(run[name]) == printed(default):
            continue
        told = {"value": printed(run[name]), "default": "none" if is_missing(default) else printed(default)}
        found[name] = Note("fixed_setting", name=name, **told)
    return found


def _around(run: Row, group: str, word: str) -> Any:
    """What a named group has if it leaves a setting open (`optimizers.zoo.grouped`); None: nobody knows."""
    rule, taker = (ZOO.get(str(run.get(name))) for name in ("rule", f"groups.{group}.optimizer"))
    if word in groups.SCHEDULE:
        return run.get(f"schedule.{groups.SCHEDULE[word]}")
    if word == "optimizer":
        return None if rule is None or group not in KINDS else usual(rule, group)
    if taker is None or taker is rule:
        return run.get(word)
    if taker.name == "adamw" and rule is not None and rule.has_aux:
        own = run.get(f"aux_{word}")
        return run.get(word) if is_missing(own) else own
    param = params_of(taker).get(f"optimizer.{word}")
    return None if param is None else param.default


def _is_inert(run: Row, column: str) -> bool:
    """Whether a setting changes nothing in a run."""
    spec = ZOO.get(str(run["rule"]))
    param = params_of(spec).get(setting_name(column)) if spec is not None else None
    return param is not None and param.is_inert(run)


def _unlike(column: str, names: Sequence[str], runs: Sequence[Row | None]) -> Note | None:
    having = {
        name: printed(run[column])
        for name, run in zip(names, runs, strict=True)
        if run is not None and not is_missing(run[column]) and not _is_inert(run, column)
    }
    values = grouped(having, having.__getitem__)
    if len(values) < 2:
        return None
    parts = [Note("fixed_value", value=value, names=own) for value, own in values.items()]
    return Note("fixed_values", name=column, values=parts)
