"""The copy of a program in the store, in which its runs run: `<root>/programs/<files>/`. Torch-free."""

import contextlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from htbench.harness.config.programs import Program
from htbench.harness.errors import UsageError
from htbench.harness.store.layout import programs_folder
from htbench.harness.system.atomic import temporary_name
from htbench.harness.system.folders import make_folder
from htbench.sweeps.spec.program_folder import digest, list_files


def copy_program(root: Path, program: Program) -> Path:
    """Copy a program's folder into the store, unless it is there, and link what it needs; return the copy.

    Raises:
        UsageError: its files have changed since the sweep file was read, or what is to be linked is missing.
    """
    target = programs_folder(root) / program.files
    if not target.is_dir():
        files = list_files(Path(program.folder))
        make_folder(target.parent)
        temporary = temporary_name(target)
        for name, source in files.items():
            path = temporary / name
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, path)
        if digest({name: temporary / name for name in files}) != program.files:
            shutil.rmtree(temporary)
            raise UsageError(
                f"The files in '{program.folder}' have changed meanwhile; give the command again."
            )
        try:
            os.rename(temporary, target)
        except OSError:  # another process was quicker
            shutil.rmtree(temporary)
    _link(target, Path(program.folder), program.link)
    return target


def _link(copied: Path, folder: Path, names: Sequence[str]) -> None:
    for name in names:
        source, path = (folder / name).resolve(), copied / name
        if not source.exists():
            raise UsageError(f"program.link: there is no '{source}' to link into the copy of the program.")
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.symlink_to(source)
