"""The figures of docs/gpu-bench.md: what the files of `htbench bench gpu` in docs/gpu-bench/ say."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from docs.config_page import table
from harness.bench import gpu
from harness.show.numbers import duration

FOLDER = Path(__file__).with_name("gpu-bench")
NONE = "**No figures yet: no GPU has run this.**"
_ABOUT = ("gpu", "driver", "cuda", "torch", "code")


def parts() -> str:
    """All parts with their times."""
    rows = ((f"`{part.name}`", duration(60 * part.minutes), part.what) for part in gpu.PARTS)
    return table(("part", "about", "measures"), rows)


def figures(folder: Path = FOLDER) -> str:
    """A section for each part that was measured, or that none was."""
    found = [result for part in gpu.PARTS if (result := gpu.read(folder, part)) and result.rows]
    return "\n\n".join(map(_section, found)) or NONE


def _section(result: gpu.Result) -> str:
    about = ", ".join(f"{name} {result.environment.get(name)}" for name in _ABOUT)
    ended = (
        f"{result.outcome.value} after {duration(result.seconds)}{f': {result.why}' if result.why else ''}"
    )
    kinds = groupby(result.rows, key=lambda row: row["kind"])
    return "\n\n".join([f"### {result.part}", f"{about}; {ended}.", *(_table([*rows]) for _, rows in kinds)])


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    flat = [dict(_scalars({name: value for name, value in row.items() if name != "kind"})) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    return table(names, ([_shown(row.get(name)) for name in names] for row in flat))


def _scalars(row: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """The numbers and words of an object and of what is in it; the environment is told above."""
    for name, value in row.items():
        if isinstance(value, Mapping) and name != "environment":
            yield from _scalars(value, f"{path}{name}.")
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            for number, one in enumerate(value):
                yield from _scalars(one, f"{path}{name}[{number}]." if len(value) > 1 else f"{path}{name}.")
        elif not isinstance(value, Mapping):
            yield f"{path}{name}", value


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return " x ".join(map(str, value))
    return "" if value is None else str(value)
