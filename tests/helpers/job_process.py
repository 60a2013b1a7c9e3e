"""The Python of a job, as its command line starts it after the check of the code."""

import shlex

from sweeps.cluster import order, snapshot
from sweeps.cluster.submissions import Submission

# Nothing of ours is on the path but the working folder.
JOB = f"""
import sys
from pathlib import Path
sys.path[1:] = [place for place in sys.path[1:] if Path(place).resolve() != Path({str(snapshot.HOME)!r})]
from sweeps.cluster import order
order.main(*sys.argv[1:])
"""


def order_words(root, code, logs, points, runs_per_job=1):
    """What `order.main` gets to do these points in a job with one run, or in the third of an array."""
    logs.mkdir(parents=True, exist_ok=True)
    ids = tuple(one.id for one in points)
    array = Submission("tiny", "w", ids[:1] * 2 * runs_per_job + ids, runs_per_job=runs_per_job)
    content = order.content(array, points)
    order.write(logs, content)
    return [str(logs), order.digest(content), str(root.resolve()), str(code)]


def srun_words(script):
    """The words of the `srun` in the script of a job; the text that checks the code has many lines."""
    lines = script[script.index("\nsrun ") :].partition("\nhtbench_status=")[0]
    return shlex.split(lines, comments=True)
