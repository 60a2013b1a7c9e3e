"""How many settings of each optimizer were tried, in words: more trials make a better best one likelier."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import pandas as pd

from harness.store.points import SEARCH
from results.compare.select import Choice
from results.tables.footnotes import listing

Term = TypeVar("Term", bound=Hashable)


def budgets(part: pd.DataFrame, choices: Sequence[Choice]) -> list[str]:
    """The sentences under a table: numbers of settings, and the terms of searches if there are any.

    Args:
        part: the rows of one workload.
        choices: its optimizers' choices.
    """
    sizes = {str(choice.fixed["optimizer"]): choice.tried for choice in choices}
    dropped = {str(choice.fixed["optimizer"]): choice.dropped for choice in choices if choice.dropped}
    return [*_sizes(sizes), *_dropped(dropped), *_terms(part)]


def _dropped(sizes: Mapping[str, int]) -> list[str]:
    """ "Settings dropped from the plan count as tried: 2 of muon."; nothing without any."""
    named = [f"{n} of {name}" for name, n in sizes.items()]
    return [f"Settings dropped from the plan count as tried: {listing(named)}."] if named else []


def _sizes(sizes: Mapping[str, int]) -> list[str]:
    """ "htmuon was chosen among 9 settings, adamw, sgdm and muon among 3."; nothing without any choice."""
    groups = sorted(_inverted(sizes).items(), reverse=True)
    if not groups:
        return []
    most, names = groups[0]
    if len(groups) == 1:
        return [f"Each optimizer: {most} settings."] if most > 1 else []
    rest = "".join(f", {listing(others)} among {n}" for n, others in groups[1:])
    return [f"{listing(names)} {'was' if len(names) == 1 else 'were'} chosen among {most} settings{rest}."]


def _terms(part: pd.DataFrame) -> list[str]:
    """How studies searched. Grids say it all by their size, except beside a search."""
    rows = part.loc[part["stage"] == SEARCH, ["optimizer", "search"]].drop_duplicates()
    terms: dict[str, list[str]] = {}
    for name, search in rows.itertuples(index=False, name=None):
        terms.setdefault(str(name), []).append(search or "a grid")
    if set().union(*terms.values()) <= {"a grid"}:
        return []
    groups = _inverted({name: listing(own) for name, own in terms.items()})
    if len(groups) == 1:
        return [f"Each optimizer was searched by {how}." for how in groups]
    searches = "; ".join(f"{listing(names)} by {how}" for how, names in groups.items())
    return [f"Not searched alike: {searches}."]


def _inverted(terms: Mapping[str, Term]) -> dict[Term, list[str]]:
    """The names of each term, in their order."""
    names: dict[Term, list[str]] = {}
    for name, term in terms.items():
        names.setdefault(term, []).append(name)
    return names
