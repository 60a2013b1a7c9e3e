"""The command `htbench`.

Libraries look for optional modules (pandas for `numexpr`), so a command must not search the folder that its
user happens to be in, nor that of its own script. `harness/config/parts.py` adds them for who names a part.
The standard library is all that this module needs.
"""

import gc
import os
import sys


def leave_out_chance_folders() -> None:
    """Take out of `sys.path` what nobody asked for: the working folder, and that of the script.

    Python puts one of them first. An empty word or a dot in PYTHONPATH is the working folder, too.
    """
    here, script = _real(""), _real(os.path.dirname(sys.argv[0]))
    asked = os.environ.get("PYTHONPATH", "")
    anywhere = {here} if asked and {"", "."} & set(asked.split(os.pathsep)) else set()
    first = set() if getattr(sys.flags, "safe_path", False) else {here, script}
    unasked = [first | anywhere, *[anywhere] * len(sys.path)]
    sys.path[:] = [
        place for place, left_out in zip(sys.path, unasked, strict=False) if _real(place) not in left_out
    ]


def _real(place: str) -> str:
    try:
        return os.path.realpath(place)
    except FileNotFoundError:  # the working folder was deleted
        return place


def main() -> int:
    """Carry the command out. Returns its exit status."""
    leave_out_chance_folders()
    from htbench.harness.cli import main as command

    status = command()
    gc.freeze()  # the end of the process looks through no object once more: a table has a million
    return status


if __name__ == "__main__":
    sys.exit(main())
