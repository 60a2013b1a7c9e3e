"""The command's own door: it lets Python find our packages before others of the same names.

`models` and `results` are names that people give to folders of their own, and a folder on PYTHONPATH or the
working folder comes before what is installed. Importing this module settles it for the process, whatever the
order of `sys.path`; the processes of a pool import it, too. The standard library is all it needs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

HOME = Path(__file__).resolve().parent
PACKAGES = ("harness", "sweeps", "optimizers", "models", "results")


class _OursFirst(MetaPathFinder):
    """Finds the five packages beside this file, and nothing else."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The package of ours with that name; all others are left to Python."""
        return PathFinder.find_spec(fullname, [str(HOME)]) if fullname in PACKAGES else None


def clash() -> str:
    """What of the same name was imported before ours could be, in a sentence; empty if nothing."""
    for name in PACKAGES:
        module = sys.modules.get(name)
        places = [Path(place).resolve() for place in getattr(module, "__path__", [])]
        if module is not None and places != [HOME / name]:
            where = getattr(module, "__file__", None) or ", ".join(map(str, places)) or "elsewhere"
            return f"another package called '{name}' is in use ({where}), so ours can't be."
    return ""


def main() -> int:
    """The command `htbench`. Returns its exit status."""
    if sentence := clash():
        print(f"htbench: {sentence}", file=sys.stderr)
        return 2
    if "" not in sys.path:
        sys.path.append("")  # what is in the working folder can be named, after all that is installed
    from harness.cli import main as command

    return command()


if not any(type(finder).__name__ == _OursFirst.__name__ for finder in sys.meta_path):
    sys.meta_path.insert(0, _OursFirst())

if __name__ == "__main__":
    sys.exit(main())
