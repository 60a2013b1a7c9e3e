"""The code that makes a run's numbers: a digest of every definition that the run needs. Torch-free.

Only what Python executes counts, not comments, docstrings, annotations or imports. Of a table (a mapping
from words to rows) only those rows count that the run's settings name. `revisions.py` compares the
digests with those of the released code.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.system.environment import HOME

# The modules that make numbers. The others declare settings, keep files or start processes.
_ROOMS = {
    "harness.data": ("augment corpus digits glyphs images loss order pictures pydocs randaugment task text"),
    "harness.parallel": "batch_norm group overlap sharding",
    "harness.prepare": "corpus pictures",
    "harness.train": "curvature divergence learner loop model optimizer schedule",
    "models": "gpt2 llama resnet transformer vit",
    "optimizers": (
        "adam assemble base cosmos elementwise galore groups hybrid linalg muon routing soap spectral stacks"
    ),
    "optimizers.spectral": "rule",
}
NUMERIC = tuple(f"{room}.{name}" for room, names in _ROOMS.items() for name in names.split())
_SILENT = ("annotation", "returns", "type_comment", "type_params", "kind", "ctx")
_OWNERS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def digests(starts: Iterable[str], words: Collection[str] = ()) -> dict[str, str]:
    """The digest of every definition that the starting points need, by its name "module:definition".

    Args:
        starts: "module:definition", or an attribute of one; outside of NUMERIC there are no digests.
        words: the words among the settings; they choose rows of tables.
    """
    found = {one.name: one.digest for one in _reached(starts, frozenset(words))}
    return dict(sorted(found.items()))


def read_all() -> None:
    """Read and digest everything now, so that processes forked from this one need not."""
    everything()
    for name in NUMERIC:
        for rows in getattr(_module(name), "definitions", {}).values():
            for one in rows.values():
                _ = one.used


def forget_if_edited() -> None:
    """Forget what has been read if one of the files has changed since."""
    if any(_stamp(path) != stamp for path, stamp in _stamps.items()):
        _module.cache_clear()
        _stamps.clear()


# --- one definition ---


@dataclass(frozen=True)
class Definition:
    """A function, a class, a constant, or one row of a table.

    Attributes:
        name: "module:name" or "module:table[row]".
        nodes: its syntax, several if it is defined in several places.
    """

    name: str
    nodes: tuple[ast.AST, ...]

    @functools.cached_property
    def digest(self) -> str:
        """Twelve hex digits."""
        return hashlib.sha256("".join(map(_text, self.nodes)).encode()).hexdigest()[:12]

    @functools.cached_property
    def used(self) -> frozenset[str]:
        """The dotted names in its code, each with all its beginnings."""
        names = (_dotted(node) for one in self.nodes for node in _walk(one))
        return frozenset(name for name in names if name)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for _, children in _parts(node):
        for child in children:
            yield from _walk(child) if isinstance(child, ast.AST) else ()


def _parts(node: ast.AST) -> Iterator[tuple[str, list[object]]]:
    """The fields of a node that Python executes, each as a list."""
    for name in node._fields:
        value = getattr(node, name, None)
        children = value if isinstance(value, list) else [value]
        if name == "body" and isinstance(node, _OWNERS) and ast.get_docstring(node, clean=False) is not None:
            children = children[1:]
        if isinstance(node, ast.JoinedStr):  # Python's versions divide its constant parts differently
            children = [child for child in children if isinstance(child, ast.FormattedValue)]
        kept = [child for child in children if not isinstance(child, ast.Import | ast.ImportFrom)]
        if name not in _SILENT and value is not None:
            yield name, kept


def _text(node: object) -> str:
    """The node as text that is the same in all versions of Python."""
    if not isinstance(node, ast.AST):
        return f"{type(node).__name__}:{node!r}"
    parts = (f"{name}=[{','.join(map(_text, children))}]" for name, children in _parts(node) if children)
    return f"{type(node).__name__}({';'.join(parts)})"


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := _dotted(node.value)):
        return f"{before}.{node.attr}"
    return ""


# --- from one definition to the next ---


@dataclass(frozen=True)
class _Module:
    name: str
    definitions: Mapping[str, Mapping[str, Definition]]  # by name and row; the row is empty but for tables
    imports: Mapping[str, str]  # local name -> "module" or "module.attribute"


_stamps: dict[Path, tuple[int, ...]] = {}  # of the files read


def _stamp(path: Path) -> tuple[int, ...]:
    with contextlib.suppress(OSError):
        now = path.stat()
        return now.st_mtime_ns, now.st_ino, now.st_size
    return ()


@functools.cache
def _module(name: str) -> _Module | None:
    base = HOME.joinpath(*name.split("."))
    path = next((p for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file()), None)
    if path is None:
        return None
    _stamps[path] = _stamp(path)
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError as error:
        raise UsageError(f"'{path}' is no valid Python: {error.msg} in line {error.lineno}.") from None
    nodes: dict[str, list[ast.AST]] = {}
    for node in tree.body:
        for word in _names(node):
            nodes.setdefault(word, []).append(node)
    imports: dict[str, str] = {}
    for one in ast.walk(tree):
        if isinstance(one, ast.ImportFrom) and one.module and not one.level:
            imports |= {alias.asname or alias.name: f"{one.module}.{alias.name}" for alias in one.names}
        elif isinstance(one, ast.Import):
            imports |= {alias.asname: alias.name for alias in one.names if alias.asname}
            imports |= {(top := alias.name.partition(".")[0]): top for alias in one.names if not alias.asname}
    return _Module(name, {word: _definitions(f"{name}:{word}", own) for word, own in nodes.items()}, imports)


def _names(node: ast.stmt) -> list[str]:
    """What a statement of a module defines."""
    if isinstance(node, _OWNERS):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _definition_of(start: str) -> tuple[str, str]:
    module, _, attribute = start.partition(":")
    return module, attribute.partition(".")[0]


def _reached(starts: Iterable[str], words: frozenset[str]) -> Iterator[Definition]:
    todo, seen = [_definition_of(start) for start in starts], set[tuple[str, str]]()
    while todo:
        place = todo.pop()
        if place in seen or not _is_numeric(place[0]):
            continue
        seen.add(place)
        module = _module(place[0])
        if module is None:
            continue
        rows = module.definitions.get(place[1], {})
        for row in sorted(rows.keys() & words or rows):  # all rows if the words name none
            yield rows[row]
            todo += [found for name in rows[row].used if (found := _find(module, name)) is not None]


def _definitions(name: str, nodes: Sequence[ast.AST]) -> dict[str, Definition]:
    """A definition, or the rows of a table."""
    rows = _rows(nodes[0]) if len(nodes) == 1 else {}
    if rows:
        return {row: Definition(f"{name}[{row}]", (node,)) for row, node in rows.items()}
    return {"": Definition(name, tuple(nodes))}


def _rows(node: ast.AST) -> dict[str, ast.AST]:
    """The rows of a table by their words; empty if the node is none."""
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    if not isinstance(value, ast.Dict):
        return {}
    keys = [key.value if isinstance(key, ast.Constant) else None for key in value.keys]
    if not all(isinstance(key, str) for key in keys):
        return {}
    return {str(key): row for key, row in zip(keys, value.values, strict=True)}


def _find(module: _Module, name: str) -> tuple[str, str] | None:
    """Where the definition is that a dotted name in a module's code means; None if it is not ours."""
    first, _, rest = name.partition(".")
    if first in module.definitions:
        return module.name, first
    target = module.imports.get(first)
    return _locate(f"{target}.{rest}" if rest else target) if target else None


