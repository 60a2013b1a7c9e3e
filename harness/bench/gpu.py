"""`htbench bench gpu`: what only a real GPU can tell, in parts, each in a process and a file of its own.

A part is a function of `gpu_parts.py` that yields facts. Its file is written anew after each of them, so a
part that lacks memory, crashes or takes too long costs what it has not yielded yet, and the other parts
nothing. A part that is done is not measured again while its file is there. Torch-free, and without memory on
the GPU.
"""

import contextlib
import os
import signal
import subprocess
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any, Final

from harness.errors import UsageError, nearest, reason
from harness.show.note import Note
from harness.show.numbers import plain
from harness.show.report import Column, Report, table
from harness.system import atomic, environment, typed
from harness.system.machine import unused_gpu


@dataclass(frozen=True)
class Part:
    """A part of the benchmark.

    Attributes:
        name: of the part, and of its file.
        minutes: that it takes on an H100, estimated; none has run yet.
        what: it measures, in words.
        function: of `gpu_parts`.
        arguments: of that function, after the folder of prepared data.
    """

    name: str
    minutes: float
    what: str
    function: str
    arguments: tuple[Any, ...] = ()

    @property
    def limit(self) -> float:
        """Seconds after which it is ended."""
        return 60 * (1 + 2 * self.minutes)


_TRAIN = "a training step in bfloat16 beside that of transformers"
PARTS: Final = (
    Part("doctor", 0.5, "what the machine has, and which GPU of the table it is", "doctor"),
    Part("agreement", 3, "five steps of each optimizer on the GPU against the CPU", "agreement"),
    Part("waiting", 1.5, "what a step waits for", "waiting"),
    Part("runs", 4, "runs with autocast, compiled twice, with dropout, stopped and resumed", "runs"),
    Part("memory", 2, "micro-batches with less and less memory", "memory"),
    Part("peaks", 2, "peak memory beside the estimate of `htbench cost`", "peaks"),
    Part("train-60m", 3, _TRAIN, "training", ("llama-60m", False)),
    Part("train-60m-compiled", 4, f"{_TRAIN}, both compiled", "training", ("llama-60m", True)),
    Part("train-135m", 4, _TRAIN, "training", ("llama-135m", False)),
    Part("train-135m-compiled", 6, f"{_TRAIN}, both compiled", "training", ("llama-135m", True)),
    Part("optimizers", 7, "a step of each optimizer in bfloat16, those with an SVD last", "optimizer_steps"),
    Part("solvers", 4, "eigenvalues and SVDs of stacks", "solvers"),
    Part("graded", 1, "exact powers of momenta of a run, and of other spectra", "graded"),
    Part("idle", 1, "the share of a training step in which the GPU does nothing", "idle"),
    Part("resnet", 1, "layouts of a ResNet", "layouts"),
    Part("newton-schulz", 0.5, "Newton-Schulz with a width of 5461 and of 5472", "widths"),
)


class Outcome(Enum):
    """How a part ended, or that it has begun."""

    BEGUN = "begun"
    DONE = "done"
    LACKS_MEMORY = "lacks memory"
    FAILED = "failed"
    OUT_OF_TIME = "out of time"


@dataclass(frozen=True)
class Result:
    """The file of a part.

    Attributes:
        part: its name.
        outcome: `begun`, `done`, or how it ended before it had all rows.
        minutes: that were estimated.
        seconds: that it took.
        why: it failed; else empty.
        environment: versions and hardware.
        rows: the facts by the name of their class: what is measured depends on the part.
    """

    part: str
    outcome: Outcome
    minutes: float
    seconds: float = 0.0
    why: str = ""
    environment: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class GpuFacts:
    """The report.

    Attributes:
        folder: of the files.
        parts: of all that were asked for, what their files say.
    """

    folder: str
    parts: Sequence[Result]


def chosen(words: str | None) -> list[Part]:
    """The parts of a comma-separated list; None: all. Raises UsageError for an unknown one."""
    known = {part.name: part for part in PARTS}
    for name in words.split(",") if words is not None else ():
        if name not in known:
            raise UsageError(f"Unknown part '{name}'; {nearest(name, known)}.")
    return [part for part in PARTS if words is None or part.name in words.split(",")]


def check() -> None:
    """Raise UsageError if torch sees no GPU here."""
    import torch

    if not torch.cuda.is_available():
        unused = unused_gpu(torch.__version__, torch.version.cuda)
        raise UsageError(str(unused or Note("bench_gpu_none")))


def read(folder: Path, part: Part) -> Result | None:
    """What the file of a part says; None without one."""
    return typed.made(Result, atomic.read_json(_file(folder, part)))


