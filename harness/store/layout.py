"""The folders right below the root of a store, each name once. Torch-free.

runs/<k2>/<key>/    one folder per run (`harness/store/run_folder.py`)
packed/<n>.zip      a thousand finished runs each, by `htbench runs pack` (`harness/store/archive.py`)
sweeps/<name>/      one folder per sweep (`harness/store/points.py`)
studies/            journal files of Optuna
code/<version>/     snapshots of the code, from which jobs run
cache/              prepared data, measured costs, rows of tables (`results/analysis/row_cache.py`)
index.jsonl         all records once more (`harness/store/index.py`)
"""

from __future__ import annotations

import os
from pathlib import Path

RUNS, SWEEPS, STUDIES, CODE, CACHE, INDEX = "runs", "sweeps", "studies", "code", "cache", "index.jsonl"
PACKED = "packed"


def runs_folder(root: Path) -> Path:
    """The folder of all runs."""
    return root / RUNS


def run_keys(root: Path) -> list[str]:
    """The keys of all runs that have a folder, sorted; `Records.keys` has packed ones, too."""
    runs = runs_folder(root)
    return sorted(key for place in _names(runs) for key in _names(runs / place))


def _names(folder: Path) -> list[str]:
    """The names in a folder but those of temporary files; none if there is no folder."""
    try:
        return [name for name in os.listdir(folder) if not name.startswith(".")]
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
    return root / INDEX
