"""Measures the time of one step of each optimizer, relative to a baseline and to other implementations.

There is no forward or backward pass. The parameters have the shapes of a real model, and the steps alternate
between two seeded sets of Gaussian gradients. Two optimizers (a pair of sides) are measured together, each on
its own copy of the parameters.
"""

from __future__ import annotations

import copy
import dataclasses
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import models
import optimizers
from harness.bench.flops import CallCount, Peak, clock_of
from harness.bench.measurement import Measurement
from harness.bench.pairs import Side, Two, per_step, special_step, take_turns
from harness.bench.peers import Peer, peers_of
from harness.bench.rows import PeerRow, Row
from harness.bench.subjects import Entry
from harness.cost.ledger import Tally
from harness.cost.steps import DECOMPOSED, memory_of
from optimizers import UpdateRule

GRADIENT_NORM = 0.1  # approximate Frobenius norm of the gradient of each parameter


@dataclass(frozen=True)
class Settings:
    """How to measure.

    Attributes:
        model: name of the model whose parameter shapes are used.
        overrides: arguments of `models.build` that differ from their defaults.
        device: `cpu` or `cuda`.
        threads: CPU threads of torch.
        dtype: of the parameters and gradients.
        rounds: counted rounds per pair; a round is two steps of each side.
        limit: seconds for one pair, as in `take_turns`.
    """

    model: str
    overrides: Mapping[str, int]
    device: str = "cpu"
    threads: int = 1
    dtype: torch.dtype = torch.float32
    rounds: int = 9
    limit: float = 3600.0


