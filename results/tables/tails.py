"""Heavier tails, better model? The spectra of the rules' weights, and their order against that by test loss.

HTMuon's paper says so of its rules. Alpha needs 50 eigenvalues; the other measures need no fit, so small
matrices have them. All are turned so that larger means lighter tails: the claim is a positive correlation.
"""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.show.note import Note
from harness.show.report import Cell, Column, Lazily, Report, Section, by_columns
from harness.store import Store
from results.compare.claim_verdicts import ClaimVerdict
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
Runs = Sequence[tuple[float, float]]  # of one rule: lightness of the tails and test loss of each run


def table(view: View) -> Report:
    """For each workload with measured weights of two rules what they are; of enough rules, correlations."""
    parts = searched_parts(view.frame, WORKLOAD)
    sections = (own for part in parts if view.store for own in _sections(part, view.store))
    title = "heavier tails, better model? spectra of final weights beside the test loss"
    return Report("tails", title, Lazily(sections))


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
    several = len(found) > 1
    layers = {name: there for name in _MEASURES if several and (there := _layers(name, found))}
    if not layers:
        return
    measured = {name: _measured(name, own, found, losses) for name, own in layers.items()}
    identity = {name: str(part[0][name]) for name in WORKLOAD}
    title = ", ".join(filter(None, identity.values()))
    if len(found) >= FEWEST:
        yield replace(_correlations(title, layers, measured), identity=identity)
    keys = {rule: tuple(run.key for run in own) for rule, own in found.items()}
    yield replace(_weights(f"{title}: final weights", keys, measured), identity=identity)


def _layers(name: str, found: Mapping[str, list[Spectra]]) -> list[str]:
    """The layers that have a measure in all runs; of alpha, those where it may enter a mean."""
    every = [run.weights for own in found.values() for run in own]
    known = sound_layers(found) if name == "alpha" else every[0]
    column = _MEASURES[name]
    return [n for n in known if all(math.isfinite(_lightness(own.get(n, {}), column)) for own in every)]


def _measured(
    name: str, layers: Sequence[str], found: Mapping[str, list[Spectra]], losses: Mapping[str, float]
) -> dict[str, Runs]:
    def of_run(run: Spectra) -> tuple[float, float]:
        of_layers = (_lightness(run.weights[layer], _MEASURES[name]) for layer in layers)
        return statistics.fmean(of_layers), losses[run.key]

    return {rule: [*map(of_run, own)] for rule, own in found.items()}


def _correlations(
    title: str, layers: Mapping[str, Sequence[str]], measured: Mapping[str, dict[str, Runs]]
) -> Section:
    """Of each measure with the test loss, across rules."""
    own, low, high = zip(*(correlation([*rules.values()]) for rules in measured.values()), strict=True)
    ends = (max(a, 0.0) + min(b, 0.0) for a, b in zip(low, high, strict=True))  # the end that is nearer to 0
    columns: dict[Column, Iterable[Any]] = {
        Column("measure", kind="text"): measured,
        Column("layers", importance=3): map(len, layers.values()),
        Column("rules"): map(len, measured.values()),
        Column("runs", importance=3): [sum(map(len, rules.values())) for rules in measured.values()],
        Column("rank_correlation", "rank correlation", digits=2): own,
        Column("low", digits=2): low,
        Column("high", digits=2): high,
        Column("verdict", kind="text", importance=9): [ClaimVerdict.of_sign(end).value for end in ends],
    }
    return by_columns(columns, title=title, notes=[Note("tails_claim"), Note("tails_interval")])


def _weights(
    title: str, keys: Mapping[str, tuple[str, ...]], measured: Mapping[str, dict[str, Runs]]
) -> Section:
    """What the final weights of each rule are, the best rule first."""
    losses = {rule: summarize([loss for _, loss in own]) for rule, own in [*measured.values()][0].items()}
    rules = sorted(losses, key=lambda rule: losses[rule].mean)
    columns: dict[Column, Iterable[Any]] = {
        Column("optimizer", kind="text"): rules,
        Column("test_loss", "test loss", "summary", digits=4): [
            Cell(losses[rule], runs=keys[rule]) for rule in rules
        ],
    }
    for name, found in measured.items():
        column = name.replace("-", "minus_").replace(" ", "_")  # in files of data
        columns[Column(column, name, "summary", digits=3)] = [
            summarize([lightness for lightness, _ in found[rule]]) for rule in rules
        ]
    return by_columns(columns, title=title, notes=[Note("tails_sign")])


def _lightness(layer: Row, column: str) -> float:
    """How light the tail of a layer is by a measure; nan if the layer has none, or no such number."""
    value = layer.get(column)
    if not isinstance(value, int | float) or value < 0 or (column == "sigma_max" and value == 0):
        return math.nan
    return -math.log(value) if column == "sigma_max" else float(value)
