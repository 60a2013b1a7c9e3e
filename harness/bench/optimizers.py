"""Measures the time of one step of each optimizer, relative to a baseline and to other implementations.

There is no forward or backward pass. The parameters have the shapes of a real model, and the steps alternate
between two seeded sets of Gaussian gradients. Two optimizers (a pair of sides) are measured together, each on
its own copy of the parameters.
"""

import copy
import dataclasses
import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from htbench import models, optimizers
from htbench.harness.bench.peers import Peer, peers_of
from htbench.harness.bench.subjects import Entry
from htbench.harness.bench.turns import (
    Clock,
    Measurement,
    clock_of,
    find_full_step,
    per_step,
    take_turns,
)
from htbench.harness.cost.update import memory_of
from htbench.harness.errors import UsageError, reason
from htbench.harness.show.note import Note
from htbench.harness.show.progress import Progress
from htbench.harness.show.report import Column, Report, by_columns
from htbench.harness.system import environment
from htbench.optimizers import UpdateRule

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
    """The time of a step of one optimizer, relative to the baseline or to an implementation by others.

    Attributes:
        label: the optimizer with its settings.
        beside: the label of the baseline; or package and class of the other implementation.
        version: of that package; empty for the baseline.
        matrices: whether both sides updated only the matrices (parameters with two dimensions).
        period: T, if only every T-th step does all the work (a full step); else 1.
        note: why nothing was measured; what follows is then None.
        ours, theirs: median milliseconds per step; with `period` > 1 of the mean over a whole period.
        ratio: ours / theirs.
        ordinary, full: median milliseconds of the other steps and of the full step of ours.
        state_bytes: bytes of our optimizer state per scalar parameter.
    """

    label: str
    beside: str
    version: str
    matrices: bool
    period: int
    note: str = ""
    ours: float | None = None
    theirs: float | None = None
    ratio: Measurement | None = None
    ordinary: float | None = None
    full: float | None = None
    state_bytes: float | None = None


