"""The code of version 0.1 as a folder to run from, taken out of git's history."""

import subprocess
from pathlib import Path

import pytest

COMMIT = "de2202d0ac45"
HOME = Path(__file__).resolve().parents[2]


def extract(folder):
    """Write the code into a folder. Without that commit, as in a shallow clone, the test is skipped."""
    words = ["git", "-c", "safe.directory=*", "-C", HOME, "archive", COMMIT]
    try:
        archive = subprocess.run(words, check=True, capture_output=True, timeout=60).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(
            f"commit {COMMIT} (version 0.1) is not in this checkout's history: `git fetch --unshallow`"
        )
    folder.mkdir(parents=True)
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True, timeout=60)
    return folder
