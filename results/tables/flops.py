"""Operations of an update by the formulas of the paper, beside those that the code here makes."""

import math
from collections.abc import Iterable

from htbench.harness.choice.winner import grouped
from htbench.harness.paper import scales
from htbench.harness.show.note import Note
from htbench.harness.show.report import Cell, Column, Report, Section
from htbench.results.compare.view import View
from htbench.results.tables import counted
from htbench.results.tables.counted import CountedUpdate

P, NS_STEPS = 0.125, 5  # of the paper's experiments and of all released code
_GIGA = 1e9
_COLUMNS = (
    Column("matrix", "matrix (m x n)", "text"),
    Column("number"),
    *(
        Column(f"{name}_{how}_gflop", f"{label} {how}")
        for name, label in (("muon", "Muon"), ("htmuon_ns", "HTMuon_NS"))
        for how in ("formula", "counted")
    ),
    Column("htmuon_products_gflop", "HTMuon counted"),
    Column("htmuon_decompositions_gflop", "HTMuon decomposition"),
)
_NOTES = (
    Note("flops_unit"),
    Note("flops_formula", steps=NS_STEPS, levels=math.log2(2 / P), p=P),
    Note("flops_counted"),
    Note("flops_muon"),
    Note("flops_roots"),
    Note("flops_htmuon"),
)


def muon(m: int, n: int) -> float:
    """Operations of Muon's update of an m x n matrix by the paper."""
    return 20.0 * m * n * min(m, n)


def htmuon_ns(m: int, n: int, p: float = P, ns_steps: int = NS_STEPS) -> float:
    """Operations of HTMuon_NS by the paper, whose brackets around L are read as rounding, as in its code."""
    levels = round(math.log2(2 / p))
    return muon(m, n) + 4.0 * m * n**2 + 6.0 * levels * ns_steps * n**3


def make_table(view: View) -> Report:
    """One section per model: those of the paper, and of the scales that are shown."""
    by_model = grouped(counted.read_counted(), lambda update: (update.task, update.model))
    names = [*(["paper"] if view.published else []), *view.scales] if view.asked or view.scales else []
    places = dict.fromkeys(twin for name in names for twin in scales.twins(name).values())
    sections = [_make_section(*place, by_model[place]) for place in places]
    return Report("flops", "operations of an update, by the paper's formulas and counted", sections)


def _make_section(task: str, model: str, updates: Iterable[CountedUpdate]) -> Section:
    """The largest matrices first, then their sum."""
    by_shape = grouped(sorted(updates, key=_sort_key), _sort_key)
    rows, total = [], [0.0] * 6
    for (_, m, n, number), same_shape in by_shape.items():
        by_optimizer = {update.optimizer: update for update in same_shape}
        operations = [
            muon(m, n),
            by_optimizer["muon"].products,
            htmuon_ns(m, n),
            by_optimizer["htmuon_ns"].products,
            by_optimizer["htmuon"].products,
            by_optimizer["htmuon"].decompositions,
        ]
        rows.append([Cell(f"{m} x {n}"), Cell(number), *map(_make_cell, operations)])
        total = [sum_ + number * own_ for sum_, own_ in zip(total, operations, strict=True)]
    rows.append([Cell("all"), Cell(sum(number for *_, number in by_shape)), *map(_make_cell, total)])
    return Section(f"{task}, {model}", {"task": task, "model": model}, _COLUMNS, rows, notes=_NOTES)


def _sort_key(update: CountedUpdate) -> tuple[int, int, int, int]:
    return -update.rows * update.columns, update.rows, update.columns, update.number


def _make_cell(operations: float) -> Cell:
    """In GFLOP, with decimals that leave three digits or more."""
    value = operations / _GIGA
    return Cell(value, digits=max(0, 2 - math.floor(math.log10(value))) if value else 0)
