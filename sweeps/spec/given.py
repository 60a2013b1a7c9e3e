"""The sweeps that words on a command line name, and the parts that they may thereby import. Torch-free.

A file that a user gives may name optimizers, models and tasks of his own; to plan it runs their code. A copy
in a store may be anybody's: only who trains its runs imports what it names, and never from beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.config import parts
from harness.store import naming
from harness.store.layout import sweeps_folder
from harness.store.points import POINTS, SPEC
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
    paths = [path for word in words for path in naming.files(word, root)]
    loaded = [(path, sweep_file.load(path, list(settings))) for path in paths]
    from_user = [(path, spec) for path, spec in loaded if not _is_stored(path, root)]
    allowed = [spec for _, spec in (loaded if trains else from_user)]
    parts.allow({name for spec in allowed for name in spec.parts()}, *(path.parent for path, _ in from_user))
    return [spec for _, spec in loaded]


def _is_stored(path: Path, root: Path) -> bool:
    """Whether a sweep file is the copy that a store keeps beside a plan."""
    below = path.resolve().is_relative_to(sweeps_folder(root).resolve())
    return path.name == SPEC and (below or (path.parent / POINTS).exists())