class Bench:
    """Measures pairs of optimizers on the parameters of one model.

    Args:
        settings: how to measure.
        after_round: called after every round of every pair.
    """

    def __init__(self, settings: Settings, after_round: Callable[[], None] = lambda: None) -> None:
        self.settings, self._after_round = settings, after_round
        torch.set_num_threads(settings.threads)
        torch.manual_seed(0)
        self.model = models.build(settings.model, **settings.overrides).to(settings.device, settings.dtype)
        self.gradients = [self._gaussians(), self._gaussians()]
        self.clock_name, self.clock = clock_of(settings.device, settings.threads)
        self.peak = Peak(settings.device, self.clock)

    def _gaussians(self) -> dict[str, Tensor]:
        return {
            name: torch.randn_like(p.data).mul_(GRADIENT_NORM * p.numel() ** -0.5)
            for name, p in self.model.named_parameters()
        }

    def peaks(self) -> dict[str, float]:
        """The peak rate of matrix products by precision, in floating point operations per second."""
        return {str(d).removeprefix("torch."): self.peak[d] for d in (torch.float32, torch.bfloat16)}

    def rows(self, entries: list[Entry], against: Entry, watch: Callable[[str], None]) -> Iterator[Row]:
        """Measure each entry against one baseline. The baseline keeps its optimizer state between pairs.

        Args:
            entries: what to measure. The list may contain the baseline: its ratio to a second copy of itself
                shows the measurement error, since the true ratio is 1.
            against: the baseline.
            watch: called with the label of each entry before it is measured.
        """
        baseline = self._ours(against)
        for entry in entries:
            watch(entry.label)
            yield self._row(entry, against, baseline)

    def _row(self, entry: Entry, against: Entry, baseline: Side) -> Row:
        side = self._ours(entry)
        ours, theirs = self._times(side, baseline)
        special = special_step(ours, entry.special)
        steps = per_step(ours, entry.period, special)
        units = per_step(theirs, against.period, special_step(theirs, against.special))
        calls, flops = _counts(side, entry.period, special)
        seconds = sum(count / self.peak[getattr(torch, dtype)] for dtype, count in flops.items())
        target = entry.target if against.label == "muon" else None
        periodic = entry.period > 1
        return Row(
            label=entry.label,
            name=entry.name,
            hyper=entry.hyper,
            step=_milliseconds(entry.label, steps),
            ratio=_ratio(entry.label, against.label, steps, units, target),
            period=entry.period,
            ordinary=1e3 * statistics.median(two[1 - special] for two in ours) if periodic else None,
            special=1e3 * statistics.median(two[special] for two in ours) if periodic else None,
            flops=flops,
            share=seconds / statistics.median(steps),
            calls=calls,
            state_bytes=memory_of(side.optimizer.state) / _count(side),
        )

    def beside(self, entry: Entry, watch: Callable[[str], None]) -> Iterator[PeerRow]:
        """Measure an entry against each of its peers; `watch` gets a label before each measurement."""
        for peer in peers_of(entry.name):
            found = PeerRow(entry.label, peer.label, peer.version, peer.matrices)
            note = peer.obstacle(entry.hyper)
            if note:
                yield dataclasses.replace(found, note=note)
                continue
            watch(f"{entry.label} beside {peer.label}")
            yield self._beside(entry, peer, found)

    def _beside(self, entry: Entry, peer: Peer, found: PeerRow) -> PeerRow:
        ours = self._ours(entry, peer.matrices)
        try:
            theirs = self._theirs(entry, peer)
            times = self._times(ours, theirs)
        except Exception as error:  # code of other packages may raise anything
            words, _, _ = str(error).partition("\n")
            return dataclasses.replace(found, note=f"fails: {type(error).__name__}: {words}")
        steps = per_step(times[0], entry.period, special_step(times[0], entry.special))
        units = per_step(times[1], entry.period, special_step(times[1], None))
        return dataclasses.replace(
            found,
            ours=_milliseconds(entry.label, steps),
            theirs=_milliseconds(peer.label, units),
            ratio=_ratio(entry.label, peer.label, steps, units, peer.at_most),
            state_bytes=memory_of(theirs.optimizer.state) / _count(theirs),
        )

    def _times(self, ours: Side, theirs: Side) -> tuple[list[Two], list[Two]]:
        settings = self.settings
        return take_turns(
            ours, theirs, settings.rounds, self.clock, limit=settings.limit, after_round=self._after_round
        )

    def _ours(self, entry: Entry, matrices: bool = False) -> Side:
        model = copy.deepcopy(self.model)
        params = _parameters(model, matrices)
        chosen: Any = params.items() if matrices else model
        routing = "matrix" if matrices else "released"
        side = Side(
            optimizers.build(entry.name, chosen, routing=routing, **entry.measured), params, self.gradients
        )
        if isinstance(side.optimizer, UpdateRule):
            side.load()  # before a curvature estimate Sophia's steps are cheaper; others ignore it
            side.optimizer.observe_curvature(batch_size=1)
        if isinstance(side.optimizer, optimizers.Sophia):
            side.optimizer.steps_since_estimate = None  # no warning that later estimates are missing
        return side

    def _theirs(self, entry: Entry, peer: Peer) -> Side:
        model, row = copy.deepcopy(self.model), optimizers.spec(entry.name)
        params = _parameters(model, peer.matrices)
        rest: list[nn.Parameter] = []
        chosen = list(params.values())
        if row.routed and not peer.matrices:
            chosen, rest = optimizers.split_parameters(model, "released", row.released)
        hyper = {"lr": row.lr.default, "weight_decay": row.weight_decay.default, **entry.measured}
        return Side(peer.make(chosen, rest, hyper), params, self.gradients)


def _parameters(model: nn.Module, matrices: bool) -> dict[str, nn.Parameter]:
    return {name: p for name, p in model.named_parameters() if p.ndim == 2 or not matrices}


def _count(side: Side) -> int:
    return sum(p.numel() for p in side.params.values())


def _counts(side: Side, period: int, special: int) -> tuple[float, dict[str, float]]:
    """Calls per step, and operations by precision: of two more steps, averaged by `per_step` as times are."""
    two: list[Tally] = []
    for _ in range(2):
        side.load()
        with CallCount() as count:
            side.optimizer.step()
        two.append(count.tally)

    def mean(first: float, second: float) -> float:
        return per_step([(first, second)], period, special)[0]

    dtypes = (two[0].flops.keys() | two[1].flops.keys()) - set(DECOMPOSED)
    return mean(two[0].calls, two[1].calls), {d: mean(two[0].flops[d], two[1].flops[d]) for d in dtypes}


def _milliseconds(name: str, seconds: list[float]) -> Measurement:
    return Measurement.of(name, "ms/step", [1e3 * value for value in seconds])


def _ratio(
    name: str, unit: str, ours: list[float], theirs: list[float], target: float | None = None
) -> Measurement:
    return Measurement.of(name, f"x {unit}", [a / b for a, b in zip(ours, theirs, strict=True)], target)
