"""A user's own parts of a run: which there are, which code they consist of, and what it is called in the key.

A part may lie anywhere on Python's path: in a loose file, which is digested with all loose files that it
imports, or in an installed distribution, whose version says more than a digest of one of its files. A loose
file belongs to no distribution: a script beside the sweep file, a package on PYTHONPATH or one that is
installed as editable. It may be edited at any time. What it imports is read, not run, so what no `import`
statement names is not in the digest: of that `unseen` tells what a run has executed.

Its code runs as soon as it is imported. So a process imports only what `allow` was told, by the commands that
train, check or cost what their user names; all others show such a name as a word.
"""

import ast
import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from htbench import imported, models, optimizers
from htbench.harness import tasks
from htbench.harness.config import RunConfig, digest
from htbench.harness.config.groups import PREFIX
from htbench.harness.config.programs import is_program
from htbench.harness.system.environment import HOME, PACKAGE, PACKAGES
from htbench.imported import load, target
from htbench.optimizers.zoo.registry import UNSET, OptimizerSpec

_SETTINGS = ("optimizer.name", "model", "task")
_INSTALLED = ("site-packages", "dist-packages")  # the folders that pip and Debian install into
_executed: dict[Path, str] = {}  # digests of loose files as this process ran them, once a part is allowed
folders: list[Path] = []  # where the modules of allowed parts are looked for, after all that is installed


def allow(names: Iterable[str], *places: Path) -> None:
    """Let this process import parts from outside.

    Args:
        names: of optimizers, models and tasks, as a user gave them; those of htbench need nothing.
        places: folders to look for modules in, such as that of the file with the names; the working folder
            comes after them. If all names are htbench's own, nothing is looked for anywhere.
    """
    others = set(names).difference(optimizers.ZOO, models.SIZES, tasks.TASKS)
    imported.allowed.update(others)
    if others:
        _watch_once()
    for place in (*places, Path()) if others else ():
        if (folder := place.resolve()) not in folders:
            folders.append(folder)
            sys.path.append(str(folder))


def search_no_more() -> None:
    """Look for modules in the folders of parts no more. What has been imported from there stays.

    A look at results after training imports pandas, which asks for modules that it can do without.
    """
    for folder in map(str, folders):
        if folder in sys.path:  # else a part has taken it out
            del sys.path[-1 - sys.path[::-1].index(folder)]
    folders.clear()


def named(settings: Mapping[str, Any]) -> Iterator[str]:
    """The optimizers, model and task that settings name, by dotted names; of lists all."""
    if is_program(settings):
        return
    of_groups = [x for name, x in settings.items() if name.startswith(PREFIX) and name.endswith(".optimizer")]
    for value in (*map(settings.get, _SETTINGS), *of_groups):
        yield from (one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str))


def parts(config: RunConfig) -> dict[str, str]:
    """The parts of a run from outside: "module:attribute" by "optimizer", "model", "task" or "group NAME"."""
    if config.program:
        return {}
    rule, model = optimizers.spec(config.optimizer.name), models.spec(config.model)
    task = None if config.task in tasks.TASKS else target(config.task, tasks.GROUP)
    found = {
        "optimizer": rule.target if rule.outside else None,
        "model": model.target if model.outside else None,
        "task": task,
        **{part: row.target for part, row in of_groups(config).items() if row.outside},
    }
    return {part: place for part, place in found.items() if place is not None}


def of_groups(config: RunConfig) -> dict[str, OptimizerSpec]:
    """The optimizers that train named groups besides the main one, by "group NAME"."""
    rules = {f"group {name}": str(own["optimizer"]) for name, own in config.optimizer.groups.items()}
    return {part: optimizers.spec(rule) for part, rule in rules.items() if rule != config.optimizer.name}


def described(config: RunConfig) -> dict[str, Any]:
    """What a record notes of parts from outside, so that tables need no module of theirs; empty for ours.

    Returns:
        `outside`, with `defaults`: of the settings that depend on such a part, by dotted names, if there are
        any; and `switches`: whether such an optimizer is evaluated at other weights than those it trains.
    """
    rule, task = optimizers.spec(config.optimizer.name, config.optimizer.routing), tasks.spec(config.task)
    takers = {f"{PREFIX}{part.partition(' ')[2]}.": row for part, row in of_groups(config).items()}
    outside = {prefix: row for prefix, row in {"optimizer.": rule, **takers}.items() if row.outside}
    if not outside and task.name in tasks.TASKS:
        return {}
    defaults: dict[str, Any] = {"optimizer.aux_lr": task.adamw_lr} if rule.has_aux else {}
    defaults |= {"schedule.name": rule.schedules[0]} if rule.outside and rule.schedules else {}
    for prefix, row in outside.items():
        params = {"lr": row.lr, "weight_decay": row.weight_decay, **row.params}
        defaults |= {f"{prefix}{name}": param.default for name, param in params.items()}
    known = {name: value for name, value in defaults.items() if value is not UNSET}
    return {"outside": {"defaults": known, "switches": any(row.switches for row in outside.values())}}


