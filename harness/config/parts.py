"""A user's own parts of a run: which there are, which code they consist of, and what it is called in the key.

A part may lie anywhere on Python's path: in a loose file, which is digested with all loose files that it
imports, or in an installed distribution, whose version says more than a digest of one of its files.

Its code runs as soon as it is imported. So a process imports only what `allow` was told, by the commands that
train, check or cost what their user names; all others show such a name as a word.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import models
import optimizers
from harness import tasks
from harness.config import RunConfig, loose_files
from harness.config import digest as sources
from models import imported as of_models
from optimizers.zoo import imported as of_optimizers
from optimizers.zoo.imported import load, target

_SETTINGS = ("optimizer.name", "model", "task")
folders: list[Path] = []  # where the modules of allowed parts are looked for, after all that is installed


def allow(names: Iterable[str], *places: Path) -> None:
    """Let this process import parts from outside.

    Args:
        names: of optimizers, models and tasks, as a user gave them; those of htbench need nothing.
        places: folders to look for modules in, such as that of the file with the names; the working folder
            comes after them. If all names are htbench's own, nothing is looked for anywhere.
    """
    others = set(names).difference(optimizers.ZOO, models.SIZES, tasks.TASKS)
    of_optimizers.allowed.update(others)
    of_models.allowed.update(others)
    for place in (*places, Path()) if others else ():
        if (folder := place.resolve()) not in folders:
            folders.append(folder)
            sys.path.append(str(folder))


def named(settings: Mapping[str, Any]) -> Iterator[str]:
    """The optimizer, model and task that settings name, by dotted names; of lists all."""
    for value in map(settings.get, _SETTINGS):
        yield from (one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str))


def parts(config: RunConfig) -> dict[str, str]:
    """The parts of a run from outside: "module:attribute" by "optimizer", "model" or "task"."""
    rule, model = optimizers.spec(config.optimizer.name), models.spec(config.model)
    task = None if config.task in tasks.TASKS else target(config.task, tasks.GROUP)
    found = {
        "optimizer": rule.target if rule.outside else None,
        "model": model.target if model.outside else None,
        "task": task,
    }
    return {part: place for part, place in found.items() if place is not None}


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
    files = loose_files.loose_modules({place.partition(":")[0], *homes})
    versions = []
    for home in sorted(homes - files.keys()):
        files[home] = Path(str(sys.modules[home].__file__))
        versions.append(_distribution(home))
    content = "".join(f"{name}\0{sources.whole(path)}\0" for name, path in sorted(files.items()))
    digest = hashlib.sha256(content.encode()).hexdigest()[:12]
    return " ".join([*sorted({word for word in versions if word}), digest])


def files(configs: Iterable[RunConfig]) -> dict[Path, Path]:
    """The loose files of the parts of some runs, by their paths in the folder `outside` of a snapshot."""
    places = {place for config in configs for place in parts(config).values()}
    return loose_files.loose_files(
        {home for place in places for home in (place.partition(":")[0], *_homes(place))}
    )


def _homes(place: str) -> set[str]:
    """The modules in which a part is defined; the one that names it may only import it."""
    found: Any = load(place)
    if isinstance(found, tasks.TaskSpec):
        named = {name.partition(":")[0] for name in (place, found.fingerprint, found.loader)}
        return {home for name in named for home in (name, *_homes_of_functions(found)) if _has_file(home)}
    home = str(getattr(found, "__module__", ""))
    return {home} if _has_file(home) else {place.partition(":")[0]}


def _homes_of_functions(task: tasks.TaskSpec) -> set[str]:
    return {str(getattr(load(name), "__module__", "")) for name in (task.fingerprint, task.loader)}


def _has_file(module: str) -> bool:
    return getattr(sys.modules.get(module), "__file__", None) is not None


def _distribution(module: str) -> str:
    """ "torch 2.13.0", without what says for which device it was built."""
    names = _owners().get(module.partition(".")[0], [])
    if not names:
        return ""
    return f"{names[0]} {importlib.metadata.version(names[0]).partition('+')[0]}"


@functools.cache
def _owners() -> dict[str, list[str]]:
    return {name: sorted(found) for name, found in importlib.metadata.packages_distributions().items()}
