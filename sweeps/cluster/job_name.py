"""Names that tell people in `squeue` what a job does, and us by their last word which submission it is of.

In the queue a job is named by its array, `sweep.block.word`. When it starts it names itself by its point,
`sweep.block.lr=0.03_seed=0.word`, as `sbatch` has one name for all tasks of an array.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence

from harness.store.points import Point
from harness.store.submissions import WORD, word_of
from harness.system import slurm
from harness.system.squeue import COLUMNS
from sweeps.plan.describe import describe

LONGEST = 80  # bytes of a block's part and of a point's part of a name
# Bytes of a sweep's name: what `squeue` shows of a name must hold all three parts and the word after them.
LONGEST_SWEEP = dict(COLUMNS)["Name"] - 2 * (LONGEST + 1) - len(".0123456789")


def of_blocks(points: Sequence[Point]) -> str:
    """The part of an array's name that tells its blocks: `muon`, or `muon+2` where there are three."""
    first, *rest = dict.fromkeys(point.block for point in points)
    return _plain(first) + (f"+{len(rest)}" if rest else "")


def tell_point(point: Point) -> None:
    """Name this process's job by its point; without an answer of SLURM it keeps its name."""
    word = word_of(os.environ.get("SLURM_JOB_NAME", ""))
    if os.environ.get("SLURM_PROCID", "0") != "0" or not re.fullmatch(WORD, word):
        return
    settings = describe(point).removeprefix(f"{point.sweep} {point.block}").strip().replace("#", "trial-")
    name = ".".join(filter(None, (point.sweep, _plain(point.block), _plain(settings), word)))
    with contextlib.suppress(slurm.SlurmError):
        slurm.call("scontrol", "update", f"JobId={slurm.own_job()}", f"JobName={name}")


def _plain(text: str) -> str:
    """A text without what a shell or SLURM reads in a way of its own."""
    return re.sub(r"[^\w.=+-]+", "_", text).encode()[:LONGEST].decode(errors="ignore")
