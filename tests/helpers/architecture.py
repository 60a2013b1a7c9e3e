"""The picture of the house, read from the imports: rooms, arrows between them, floors and circles."""

import ast
import functools
import graphlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("harness", "sweeps", "results", "optimizers", "models")
LEAVES = ("optimizers", "models")
Graph = Mapping[str, set[str]]


@dataclass(frozen=True)
class House:
    """The modules of a checkout.

    Attributes:
        files: of each module, by its dotted name; a package is its `__init__.py`.
    """

    files: Mapping[str, Path]

    @classmethod
    def of(cls, root: Path) -> "House":
        files = {}
        for path in sorted(path for package in PACKAGES for path in (root / package).rglob("*.py")):
            name = ".".join(path.relative_to(root).with_suffix("").parts)
            files[name.removesuffix(".__init__")] = path
        return cls(files)

    def modules(self, names: Iterable[str]) -> set[str]:
        """Of imported names those that are our modules; "module.attribute" counts as its module."""
        found = set()
        for name in names:
            known = name if name in self.files else name.rpartition(".")[0]
            found |= {known} & self.files.keys()
        return found

    def imports(self, name: str) -> set[str]:
        """Our modules that a module imports anywhere: at the top, in functions, under TYPE_CHECKING."""
        return self.modules(anywhere(self.source(name))) - {name}

    def loads(self, name: str) -> set[str]:
        """All that an import of a module loads at once, of whatever package, with the packages above it."""
        names = loaded(self.source(name))
        ours = self.modules(names)
        foreign = {one.partition(".")[0] for one in names} - set(PACKAGES)
        return ours | foreign | {above for one in {name, *ours} for above in parents(one)}

    def source(self, name: str) -> str:
        """The text of a module."""
        return self.files[name].read_text(encoding="utf-8")

    def arrows(self) -> dict[str, set[str]]:
        """Which rooms a room imports from."""
        found: dict[str, set[str]] = {room(name): set() for name in self.files}
        for name in self.files:
            found[room(name)] |= {room(other) for other in self.imports(name)} - {room(name)}
        return found


def room(name: str) -> str:
    """The room of a module: its folder; a module beside the rooms of a package is a room of its own.

    A leaf is one room, but for the torch-free table of optimizers.
    """
    parts = name.split(".")
    if parts[0] in LEAVES and parts[:2] != ["optimizers", "zoo"]:
        return parts[0]
    return ".".join(parts[:2])


def parents(name: str) -> set[str]:
    """The packages above a module."""
    parts = name.split(".")
    return {".".join(parts[:length]) for length in range(1, len(parts))}


def imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names that import statements bring in, as "module" or "module.attribute"."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (_in_packages(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            yield from (_in_packages(f"{node.module}.{alias.name}") for alias in node.names)


def _in_packages(name: str) -> str:
    """The name of a module of ours without `htbench`, which is where all packages are."""
    inner = name.removeprefix("htbench.")
    return inner if inner.partition(".")[0] in PACKAGES else name


@functools.cache  # many laws ask for the imports of the same files
def anywhere(source: str) -> frozenset[str]:
    """The names that a source imports anywhere, as "module" or "module.attribute"."""
    return frozenset(imported(ast.walk(ast.parse(source))))


@functools.cache
def loaded(source: str) -> frozenset[str]:
    """Those that its own import brings in at once."""
    return frozenset(imported(at_once(ast.parse(source))))


def at_once(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes that an import of the module executes: no functions, nothing under TYPE_CHECKING."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        yield node
        waiting += ast.iter_child_nodes(node)


def circle(graph: Graph) -> list[str]:
    """The nodes of a circle; empty if there is none."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def floors(graph: Graph) -> int:
    """The number of nodes on the longest way down a graph without circles."""
    sorter, number = graphlib.TopologicalSorter(graph), 0
    sorter.prepare()
    while sorter.is_active():
        sorter.done(*sorter.get_ready())
        number += 1
    return number


def within(graph: Graph, package: str) -> dict[str, set[str]]:
    """The part of a graph that lies in one package."""
    ours = {name for name in graph if name.partition(".")[0] == package}
    return {name: graph[name] & ours for name in sorted(ours)}


def folders(house: House) -> set[str]:
    """The folders with modules below the top of a package."""
    return {name.rpartition(".")[0] for name, path in house.files.items() if path.name != "__init__.py"} - {
        *PACKAGES
    }
