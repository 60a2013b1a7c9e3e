"""Measures the time of one step of each optimizer, relative to a baseline and to other implementations.

There is no forward or backward pass. The parameters have the shapes of a real model, and the steps alternate
between two seeded sets of Gaussian gradients. Two optimizers (a pair of sides) are measured together, each on
its own copy of the parameters.
"""

import copy
import dataclasses
import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from htbench import models, optimizers
from htbench.harness.bench.machine import CallCount, Peak, check_device
from htbench.harness.bench.peers import Peer, peers_of
from htbench.harness.bench.subjects import Entry
from htbench.harness.bench.turns import (
    AT_MOST,
    DROPPED,
    INTERVAL,
    Clock,
    Measurement,
    Two,
    clock_of,
    machine,
    per_step,
    special_step,
    take_turns,
)
from htbench.harness.cost.update import memory_of
from htbench.harness.cost.watch import DECOMPOSITIONS
from htbench.harness.errors import reason
from htbench.harness.show.note import Note
from htbench.harness.show.numbers import counted
from htbench.harness.show.progress import Progress
from htbench.harness.show.report import Column, Report, table
from htbench.harness.system import environment
from htbench.optimizers import UpdateRule

GRADIENT_NORM = 0.1  # approximate Frobenius norm of the gradient of each parameter
PRECISIONS = ("float32", "bfloat16")  # whose peak rates are told


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
        against: label of the baseline.
        ns_dtype: of Newton-Schulz, where the entries do not say; None: the optimizer's.
        peers: whether other implementations are measured.
    """

    model: str
    overrides: Mapping[str, int]
    device: str = "cpu"
    threads: int = 1
    dtype: str = "float32"
    rounds: int = 9
    limit: float = 3600.0
    against: str = "muon"
    ns_dtype: str | None = None
    peers: bool = True


@dataclass(frozen=True)
class Row:
    """The measurements of one optimizer and its ratio to the baseline.

    Attributes:
        label, name: the optimizer, with and without its settings.
        hyper: its settings.
        step: milliseconds per step; with `period` > 1 the mean over a whole period.
        ratio: time of a step divided by the time of a step of the baseline.
        period: T, if only every T-th step does all the work (a full step); else 1.
        ordinary, special: median milliseconds of the other steps and of the full step; None for period 1.
        flops: floating point operations of the matrix products per step, by precision.
        share: the time of these products at the machine's peak rate, as a fraction of the time of a step.
        calls: of PyTorch's operations per step, views not counted.
        state_bytes: bytes of optimizer state per scalar parameter.
    """

    label: str
    name: str
    hyper: Mapping[str, Any]
    step: Measurement
    ratio: Measurement
    period: int
    ordinary: float | None
    special: float | None
    flops: Mapping[str, float]
    share: float
    calls: float
    state_bytes: float


@dataclass(frozen=True)
class PeerRow:
    """One of our optimizers compared with an implementation of it in another package.

    Attributes:
        label: the optimizer with its settings.
        peer, version: package and class of the other implementation, and the package's version.
        matrices: whether both sides updated only the matrices (parameters with two dimensions).
        ours, theirs: milliseconds per step.
        ratio: ours / theirs.
        state_bytes: bytes of the other implementation's state per scalar parameter.
        note: why nothing was measured; the measurements are then None.
    """

    label: str
    peer: str
    version: str | None
    matrices: bool
    ours: Measurement | None = None
    theirs: Measurement | None = None
    ratio: Measurement | None = None
    state_bytes: float | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class OptimizersFacts(Settings):
    """The report.

    Attributes:
        subject: of the command.
        environment: versions and hardware.
        parameters: of the model.
        clock: what times are of.
        peak_flops_per_second: of matrix products by precision.
        rows: the optimizers.
        beside: optimizers beside implementations by others.
    """

    subject: str
    environment: Mapping[str, Any]
    parameters: int
    clock: str
    peak_flops_per_second: Mapping[str, float]
    rows: Sequence[Row]
    beside: Sequence[PeerRow]


class Side:
    """One optimizer with parameters of its own and gradients that change from step to step.

    Args:
        optimizer: steps `params`.
        params: by name.
        gradients: sets of gradients by name, taken in turns. Every step gets copies, made outside of its
            time, because some optimizers overwrite gradients, keep them or set them to None.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        params: Mapping[str, nn.Parameter],
        gradients: Sequence[Mapping[str, Tensor]],
    ) -> None:
        self.optimizer, self.params = optimizer, params
        self._sets = itertools.cycle(gradients)

    def load(self) -> None:
        """Give every parameter its next gradient."""
        gradients = next(self._sets)
        for name, p in self.params.items():
            p.grad = gradients[name].clone()

    def step(self, clock: Clock) -> float:
        """Make a step; return how long it took."""
        self.load()
        began = clock()
        self.optimizer.step()
        return clock() - began


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
        dtype = getattr(torch, settings.dtype)
        self.model = models.build(settings.model, **settings.overrides).to(settings.device, dtype)
        self.gradients = [
            {
                name: torch.randn_like(p.data).mul_(GRADIENT_NORM * p.numel() ** -0.5)
                for name, p in self.model.named_parameters()
            }
            for _ in range(2)
        ]
        self.clock_name, self.clock = clock_of(settings.device, settings.threads)
        self.peak = Peak(settings.device, self.clock)

    def rows(self, entries: Sequence[Entry], against: Entry, watch: Callable[[str], None]) -> Iterator[Row]:
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
            side = self._ours(entry)
            ours, theirs = self._times(side, baseline)
            special = special_step(ours, entry.special)
            steps = per_step(ours, entry.period, special)
            units = per_step(theirs, against.period, special_step(theirs, against.special))
            calls, flops = _counts(side, entry.period, special)
            seconds = sum(count / self.peak[dtype] for dtype, count in flops.items())
            target = entry.target if against.label == "muon" else None
            periodic = entry.period > 1
            yield Row(
                label=entry.label,
                name=entry.name,
                hyper=entry.hyper,
                step=Measurement.milliseconds(entry.label, steps),
                ratio=Measurement.ratio(entry.label, f"x {against.label}", steps, units, target),
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
            obstacle = peer.obstacle(entry.hyper)
            row = PeerRow(entry.label, peer.label, peer.version, peer.matrices, note=obstacle)
            if obstacle:
                yield row
                continue
            watch(f"{entry.label} beside {peer.label}")
            side = self._ours(entry, peer.matrices)
            try:
                other = self._theirs(entry, peer)
                ours, theirs = self._times(side, other)
            except Exception as error:  # code of other packages may raise anything
                yield dataclasses.replace(row, note=f"fails: {reason(error)}")
                continue
            steps = per_step(ours, entry.period, special_step(ours, entry.special))
            units = per_step(theirs, entry.period, special_step(theirs, None))
            yield dataclasses.replace(
                row,
                ours=Measurement.milliseconds(entry.label, steps),
                theirs=Measurement.milliseconds(peer.label, units),
                ratio=Measurement.ratio(entry.label, f"x {peer.label}", steps, units, peer.at_most),
                state_bytes=memory_of(other.optimizer.state) / _count(other),
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
    two: list[CallCount] = []
    for _ in range(2):
        side.load()
        with CallCount() as count:
            side.optimizer.step()
        two.append(count)

    def mean(first: float, second: float) -> float:
        return per_step([(first, second)], period, special)[0]

    dtypes = (two[0].flops.keys() | two[1].flops.keys()) - DECOMPOSITIONS.keys()
    return mean(two[0].calls, two[1].calls), {d: mean(two[0].flops[d], two[1].flops[d]) for d in dtypes}


# --- the report ---


def measure(settings: Settings, parameters: int, chosen: Sequence[Entry], against: Entry) -> Report:
    """Measure every entry beside the baseline and, if that is asked for, beside its peers.

    Args:
        settings: how to measure.
        parameters: of the model.
        chosen: what to measure.
        against: the baseline.

    Raises:
        UsageError: there is no such device.
    """
    check_device(settings.device)
    with_peers = chosen if settings.peers else []
    besides = sum(not peer.obstacle(entry.hyper) for entry in with_peers for peer in peers_of(entry.name))
    length, rows, beside = DROPPED + settings.rounds, list[Row](), list[PeerRow]()
    with Progress((len(chosen) + besides) * length, "rounds") as progress:
        begun = itertools.count()

        def begin(label: str) -> None:
            progress.to(length * next(begun), said=label)  # the one before may have ended early

        bench = Bench(settings, progress.advance)
        for row in bench.rows(chosen, against, begin):
            rows.append(row)
            progress.note(f"{row.label}: {row.ratio.median:.3f} {row.ratio.unit}")
        for peer in (peer for entry in with_peers for peer in bench.beside(entry, begin)):
            beside.append(peer)
            if peer.ratio is not None:
                progress.note(f"{peer.label}: {peer.ratio.median:.3f} {peer.ratio.unit}")
    return report(
        OptimizersFacts(
            **vars(settings),
            subject="optimizers",
            environment=environment.describe_with_cpu_flags(settings.device),
            parameters=parameters,
            clock=bench.clock_name,
            peak_flops_per_second={dtype: bench.peak[dtype] for dtype in PRECISIONS},
            rows=rows,
            beside=beside,
        )
    )


def report(facts: OptimizersFacts) -> Report:
    """Optimizers beside a baseline, then beside other implementations as far as these were measured."""
    rows, beside = facts.rows, facts.beside
    overrides = "".join(f", {name} {value}" for name, value in facts.overrides.items())
    title = (
        f"{facts.model}{overrides}: {facts.parameters:,} parameters in {facts.dtype}, "
        f"{facts.device}, {counted(facts.threads, 'thread')}, {facts.clock}"
    )
    peaks = [f"{dtype} {rate / 1e9:.4g}" for dtype, rate in facts.peak_flops_per_second.items()]
    above = machine(facts.environment, in_bfloat16=any("bfloat16" in row.flops for row in rows))
    periods = [
        Note("bench_period", label=row.label, period=row.period, full=row.special, other=row.ordinary)
        for row in rows
        if row.period > 1
    ]
    notes = [Note("bench_optimizer_columns"), *periods]
    notes += [Note("bench_sophia")] if any(row.name == "sophia" for row in rows) else []
    columns = [
        Column("optimizer", kind="text"),
        Column("n", importance=4),
        Column("ms", "ms/step", unit="ms"),
        Column("ratio", f"x {facts.against}", digits=3, importance=9),
        INTERVAL,
        Column("flops", "GFLOP", unit="GFLOP", importance=3),
        Column("share", "peak", unit="%", importance=3),
        Column("calls", digits=0, importance=3),
        Column("state_bytes", "B/param", digits=2, importance=3),
        AT_MOST,
    ]
    cells = [
        [row.label, row.step.n, row.step.median, row.ratio.median, row.ratio.interval]
        + [sum(row.flops.values()), row.share, row.calls, row.state_bytes, row.ratio.verdict]
        for row in rows
    ]
    sections = [table(columns, cells, above=[*above, Note("bench_peaks", peaks=peaks)], notes=notes)]
    measured = [
        [row.label + (" *" if row.matrices else ""), row.peer, row.ratio.n, row.ours.median]
        + [row.theirs.median, row.ratio.median, row.ratio.interval, row.ratio.verdict]
        for row in beside
        if row.ours is not None and row.theirs is not None and row.ratio is not None
    ]
    alone = any(row.matrices and row.ratio is not None for row in beside)
    missing = [
        Note("bench_no_peer", label=row.label, peer=row.peer, reason=row.note) for row in beside if row.note
    ]
    if measured or missing:
        matrices = [Note("bench_matrices_alone")] if alone else []
        sections.append(table(_PEERS, measured, notes=[*matrices, *missing]))
    return Report("bench optimizers", title, sections, data=facts)


_PEERS = (
    Column("optimizer", kind="text"),
    Column("peer", "beside", "text", importance=9),
    Column("n", importance=4),
    Column("ms", "ms/step", unit="ms"),
    Column("theirs", unit="ms"),
    Column("ratio", digits=3, importance=9),
    INTERVAL,
    AT_MOST,
)
