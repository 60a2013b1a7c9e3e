"""The sweeps that words on a command line name, and the parts that they may thereby import. Torch-free.

A file that a user gives may name optimizers, models and tasks of his own; to plan it runs their code. A copy
in a store may be anybody's: only who trains its runs imports what it names, and never from beside it.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from harness.config import parts
from harness.errors import UsageError
from harness.store.layout import sweeps_folder
from harness.store.points import POINTS, SOURCE, SPEC, is_sweep_name, sweep_folder, sweep_names
from sweeps.spec import sweep_file
from sweeps.spec.sweep import SweepSpec


def load_all(
    words: Sequence[str], settings: Sequence[str], root: Path, *, trains: bool = False
) -> list[SweepSpec]:
    """Read the sweeps and allow their parts.

    Modules are looked for in the folders of the files, then in the working folder.

    Args:
        words: sweep files, folders or names.
        settings: `key=value` words that override settings of their base.
        root: the store.
        trains: whether the command trains runs, so that parts in a stored file are allowed, too.

    Raises:
        UsageError: there is no such file, or it is wrong.
    """
    paths = [path for word in words for path in find_all(word, root)]
    loaded = [(path, sweep_file.load(path, list(settings))) for path in paths]
    from_user = [(path, spec) for path, spec in loaded if not _is_stored(path, root)]
    allowed = [spec for _, spec in (loaded if trains else from_user)]
    parts.allow({name for spec in allowed for name in spec.parts()}, *(path.parent for path, _ in from_user))
    return [spec for _, spec in loaded]


def _is_stored(path: Path, root: Path) -> bool:
    """Whether a sweep file is the copy that a store keeps beside a plan."""
    below = path.resolve().is_relative_to(sweeps_folder(root).resolve())
    return path.name == SPEC and (below or (path.parent / POINTS).exists())


def find_all(word: str, root: Path) -> list[Path]:
    """Like `find`, but a folder means every sweep file in it."""
    files = sorted(Path(word).glob("*.yaml"))
    return files if files and not Path(word, SPEC).is_file() else [find(word, root)]


def find(word: str, root: Path) -> Path:
    """Find the sweep file that a word on the command line names.

    It is a path, a folder with a spec.yaml, a sweep of the store, or a sweep of this package.

    Raises:
        UsageError: it is none of them.
    """
    path = Path(word)
    shipped = {file.stem: file for file in sorted(Path(__file__).parents[1].glob("*/*.yaml"))}
    stored = sweep_folder(root, word) / SPEC if is_sweep_name(word) else path
    for candidate in (path / SPEC if path.is_dir() else path, stored, shipped.get(word, path)):
        if candidate.is_file():
            return candidate
    check_not_imported(root, word)
    if path.is_dir():
        raise UsageError(f"The folder '{word}' holds no sweep file, neither spec.yaml nor another *.yaml.")
    beside = {file.stem: str(path.with_name(file.name)) for file in path.parent.glob("*.yaml")}
    known = {name: name for name in (*shipped, *sweep_names(root))} | beside
    near = difflib.get_close_matches(path.stem, known, n=1)
    other = f"no other file there, sweep of the store or shipped sweep, such as {min(shipped)}, is like it."
    hint = f"did you mean '{known[near[0]]}'?" if near else other
    raise UsageError(f"There is no sweep file or folder '{word}'; {hint}")


def check_not_imported(root: Path, name: str) -> None:
    """Raise UsageError if the store has runs of other trainers under the name of a sweep."""
    if is_sweep_name(name) and (sweep_folder(root, name) / SOURCE).exists():
        raise UsageError(
            f"'{name}' was imported from files of another trainer, so there is nothing to run; "
            f"`htbench runs ls --sweep {name}` lists its runs, and tables show them."
        )
