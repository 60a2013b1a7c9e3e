"""The cost card of a sweep: its remaining runs by class, with their time, memory and warnings. Torch-free.

A class is a set of runs with the same cost per step (`harness/cost/run_class.py`). The cost comes from
finished runs of the class in the whole store, else from a short measurement on this machine.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from harness import tasks
from harness.config import RunConfig
from harness.cost import measure as cost
from harness.cost.from_runs import from_records
from harness.cost.measure import NotMeasuredError
from harness.cost.run_class import Cost, RunClass, run_class
from harness.display import duration, memory
from harness.store import Store
from harness.store.layout import cache_folder
from harness.system.machine import visible_gpus
from sweeps.spec.resources import Resources


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


@dataclass(frozen=True)
class Row:
    """A line of the card: runs, and their cost; if it is not known, `why` has the reason."""

    work: Work
    cost: Cost | None
    why: str = ""

    @property
    def steps(self) -> int | None:
        """Updates of one run; None if its epochs can't be converted to steps."""
        return self.cost.steps(self.work.config) if self.cost else self.work.config.steps

    @property
    def samples(self) -> int | None:
        """Tokens or images that one run sees; None if its steps are not known."""
        config, steps = self.work.config, self.steps
        return None if steps is None else steps * config.batch_size * (config.seq_len or 1)

    @property
    def unit(self) -> str:
        """The unit of `samples`: tokens or images."""
        return tasks.spec(self.work.kind.task).unit

    @property
    def seconds(self) -> float | None:
        """Seconds of one run; None if they are not known."""
        if self.cost is None or self.steps is None:
            return None
        return self.cost.seconds(self.work.config, self.steps)

    @property
    def total(self) -> float | None:
        """Seconds of all runs, one after the other; None if they are not known."""
        return None if self.seconds is None else self.work.runs * self.seconds

    def to_json(self) -> dict[str, Any]:
        """The row as plain values; times are in seconds, memory is in bytes."""
        kind = self.work.kind
        return {
            "task": kind.task,
            "model": kind.model,
            "optimizer": kind.optimizer,
            "details": dict(kind.details),
            "resources": asdict(self.work.resources),
            "runs": self.work.runs,
            "steps": self.steps,
            self.unit: self.samples,
            "seconds_per_run": self.seconds,
            "seconds": self.total,
            "cost": asdict(self.cost) if self.cost else None,
            "why": self.why,
            "warnings": warnings(self),
        }


def gather(wanted: Sequence[tuple[RunConfig, Resources]]) -> list[Work]:
    """Group runs that cost the same, in the order of the first run of each group."""
    keys = [
        (run_class(config), config.steps, config.epochs, config.evaluation, config.checkpoint, resources)
        for config, resources in wanted
    ]
    first = {key: config for key, (config, _) in reversed(list(zip(keys, wanted, strict=True)))}
    return [Work(key[0], first[key], key[-1], runs) for key, runs in Counter(keys).items()]


class Costs:
    """Finds the cost of each class, and measures each unknown class once.

    Args:
        store: of the finished runs.
        measure: whether unknown classes are measured.

    Attributes:
        known: the costs found so far.
        unknown: the classes without a cost, and the reason of each.
    """

    def __init__(self, store: Store, measure: bool) -> None:
        self.store, self.measure = store, measure
        self.known: dict[RunClass, Cost] = {}
        self.unknown: dict[RunClass, str] = {}
        records = [record for _, record in store.index.rows().values()]
        self.known |= from_records(store, records)

    def rows(self, works: Sequence[Work]) -> list[Row]:
        """The rows of the card, one per element of `works`."""
        missing = [work for work in works if self._is_missing(work)]
        # Without a writable store the measurement is not kept, because planning must not create a store.
        with tempfile.TemporaryDirectory(prefix="htbench-") as folder:
            cache, kept = _cache(self.store.root)
            for work in missing:
                self._look_up(work, cache if kept else Path(folder), kept)
        return [Row(work, self.known.get(work.kind), self.unknown.get(work.kind, "")) for work in works]

    def _is_missing(self, work: Work) -> bool:
        known = self.known.get(work.kind)
        return work.kind not in self.unknown and (known is None or known.steps(work.config) is None)

    def _add_measured(self, kind: RunClass, measured: Cost) -> None:
        """Add a measured cost. Costs of finished runs are kept; only a missing epoch size is filled in."""
        known = self.known.get(kind, measured)
        self.known[kind] = replace(known, epoch_size=measured.epoch_size)

    def _look_up(self, work: Work, cache: Path, keep: bool) -> None:
        kind = work.kind
        if not self._is_missing(work):
            return
        known = cost.remembered(cache, kind)
        if known is not None:
            self._add_measured(kind, known)
        elif not self.measure:
            self.unknown[kind] = "not measured"
        elif work.wants_gpu and not visible_gpus():
            self.unknown[kind] = "no run of it has finished, and there is no GPU here to measure it on"
        else:
            print(f"htbench: measuring {kind.task} {kind.model} {kind.optimizer} ...", file=sys.stderr)
            try:
                self._add_measured(kind, cost.measure(cache, work.config, keep))
            except NotMeasuredError as error:
                self.unknown[kind] = f"it can't be measured here: {error}"


