"""What the page consists of: summary, tables, figures, ledger, cost, and the runs behind the cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from harness.show.report import Report
from harness.store import Store
from results.compare.view import View
from results.page import overview, page
from results.page.page import Part
from results.page.runs import MOST_RUNS, Behind, details
from results.page.styles import styles
from results.tables.ledger import ledger
from results.tables.registry import TABLES

_HINT = '<p class="script">Click a value: its runs, with curves, settings, environment and log.</p>'


def write(store: Store, frame: pd.DataFrame, figures: Mapping[str, bytes]) -> str:
    """The whole page. Same store, same text.

    Args:
        store: where the runs are.
        frame: the tidy frame.
        figures: PNG by name, in the order of the page.
    """
    view = View(frame, store=store)
    tables = [table for make in TABLES.values() if (table := make(view)).sections]
    claims = ledger(frame, store) if view.scales else []
    behind = Behind.of([*tables, *claims], frame["key"])
    told = details(store, frame, behind)
    parts = [
        _summary(frame),
        _tables("tables", "Tables", tables, behind),
        _figures(figures),
        *([_tables("ledger", "Ledger", claims, behind)] if claims else []),
        Part("cost", "Cost", _plain(overview.cost(frame))),
        Part("runs", "Runs", page.table(overview.runs(frame, behind), behind.attributes, heading=False)),
    ]
    data = {"runs-data": told | {"styles": styles({run["optimizer"] for run in told["runs"]})}}
    return page.page("htbench report", parts, data)


def _summary(frame: pd.DataFrame) -> Part:
    tables = [overview.sweeps(frame), overview.environments(frame)]
    return Part("summary", "Summary", page.facts(overview.in_words(frame)) + _plain(tables))


def _plain(tables: Sequence[Report]) -> str:
    return "\n".join(page.table(table, heading=False) for table in tables)


def _tables(name: str, title: str, tables: Sequence[Report], behind: Behind) -> Part:
    body = [page.table(table, behind.attributes) for table in tables]
    few = f"<p>Only the first {MOST_RUNS} runs have their details here.</p>" if behind.left_out else ""
    entries = [(f"table-{table.name}", table.name) for table in tables]
    return Part(name, title, "\n".join([_HINT, few, *body]), entries)


def _figures(figures: Mapping[str, bytes]) -> Part:
    body = "\n".join(page.figure(name, png) for name, png in figures.items())
    return Part("figures", "Figures", body, [(f"figure-{name}", name) for name in figures])
