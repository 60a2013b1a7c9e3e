"""The tables of the config reference, `docs/config.md`, from the declarations themselves."""

from collections.abc import Iterable, Sequence
from dataclasses import Field
from typing import Any

from htbench.harness import tasks
from htbench.harness.config import hyper_schedules
from htbench.harness.config.settings import declarations, params_of
from htbench.harness.show.numbers import setting as shown
from htbench.optimizers.zoo.registry import UNSET, OptimizerSpec, Param
from htbench.sweeps.spec.keys import declared
from htbench.sweeps.spec.program import ProgramSection
from htbench.sweeps.spec.resources import Resources
from htbench.sweeps.spec.search import PRUNERS, Range, Search
from htbench.sweeps.spec.sweep import Block, SweepSpec

# The parts of a sweep file by their headings.
SWEEP_PARTS = {
    "Keys of the file": SweepSpec,
    "Keys of a block": Block,
    "Keys of `program`": ProgramSection,
    "Keys of resources": Resources,
    "Keys of a range": Range,
    "Keys of `search`": Search,
    **{f"Options of the pruner `{name}`": options for name, options in PRUNERS.items()},
}


def sweep_keys() -> str:
    """The keys of a sweep file, part by part."""
    return "\n\n".join(
        f"### {heading}\n\n{table(('key', 'meaning'), map(_key, declared(part).items()))}"
        for heading, part in SWEEP_PARTS.items()
    )


def _key(item: tuple[str, Field[Any]]) -> tuple[str, str]:
    """A key of a sweep file with its meaning, and its default if that is a number or a switch."""
    name, field = item
    default = f" (default: {shown(field.default)})" if isinstance(field.default, int) else ""
    return f"`{name}`", field.metadata["help"] + default


def settings() -> str:
    """The settings of a run, one per line."""
    rows = []
    for name, field in declarations():
        param, in_key = field.metadata["param"], "yes" if field.metadata["key"] else "no"
        rows.append((*_cells(name, param), in_key, param.help))
    return table(("setting", "type", "default", "allowed", "key", "meaning"), rows)


def schedules() -> str:
    """The parts of a schedule of a hyperparameter."""
    shapes = hyper_schedules.SHAPES
    rows = [
        ("`schedule.p.name`", "all", "none", ", ".join(shapes)),
        ("`schedule.p.from`", "all", "`optimizer.p`", "the value at first"),
        ("`schedule.p.to`", "all", "none", "the value at last"),
    ]
    for part, param in {part: param for parts in shapes.values() for part, param in parts.items()}.items():
        having = ", ".join(name for name, parts in shapes.items() if part in parts)
        default = "none" if param.default is UNSET else f"`{shown(param.default)}`"
        rows.append((f"`schedule.p.{part}`", having, default, param.help))
    return table(("setting", "of", "default", "meaning"), rows)


def hyperparameters(row: OptimizerSpec) -> str:
    """The settings of an optimizer."""
    own = [f"optimizer.{name}" for name in ("lr", "weight_decay", *row.params)]
    params = params_of(row)
    rows = ((*_cells(name, params[name]), params[name].help) for name in own)
    return table(("setting", "type", "default", "allowed", "meaning"), rows)


def task_rows() -> str:
    """The tasks that every installation knows."""
    rows = (
        (
            f"`{row.name}`",
            {"lm": "language modelling", "image": "image classification"}[row.kind],
            f"{row.metric}, {'higher' if row.higher_is_better else 'lower'} is better",
            shown(row.adamw_lr),
            shown(row.seq_len),
        )
        for row in tasks.TASKS.values()
    )
    return table(("task", "kind", "metric", "default `optimizer.aux_lr`", "default `seq_len`"), rows)


def _cells(name: str, param: Param) -> tuple[str, str, str, str]:
    kind = f"{param.type.__name__} or null" if param.default is None else param.type.__name__
    return f"`{name}`", kind, f"`{shown(param.default)}`" if param.default != "" else "empty", param.allowed()


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
