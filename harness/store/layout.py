"""The folders right below the root of a store, each name once. Torch-free.

runs/<k2>/<key>/    one folder per run (`harness/store/run_folder.py`)
packed/<n>-<id>.zip a thousand finished runs each, by `htbench runs pack` (`harness/store/archive.py`)
sweeps/<name>/      one folder per sweep (`harness/store/points.py`)
studies/            journal files of Optuna
code/<version>/     snapshots of the code, from which jobs run
cache/              prepared data, measured costs, rows of tables (`results/frames/row_cache.py`)
index.jsonl         all records once more (`harness/store/index.py`)
store.json          what tells the store from others that use the same database (`sweeps/plan/slots.py`)
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from harness.system.links import OwnFile

RUNS, SWEEPS, STUDIES, CODE, CACHE, INDEX = "runs", "sweeps", "studies", "code", "cache", "index.jsonl"
PACKED, NONCE = "packed", "store.json"

_KEY = re.compile("[0-9a-f]{12}")


def is_key(word: object) -> bool:
    """Whether a run may have this key; a folder or an archive with another one is not ours."""
    return isinstance(word, str) and _KEY.fullmatch(word) is not None


def runs_folder(root: Path) -> Path:
    """The folder of all runs."""
    return root / RUNS


def run_keys(root: Path) -> list[str]:
    """The keys of all runs that have a folder, sorted; `Records.keys` has packed ones, too."""
    runs = runs_folder(root)
    found = (key for place in _names(runs) for key in _names(runs / place) if key[:2] == place)
    return sorted(filter(is_key, found))


def _names(folder: Path) -> list[str]:
    """The names of the folders in a folder; none if it is none. Links are left out."""
    try:
        with os.scandir(folder) as found:
            return [one.name for one in found if one.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def packed_folder(root: Path) -> Path:
    """The folder of the archives of finished runs."""
    return root / PACKED


def sweeps_folder(root: Path) -> Path:
    """The folder of all sweeps."""
    return root / SWEEPS


def studies_folder(root: Path) -> Path:
    """The folder of Optuna's journal files."""
    return root / STUDIES


def code_folder(root: Path) -> Path:
    """The folder of the snapshots of the code."""
    return root / CODE


def cache_folder(root: Path) -> Path:
    """The folder of what can be made again: prepared data, measured costs, rows of tables."""
    return root / CACHE


def index_file(root: Path) -> Path:
    """The file of the index."""
    return OwnFile(root, INDEX)


def nonce_file(root: Path) -> Path:
    """The file with the nonce of the store; only a store with searches in a database has one."""
    return OwnFile(root, NONCE)
