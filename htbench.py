"""The command's own door: Python finds our packages before others of the same names, and nothing by chance.

`models` and `results` are names that people give to folders of their own, and a folder on PYTHONPATH or the
working folder comes before what is installed. Importing this module settles it for the process, whatever the
order of `sys.path`; the processes of a pool import it, too. The standard library is all it needs.

Libraries look for optional modules (pandas for `numexpr`), so a command must not search the folder that its
user happens to be in, nor that of its own script. `harness/config/parts.py` adds them for who names a part.
"""

import gc
import os
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


def leave_out_chance_folders() -> None:
    """Take out of `sys.path` what nobody asked for: the working folder, and that of the script.

    Python puts one of them first. An empty word or a dot in PYTHONPATH is the working folder, too. Where our
    packages lie stays.
    """
    here, script = _real(""), _real(os.path.dirname(sys.argv[0]))
    asked = os.environ.get("PYTHONPATH", "")
    anywhere = {here} if asked and {"", "."} & set(asked.split(os.pathsep)) else set()
    first = set() if getattr(sys.flags, "safe_path", False) else {here, script}
    unasked = [first | anywhere, *[anywhere] * len(sys.path)]
    sys.path[:] = [
        place
        for place, left_out in zip(sys.path, unasked, strict=False)
        if _real(place) not in left_out - {str(HOME)}
    ]


def _real(place: str) -> str:
    try:
        return os.path.realpath(place)
    except FileNotFoundError:  # the working folder was deleted
        return place


def main() -> int:
    """The command `htbench`. Returns its exit status."""
    if sentence := clash():
        print(f"htbench: {sentence}", file=sys.stderr)
        return 2
    leave_out_chance_folders()
    from harness.cli import main as command

    status = command()
    gc.freeze()  # the end of the process looks through no object once more: a table has a million
    return status


if not any(type(finder).__name__ == _OursFirst.__name__ for finder in sys.meta_path):
    sys.meta_path.insert(0, _OursFirst())

if __name__ == "__main__":
    sys.exit(main())
