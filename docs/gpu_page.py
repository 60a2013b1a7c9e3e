"""The figures of docs/gpu-bench.md: a section of each folder that `benchmarks/gpu.py` has made on a GPU.

    python -m docs.pages --write        writes them; docs/gpu-bench/CARD/*.jsonl has the facts

The folder `counted` is of a CUDA device that computes nothing: what it starts, waits for and holds is exact.
"""

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu import MINUTES
from benchmarks.gpu_parts import PARTS

FOLDER = Path(__file__).with_name("gpu-bench")
AGREES = 0.02  # of how far the weights moved, in float32

Fact = Mapping[str, Any]

# The parts with tables, and of each the columns: a field, how it is headed, and by what it is divided.
COLUMNS: Mapping[str, Sequence[tuple[str, str, float]]] = {
    "resumed": [("optimizer", "optimizer", 1), ("difference", "difference of a resumed run", 1)],
    "optimizers": [
        *(("label", "optimizer", 1), ("beside", "beside", 1), ("ours", "ms", 1), ("theirs", "theirs", 1)),
        *(("ratio.median", "ratio", 1), ("state_bytes", "B/param", 1)),
    ],
    "counts": [
        *(("subject", "step", 1), ("operators", "operators", 1), ("launches", "launches", 1)),
        *(("waits", "waits", 1), ("memory", "MiB", 2**20)),
    ],
    **dict.fromkeys(
        ("training", "compiled", "memory"),
        [
            *(("model", "model", 1), ("optimizer", "optimizer", 1), ("samples", "sequences", 1)),
            *(("micro_batch", "at once", 1), ("compiled", "compiled", 1), ("milliseconds", "ms", 1)),
            *(("tokens_per_second", "tokens/s", 1), ("of_product", "of a product's rate", 1)),
            *(("peak", "peak, MiB", 2**20), ("estimated_peak", "by htbench cost", 2**20)),
        ],
    ),
    "headline": [
        *(("block", "block", 1), ("milliseconds", "ms", 1), ("tokens_per_second", "tokens/s", 1)),
        *(("evaluation", "s/evaluation", 1), ("hours", "h/run", 1), ("runs", "runs", 1)),
    ],
    "stacks": [
        *(("optimizer", "optimizer", 1), ("runs", "runs as one", 1), ("operators", "operators", 1)),
        *(("launches", "launches", 1), ("waits", "waits", 1), ("memory", "MiB", 2**20)),
        ("runs_per_minute", "runs/min", 1),
    ],
    "side-by-side": [
        *(("processes", "processes", 1), ("steps_per_second", "steps/s", 1)),
        ("runs_per_minute", "runs/min", 1),
    ],
}


def read_facts(file: Path) -> list[Fact]:
    """The facts of a part; of two tries both."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [fact for fact in map(json.loads, lines) if "kind" in fact]


def get(fact: Fact, field: str) -> Any:
    """A field, or that of a field."""
    first, _, rest = field.partition(".")
    value = fact.get(first)
    return get(value, rest) if rest and isinstance(value, Mapping) else value


def write_cell(value: Any, unit: float) -> str:
    """A value in its unit: a word as it is, a number with three digits at least."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return {None: "–", True: "yes", False: "no"}.get(value, str(value))
    number = value / unit
    return f"{number:,.0f}" if abs(number) >= 1000 or number == int(number) else f"{number:.3g}"


def write_table(facts: Sequence[Fact], columns: Sequence[tuple[str, str, float]]) -> Iterator[str]:
    """A table without the columns that no fact has."""
    columns = [column for column in columns if any(get(fact, column[0]) is not None for fact in facts)]
    yield f"| {' | '.join(head for _, head, _ in columns)} |"
    yield f"| {' | '.join('---' for _ in columns)} |"
    for fact in facts:
        yield f"| {' | '.join(write_cell(get(fact, field), unit) for field, _, unit in columns)} |"


def write_section(folder: Path) -> Iterator[str]:
    """A folder's machine, and a table of each part."""
    about: Fact = next((fact["environment"] for fact in read_facts(folder / "machine.jsonl")), {})
    named = {"torch": "torch", "cuda": "CUDA", "driver": "driver", "cpu": "", "code": "code"}
    words = [f"{head} {about[name]}".strip() for name, head in named.items() if about.get(name)]
    yield f"## {about.get('gpu') or 'Counted: a CUDA device that computes nothing'}\n\n{', '.join(words)}.\n"
    if agreement := read_facts(folder / "agreement.jsonl"):
        other = [fact for fact in agreement if disagrees(fact)]
        yield f"{len(agreement)} comparisons with the CPU; {len(other)} disagree."
        yield from (f"- {fact['optimizer']}, {fact['dtype']}, {fact['gradients']}" for fact in other)
        yield ""
    for name, columns in COLUMNS.items():
        facts = read_facts(folder / f"{name}.jsonl")
        if rows := [fact for fact in facts if get(fact, columns[0][0]) is not None and "why" not in fact]:
            yield from (*write_table(rows, columns), "")
        yield from (f"- {name}, {fact['subject']}: {fact['why']}\n" for fact in facts if "why" in fact)


def disagrees(fact: Fact) -> bool:
    """Whether a device does something else than the CPU; of bfloat16 only what is finite counts."""
    finite, there = fact["finite"], fact["dtype"] == "float32"
    return (
        finite[0] != finite[1] or len(fact["raised"]) == 1 or (there and (fact["difference"] or 0) > AGREES)
    )


def list_parts() -> str:
    """What `benchmarks/gpu.py` measures, in its order."""
    about = {name: inspect.getdoc(measure) or "" for name, measure in PARTS.items()}
    rows = [
        f"| `{name}` | {minutes:g} | {about[name].splitlines()[0]} |" for name, minutes in MINUTES.items()
    ]
    return "\n".join(["| part | minutes | measures |", "| --- | --- | --- |", *rows])


def render() -> str:
    """The figures that there are."""
    folders = sorted(place for place in FOLDER.iterdir() if place.is_dir())
    return "\n".join(line for folder in folders for line in write_section(folder)).strip()
