"""Operations of an update by the formulas of the paper, beside those that the code here makes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

from harness.cost import counted
from harness.cost.counted import Counted
from harness.paper import scales
from results.formats.cells import Cell, Column, Section, Table
from results.tables.view import View

P, NS_STEPS = 0.125, 5  # of the paper's experiments and of all released code
_GIGA = 1e9
_COLUMNS = (
    Column("matrix", "matrix (m x n)", "text"),
    Column("number", "number"),
    *(
        Column(f"{name}_{how}_gflop", f"{label} {how}")
        for name, label in (("muon", "Muon"), ("htmuon_ns", "HTMuon_NS"))
        for how in ("formula", "counted")
    ),
    Column("htmuon_products_gflop", "HTMuon counted"),
    Column("htmuon_decompositions_gflop", "HTMuon decomposition"),
)
_NOTES = (
    "GFLOP of the update of one matrix in one step. The last row is the sum over all matrices of the model.",
    f"formula: the paper's 20 m n r for Muon and 20 m n r + 4 m n^2 + 6 L T n^3 for HTMuon_NS, "
    f"r = min(m, n), T = {NS_STEPS}, L = log2(2/p) = {math.log2(2 / P):g}, p = {P:g}, without lower orders.",
    "counted: matrix products of the code here, by its default settings, on tensors without memory. With an "
    "interval of k, every k-th step takes this and the others what Muon takes.",
    "The formula of Muon leaves out 10 r^3, the products A A of the Newton-Schulz iteration: a third of the "
    "true number for a square matrix.",
    "The formula of HTMuon_NS also counts products of its roots that the code can leave out: Z is I in the "
    "first iteration and is not read after the last. A wide matrix (m < n) is dear: its root is n x n.",
    "The paper has no formula for HTMuon. Its decomposition is counted by Golub and Van Loan; such an "
    "operation takes far longer than one of a product.",
)


def muon(m: int, n: int) -> float:
    """Operations of Muon's update of an m x n matrix by the paper."""
    return 20.0 * m * n * min(m, n)


def htmuon_ns(m: int, n: int, p: float = P, ns_steps: int = NS_STEPS) -> float:
    """Operations of HTMuon_NS by the paper, whose brackets around L are read as rounding, as in its code."""
    levels = round(math.log2(2 / p))
    return muon(m, n) + 4.0 * m * n**2 + 6.0 * levels * ns_steps * n**3


def table(view: View) -> Table:
    """One section per model: those of the paper, and of the scales that are shown."""
    found: dict[tuple[str, str], list[Counted]] = {}
    for one in counted.kept():
        found.setdefault((one.task, one.model), []).append(one)
    names = dict.fromkeys([*(["paper"] if view.published else []), *view.scales])
    if not (view.asked or view.scales):
        names = {}
    wanted = dict.fromkeys(scales.workload(name, *one) for name in names for one in scales.WORKLOADS)
    sections = [_section(*one, found[one]) for one in wanted]
    return Table("flops", "operations of an update, by the paper's formulas and counted", sections)


def _section(task: str, model: str, found: Iterable[Counted]) -> Section:
    shapes = {
        shape: {one.optimizer: one for one in own}
        for shape, own in itertools.groupby(sorted(found, key=_shape), key=_shape)
    }
    rows = [(number, _figures(m, n, own)) for (_, m, n, number), own in shapes.items()]
    lines = [
        [Cell(f"{m} x {n}"), Cell(number), *map(_cell, figures)]
        for (_, m, n, number), (_, figures) in zip(shapes, rows, strict=True)
    ]
    total = [
        sum(times) for times in zip(*([number * one for one in own] for number, own in rows), strict=True)
    ]
    lines.append([Cell("all"), Cell(sum(number for number, _ in rows)), *map(_cell, total)])
    return Section(f"{task}, {model}", {"task": task, "model": model}, list(_COLUMNS), lines, notes=_NOTES)


def _shape(one: Counted) -> tuple[int, int, int, int]:
    """The largest matrices first."""
    return -one.rows * one.columns, one.rows, one.columns, one.number


def _figures(m: int, n: int, own: dict[str, Counted]) -> list[float]:
    """The cells of a shape, in operations."""
    made = own["htmuon"]
    return [
        muon(m, n),
        own["muon"].products,
        htmuon_ns(m, n),
        own["htmuon_ns"].products,
        made.products,
        made.decompositions,
    ]


def _cell(operations: float) -> Cell:
    return Cell(operations / _GIGA, digits=_digits(operations / _GIGA))


def _digits(value: float) -> int:
    """Decimals that leave three digits or more."""
    return max(0, 2 - math.floor(math.log10(value))) if value else 0
