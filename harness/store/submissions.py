"""What was submitted to SLURM: `<root>/sweeps/<name>/submissions.jsonl`, two lines per job array.

The first line is the intent, written before `sbatch`, the second its answer. If the process dies in
between, the queue itself tells: the job's name ends with the submission's word, and the intent says which
point each task of the array is for. Arrays whose jobs had several points, of version 0.1.0, are left out.
"""

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from htbench.harness.store.layout import sweeps_folder
from htbench.harness.store.owner import current_user
from htbench.harness.store.points import SUBMISSIONS, sweep_folder
from htbench.harness.system import atomic, typed

WORD = "[0-9a-f]{10}"


class _Word(TypedDict):
    submission: str


class _Line(_Word, total=False):
    """One line: an intent if it has points, else an answer."""

    time: float
    user: str
    points: list[str]
    code: str
    job: str
    refused: str
    resources: dict[str, Any]
    label: str
    runs_per_job: int


@dataclass(frozen=True)
class Submission:
    """One job array.

    Attributes:
        sweep: whose points these are.
        word: a random word, the same for no other submission.
        points: their ids: the keys of runs, or slots of a search. Each task of the array has one.
        code: the snapshot it runs from.
        resources: what its jobs ask for (`Resources.asked`).
        job: the array's id; empty if its submitter died before noting it, or was refused.
        refused: why, if so.
        label: what its jobs' name tells people of the points.
    """

    sweep: str
    word: str
    points: tuple[str, ...]
    code: str = ""
    job: str = ""
    refused: str = ""
    resources: Mapping[str, Any] = field(default_factory=dict, hash=False)
    label: str = ""

    @property
    def name(self) -> str:
        """The name of its jobs in the queue; that of a running job may differ but for the word."""
        return ".".join(filter(None, (self.sweep, self.label, self.word)))

    def jobs(self) -> dict[str, str]:
        """The point of each job by its id. SLURM numbers no tasks where there is one only."""
        if len(self.points) == 1:
            return {self.job: self.points[0]}
        return {f"{self.job}_{task}": point for task, point in enumerate(self.points)}


def intend(root: Path, sweep: str, points: Sequence[str], more: Mapping[str, Any]) -> Submission:
    """Note that an array is about to be submitted; `more` are further fields of a `Submission`."""
    row = {
        "submission": uuid.uuid4().hex[:10],
        "time": time.time(),
        "user": current_user(),
        "points": list(points),
        **more,
    }
    atomic.append_line(_path(root, sweep), row)
    atomic.crash_point("submit.before")
    return _submission(sweep, row)


def _submission(sweep: str, row: Mapping[str, Any]) -> Submission:
    names = ("code", "job", "refused", "resources", "label")
    noted = {name: row[name] for name in names if name in row}
    return Submission(sweep, row["submission"], tuple(row["points"]), **noted)


def word_of(name: str) -> str:
    """The word of the submission of which a job is, by the job's name."""
    return name.rpartition(".")[2]


def answer(root: Path, submission: Submission, *, job: str = "", refused: str = "") -> None:
    """Note the array's id, or why it was refused."""
    row = {"submission": submission.word, "job": job} | ({"refused": refused} if refused else {})
    atomic.append_line(_path(root, submission.sweep), row)


def read(root: Path, sweep: str) -> list[Submission]:
    """All submissions of a sweep, the oldest first; torn lines are left out."""
    rows: dict[str, dict[str, Any]] = {}
    for row in _rows(_path(root, sweep)):
        word = row["submission"]
        if "points" in row and row.get("runs_per_job", 1) == 1:
            rows[word] = row
        elif word in rows:
            rows[word] |= {"job": "", "refused": ""} | row
    return [_submission(sweep, row) for row in rows.values()]


def read_all(root: Path) -> list[Submission]:
    """All submissions of all sweeps of a store."""
    return [submission for path in _all(root) for submission in read(root, path.parent.name)]


def is_damaged(root: Path) -> bool:
    """Whether a line of a store's submissions can't be read, so that nobody knows all of them."""
    return any(not is_sound(path) for path in _all(root))


def is_sound(path: Path) -> bool:
    """Whether every line of a sweep's submissions can be read."""
    return len(_rows(path)) == len(atomic.read_lines(path))


def _rows(path: Path) -> list[dict[str, Any]]:
    return [row for row in atomic.read_json_lines(path) if typed.fits(_Line, row)]


def _all(root: Path) -> list[Path]:
    paths = sorted(sweeps_folder(root).glob(f"*/{SUBMISSIONS}"))
    return [_path(root, path.parent.name) for path in paths]


def _path(root: Path, sweep: str) -> Path:
    return sweep_folder(root, sweep) / SUBMISSIONS
