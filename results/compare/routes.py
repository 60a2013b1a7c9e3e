"""Which parameters a matrix rule has: with embedding and head it is another method than with hidden ones."""

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from htbench.harness.choice.winner import grouped
from htbench.harness.show.note import Note
from htbench.optimizers.zoo.registry import ZOO
from htbench.results.frames.metrics import describe_task, is_missing

# Words of authors that mean in a language model what a word for users does: it has no kernels.
_IN_TEXT = {"two_dimensional": "matrix", "hidden_linear": "hidden"}


def note_routes(runs: Iterable[Mapping[str, Any]]) -> tuple[list[Note], list[Note]]:
    """Which parameters the rules of a table have: a note, and the line of a screen that does not warn.

    Args:
        runs: rows of the frame, as tables show them. One whose rule has all parameters, and no named groups,
            is not told.
    """
    routed = [run for run in runs if _find_route(run) or _list_groups(run)]
    parts = list[Note]()
    # GaLore has Adam at its own rate for the rest, where others have an AdamW.
    alike = grouped(routed, lambda run: (is_missing(run.get("aux_lr")), _find_route(run), _list_groups(run)))
    for (_, word, group_rules), rows in alike.items():
        where = Note(f"route_{word or 'all'}", images=int(describe_task(rows).kind == "image"))
        rates = sorted({run["aux_lr"] for run in rows if word and not is_missing(run.get("aux_lr"))})
        having = [Note("route_group", group=name, rule=rule) for name, rule in group_rules]
        names = list(dict.fromkeys(str(run["optimizer"]) for run in rows))
        parts.append(Note("route", names=names, where=where, rates=rates, groups=having))
    if len({(word, group_rules) for _, word, group_rules in alike}) > 1:
        return [Note("routing_unlike", parts=parts)], []
    return ([Note("routing", parts=parts)], [Note("routed", parts=parts)]) if parts else ([], [])


def _find_route(run: Mapping[str, Any]) -> str:
    """What the rule has, a key of `optimizers.routing.ROUTES`; empty if it has all parameters."""
    row, word = ZOO.get(str(run["rule"])), run.get("routing")
    if is_missing(word) or (word == "released" if row is None else not row.routed):
        return ""
    word = row.released if row is not None and word == "released" else str(word)
    return _IN_TEXT.get(word, word) if describe_task([run]).kind == "lm" else word


def _list_groups(run: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The named groups with settings of their own, each with its optimizer if that is another one."""
    columns = find_group_columns(tuple(run))
    rules = [(name.split(".", 1)[1], str(run[name])) for name in columns if not is_missing(run[name])]
    return tuple((name.rpartition(".")[0], rule if rule != run["rule"] else "") for name, rule in rules)


@functools.lru_cache  # all rows of a frame have the same hundreds of columns
def find_group_columns(columns: tuple[str, ...]) -> list[str]:
    """The columns that name the optimizers of groups."""
    return sorted(name for name in columns if name.startswith("groups.") and name.endswith(".optimizer"))
