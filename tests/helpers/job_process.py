"""The Python of a job, as its command line starts it after the check of the code."""

import hashlib
import shlex

from htbench.harness.system.environment import CODE
from htbench.sweeps.cluster import job_array
from htbench.sweeps.cluster.queue import ORDER

# Nothing of ours is on the path but the working folder.
JOB = f"""
import sys
from pathlib import Path
sys.path[1:] = [place for place in sys.path[1:] if Path(place).resolve() != Path({str(CODE)!r})]
from htbench.sweeps.cluster import job
job.main(*sys.argv[1:])
"""


def order_words(root, code, logs, point):
    """What `job.main` gets to do this point, also as the third of an array."""
    logs.mkdir(parents=True, exist_ok=True)
    content = job_array.encode_order([point] * 3)
    (logs / ORDER).write_bytes(content)
    return [str(logs), hashlib.sha256(content).hexdigest(), str(root.resolve()), str(code)]


def srun_words(script):
    """The words of the `srun` in the script of a job; the text that checks the code has many lines."""
    lines = script[script.index("\nsrun ") :].partition("\nhtbench_status=")[0]
    return shlex.split(lines, comments=True)
