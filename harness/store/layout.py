"""The names of all files and folders of a store, each once. Torch-free.

runs/<k2>/<key>/    one folder per run:
    config.yaml         the resolved config, for people
    attempts/<n>.json   attempt n: its process, its start and its outcome (`harness/store/attempt.py`)
    metrics.jsonl       the curve: losses by step (`harness/store/curve.py`)
    spectra.jsonl       singular values by step and layer, if the config asks for them (the same code)
    log.txt             the log, for people; no program reads it
    checkpoint.pt       the state from which the run resumes (`harness/train/checkpoint.py`)
    weights.pt          the final weights, if the config asks for them
    test_items.bin      the losses of the test split, item by item (`harness/store/items.py`)
    program/            files of a program that is not ours, its checkpoints among them
    record.json         the result, written last (`harness/store/record.py`)
sweeps/<name>/      one folder per sweep (`harness/store/points.py`)
studies/            journal files of Optuna
code/<version>/     snapshots of the code, from which jobs run
programs/<files>/   copies of programs that are not ours (`sweeps/plan/program_copy.py`)
cache/              prepared data
index.jsonl         all records once more (`harness/store/index.py`)
store.json          the format of all of it, and what tells the store from others in the same database
"""

import os
import re
from pathlib import Path
from typing import Any

from htbench.harness.errors import UsageError
from htbench.harness.system import atomic
from htbench.harness.system.folders import make_folder
from htbench.harness.system.links import OwnFile

RUNS, SWEEPS, STUDIES, CODE, CACHE, INDEX = "runs", "sweeps", "studies", "code", "cache", "index.jsonl"
PACKED, STORE, PROGRAMS = "packed", "store.json", "programs"
CONFIG, ATTEMPTS, METRICS, SPECTRA = "config.yaml", "attempts", "metrics.jsonl", "spectra.jsonl"
PROGRAM = "program"
LOG, CHECKPOINT, WEIGHTS, RECORD = "log.txt", "checkpoint.pt", "weights.pt", "record.json"
TEST_ITEMS = "test_items.bin"

FORMAT = 1  # of version 0.1.0

_KEY = re.compile("[0-9a-f]{12}")


def is_key(word: object) -> bool:
    """Whether a run may have this key; a folder with another name is not ours."""
    return isinstance(word, str) and _KEY.fullmatch(word) is not None


def runs_folder(root: Path) -> Path:
    """The folder of all runs."""
    return root / RUNS


def run_keys(root: Path) -> list[str]:
    """The keys of all runs that have a folder, sorted."""
    runs = runs_folder(root)
    keys = (key for place in _names(runs) for key in _names(runs / place) if key[:2] == place)
    return sorted(filter(is_key, keys))


def _names(folder: Path) -> list[str]:
    """The names of the folders in a folder; none if it is none. Links are left out."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def sweeps_folder(root: Path) -> Path:
    """The folder of all sweeps."""
    return root / SWEEPS


def code_folder(root: Path) -> Path:
    """The folder of the snapshots of the code."""
    return root / CODE


def programs_folder(root: Path) -> Path:
    """The folder of the copies of programs that are not ours."""
    return root / PROGRAMS


def cache_folder(root: Path) -> Path:
    """The folder of what can be made again: prepared data."""
    return root / CACHE


def about(root: Path) -> dict[str, Any]:
    """What the store says of itself; empty if it says nothing that can be read.

    It is the store's `format`, and what earlier versions said besides.
    """
    content = atomic.read_json(OwnFile(root, STORE))
    return content if isinstance(content, dict) else {}


def begin(root: Path) -> None:
    """Let a store say its format, before the first run is written."""
    if about(root).get("format") != FORMAT:
        make_folder(root)
        with atomic.locked(root / f".{Path(STORE).stem}.lock"):
            atomic.write_json(OwnFile(root, STORE), about(root) | {"format": FORMAT})


def check_format(root: Path) -> None:
    """Raise UsageError if the store has runs, and is not of our format or has some of them in archives."""
    if any((root / PACKED).glob("*.zip")):
        raise UsageError(
            f"The store '{root}' has runs in archives ({PACKED}/*.zip), which this version does not read; "
            "docs/cluster.md, 'File quotas', has the lines that bring them back into folders."
        )
    if about(root).get("format") == FORMAT or not run_keys(root):
        return
    atomic.refresh_file_cache(root)  # this node may remember that the file was not there yet
    said = about(root)
    if said.get("format") == FORMAT:
        return
    if said:
        when = f"by newer code, in format {said['format']}" if "format" in said else "before version 0.1.0"
        end = f"was written {when}, and its runs have other keys; name another one"
    else:
        what = "damaged" if (root / STORE).exists() else "missing"
        end = f'has runs, and its {STORE} is {what}; write {{"format": {FORMAT}}} there if 0.1.0 made them'
    raise UsageError(f"The store '{root}' {end}.")
