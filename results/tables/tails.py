"""Heavier tails, better model? The spectra of the rules' weights, and their order against that by test loss.

HTMuon's paper says so of its rules. Alpha needs 50 eigenvalues; the other measures need no fit, so small
matrices have them. All are turned so that larger means lighter tails: the claim is a positive correlation.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.show.note import Note
from harness.show.report import Cell, Column, Report, Section
from harness.store import Store
from results.compare.select import OPTIMIZER, WORKLOAD, choose
from results.compare.stats import summarize
from results.compare.view import View
from results.frames.metrics import is_number
from results.frames.rows import Rows
from results.frames.spectra import Row, Spectra, of_runs, sound_layers
from results.tables.outcome import searched_parts

FEWEST = 5  # rules for a correlation; of four even the order that was foretold is one of 24
_DRAWS = 2000
# By name the column of a layer's spectrum.
_MEASURES = {
    "alpha": "alpha",
    "stable rank": "stable_rank",
    "entropy": "entropy",
    "-log spectral norm": "sigma_max",
}
_COLUMNS = (
    Column("measure", kind="text"),
    Column("layers"),
    Column("rules"),
    Column("runs"),
    Column("rank_correlation", "rank correlation", digits=2),
    Column("low", digits=2),
    Column("high", digits=2),
    Column("verdict", kind="text"),
)
Runs = Sequence[tuple[float, float]]  # of one rule: lightness of the tails and test loss of each run


class Measured(NamedTuple):
    """A measure of the rules: over how many layers, and the runs of each rule."""

    layers: int
    runs: Mapping[str, Runs]


class Verdict(StrEnum):
    """What the interval of the correlation says of "heavier tails, better model"."""

    AGREES = "agrees"
    CONTRADICTS = "contradicts"
    UNDECIDED = "undecided"


def table(view: View) -> Report:
    """For each workload with measured weights of two rules what they are; of enough rules, correlations."""
    parts = searched_parts(view.frame, WORKLOAD)
    sections = [own for part in parts if view.store for own in _sections(part, view.store)]
    return Report(
        "tails", "heavier tails, better model? spectra of final weights beside the test loss", sections
    )


def correlation(rules: Sequence[Runs], draws: int = _DRAWS) -> tuple[float, float, float]:
    """Spearman's rank correlation of the rules' means, and its 95 % interval.

    The interval draws the runs of each rule again; the rules are as they are.

    Args:
        rules: of each its runs.
        draws: of the bootstrap; its seed is fixed.
    """
    generator, drawn = np.random.default_rng(0), []
    for runs in rules:
        values = np.asarray(runs)
        chosen = generator.integers(len(values), size=(draws, len(values)))
        drawn.append(values[chosen].mean(axis=1))
    low, high = np.quantile(_spearman(np.stack(drawn)), (0.025, 0.975))
    own = _spearman(np.asarray([np.mean(runs, axis=0, keepdims=True) for runs in rules]))
    return float(own[0]), float(low), float(high)


def _spearman(means: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Of each draw. `means`: (rules, draws, 2)."""
    from scipy.stats import rankdata  # takes a while

    ranks = rankdata(means, axis=0)
    ranks -= ranks.mean(axis=0)
    products = (ranks[..., 0] * ranks[..., 1]).sum(axis=0)
    sizes = np.sqrt((ranks**2).sum(axis=0).prod(axis=-1))
    found: npt.NDArray[np.float64] = np.divide(products, sizes, out=np.zeros_like(products), where=sizes > 0)
    return found


def _sections(part: Rows, store: Store) -> Iterator[Section]:
    losses: dict[str, float] = {}
    found: dict[str, list[Spectra]] = {}
    choices = choose(part, OPTIMIZER)
    if len(choices) < 2:  # before any file is read
        return
    for choice in choices:
        losses |= {row["key"]: loss for row in choice.replicas if is_number(loss := row.get("test_loss"))}
        own = [one for one in of_runs(choice.replicas, store) if one.weights and one.key in losses]
        found |= {str(choice.fixed["optimizer"]): own} if own else {}
    if len(found) < 2:
        return
    measured = {name: one for name in _MEASURES if (one := _measured(name, found, losses)).layers}
    fixed = {name: str(part[0][name]) for name in WORKLOAD}
    title = ", ".join(filter(None, fixed.values()))
    yield _rules(title, fixed, measured)
    if len(found) >= FEWEST:
        rows = [_correlated(name, own) for name, own in measured.items()]
        yield Section(title, fixed, _COLUMNS, rows, notes=(Note("tails_claim"), Note("tails_interval")))


def _measured(name: str, found: Mapping[str, list[Spectra]], losses: Mapping[str, float]) -> Measured:
    """A mean over the layers that have the measure in all runs; of alpha, where it may enter a mean."""
    every = [run.weights for own in found.values() for run in own]
    column = _MEASURES[name]
    layers = [n for n in every[0] if all(math.isfinite(_lightness(own.get(n, {}), column)) for own in every)]
    if column == "alpha":
        layers = [*filter(set(sound_layers(found)).__contains__, layers)]
    if not layers:
        return Measured(0, {})

    def of_run(run: Spectra) -> tuple[float, float]:
        return statistics.fmean(_lightness(run.weights[n], column) for n in layers), losses[run.key]

    return Measured(len(layers), {rule: [*map(of_run, own)] for rule, own in found.items()})


def _rules(title: str, fixed: dict[str, str], measured: Mapping[str, Measured]) -> Section:
    """What the weights of each rule are, the best rule first."""
    first = next(iter(measured.values()), Measured(0, {}))
    losses = {rule: summarize([loss for _, loss in runs]) for rule, runs in first.runs.items()}
    columns = [Column("optimizer", kind="text"), Column("test_loss", "test loss", "summary", digits=4)]
    columns += [Column(name, kind="summary", digits=3) for name in measured]
    rows = [
        [
            Cell(rule),
            Cell(loss),
            *(Cell(summarize([x for x, _ in own.runs[rule]])) for own in measured.values()),
        ]
        for rule, loss in sorted(losses.items(), key=lambda item: item[1].mean)
    ]
    return Section(title, fixed, columns, rows, notes=(Note("tails_sign"),))


def _correlated(name: str, measured: Measured) -> list[Cell]:
    rules = [*measured.runs.values()]
    own, low, high = correlation(rules)
    verdict = Verdict.AGREES if low > 0 else Verdict.CONTRADICTS if high < 0 else Verdict.UNDECIDED
    known = (name, measured.layers, len(rules), sum(map(len, rules)), own, low, high, verdict.value)
    return [*map(Cell, known)]


def _lightness(layer: Row, column: str) -> float:
    """How light the tail of a layer is by a measure; nan if the layer has none, or no such number."""
    value = layer.get(column)
    if not isinstance(value, int | float) or value < 0 or (column == "sigma_max" and value == 0):
        return math.nan
    return -math.log(value) if column == "sigma_max" else float(value)