def _cache(root: Path) -> tuple[Path, bool]:
    """The cache folder of a store, and whether it is usable. It is created if the store is writable."""
    cache = cache_folder(root)
    place = cache if cache.exists() else root
    usable = place.is_dir() and os.access(place, os.W_OK)
    if usable:
        cache.mkdir(exist_ok=True)
    return cache, usable


# --- warnings ---


def warnings(row: Row) -> list[str]:
    """The reasons why SLURM jobs with these resources may not finish the runs, one sentence each."""
    if row.cost is None or row.seconds is None:
        return []
    found = [_memory(row.cost, row.work), _processor(row.cost, row.work), *_time(row, row.cost)]
    return [sentence for sentence in found if sentence]


def _memory(cost: Cost, work: Work) -> str:
    resources, together = work.resources, work.resources.side_by_side(work.config.processes)
    if cost.gpu or resources.mem is None or not 0 < _size(resources.mem) < together * cost.peak_memory:
        return ""  # in SLURM, mem=0 means all memory of the node
    if together > 1:
        return (
            f"{together} runs side by side take {memory(together * cost.peak_memory)} of memory, "
            f"mem={resources.mem} is less"
        )
    return f"a run takes {memory(cost.peak_memory)} of memory, mem={resources.mem} is less"


def _size(mem: str) -> int:
    """Convert a SLURM memory size to bytes. The unit is megabytes if none is given."""
    number = int(mem.rstrip("KMGTB"))
    unit = mem.rstrip("B").lstrip("0123456789") or "M"
    return number << 10 * ("KMGT".index(unit) + 1)


def _processor(cost: Cost, work: Work) -> str:
    if cost.gpu or not work.wants_gpu:
        return ""
    return f"time and memory are those of a CPU ({cost.processor}), its jobs ask for a GPU"


def _time(row: Row, cost: Cost) -> list[str]:
    resources, config = row.work.resources, row.work.config
    limit, delay = 60 * resources.timeout_min, resources.warning_seconds
    start = cost.startup_seconds + cost.overhead_seconds
    work = (row.seconds or 0.0) - cost.overhead_seconds
    rounds = math.ceil(min(resources.runs_per_job, row.work.runs) / resources.side_by_side(config.processes))
    # Only the first run of a job waits for the start of Python.
    whole = cost.startup_seconds + rounds * (cost.overhead_seconds + work)
    if whole <= limit - delay:
        return []
    time, useful = f"timeout_min={resources.timeout_min}", limit - delay - start
    if useful <= cost.step:
        return [
            f"{time} is too short for anything: the start takes {duration(start)}, a step "
            f"{duration(cost.step)}, and {delay} s before the limit it must save"
        ]
    starts = math.ceil((whole - start) / useful)
    said = [f"a run takes {duration(start + work)}: with {time} it needs about {starts - 1} requeues"]
    if rounds > 1:
        said = [
            f"a job works through its runs in {rounds} rounds, {duration(whole)} in all: with {time} it "
            f"comes back for the rest, about {starts - 1} more times"
        ]
    longest = cost.step + (cost.evaluation if config.evaluation.every else 0.0)
    if longest > delay:
        said.append(
            f"a step with an evaluation may take {duration(longest)}, longer than the {delay} s between "
            f"warning and limit, so that a run is killed before it can save; raise signal_delay_s"
        )
    every = config.checkpoint
    interval = min(every.every_seconds, every.every_steps * cost.step if every.every_steps else math.inf)
    # Where a job has several runs, one that is cut off begins first when the job starts again. So only a run
    # that is too long for a whole job depends on a checkpoint.
    if start + interval > limit and start + work > limit - delay:
        said.append(
            f"the first checkpoint would come after {duration(start + interval)}, later than {time}: a run "
            f"that is killed without warning starts anew; lower checkpoint.every_seconds or raise the limit"
        )
    return said
