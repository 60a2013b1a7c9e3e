"""A store as the commands of version 0.1.0 left it: later versions must read it and go on with it.

    python -m tests.helpers.first_store FILE

writes one with the present code, for the zero point of a later format beside this one, which stays as it is.
"""

import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.helpers.command import TINY, Htbench

STORE = Path(__file__).parents[1] / "golden" / "store-0.1.0.tar.xz"
CUT = TINY | {"steps": 20, "seed": 7, "checkpoint.every_steps": 10, "device": "cpu"}  # killed after step 10
FILES = {
    "first.yaml": f"""
name: first
base: {TINY | {"device": "cpu", "spectra.final": True}}
blocks:
  - {{name: sgdm, set: {{optimizer.name: sgdm}}, space: {{optimizer.lr: [0.03, 0.1]}}}}
  - {{name: muon, set: {{optimizer.name: muon}}, space: {{optimizer.lr: [0.02, 0.04]}}}}
replicate: {{seeds: 2}}
""",
    "search.yaml": f"""
name: search
base: {TINY | {"device": "cpu"}}
space: {{optimizer.lr: {{low: 0.03, high: 0.3, log: true}}}}
search: {{mode: tpe, trials: 2}}
""",
}
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


def write(target):
    """Make such a store with the present code."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        htbench = Htbench(folder / "store", folder, fresh=True)
        for file, text in FILES.items():
            (folder / file).write_text(text)
        for file in FILES:
            done = htbench("sweep", "run", file, "--workers", 1)
            assert done.returncode == 0, done.stderr
        cut = htbench.start("run", *words(CUT), crash="checkpoint.after")
        cut.communicate()
        with tarfile.open(target, "w:xz") as archive:
            for path in sorted(folder.rglob("*")):
                if path.is_file() and "cache" not in path.parts:
                    archive.add(path, path.relative_to(folder), filter=_of_nobody)


def _of_nobody(entry):
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    write(Path(sys.argv[1]))
