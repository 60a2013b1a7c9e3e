"""A sweep file in parts, and how it and the names of its blocks are written."""

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from htbench.harness.paper.experiments import Place
from htbench.harness.show.numbers import setting

Settings = Mapping[str, Any]
_WIDTH = 110
_WRITER = "python -m htbench.sweeps.experiments.write"


@dataclass(frozen=True)
class Block:
    """One block: a setting on a workload, the learning rates that it is tried with, what else is tuned.

    Attributes:
        row: of tables; empty: that of its optimizer.
    """

    name: str
    set: Settings
    rates: Sequence[float]
    resources: Settings = field(default_factory=dict)
    others: Settings = field(default_factory=dict)
    row: str = ""


@dataclass(frozen=True)
class SweepFile:
    """One sweep file.

    Attributes:
        name: of the sweep and of the file.
        comment: what it is for.
        base: settings of all blocks.
        seeds: of the search runs.
        blocks: in the order of the paper.
        fresh_seeds: on how many the winners run again.
        resources: of a job.
        search: how the blocks search, if not all they list.
        by: the command that writes the file for its user; empty: it is one of ours.
        data_seeds: of the order of the data, one beside each of `seeds`; none: one order for all.
    """

    name: str
    comment: str
    base: Settings
    seeds: Sequence[int]
    blocks: Sequence[Block]
    fresh_seeds: int = 0
    resources: Settings = field(default_factory=dict)
    search: Settings = field(default_factory=dict)
    by: str = ""
    data_seeds: Sequence[int] = ()

    def text(self) -> str:
        """The file's text."""
        comment = textwrap.wrap(self.comment, _WIDTH - 2, break_on_hyphens=False)
        lines = [
            *(f"# {line}" for line in comment),
            f"# Written by `{self.by}`; yours to keep and to edit."
            if self.by
            else f"# Written by `{_WRITER}`; change that program, not this file.",
            f"name: {self.name}",
            "base:",
            *(f"  {name}: {_value(value)}" for name, value in self.base.items()),
            f"seeds: {_value(self.seeds)}",
            *([f"data_seeds: {_value(self.data_seeds)}"] if self.data_seeds else []),
            "blocks:",
        ]
        for block in self.blocks:
            lines += [f"  - name: {block.name}", *([f"    row: {block.row}"] if block.row else [])]
            lines += [f"    set: {_value(block.set)}"]
            lines += [f"    space: {_value({'optimizer.lr': block.rates, **block.others})}"]
            lines += [f"    resources: {_value(block.resources)}"] if block.resources else []
        lines += [f"search: {_value(self.search)}"] if self.search else []
        lines += [f"replicate: {{seeds: {self.fresh_seeds}}}"] if self.fresh_seeds else []
        lines += [f"resources: {_value(self.resources)}"] if self.resources else []
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


def block_name(place: Place) -> str:
    """The name of a place's block: "llama-60m-htmuon-p0.1" or "cifar100-resnet18-muon"."""
    what = place.setting
    parts = [place.dataset, place.model, what.optimizer]
    parts += [f"p{what.p:g}"] if what.p is not None else []
    parts += [f"alpha{what.rank_exponent:g}"] if what.rank_exponent is not None else []
    parts += [f"interval{what.interval}"] if what.interval not in (None, 1) else []
    parts += [what.replica] if what.replica else []
    return "-".join(parts)
