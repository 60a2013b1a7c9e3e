"""Our values of the two sides of a claim, also of metrics that only figures of the paper show."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from harness.paper.reported import Reported
from results.compare.claims import ALPHA, OF_FIGURES, TRAIN_LOSS, Claim
from results.compare.measured import Measured, measured
from results.compare.ours import Ours
from results.compare.select import Choice
from results.compare.stats import Sample, Summary, summarize
from results.compare.summary import finite_values
from results.formats.cells import SYMBOLS
from results.frames.spectra import Spectra, of_winner, sound_layers

_TIMES = ("seconds_per_step", "hours")  # what the names of such metrics begin with
_LABELS = {
    TRAIN_LOSS: "training loss",
    ALPHA: "mean alpha",
    "sigma_max": "spectral norm",
    "fro": "Frobenius norm",
}
_CONDITIONS = ("machine", "threads", "processes", "compile")  # that times depend on


@dataclass(frozen=True)
class Side:
    """Ours of one number.

    Attributes:
        label: of the metric, with its unit.
        digits: decimals printed.
        sample: by seed; None without a value.
        keys: of the runs behind it.
        reason: why there is no value.
        machines: for times, what they were measured on; else empty.
        notes: footnotes.
    """

    label: str
    digits: int
    sample: Sample | None
    keys: tuple[str, ...]
    reason: str = ""
    machines: frozenset[tuple[str, ...]] = frozenset()
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> Summary | None:
        """Mean and spread over the seeds."""
        return None if self.sample is None else summarize(list(self.sample.values.values()))


def sides(ours: Ours, claim: Claim) -> tuple[Side, Side]:
    """Those of the better and of the worse number, as the paper orders them."""
    lines = (claim.better, claim.worse)
    if claim.better.metric not in OF_FIGURES:
        better, worse = (_of_measured(line, measured(ours, line)) for line in lines)
        return better, worse
    choices = [_chosen(ours, line) for line in lines]
    if claim.better.metric == TRAIN_LOSS:
        better, worse = (_of_column(choice, TRAIN_LOSS) for choice in choices)
    else:
        better, worse = _of_spectra(ours, choices, claim.better.metric)
    return better, worse


def _of_measured(line: Reported, found: Measured) -> Side:
    assert found.metric is not None  # claims without one are not tested
    is_time = line.metric.startswith(_TIMES)
    machines = {tuple(str(run.get(name)) for name in _CONDITIONS) for run in found.runs} if is_time else ()
    return Side(
        found.metric.label,
        found.metric.digits,
        found.as_sample,
        found.keys,
        _reason(found.state, found.reason),
        frozenset(machines),
        found.notes,
    )


def _reason(state: str, reason: str) -> str:
    known = {name: meaning.partition(":")[0] for name, (_, meaning) in SYMBOLS.items()}
    return reason or known.get(state, "not planned")


def _chosen(ours: Ours, line: Reported) -> Choice | None:
    choices = ours.of(line)
    return choices[-1] if choices and choices[-1].winner is not None else None


def _of_column(choice: Choice | None, column: str) -> Side:
    runs = choice.replicas if choice is not None else []
    found = {(run["seed"], run["data_seed"]): finite_values([run], column) for run in runs}
    return _side(column, 3, {seeds: own[0] for seeds, own in found.items() if own}, choice)


def _of_spectra(ours: Ours, choices: Sequence[Choice | None], metric: str) -> tuple[Side, Side]:
    """The mean over layers; of alpha over those that are sound in all runs of both."""
    runs: dict[str, list[Spectra]] = {
        str(i): of_winner(choice, ours.store) if choice is not None and ours.store is not None else []
        for i, choice in enumerate(choices)
    }
    layers = sound_layers(runs) if metric == ALPHA else None
    better, worse = (
        _side(metric, 3, _means(own, metric, layers), choice)
        for own, choice in zip(runs.values(), choices, strict=True)
    )
    return better, worse


def _means(
    runs: Sequence[Spectra], metric: str, layers: Sequence[str] | None
) -> dict[tuple[int, int], float]:
    found = {}
    for one in runs:
        names = one.weights if layers is None else layers
        values = [float(one.weights[name][metric]) for name in names if name in one.weights]
        if values and all(map(math.isfinite, values)):
            found[one.seed, one.seed] = statistics.fmean(values)
    return found


def _side(metric: str, digits: int, values: dict[tuple[int, int], float], choice: Choice | None) -> Side:
    keys = tuple(str(run["key"]) for run in choice.replicas) if choice is not None else ()
    reason = "not recorded" if choice is not None and choice.replicas else "not run yet"
    return Side(_LABELS[metric], digits, Sample(values) if values else None, keys, "" if values else reason)
