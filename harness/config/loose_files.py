"""The loose files that a module needs, found by reading imports, without running anything. Torch-free.

A loose file belongs to no installed distribution: a script beside the sweep file, a package on PYTHONPATH or
one that is installed as editable. It may be edited at any time.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

from optimizers.zoo.imported import OWN

_INSTALLED = ("site-packages", "dist-packages")  # the folders that pip and Debian install into


def is_loose(path: Path) -> bool:
    """Whether a file belongs to no installed distribution."""
    return not any(name in _INSTALLED for name in path.parts)


def loose_modules(starts: Iterable[str]) -> dict[str, Path]:
    """The loose files of some modules and of all that they import, by dotted names.

    Args:
        starts: dotted names. Python also runs the packages above a module, so they count.
    """
    todo, found = list(starts), dict[str, Path]()
    while todo:
        for name, path in _chain(todo.pop()):
            if name not in found and is_loose(path):
                found[name] = path
                todo += _imports(name, path)
    return dict(sorted(found.items()))


def loose_files(starts: Iterable[str]) -> dict[Path, Path]:
    """What to copy so that these modules can be imported elsewhere: whole packages with their data, or files.

    Returns:
        where each file is, by its path relative to the folder that is then put on Python's path.
    """
    found: dict[Path, Path] = {}
    for top in sorted({name.partition(".")[0] for name in loose_modules(starts)}):
        spec = _top(top)
        assert spec is not None
        if not spec.submodule_search_locations:
            found[Path(Path(str(spec.origin)).name)] = Path(str(spec.origin))
        for place in map(Path, spec.submodule_search_locations or ()):
            found |= {Path(top) / path.relative_to(place): path for path in _below(place)}
    return found


def _below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and "__pycache__" not in parts and not any(part.startswith(".") for part in parts):
            yield path


def _top(name: str) -> ModuleSpec | None:
    if name in OWN or name in sys.stdlib_module_names:
        return None
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None


def _chain(name: str) -> Iterator[tuple[str, Path]]:
    """A module and the packages above it with their files; those without `__init__.py` have none."""
    dotted, *rest = name.split(".")
    spec = _top(dotted)
    if spec is None:
        return
    places = [Path(place) for place in spec.submodule_search_locations or ()]
    if spec.origin and Path(spec.origin).is_file():
        yield dotted, Path(spec.origin)
    for word in rest:
        dotted = f"{dotted}.{word}"
        packages = [place / word for place in places if (place / word).is_dir()]
        files = [path / "__init__.py" for path in packages] + [place / f"{word}.py" for place in places]
        file = next(filter(Path.is_file, files), None)
        if file is not None:
            yield dotted, file
        places = packages


def _imports(name: str, path: Path) -> Iterator[str]:
    """The dotted names that a file imports, of modules and of what is in them."""
    if path.suffix != ".py":
        return
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, package)
            yield from (f"{base}.{alias.name}".strip(".") for alias in node.names)


def _base(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    above = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*above, *([node.module] if node.module else [])])
