"""The sentences under a table of the paper: what was chosen, how it was measured, whose numbers these are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.paper import scales
from harness.paper.reported import Reported
from results.compare.measured import Measured
from results.compare.quantities import quantity
from results.tables import footnotes
from results.tables.layouts import Layout

_PUBLISHED = "paper: as printed there; one run per number (n=1), without spread."


def choice(layout: Layout, scale: str) -> str:
    """What is selected over and what is fixed. At full scale the reported split chooses, as in the paper."""
    return layout.choice("the reported split" if scale == "paper" else "validation")


def published(lines: Iterable[Reported]) -> tuple[str, ...]:
    """On the published numbers."""
    hardware = list(dict.fromkeys(line.hardware for line in lines if line.hardware))
    return (
        _PUBLISHED,
        *([f"The paper's times are those of {footnotes.listing(hardware)}."] if hardware else []),
    )


def of_runs(layout: Layout, scale: str, found: Mapping[Reported, Measured]) -> tuple[str, ...]:
    """On our runs: which ones are reported, over how many seeds, and what is special about a metric."""
    special = {what.note: None for line in found if (what := quantity(line, scale)) is not None and what.note}
    return (_reported(layout, scale, found), *_spread(found), *special)


def _reported(layout: Layout, scale: str, found: Mapping[Reported, Measured]) -> str:
    if layout.axis == "lr" and scale != "paper":
        return "Validation metric of the search runs; `*` marks the learning rate that other tables report."
    if scale == "paper":
        return "ours: the chosen run itself on the reported split, by which it was chosen, as in the paper."
    seeds = sorted({len(one.sample) for one in found.values() if one.sample})
    return f"Reported on test from fresh seeds: n={'-'.join(map(str, seeds)) or '0'}."


def _spread(found: Mapping[Reported, Measured]) -> tuple[str, ...]:
    return (footnotes.SPREAD,) if any(len(one.sample) > 1 for one in found.values()) else ()


def twins(lines: Iterable[Reported], scale: str) -> tuple[str, ...]:
    """Which embedded data and models stand for the published ones."""
    workloads = dict.fromkeys((line.dataset, line.model) for line in lines)
    if scale == "paper":
        return ()
    pairs = [f"{' '.join(scales.workload(scale, *one))} for {' '.join(one)}" for one in workloads]
    return (f"In miniature: {footnotes.listing(pairs)}.",)
