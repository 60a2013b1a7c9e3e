"""The cost card of a sweep: its remaining runs by class, with their time, memory and warnings. Torch-free.

A class is a set of runs with the same cost per step (`harness/cost/run_class.py`). The cost comes from
finished runs of the class in the whole store, else from a short measurement on this machine.
"""

import math
import os
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from htbench.harness import tasks
from htbench.harness.config import RunConfig, parts
from htbench.harness.cost.from_runs import from_store
from htbench.harness.cost.probe import NotProbedError, probe
from htbench.harness.cost.run_class import Cost, RunClass, count_steps, run_class
from htbench.harness.show.emit import say
from htbench.harness.show.note import Note
from htbench.harness.store import Store
from htbench.harness.store.layout import cache_folder
from htbench.harness.system.machine import visible_gpus
from htbench.sweeps.spec.resources import Resources

SHORT = Note("short_runs")
_UPDATES, _SAMPLES = 2000, 1_000_000  # of a nano model take minutes at most; to measure a class takes as long


@dataclass(frozen=True)
class Work:
    """Runs that need the same time and memory.

    Attributes:
        kind: the class of the runs.
        config: the config of one of them.
        resources: the resources of their SLURM jobs.
        runs: the number of runs.
    """

    kind: RunClass
    config: RunConfig
    resources: Resources
    runs: int

    @property
    def wants_gpu(self) -> bool:
        """Whether the runs need a GPU."""
        return self.resources.gpus_per_node > 0 or self.config.device == "cuda"

    @property
    def updates(self) -> int | None:
        """Updates of all runs, if all parts are ours, the model nano and the data at hand; else None."""
        config = self.config
        if config.program or parts.parts(config) or "-nano" not in config.model:
            return None
        if tasks.spec(config.task).ready:
            return None
        return self.runs * config.steps if config.steps else None


@dataclass(frozen=True)
class Row:
    """Runs of one class.

    Attributes:
        task, model, optimizer: a class of runs that cost the same.
        details: the settings that decide the cost.
        resources: of its jobs.
        runs: to run.
        steps: of a run; None if its epochs can't be converted.
        seconds_per_run: of one run; None if they are not known.
        seconds: of all of them, one after the other.
        cost: what was measured.
        why: why the cost is not known; else empty.
        warnings: such as too little memory.
    """

    task: str
    model: str
    optimizer: str
    details: Mapping[str, Any]
    resources: Resources
    runs: int
    steps: int | None
    seconds_per_run: float | None
    seconds: float | None
    cost: Cost | None
    why: Note | str
    warnings: Sequence[Note]


def group_runs(runs: Sequence[tuple[RunConfig, Resources]]) -> list[Work]:
    """Group runs that cost the same, in the order of the first run of each group."""
    keys = [
        (run_class(config), config.steps, config.epochs, config.evaluation, config.checkpoint, resources)
        for config, resources in runs
    ]
    first = {key: config for key, (config, _) in reversed(list(zip(keys, runs, strict=True)))}
    return [Work(key[0], first[key], key[-1], number) for key, number in Counter(keys).items()]


