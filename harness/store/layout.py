"""The folders right below the root of a store, each name once. Torch-free.

runs/<k2>/<key>/    one folder per run (`harness/store/run_folder.py`)
sweeps/<name>/      one folder per sweep (`harness/store/points.py`)
studies/            journal files of Optuna
code/<version>/     snapshots of the code, from which jobs run
packed/<n>.zip      archives of finished runs, whose folders are gone (`harness/store/archive.py`)
cache/              prepared data, measured costs, rows of tables (`results/analysis/row_cache.py`)
index.jsonl         all records once more (`harness/store/index.py`)
"""

from __future__ import annotations

from pathlib import Path

RUNS, SWEEPS, STUDIES, CODE, CACHE, INDEX = "runs", "sweeps", "studies", "code", "cache", "index.jsonl"
PACKED = "packed"


def runs_folder(root: Path) -> Path:
    """The folder of all runs."""
    return root / RUNS


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
