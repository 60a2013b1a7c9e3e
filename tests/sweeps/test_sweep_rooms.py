"""The rooms of `sweeps`: imports go down the list of rooms only, no files import each other in a circle."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# From the lowest; a room imports from itself and from those before it. `preload` and `cli` name modules as
# strings, which are no imports.
ROOMS = ("spec", "plan", "studies", "execute", "local", "cluster", "screens", "actions", "commands")
WITH_TORCH = {"sweeps.local.preload"}
ONLY_HOME = {"optuna": "studies", "submitit": "cluster"}
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path
    for path in sorted((ROOT / "sweeps").rglob("*.py"))
    if path.name != "__init__.py"
}


def imports(source, modules):
    """All modules that a file imports, wherever it does: in functions and under TYPE_CHECKING, too."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (names & modules) or {node.module}
    return found


ARROWS = {name: imports(path.read_text(), FILES.keys()) for name, path in FILES.items()}


def room(module):
    return module.split(".")[1]


def circle(arrows):
    """The modules that are in a circle or lead to one; empty if there is none."""
    left = {name: targets & arrows.keys() for name, targets in arrows.items()}
    while free := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in free:
            del left[name]
    return set(left)


@pytest.mark.parametrize("name", FILES)
def test_a_room_imports_from_lower_rooms_only(name):
    level = ROOMS.index(room(name))
    above = {other for other in ARROWS[name] & FILES.keys() if ROOMS.index(room(other)) > level}
    assert above == set()


def test_no_files_import_each_other_in_a_circle():
    assert circle(ARROWS) == set()


@pytest.mark.parametrize(("package", "home"), ONLY_HOME.items())
def test_optuna_and_submitit_are_imported_in_one_room_each(package, home):
    users = {name for name, found in ARROWS.items() if package in {one.partition(".")[0] for one in found}}
    assert users and {room(name) for name in users} == {home}


def test_no_module_imports_torch_but_what_the_pool_preloads():
    names = sorted(FILES.keys() - WITH_TORCH)
    program = "import importlib, sys\nfor name in sys.argv[1:]:\n    importlib.import_module(name)\n"
    program += "    assert 'torch' not in sys.modules, name"
    done = subprocess.run([sys.executable, "-c", program, *names], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_a_breach_would_be_seen():
    modules = {"sweeps.a.x", "sweeps.b.y"}
    text = "def f():\n    from sweeps.b import y\nif TYPE_CHECKING:\n    import optuna.trial"
    assert imports(text, modules) == {"sweeps.b.y", "optuna.trial"}
    assert imports("from sweeps.b.y import Thing", modules) == {"sweeps.b.y"}
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == {"a", "b", "c"}
    assert circle({"a": {"b", "json"}, "b": set()}) == set()