class Costs:
    """Finds the cost of each class, and measures each unknown class once, unless all runs are short for sure.

    Args:
        store: of the finished runs.
        measure: whether unknown classes are measured.

    Attributes:
        known: the costs found so far.
        unknown: the classes without a cost, and the reason of each.
    """

    def __init__(self, store: Store, measure: bool) -> None:
        self.store, self.measure = store, measure
        self.known = from_store(store)
        self.unknown: dict[RunClass, Note] = {}

    def make_rows(self, works: Sequence[Work]) -> list[Row]:
        """The rows of the card, one per element of `works`."""
        cache = cache_folder(self.store.root)
        is_writable = self.store.root.is_dir() and os.access(self.store.root, os.W_OK)
        with tempfile.TemporaryDirectory(prefix="htbench-") as temporary:
            self._are_short = _are_short([*filter(self._is_missing, works)])
            for work in filter(self._is_missing, works):  # the first of a class stands for all of it
                self._find_cost(work, cache if is_writable else Path(temporary))  # planning makes no store
        rows = []
        for work in works:
            kind, steps, cost = work.kind, count_steps(work.config, cache), self.known.get(work.kind)
            seconds = None if cost is None or steps is None else cost.seconds(work.config, steps)
            rows.append(
                Row(
                    task=kind.task,
                    model=kind.model,
                    optimizer=kind.optimizer,
                    details=dict(kind.details),
                    resources=work.resources,
                    runs=work.runs,
                    steps=None if work.config.program else steps,
                    seconds_per_run=seconds,
                    seconds=None if seconds is None else work.runs * seconds,
                    cost=cost,
                    why=self.unknown.get(kind, ""),
                    warnings=[] if cost is None or seconds is None else find_warnings(work, cost, seconds),
                )
            )
        return rows

    def _is_missing(self, work: Work) -> bool:
        return work.kind not in self.known and work.kind not in self.unknown

    def _find_cost(self, work: Work, cache: Path) -> None:
        kind, why = work.kind, None
        if work.config.program:
            why = Note("program_not_measured")
        elif not self.measure:
            why = Note("not_measured")
        elif self._are_short:
            why = SHORT
        elif work.wants_gpu and not visible_gpus():
            why = Note("no_gpu_to_measure")
        else:
            say(Note("measuring", task=kind.task, model=kind.model, optimizer=kind.optimizer))
            try:
                self.known[kind] = probe(cache, work.config)
            except NotProbedError as error:
                why = Note("measuring_failed", error=str(error))
        if why is not None:
            self.unknown[kind] = why


def _are_short(works: Sequence[Work]) -> bool:
    """Whether runs take minutes at most, and none is for a cluster, where limits of time and memory count."""
    if not all(work.updates and work.resources == Resources() for work in works):
        return False
    sizes = [(work.updates or 0, work.config.batch_size * (work.config.seq_len or 1)) for work in works]
    return sum(n for n, _ in sizes) <= _UPDATES and sum(n * size for n, size in sizes) <= _SAMPLES


def find_warnings(work: Work, cost: Cost, seconds: float) -> list[Note]:
    """The reasons why SLURM jobs with these resources may not finish runs of so many seconds."""
    resources, config, notes = work.resources, work.config, list[Note]()
    mem = resources.mem or "0"  # of which 0 means, in SLURM, all memory of the node
    unit = mem.rstrip("B").lstrip("0123456789") or "M"
    size = int(mem.rstrip("KMGTB")) << 10 * ("KMGT".index(unit) + 1)
    if not cost.gpu and 0 < size < cost.peak_memory:
        notes.append(Note("run_needs_memory", needed=cost.peak_memory, mem=mem))
    if work.wants_gpu and not cost.gpu:
        notes.append(Note("cost_of_cpu", processor=cost.processor))
    minutes, delay = resources.timeout_min, resources.warning_seconds
    start = cost.startup_seconds
    useful = 60 * minutes - delay - start
    if seconds <= useful:
        return notes
    if useful <= cost.step:
        return [*notes, Note("limit_too_short", minutes=minutes, start=start, step=cost.step, delay=delay)]
    requeues = math.ceil(seconds / useful) - 1
    notes.append(Note("run_is_requeued", seconds=start + seconds, minutes=minutes, requeues=requeues))
    longest = cost.step + (cost.evaluation if config.evaluation.every else 0.0)
    if longest > delay:
        notes.append(Note("step_outlasts_warning", seconds=longest, delay=delay))
    every = config.checkpoint
    interval = min(every.every_seconds, every.every_steps * cost.step if every.every_steps else math.inf)
    if start + interval > 60 * minutes:
        notes.append(Note("checkpoint_too_late", seconds=start + interval, minutes=minutes))
    return notes
