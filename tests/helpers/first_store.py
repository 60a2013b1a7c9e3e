"""A store as the commands of version 0.1.0 left it: later versions must read it and go on with it."""

import re
import subprocess
import tarfile
from pathlib import Path

from tests.helpers.command import TINY

STORE = Path(__file__).parents[1] / "golden" / "store-0.1.0.tar.xz"
CUT = TINY | {"steps": 20, "seed": 7, "checkpoint.every_steps": 10, "device": "cpu"}  # killed after step 10
FILES = ("first.yaml", "search.yaml")
PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"


def words(settings):
    """The settings of a run as `htbench run` takes them."""
    return [f"{name}={value}" for name, value in settings.items()]


def unpack(folder):
    """The store and its sweep files, in an empty folder; returns the store.

    The runs of the first sweep are in an archive.
    """
    with tarfile.open(STORE) as archive:
        archive.extractall(folder, filter="data")
    return folder / "store"


def back_into_folders(root):
    """What the page says to people whose store has runs in archives."""
    (lines,) = re.findall(r"```bash\n(for archive in packed/.*?)```", PAGE.read_text(), re.DOTALL)
    subprocess.run(["bash"], input=lines, cwd=root, check=True, text=True)
