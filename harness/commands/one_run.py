"""The words that say what one run is: a YAML file, settings over it; the parts that they name are allowed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.config import parts
from harness.config.names import flatten
from harness.config.yaml_text import read_words, read_yaml
from harness.errors import UsageError

_OF_SWEEPS = {"base", "blocks", "space"}


def settings(words: Sequence[str], for_sweeps: str) -> dict[str, Any]:
    """The settings by their dotted names; modules of parts may lie beside the file, or in the working folder.

    Args:
        words: `CONFIG` at most once, and `key=value`.
        for_sweeps: what a user with a sweep file wants instead; `{file}` stands for it.

    Raises:
        UsageError: there are several files, one can't be read, or it describes a sweep.
    """
    files = [word for word in words if "=" not in word]
    if len(files) > 1:
        raise UsageError(f"One config file at most; got {', '.join(files)}.")
    tree = read_yaml(Path(files[0])) if files else {}
    if tree.keys() & _OF_SWEEPS:
        instead = for_sweeps.format(file=files[0])
        raise UsageError(f"'{files[0]}' describes a sweep, not a run; {instead}.")
    found = flatten(tree) | read_words([word for word in words if "=" in word])
    parts.allow(parts.named(found), *(Path(name).parent for name in files))
    return found
