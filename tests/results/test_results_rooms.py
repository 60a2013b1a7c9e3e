"""The rooms of `results`: imports go down only, and no files import each other in a circle."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import results

HOME = Path(results.__file__).parent
ROOMS = ("analysis", "formats", "tables", "figures", "commands")  # each imports those before it only
FILES = {
    ".".join(("results", *path.relative_to(HOME).with_suffix("").parts)): path
    for path in HOME.rglob("*.py")
    if path.name != "__init__.py"
}


def imported(path):
    """The modules of `results` that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("results"):
            yield from FILES.keys() & {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}


IMPORTS = {name: set(imported(path)) for name, path in FILES.items()}


def room(module):
    return ROOMS.index(module.split(".")[1])


def test_rooms_import_lower_rooms_only():
    arrows = {(name, other) for name, others in IMPORTS.items() for other in others}
    assert len(arrows) > 40
    assert {(name, other) for name, other in arrows if room(other) > room(name)} == set()


def test_figures_do_without_tables():
    pairs = ((name, other) for name in IMPORTS for other in IMPORTS[name])
    assert not [
        pair for pair in pairs if ".figures." in pair[0] and room(pair[1]) > 0 and ".figures." not in pair[1]
    ]


def test_no_files_import_each_other_in_a_circle():
    assert len(list(TopologicalSorter(IMPORTS).static_order())) == len(FILES)  # raises at a circle