@dataclass(frozen=True, kw_only=True)
class OptimizersFacts(Settings):
    """The report.

    Attributes:
        subject: of the command.
        environment: versions and hardware.
        parameters: of the model.
        clock: what times are of.
        rows: optimizers beside the baseline, then beside implementations by others.
    """

    subject: str
    environment: Mapping[str, Any]
    parameters: int
    clock: str
    rows: Sequence[Row]


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
        against: the baseline, which keeps its optimizer state between pairs.
    """

    def __init__(self, settings: Settings, against: Entry) -> None:
        self.settings, self.against = settings, against
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
        self._baseline = self._ours(against)

    def measure(self, entry: Entry, peer: Peer | None = None) -> Row:
        """Measure an entry beside one of its peers; None: beside the baseline.

        The ratio of the baseline to a second copy of itself shows the error, since the true ratio is 1.
        """
        if peer is None:
            row = Row(entry.label, self.against.label, "", False, entry.period)
            target = entry.target if row.beside == "muon" else None
            return self._measured(row, entry, self._ours(entry), self.against.period, self._baseline, target)
        obstacle = peer.obstacle(entry.hyper)
        row = Row(entry.label, peer.label, peer.version or "", peer.matrices, entry.period, obstacle)
        if obstacle:
            return row
        side = self._ours(entry, peer.matrices)
        try:
            return self._measured(row, entry, side, entry.period, self._theirs(entry, peer), peer.at_most)
        except Exception as error:  # code of other packages may raise anything
            return dataclasses.replace(row, note=f"fails: {reason(error)}")

    def _measured(
        self, row: Row, entry: Entry, side: Side, period: int, baseline: Side, target: float | None
    ) -> Row:
        our_times, their_times = take_turns(
            side, baseline, self.settings.rounds, self.clock, limit=self.settings.limit
        )
        steps, units = per_step(our_times, entry.period), per_step(their_times, period)
        full = find_full_step(our_times) if entry.period > 1 else None
        return dataclasses.replace(
            row,
            ours=1e3 * statistics.median(steps),
            theirs=1e3 * statistics.median(units),
            ratio=Measurement.ratio(entry.label, f"x {row.beside}", steps, units, target),
            ordinary=1e3 * statistics.median(two[1 - full] for two in our_times)
            if full is not None
            else None,
            full=1e3 * statistics.median(two[full] for two in our_times) if full is not None else None,
            state_bytes=memory_of(side.optimizer.state) / sum(p.numel() for p in side.params.values()),
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
    if settings.device == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda needs a CUDA device, and torch sees none here.")
    pairs: list[tuple[Entry, Peer | None]] = [(entry, None) for entry in chosen]
    if settings.peers:
        pairs += [(entry, peer) for entry in chosen for peer in peers_of(entry.name)]
    bench, rows = Bench(settings, against), list[Row]()
    with Progress(len(pairs), "pairs") as progress:
        for entry, peer in pairs:
            beside = peer.label if peer else against.label
            progress.to(progress.done, said=f"{entry.label} beside {beside}")
            rows.append(bench.measure(entry, peer))
            if (ratio := rows[-1].ratio) is not None:
                progress.note(f"{entry.label}: {ratio.median:.3f} {ratio.unit}")
            progress.advance()
    return report(
        OptimizersFacts(
            **vars(settings),
            subject="optimizers",
            environment=environment.describe_with_cpu_flags(settings.device),
            parameters=parameters,
            clock=bench.clock_name,
            rows=rows,
        )
    )


def report(facts: OptimizersFacts) -> Report:
    """Optimizers beside a baseline, then beside other implementations as far as these were measured."""
    overrides = "".join(f", {name} {value}" for name, value in facts.overrides.items())
    rows = [(row, row.ratio) for row in facts.rows if row.ratio is not None]
    bounded = [(row.label, ratio) for row, ratio in rows if ratio.target is not None]
    title = Note(
        "bench_title",
        bounds=len(bounded),
        missed=[label for label, ratio in bounded if not ratio.is_met] or ["none"],
        where=f"{facts.model}{overrides}: {facts.parameters:,} parameters in {facts.dtype}, {facts.device}",
        threads=facts.threads,
        clock=facts.clock,
    )
    columns: dict[Column, list[Any]] = {
        Column("optimizer", kind="text"): [row.label + " *" * row.matrices for row, _ in rows],
        Column("beside", kind="text", importance=9): [row.beside for row, _ in rows],
        Column("n", importance=4): [ratio.n for _, ratio in rows],
        Column("ms", "ms/step", unit="ms"): [row.ours for row, _ in rows],
        Column("theirs", unit="ms", importance=5): [row.theirs for row, _ in rows],
        Column("ratio", digits=3, importance=9): [ratio.median for _, ratio in rows],
        Column("interval", "95 % interval", "text", importance=7): [
            f"{ratio.low:.3f} .. {ratio.high:.3f}" for _, ratio in rows
        ],
        Column("state_bytes", "B/param", digits=2, importance=3): [row.state_bytes for row, _ in rows],
        Column("at_most", "at most", "text", importance=6): [
            "" if ratio.target is None else f"{ratio.target:g} {'met' if ratio.is_met else 'MISSED'}"
            for _, ratio in rows
        ],
    }
    notes = [Note("bench_optimizer_columns")]
    for row, _ in rows:
        if row.period > 1 and not row.version:
            about = {"label": row.label, "period": row.period, "full": row.full, "other": row.ordinary}
            notes.append(Note("bench_period", **about))
    notes += [Note("bench_matrices_alone")] if any(row.matrices for row, _ in rows) else []
    sides_by_reason: dict[str, list[str]] = {}
    for row in facts.rows:
        sides_by_reason.setdefault(row.note, []).append(f"{row.label} beside {row.beside}")
    notes += [Note("bench_no_peer", reason=why, sides=sides) for why, sides in sides_by_reason.items() if why]
    section = by_columns(columns, above=list_machine(facts.environment), notes=notes)
    return Report("bench optimizers", str(title), [section], data=facts)


def list_machine(environment: Mapping[str, Any]) -> list[Note]:
    """What was measured on, by `environment.describe_with_cpu_flags`.

    Warns where a ratio between precisions says nothing about the algorithms.
    """
    native = environment["native_bfloat16"]
    flags = environment["cpu_flags"] or {}
    words = {
        "gpu": environment.get("gpu"),
        "flags": [f"{'+' if there else '-'}{flag}" for flag, there in flags.items()],
        "native": {True: "yes", False: "no", None: "unknown"}[native],
        **{name: environment[name] for name in ("cpu", "cpu_capability", "torch")},
    }
    return [Note("bench_machine", **words), *([] if native else [Note("bench_emulated")])]
