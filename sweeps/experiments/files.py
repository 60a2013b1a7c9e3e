"""A sweep file in parts, and how it is written."""

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from htbench.harness.show.numbers import setting

Settings = Mapping[str, Any]
_WIDTH = 110


@dataclass(frozen=True)
class Block:
    """One block: what it fixes, and what it tunes."""

    name: str
    set: Settings
    space: Settings


@dataclass(frozen=True)
class SweepFile:
    """One sweep file.

    Attributes:
        name: of the sweep and of the file.
        comment: what it is for, and who wrote it.
        base: settings of all blocks.
        seeds: of the search runs.
        blocks: in the order of its tables.
        fresh_seeds: on how many the winners run again.
        search: how the blocks search.
    """

    name: str
    comment: Sequence[str]
    base: Settings
    seeds: Sequence[int]
    blocks: Sequence[Block]
    fresh_seeds: int
    search: Settings

    def text(self) -> str:
        """The file's text."""
        lines = [f"# {line}" for part in self.comment for line in textwrap.wrap(part, _WIDTH - 2)]
        lines += [f"name: {self.name}", "base:"]
        lines += [f"  {name}: {_value(value)}" for name, value in self.base.items()]
        lines += [f"seeds: {_value(self.seeds)}", "blocks:"]
        for block in self.blocks:
            lines += [f"  - name: {block.name}", f"    set: {_value(block.set)}"]
            lines += [f"    space: {_value(block.space)}"]
        lines += [f"search: {_value(self.search)}", f"replicate: {{seeds: {self.fresh_seeds}}}"]
        return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    """A plain value as YAML on one line; numbers without exponents, which YAML 1.1 would read as words."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_value(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, float):
        text = f"{value:.12f}".rstrip("0")
        return text + "0" if text.endswith(".") else text
    return json.dumps(value) if isinstance(value, str) and ":" in value else setting(value)
