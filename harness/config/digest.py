"""The code that makes a run's numbers: a digest of every file that the run needs. Torch-free.

Only what Python executes counts, not comments, docstrings or annotations; of imports those whose names the
code uses. Of a table (a mapping from words to rows) only those rows count that the run's settings name, and
the files that these rows need. `revisions.py` compares the digests with those of the released code.
"""

import ast
import functools
import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from htbench.harness.errors import UsageError
from htbench.harness.system.environment import HOME

# The modules that make numbers. The others declare settings, keep files or start processes.
_ROOMS = {
    "htbench.harness.data": (
        "augment corpus digits glyphs images loss order pictures prepare_images prepare_text pydocs "
        "pysource randaugment stamps task text"
    ),
    "htbench.harness.parallel": "batch_norm group overlap sharding",
    "htbench.harness.train": "building curvature divergence learner loop precision schedule",
    "htbench.models": "gpt2 llama modded_gpt resnet transformer vit",
    "htbench.optimizers": (
        "adam adam_forms assemble base cosmos elementwise galore groups hybrid linalg lion modes muon "
        "muown prodigy routing schedule_free scion soap soap_kin spectral stacks steps transfer"
    ),
    "htbench.optimizers.spectral": (
        "aurora balance contra_muon dynmuon exact mix_power mix_weights newton_schulz ns_root polar products "
        "rule soft_muon soft_polar stream_power"
    ),
}
NUMERIC = frozenset(f"{room}.{name}" for room, names in _ROOMS.items() for name in names.split())
_SILENT = ("annotation", "returns", "type_comment", "type_params", "kind", "ctx")
_OWNERS = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def digests(starts: Iterable[str], words: Collection[str] = ()) -> dict[str, str]:
    """The digests of all files, and of all rows of their tables, that the starting points need, by name.

    Args:
        starts: dotted names of modules; those outside of NUMERIC have no digests.
        words: the words among the settings; they choose rows of tables. Of a table without them all count.
    """
    todo, made, seen = list(starts), dict[str, str](), set[str]()
    while todo:
        name = todo.pop()
        if name in seen or name not in NUMERIC:
            continue
        seen.add(name)
        pieces = _pieces(name)
        named = {piece.table for piece in pieces if piece.row in words}
        for piece in pieces:
            if piece.table not in named or piece.row in words:
                made[piece.name] = piece.digest
                todo += piece.needs
    return made


def everything() -> dict[str, str]:
    """The digest of every file of NUMERIC, and of every row of their tables."""
    return {piece.name: piece.digest for name in sorted(NUMERIC) for piece in _pieces(name)}


def whole(path: Path) -> str:
    """What Python executes of a file, imports included, as text; if it is no Python, its digest."""
    content = path.read_bytes()
    if path.suffix != ".py":
        return hashlib.sha256(content).hexdigest()
    tree = ast.parse(content)
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return "".join(map(_text, (tree, *found)))


def imports(tree: ast.AST, package: str = "") -> Iterator[tuple[str, str]]:
    """What a file imports anywhere: the local name and the dotted name, of modules and of what is in them.

    Args:
        tree: the file.
        package: in which it is, for relative imports.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.asname or alias.name.partition(".")[0], alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (
                (alias.asname or alias.name, f"{base}.{alias.name}".strip(".")) for alias in node.names
            )


# --- one file ---


@dataclass(frozen=True)
class _Piece:
    """A file without the rows of its tables, or one such row.

    Attributes:
        name: "module" or "module:table[row]".
        digest: twelve hex digits of what is executed, and of where the names that it imports come from.
        needs: the dotted names of modules of ours whose names it uses.
        table, row: empty for the file.
    """

    name: str
    digest: str
    needs: frozenset[str]
    table: str = ""
    row: str = ""


def _pieces(module: str) -> list[_Piece]:
    path = _file(HOME, module)
    assert path is not None, f"{module} is gone: mend NUMERIC"
    now = path.stat()
    return _read(module, path, (now.st_mtime_ns, now.st_ino, now.st_size))


@functools.cache
def _read(module: str, path: Path, stamp: tuple[int, ...]) -> list[_Piece]:
    """The pieces of a file as it was at `stamp`; processes forked from this one need not read it again."""
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError as error:
        raise UsageError(f"'{path}' is no valid Python: {error.msg} in line {error.lineno}.") from None
    origin = dict(imports(tree))
    rows = [(table, row, node) for table, value in _tables(tree) for row, node in _rows(value).items()]
    pieces = [_piece(f"{module}:{table}[{row}]", origin, node, table, row) for table, row, node in rows]
    for _, value in _tables(tree):
        value.keys, value.values = [], []
    return [_piece(module, origin, tree), *pieces]


def _piece(name: str, origin: dict[str, str], code: ast.AST, table: str = "", row: str = "") -> _Piece:
    used = {node.id for node in _walk(code) if isinstance(node, ast.Name) and node.id in origin}
    text = _text(code) + "".join(f"{name}={origin[name]};" for name in sorted(used))
    needs = frozenset(place for place in map(_module, {origin[name] for name in used}) if place)
    return _Piece(name, hashlib.sha256(text.encode()).hexdigest()[:12], needs, table, row)


def _tables(tree: ast.Module) -> Iterator[tuple[str, ast.Dict]]:
    """The names and values of the mappings from words that a file defines."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and len(_rows(node.value)) == len(node.value.keys):
                yield target.id, node.value


def _rows(table: ast.Dict) -> dict[str, ast.AST]:
    named = zip(table.keys, table.values, strict=True)
    return {
        str(key.value): row for key, row in named if isinstance(key, ast.Constant) and type(key.value) is str
    }


@functools.cache
def _module(dotted: str) -> str:
    """The module that a dotted name means or is in; empty if it is not ours."""
    words = dotted.split(".")
    if words[0] != "htbench" or len(words) < 2 or words[1] not in ("optimizers", "models", "harness"):
        return ""
    names = (".".join(words[:cut]) for cut in range(len(words), 0, -1))
    return next((name for name in names if _file(HOME, name)), "")


def _file(home: Path, module: str) -> Path | None:
    base = home.joinpath(*module.split(".")[1:])  # without `htbench`
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


# --- code as text ---


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
