"""Optima at the edge of the tried values, over all sweeps of a store, and what one more point changes."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from htbench.harness.choice.edge import Edge, numbers, of_range, of_values
from htbench.harness.config.programs import RULE
from htbench.harness.show.status import UNFINISHED
from htbench.results.compare.select import Candidate, Choice, Row
from htbench.results.frames.identity import setting_name
from htbench.results.frames.metrics import is_missing


def find_edges(choice: Choice, columns: Iterable[str]) -> dict[str, list[Edge]]:
    """The edges and holes at which a winner lies, by column.

    In a grid its neighbours are the candidates of all sweeps that agree with it in every other tuned setting;
    if it is alone there, the values of its blocks. In a search the edges are the ends of the range. A grid of
    the paper has no holes: it was published so.

    Args:
        choice: its, within an optimizer on a workload.
        columns: the tuned ones.
    """
    assert choice.winner is not None
    rivals = choice.rows
    chosen = [row for row in rivals if row["candidate"] == choice.winner.name]
    from_grid = [row for row in chosen if not row["slot"]]
    plain = [row for row in from_grid if not row["allowed"]]
    from_grid = plain or from_grid  # a file to which a value can be added as it is
    find = _find_in_grid if from_grid else _find_in_study
    blocks = tuple(sorted({row["block"] for row in from_grid or chosen} - {""}))  # a file of results has none
    prefix = "optimizer." if chosen[0]["rule"] == RULE else ""  # which the file of a program does not know
    edges = {}
    for column in columns:
        fixed = [name for name in choice.axes if name != column]
        near = _list_numbers(row[column] for row in rivals if all(agree(row, chosen[0], at) for at in fixed))
        beside = [
            replace(edge, setting=edge.setting.removeprefix(prefix), blocks=blocks, is_drawn=not from_grid)
            for edge in find(column, from_grid or chosen, rivals, near)
            if edge.place != "hole" or chosen[0]["protocol"] != "paper"
        ]
        if beside:
            edges[column] = beside
    return edges


def _find_in_grid(column: str, chosen: Sequence[Row], rivals: Sequence[Row], near: list[float]) -> list[Edge]:
    blocks = {(row["sweep"], row["block"]) for row in chosen}
    planned = [row for row in rivals if (row["sweep"], row["block"]) in blocks]
    listed, allowed = _list_numbers(row[column] for row in planned), int(chosen[0]["allowed"])
    setting = setting_name(column)
    is_refined = allowed and setting == (chosen[0]["refines"] or "optimizer.lr")
    # `refine` has each value beside some rates: all that its axes list were tried.
    tried = near if len(near) > 1 and (is_refined or not allowed) else listed
    edges = of_values(chosen[0]["rule"], setting, chosen[0][column], tried, () if allowed else listed)
    trials, values = len({row["candidate"] for row in planned}), 0 if is_refined else len(listed)
    return [edge.beside_trials(allowed, trials, values) if allowed else edge for edge in edges]


def _find_in_study(
    column: str, chosen: Sequence[Row], rivals: Sequence[Row], near: list[float]
) -> list[Edge]:
    winner_axes, rival_axes = (_read_axes(column, some) for some in (chosen, rivals))
    if not winner_axes:
        return []  # fixed in this search
    place = chosen[0]["rule"], setting_name(column), chosen[0][column]
    choices = _list_numbers(value for axis in rival_axes for value in axis.get("choices", ()))
    if "choices" in winner_axes[0]:
        return of_values(*place, choices, choices)
    ends = [axis[end] for axis in rival_axes for end in ("low", "high") if end in axis]
    tried = _list_numbers([*choices, *near, *ends])
    drawn = _list_numbers(row[column] for row in rivals)
    study = chosen[0]["slot"].rpartition("/")[0]
    slots = {row["slot"]: row["state"] for row in rivals if row["slot"].rpartition("/")[0] == study}
    trials = sum(state not in UNFINISHED for state in slots.values())
    return [
        edge.beside_trials(len(slots), trials) if edge.place == "hole" else edge
        for edge in of_range(*place, (tried[0], tried[-1]), drawn, log=bool(winner_axes[0]["log"]))
    ]


def _read_axes(column: str, some: Iterable[Row]) -> list[dict[str, Any]]:
    """What the studies of some rows searched along a column."""
    studies = dict.fromkeys(row["ranges"] for row in some if row["ranges"])
    axes = (json.loads(ranges).get(setting_name(column)) for ranges in studies)
    return [axis for axis in axes if axis is not None]


def _list_numbers(values: Iterable[Any]) -> list[float]:
    """The distinct numbers that are there, ascending; nothing if some are no numbers."""
    return numbers(value for value in values if not is_missing(value))


def agree(row: Row, chosen: Row, name: str) -> bool:
    """Whether a row has the chosen row's value in a column, or will have it once it has run."""
    a, b = row[name], chosen[name]
    if is_missing(a) or is_missing(b):  # some defaults, such as aux_lr, are filled in by the run
        return is_missing(a) and (is_missing(b) or row["state"] in UNFINISHED)
    return bool(a == b)


def find_candidates_along(choice: Choice, column: str) -> list[Candidate]:
    """The candidates that differ from the winner in one tuned column only, it among them, ascending there.

    Args:
        choice: with a winner.
        column: of numbers, such as "lr". A candidate without one there is left out.
    """
    assert choice.winner is not None
    winner, fixed = choice.winner.runs[0], [name for name in choice.axes if name != column]
    near = []
    for candidate in choice.candidates:
        is_near = all(agree(candidate.runs[0], winner, name) for name in fixed)
        near += [candidate] if is_near and not is_missing(candidate.value(column)) else []
    return sorted(near, key=lambda candidate: float(candidate.value(column)))
