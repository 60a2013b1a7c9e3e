"""The first thing a job's Python does: hold signals back, check the code, become the Python that trains.

The text of this file is on the command line of a job (`job_array.write_script`). SLURM keeps that from
`sbatch` on, so who can write into the store can change neither it nor the digest beside it. For the same
reason it imports the standard library only, in a Python that was started with -I and -S.

Python and torch load for a second or, from a busy file server, for many, and a signal would kill the job
then. So signals are blocked, also in the Python that this one becomes, until `Monitor.stop_on_signals`.
"""

import hashlib
import json
import os
import signal
import sys

LIST = "digests.json"  # of a snapshot: path -> SHA-256 of the file as it was copied
# An added file with such an end could be imported, or in place of what should be. Others stay unmentioned,
# such as the core of a process that crashed in its working folder.
IMPORTABLE = (".py", ".pyc", ".so", ".egg", ".egg-info", ".dist-info")
HELD_BACK = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2, signal.SIGHUP)


def find_altered(code: str, digest: str) -> str:
    """The path, in a snapshot, of the first thing that is not as it was copied; empty if there is none.

    A change between this check and an import is not seen.

    Args:
        code: the folder.
        digest: the SHA-256 of its list of digests.
    """
    if _sha256(os.path.join(code, LIST)) != digest:
        return LIST
    with open(os.path.join(code, LIST), "rb") as file:
        missing = json.load(file) | {LIST: digest}
    for folder, folders, files in os.walk(code):
        for place in sorted(os.path.join(folder, name) for name in folders + files):
            path = os.path.relpath(place, code)
            if path in missing:
                if _sha256(place) != missing.pop(path):
                    return path
            elif os.path.islink(place) or path.endswith(IMPORTABLE):
                return path
    return str(min(missing, default=""))


def _sha256(path: str) -> str:
    """The digest of a file; empty if there is none, also for a link to one: that can change later."""
    if os.path.islink(path) or not os.path.isfile(path):
        return ""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
    if path := find_altered(sys.argv[1], sys.argv[2]):
        sys.exit(f"htbench: '{path}' in {sys.argv[1]} is not what was submitted; this job ends")
    # Python would keep its bytecode beside the code, where the next job could not tell it from a plant.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    os.execvp(sys.argv[3], sys.argv[3:])
