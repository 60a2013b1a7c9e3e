"""The sweeps that words on a command line name: one rule for every command. Torch-free.

A word is a sweep file or a folder of such files; else the name of a sweep of the store; else the name of one
of this package. What stands for what it names is a file where a sweep is planned or trained, and a name where
runs of the store are shown.
"""

import argparse
import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from htbench.harness.config.yaml_text import interpolated, read_yaml
from htbench.harness.errors import UsageError, nearest
from htbench.harness.show.commands import write_command
from htbench.harness.store.points import SPEC, is_sweep_name, sweep_folder, sweep_names
from htbench.harness.system.environment import HOME


def add_words(parser: argparse.ArgumentParser) -> None:
    """Add [SWEEP ...] and [--sweep SWEEP[,SWEEP...]]..., two ways to say the same; `chosen` reads both."""
    parser.add_argument(
        "words",
        nargs="*",
        default=[],  # commands that call another one take the defaults from its parser
        metavar="SWEEP",
        help="runs of these sweeps, by name or file (default: all runs, also those that no sweep plans)",
    )
    add_option(parser)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add [--sweep SWEEP[,SWEEP...]]... for a command that reads its other words itself."""
    parser.add_argument(
        "--sweep",
        action="extend",
        type=lambda word: word.split(","),
        default=[],
        metavar="SWEEP[,SWEEP...]",
        help="a sweep, by name or file; may be repeated",
    )


def chosen(
    args: argparse.Namespace,
    words: Iterable[str] | None = None,
    kinds: Mapping[str, Iterable[str]] | None = None,
) -> list[str]:
    """The names of the sweeps of a store that the words of a command line and its `--sweep` name, each once.

    Args:
        args: with `root`, `sweep`, and `words` if those are not given.
        words: the positional words that are not the command's own.
        kinds: what else these could have named: kind -> names, for the answer to a typing error.

    Raises:
        UsageError: a word names no sweep, or one that was never planned in this store.
    """
    positional = names(args.words if words is None else words, args.root, kinds)
    return list(dict.fromkeys([*positional, *names(args.sweep, args.root)]))


def names(words: Iterable[str], root: Path, kinds: Mapping[str, Iterable[str]] | None = None) -> list[str]:
    """The names of sweeps of a store that words name; raises UsageError, as `chosen` does."""
    planned, matches = sweep_names(root), list[str]()
    for word in words:
        if word in planned and not Path(word).exists():
            matches.append(word)
            continue
        files = _find_candidates(word, root)
        if not files and word not in planned:
            raise UsageError(unknown(word, {**(kinds or {}), "sweep": planned}, root))
        for name in map(name_of, files) if files else (word,):
            if name not in planned:
                raise UsageError(
                    f"The sweep '{name}' was never planned in '{root}'; "
                    f"`{write_command('sweep', 'run', word)}` plans and trains it."
                )
            matches.append(name)
    return matches


def unknown(word: str, kinds: Mapping[str, Iterable[str]], root: Path) -> str:
    """That a word names nothing of these kinds, what is most like it, and in which store that is."""
    every = [name for members in kinds.values() for name in members]
    lists = f"`--help` and `{write_command('sweep', 'status')}` list them"
    hint = nearest(word, every, lists) if every else "no sweep is known"
    return f"Unknown {' or '.join(kinds)} '{word}' {_describe_store(root)}; {hint}"


def _describe_store(root: Path) -> str:
    return f"in the store '{root}'" if root.is_dir() else f"(there is no store '{root}', see --root)"


def name_of(path: Path, tree: Mapping[str, Any] | None = None) -> str:
    """The name of the sweep in a file: as it says, else that of the file, or of the folder of a spec.yaml.

    Args:
        path: of the file.
        tree: what is in it, without interpolations; None: it is read.

    Raises:
        UsageError: it is no YAML.
    """
    if tree is None:  # what a search stores where may ask for a secret
        tree = interpolated(read_yaml(path, resolve=False) | {"search": {}}, path)
    return str(tree.get("name", path.resolve().parent.name if path.name == SPEC else path.stem))


def files(word: str, root: Path) -> list[Path]:
    """The sweep files that a word names: several if it is a folder without a spec.yaml.

    Raises:
        UsageError: there are none.
    """
    if candidates := _find_candidates(word, root):
        return candidates
    path = Path(word)
    if path.is_dir():
        raise UsageError(f"The folder '{word}' holds no sweep file, neither spec.yaml nor another *.yaml.")
    beside = {file.stem: str(path.with_name(file.name)) for file in path.parent.glob("*.yaml")}
    words = {name: name for name in (*_list_shipped(), *sweep_names(root))} | beside
    near = difflib.get_close_matches(path.stem, words, n=1)
    such = min(_list_shipped())
    other = f"no other file there, sweep of the store or shipped sweep, such as {such}, is like it."
    hint = f"did you mean '{words[near[0]]}'?" if near else other
    where = _describe_store(root)
    raise UsageError(f"There is no sweep file or folder '{word}', nor such a sweep {where}; {hint}")


def _find_candidates(word: str, root: Path) -> list[Path]:
    """The sweep files that a word names; none for an empty one, which would be the working folder."""
    if not word:
        return []
    path = Path(word)
    inside = sorted(path.glob("*.yaml"))
    if inside and not (path / SPEC).is_file():
        return inside
    stored = sweep_folder(root, word) / SPEC if is_sweep_name(word) else path
    places = (path / SPEC if path.is_dir() else path, stored, _list_shipped().get(word, path))
    return [place for place in places if place.is_file()][:1]


def _list_shipped() -> dict[str, Path]:
    """The sweep files of this package by name."""
    return {file.stem: file for file in sorted(HOME.glob("sweeps/*/*.yaml"))}
