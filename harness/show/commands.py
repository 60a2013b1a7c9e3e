"""The commands that a person is told to type: they name the store that this process was told to use.

A store that HTBENCH_ROOT names, or nothing, is the same for the next command, so it is left out. Sentences
that go into files of results have no `{--root}`: the same records make the same bytes.
"""

import shlex
from pathlib import Path

_option: list[str] = []


def name_store(root: Path | None) -> None:
    """Let commands name this store from now on; None: they name none."""
    _option[:] = [] if root is None else ["--root", str(root)]


def store_option() -> str:
    """What goes behind a command, with a blank before it; empty without a named store."""
    return f" {shlex.join(_option)}" if _option else ""


def write_command(*words: str) -> str:
    """A command of htbench as a person types it, of the words that follow `htbench`."""
    return shlex.join(["htbench", *words]) + store_option()