def _file(folder: Path, part: Part) -> Path:
    return folder / f"{part.name}.json"


def _write(folder: Path, part: Part, result: Result) -> None:
    atomic.write_json(_file(folder, part), plain(result))


def measured(part: Part, folder: Path, cache: Path) -> Result:
    """Measure a part in a process of its own; what it printed is in a file beside its own.

    Args:
        part: what to measure.
        folder: of the files.
        cache: folder of prepared data.
    """
    _write(folder, part, Result(part.name, Outcome.BEGUN, part.minutes))
    began, log, late = time.monotonic(), folder / f"{part.name}.log", False
    with log.open("wb") as said:
        words = [*environment.program(__name__), part.name, str(folder), str(cache)]
        child = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
        try:
            child.wait(part.limit)
        except subprocess.TimeoutExpired:
            late = True
        finally:  # Ctrl-C, too, and what the part has started
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    result = read(folder, part) or Result(part.name, Outcome.BEGUN, part.minutes)
    if result.outcome == Outcome.BEGUN:  # it did not live to say how it ended
        lines = log.read_text(errors="replace").split("\n")
        why = next(
            (line.strip() for line in reversed(lines) if line.strip()), f"exit status {child.returncode}"
        )
        result = replace(
            result, outcome=Outcome.OUT_OF_TIME if late else Outcome.FAILED, why="" if late else why
        )
    result = replace(result, seconds=round(time.monotonic() - began, 1))
    _write(folder, part, result)
    return result


def main(name: str, folder: str, cache: str) -> None:
    """Measure a part in this process; its file says how it ended."""
    import torch

    from harness.bench import gpu_parts

    (part,) = chosen(name)
    facts = getattr(gpu_parts, part.function)(Path(cache), *part.arguments)
    about = environment.describe_with_cpu_flags("cuda")
    record(part, Path(folder), about, facts, torch.OutOfMemoryError)


def record(
    part: Part, folder: Path, about: dict[str, Any], facts: Iterator[Any], lacking: type[Exception]
) -> None:
    """Write the file of a part after each of its facts, and how it ended.

    Args:
        part: which.
        folder: of the file.
        about: versions and hardware.
        facts: dataclasses.
        lacking: the exception that means a lack of memory.
    """
    result = Result(part.name, Outcome.BEGUN, part.minutes, environment=about)
    try:
        for fact in facts:
            result = replace(result, rows=[*result.rows, {"kind": type(fact).__name__, **plain(fact)}])
            _write(folder, part, result)
        result = replace(result, outcome=Outcome.DONE)
    except lacking as error:
        result = replace(result, outcome=Outcome.LACKS_MEMORY, why=reason(error))
    except UsageError as error:
        result = replace(result, outcome=Outcome.FAILED, why=str(error))
    except Exception as error:  # the other parts go on
        result = replace(result, outcome=Outcome.FAILED, why=reason(error))
        traceback.print_exc()
    _write(folder, part, result)


_COLUMNS = (
    Column("part", kind="text"),
    Column("what", "measures", "text", importance=3),
    Column("minutes", "about", unit="s", importance=8),
    Column("seconds", "took", unit="s", importance=7),
    Column("outcome", kind="text", importance=9),
    Column("facts", digits=0, importance=5),
)


def report(parts: Sequence[Part], folder: Path) -> Report:
    """A line per part: how long it takes, and what its file says."""
    found = {part.name: read(folder, part) for part in parts}
    rows: list[list[Any]] = []
    for part in parts:
        result = found[part.name]
        ended = [result.seconds, result.outcome.value, len(result.rows)] if result else [None, "to do", None]
        rows.append([part.name, part.what, 60 * part.minutes, *ended])
    results = [result for result in found.values() if result]
    notes = [Note("bench_gpu_why", part=one.part, why=one.why) for one in results if one.why]
    gpus = sorted({str(one.environment["gpu"]) for one in results if "gpu" in one.environment})
    notes += [Note("bench_gpu_mixed", gpus=gpus)] if len(gpus) > 1 else []
    title = f"{', '.join(gpus)}: files in {folder}" if gpus else f"files in {folder}"
    shown = [table(_COLUMNS, rows, notes=notes)]
    return Report("bench gpu", title, shown, data=GpuFacts(str(folder), results))


def left(parts: Sequence[Part], folder: Path) -> list[Part]:
    """The parts that are not done."""
    results = ((part, read(folder, part)) for part in parts)
    return [part for part, result in results if result is None or result.outcome != Outcome.DONE]
