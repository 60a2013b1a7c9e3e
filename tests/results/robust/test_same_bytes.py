"""The same runs give the same bytes, whatever the order of files on disk, the locale or the time zone."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs import reproduction_records as records
from htbench.harness.system.environment import HOME
from tests.helpers.rendering import FORMATS

SCRIPT = """
import sys
from htbench.harness import cli
for name in sys.argv[2:]:
    assert cli.main(["table", "--root", sys.argv[1], "--format", name]) == 0
sys.stdout.flush()
assert cli.main(["table", "main_result", "--root", sys.argv[1], "--format", "parquet"]) == 0
"""
PLACES = (
    {"LC_ALL": "C", "TZ": "UTC", "PYTHONHASHSEED": "1", "LANG": "C"},
    {"LC_ALL": "C.UTF-8", "TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "4711", "LANG": "de_DE.UTF-8"},
)


@pytest.fixture
def languages():
    """Other processes know the shipped scales only."""


def copied(root, to, seed):
    """The store, its files created in another order."""
    files = sorted(path for path in Path(root).rglob("*") if path.is_file())
    random.Random(seed).shuffle(files)
    for path in files:
        place = to / path.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    return to


def printed(root, place, folder):
    environment = os.environ | place | {"PYTHONPATH": str(HOME)}
    words = [sys.executable, "-c", SCRIPT, str(root.relative_to(folder)), *FORMATS]
    done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, check=True)
    return done.stdout


@pytest.mark.slow
def test_all_tables_in_all_formats(tmp_path):
    root = records.unpacked(tmp_path / "store", ["demo-digits", "nano-cifar"]).root
    first, second = (
        printed(copied(root, tmp_path / str(seed) / "store", seed), place, tmp_path / str(seed))
        for seed, place in enumerate(PLACES)
    )
    assert first == second
    assert b"nano scale" in first and b"\\begin{tabular}" in first and b"<table" in first and b"PAR1" in first