@functools.cache
def source_word(place: str) -> str:
    """The code of a part in a word that changes with it: "3fa1c2d4e5f6", or "torch 2.13.0 3fa1c2d4e5f6".

    Comments and docstrings don't count. A process keeps its word, as it keeps the code that it has imported.

    Args:
        place: "module:attribute".

    Raises:
        ValueError: it can't be imported.
    """
    homes = _homes(place)
    found = loose_modules({place.partition(":")[0], *homes})
    installed = sorted(homes - found.keys())
    found |= {home: Path(str(sys.modules[home].__file__)) for home in installed}
    content = "".join(f"{name}\0{digest.whole(path)}\0" for name, path in sorted(found.items()))
    versions = {word for word in map(_distribution, installed) if word}
    return " ".join([*sorted(versions), hashlib.sha256(content.encode()).hexdigest()[:12]])


def files(configs: Iterable[RunConfig]) -> dict[Path, Path]:
    """The loose files of the parts of some runs, by their paths in the folder `outside` of a snapshot."""
    places = {place for config in configs for place in parts(config).values()}
    return loose_files({home for place in places for home in (place.partition(":")[0], *_homes(place))})


def _homes(place: str) -> set[str]:
    """The modules in which a part is defined; the one that names it may only import it."""
    found: Any = load(place)
    if not isinstance(found, tasks.TaskSpec):
        home = str(getattr(found, "__module__", ""))
        return {home if _has_file(home) else place.partition(":")[0]}
    functions = (found.fingerprint, found.loader)
    names = {name.partition(":")[0] for name in (place, *functions)}
    names |= {str(getattr(load(name), "__module__", "")) for name in functions}
    return {name for name in names if _has_file(name)}


def _has_file(module: str) -> bool:
    return getattr(sys.modules.get(module), "__file__", None) is not None


def _distribution(module: str) -> str:
    """ "torch 2.13.0", without what says for which device it was built."""
    names = sorted(_owners().get(module.partition(".")[0], ()))
    return f"{names[0]} {importlib.metadata.version(names[0]).partition('+')[0]}" if names else ""


_owners = functools.cache(importlib.metadata.packages_distributions)


# --- loose files ---


def loose_modules(starts: Iterable[str]) -> dict[str, Path]:
    """The loose files of some modules and of all that they import, by dotted names.

    Args:
        starts: dotted names. Python also runs the packages above a module, so they count.
    """
    todo, found = list(starts), dict[str, Path]()
    while todo:
        for name, path in _chain(todo.pop()):
            if name not in found and not any(folder in _INSTALLED for folder in path.parts):
                found[name] = path
                package = name if path.name == "__init__.py" else name.rpartition(".")[0]
                if path.suffix == ".py":
                    todo += [place for _, place in digest.imports(ast.parse(path.read_bytes()), package)]
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
            for path in sorted(filter(Path.is_file, place.rglob("*"))):
                name = Path(top) / path.relative_to(place)
                if not any(part.startswith((".", "__pycache__")) for part in name.parts):
                    found[name] = path
    return found


# --- what no `import` statement names ---


def unseen(config: RunConfig) -> dict[str, str]:
    """The loose files beside the parts of a run that this process ran, but that are in no digest of a part.

    Returns:
        a digest of each as it was when it ran, by its path below the folder of a part.
    """
    known, roots = _places(frozenset(parts(config).values()))
    ran = ((root, path) for root in roots for path in sorted(_executed) if path.is_relative_to(root))
    return {path.relative_to(root).as_posix(): _executed[path] for root, path in ran if path not in known}


def edited_since(config: RunConfig, ran: Mapping[str, str]) -> list[str]:
    """Those of the files in `ran`, as `unseen` gave it for an earlier run, that are not what they were."""
    _, roots = _places(frozenset(parts(config).values()))
    return [name for name, code in ran.items() if code not in {_code_of(root / name, root) for root in roots}]


@functools.cache
def _places(targets: frozenset[str]) -> tuple[set[Path], list[Path]]:
    """The loose files in the digests of some parts, and the folders from which they are imported."""
    homes = {home for place in targets for home in (place.partition(":")[0], *_homes(place))}
    found = {name: path.resolve() for name, path in loose_modules(homes).items()}
    roots = {path.parents[name.count(".") + (path.name == "__init__.py")] for name, path in found.items()}
    return set(found.values()), sorted(roots)


def _code_of(path: Path, below: Path) -> str:
    """A digest of what Python executes of a file; empty if it can't be read, or lies elsewhere."""
    with contextlib.suppress(OSError, ValueError, SyntaxError, RecursionError):
        if path.resolve().is_relative_to(below):
            return hashlib.sha256(digest.whole(path).encode()).hexdigest()[:12]
    return ""


@functools.cache
def _watch_once() -> None:
    """Note what this process executes from now on; Python keeps an audit hook for good."""
    installed = (os.path.dirname(os.__file__), str(PACKAGE), *(str(HOME / name) for name in PACKAGES))
    others = re.compile(r"/(site-packages|dist-packages|torchinductor_[^/]*)/")  # compilers write code, too

    def note(event: str, args: tuple[Any, ...]) -> None:
        name = getattr(args[0], "co_filename", "") if event == "exec" else ""
        if name.endswith(".py") and not name.startswith(installed) and not others.search(name):
            path = Path(name).resolve()
            _executed[path] = _executed.get(path) or _code_of(path, path.parent)

    sys.addaudithook(note)


def _top(name: str) -> ModuleSpec | None:
    if name == "htbench" or name in sys.stdlib_module_names:
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
        candidates = [path / "__init__.py" for path in packages] + [place / f"{word}.py" for place in places]
        file = next(filter(Path.is_file, candidates), None)
        if file is not None:
            yield dotted, file
        places = packages