def _locate(dotted: str) -> tuple[str, str] | None:
    """The module and the definition of "harness.train.curvature.observe", through what modules import."""
    words = dotted.split(".")
    if words[0] not in ("optimizers", "models", "harness"):
        return None
    for cut in range(len(words) - 1, 0, -1):
        module = _module(".".join(words[:cut]))
        if module is not None:
            return _find(module, ".".join(words[cut:]))
    return None


def _is_numeric(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in NUMERIC)


def everything() -> dict[str, str]:
    """The digest of every definition in the modules of NUMERIC, and of every row of their tables."""
    found: dict[str, str] = {}
    for name in NUMERIC:
        inside = sorted(HOME.joinpath(*name.split(".")).glob("*.py"))
        for place in (name, *(f"{name}.{path.stem}" for path in inside if path.stem != "__init__")):
            module = _module(place)
            assert module is not None, f"{place} is gone: mend NUMERIC"
            found |= {one.name: one.digest for rows in module.definitions.values() for one in rows.values()}
    return dict(sorted(found.items()))


def whole(path: Path) -> str:
    """What Python executes of a file, imports included, as text; if it is no Python, its digest."""
    content = path.read_bytes()
    if path.suffix != ".py":
        return hashlib.sha256(content).hexdigest()
    tree = ast.parse(content)
    if ast.get_docstring(tree, clean=False) is not None:
        del tree.body[0]
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return "".join(map(_text, (tree, *imports)))
