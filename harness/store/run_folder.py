"""The names of the files in a run's folder, `<root>/runs/<first two digits of key>/<key>/`. Torch-free.

config.yaml         the resolved config, for people
attempts/<n>.json   attempt n: its process, its start and its outcome (`harness/store/attempt.py`)
metrics.jsonl       the curve: losses by step (`harness/store/curve.py`)
spectra.jsonl       singular values by step and layer, if the config asks for them (the same piece of code)
log.txt             the log, for people; no program reads it
checkpoint.pt       the state from which the run resumes (`harness/train/checkpoint.py`)
weights.pt          the final weights, if the config asks for them
record.json         the result, written last (`harness/store/record.py`)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypedDict

from harness.config.yaml_text import read_yaml
from harness.store.run_file import RunFile, names_in
from harness.system import atomic, typed

CONFIG = "config.yaml"
ATTEMPTS = "attempts"
METRICS = "metrics.jsonl"
SPECTRA = "spectra.jsonl"
LOG = "log.txt"
CHECKPOINT = "checkpoint.pt"
WEIGHTS = "weights.pt"
RECORD = "record.json"


class Reason(str, Enum):
    """How an attempt ended. A stopped one may be resumed by any process; what comes after it are failures."""

    FINISHED = "finished"
    STOPPED = "stopped"
    OOM = "oom"
    TIMEOUT = "timeout"
    ERROR = "error"
    KILLED = "killed"  # never noted: two attempts in a row have left nothing

    def __str__(self) -> str:
        return self.value

    @property
    def is_failure(self) -> bool:
        """Whether the run begins again only after `retry`."""
        return self not in (Reason.FINISHED, Reason.STOPPED)


class _Outcome(TypedDict, total=False):
    """How an attempt ended; the message is for people."""

    reason: Reason
    message: str


class _Noted(TypedDict, total=False):
    """What an attempt's file says (`Attempt.to_json`); any of it may be missing."""

    owner: dict[str, Any] | None
    began: float
    ended: float | None
    start_step: int | None
    checkpoint_found: int | None
    repeats: int
    outcome: _Outcome | None


@dataclass(frozen=True)
class RunFolder:
    """The paths of the files of one run; any of them may be missing, or in an archive (`RunFile`)."""

    path: Path

    def __post_init__(self) -> None:
        if not isinstance(self.path, RunFile):
            object.__setattr__(self, "path", RunFile(self.path))

    @property
    def config(self) -> Path:
        """The resolved config as YAML."""
        return self.path / CONFIG

    @property
    def attempts(self) -> Path:
        """The folder of the attempts."""
        return self.path / ATTEMPTS

    def attempt(self, number: int) -> Path:
        """The file of attempt `number`, from 1; its modification time is the heartbeat."""
        return RunFile(f"{self.path}/{ATTEMPTS}/{number}.json")  # not by `/`: status has thousands

    @property
    def metrics(self) -> Path:
        """The curve, as JSON lines."""
        return self.path / METRICS

    @property
    def spectra(self) -> Path:
        """Spectra of weights and updates, as JSON lines."""
        return self.path / SPECTRA

    @property
    def log(self) -> Path:
        """The log of all attempts."""
        return self.path / LOG

    @property
    def checkpoint(self) -> Path:
        """The latest checkpoint."""
        return self.path / CHECKPOINT

    @property
    def weights(self) -> Path:
        """The final weights."""
        return self.path / WEIGHTS

    @property
    def record(self) -> Path:
        """The result."""
        return self.path / RECORD

    def read_config(self) -> dict[str, Any]:
        """The nested config as it stands there: nothing of this user's environment is put into it.

        Raises:
            UsageError: there is none, or it can't be read.
        """
        return read_yaml(self.config, resolve=False)

    def last_attempt(self) -> int:
        """The highest number of an attempt; 0 if there is none."""
        names = names_in(self.attempts)
        stems = (stem for stem, _, _ in (name.partition(".") for name in names))
        return max((int(stem) for stem in stems if stem.isdigit()), default=0)

    def read_attempt(self, number: int) -> dict[str, Any]:
        """The content of an attempt's file; empty if it is missing or damaged."""
        return read_attempt(self.attempt(number)) if number else {}


def read_attempt(path: Path) -> dict[str, Any]:
    """What an attempt's file says (`_Noted`); empty if it is missing or damaged."""
    value: Any = atomic.read_json(path)
    return value if typed.fits(_Noted, value) else {}
