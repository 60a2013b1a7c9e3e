"""The Python API on its page: signature and docstring of what is meant to be imported, from its source."""

import ast
import importlib
import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

API: Mapping[str, Sequence[str]] = {
    "Optimizers": [
        f"htbench.optimizers.{name}"
        for name in (
            *("build", "adopt_state", "split_parameters", "Hybrid", "UpdateRule", "SpectralRule"),
            *("spec", "OptimizerSpec", "Param"),
        )
    ],
    "Results in a notebook": [f"htbench.results.{name}" for name in ("frame", "curve", "spectra")],
    "Tasks of your own": [
        "htbench.harness.tasks.TaskSpec",
        "htbench.harness.data.task.Task",
        "htbench.harness.data.task.Scores",
    ],
    "The test split, item by item": [
        "htbench.harness.store.items.TestItems",
        "htbench.harness.store.items.read",
    ],
}


def render() -> str:
    """A section for each name, as Markdown."""
    return "\n\n".join(
        "\n\n".join([f"## {heading}", *map(_section, names)]) for heading, names in API.items()
    )


def _section(name: str) -> str:
    module, _, own = name.rpartition(".")
    (node,) = ast.parse(source(getattr(importlib.import_module(module), own))).body
    assert isinstance(node, ast.ClassDef | ast.FunctionDef)
    declared, words = "\n".join(_declared(node)), ast.get_docstring(node) or ""
    return f"### {name}\n\n```text\n{declared}\n\n{words}\n```"


def source(thing: Any) -> str:
    """The code of a class or a function, from the left margin on."""
    return textwrap.dedent(inspect.getsource(thing))


def _declared(node: ast.ClassDef | ast.FunctionDef) -> Iterator[str]:
    """A function's line; of a class its fields and its public methods."""
    if isinstance(node, ast.FunctionDef):
        yield _signature(node)
        return
    yield f"class {node.name}({', '.join(map(ast.unparse, node.bases))})".replace("()", "")
    for part in node.body:
        if isinstance(part, ast.AnnAssign):
            yield f"    {ast.unparse(part)}"
        if isinstance(part, ast.FunctionDef) and (part.name == "__init__" or part.name[0] != "_"):
            yield f"    {_signature(part)}"


def _signature(node: ast.FunctionDef) -> str:
    given = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"def {node.name}({ast.unparse(node.args)}){given}"
