"""Shared by the tests on the cluster of `tests/slurm/run`: a store, the queue, submitting as people do.

Without the cluster the tests fail, they don't pass empty.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from htbench.harness.store import Store
from tests.helpers import waiting
from tests.helpers.command import Htbench
from tests.helpers.searching import check_search, studies
from tests.helpers.sweeping import carried_out, check_whole, results

CLUSTER = Path(__file__).parents[1] / "slurm" / "cluster.sh"
NODES = ("n1", "n2", "n3")
FEW = """
name: few
base: {task: digits, model: resnet-nano, steps: 20, batch_size: 16}
blocks:
  - {name: sgdm, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.03, 0.1, 0.2]}}
resources: {timeout_min: 20}
"""
# A job takes seconds to load torch: where one is like another, two are enough.
PAIR = FEW.replace("[0.03, 0.1, 0.2]", "[0.03, 0.1]")
# Long enough to be disturbed.
LONG = FEW.replace("steps: 20", "steps: 400, checkpoint.every_steps: 5, log_every: 5").replace(
    "0.2]", "0.2, 0.3]"
)


@pytest.fixture(scope="session")
def cluster():
    """Stop and start parts of the cluster."""
    if "SLURM_TEST_ROOT" not in os.environ:
        pytest.fail("There is no test cluster: call tests/slurm/run.")
    # Each process of the tests has a cluster of its own; one that debugs (-n 0) takes the first.
    root = f"{os.environ['SLURM_TEST_ROOT']}/{os.environ.get('PYTEST_XDIST_WORKER', 'gw0')}"
    os.environ["SLURM_CONF"] = f"{root}/etc/slurm.conf"

    def control(*action):
        own = os.environ | {"SLURM_TEST_ROOT": root}
        done = subprocess.run([CLUSTER, *action], env=own, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr

    return control


@pytest.fixture
def site(cluster):
    """`htbench` on a store of its own, which jobs can read; afterwards the queue is empty.

    All nodes run, whatever a test before has left.
    """
    cluster("start-daemons")
    root = Path(tempfile.mkdtemp(prefix="htbench-slurm-store-"))
    root.chmod(0o755)
    yield Htbench(root / "store")
    ask("scancel", "-f", "-s", "KILL", "-u", "root")
    ask("scancel", "-u", "root")
    wait_for(lambda: not queue())
    shutil.rmtree(root)


@pytest.fixture(scope="session")
def calm(tmp_path_factory):
    """The results of LONG where nobody disturbs it."""
    return results(carried_out(tmp_path_factory.mktemp("calm"), LONG)[0], "few")


@pytest.fixture
def held(cluster):
    """Nothing starts, jobs stay in the queue, until `partition("UP")`."""
    partition("DOWN")
    yield
    partition("UP")


def partition(state):
    ask("scontrol", "update", "PartitionName=gpu", f"State={state}")


def ask(*words):
    return subprocess.run(words, capture_output=True, text=True, timeout=60).stdout


def queue():
    """The ids of all jobs by state."""
    rows = [line.split() for line in ask("squeue", "-h", "-r", "-o", "%i %T").splitlines()]
    return {job: state for job, state in rows}


def ended_as(job):
    """How a job that has left the queue ended. The data base of jobs hears of it a little later."""
    state = lambda: ask("sacct", "-n", "-X", "-P", "-j", job, "--format=State").strip()  # noqa: E731
    wait_for(lambda: state() not in ("", "PENDING", "RUNNING"))
    return state()


def wait_for(condition, every=0.5):
    """Wait as long as jobs come, begin or end: on a busy machine many of them take longer than any limit."""
    told = lambda: f"{condition}; the queue is {queue()}"  # noqa: E731
    waiting.wait_for(condition, 240, every, told=told, progress=queue)


def hold(*folders):
    """Stop runs in the middle, each as soon as it has a checkpoint: what comes next meets none at its end."""
    stopped = set()

    def all_stopped():
        for folder in set(folders) - stopped:
            if (folder / "checkpoint.pt").exists():
                send(folder, signal.SIGSTOP)
                stopped.add(folder)
        return len(stopped) == len(folders)

    wait_for(all_stopped, every=0.1)


def let_go(*folders):
    """Go on with runs that are held, and with the signals that they got meanwhile."""
    for folder in folders:
        send(folder, signal.SIGCONT)


def send(folder, number):
    """A signal to the process that owns a run's first attempt, on its node."""
    os.kill(pid_here(owner(folder)), number)


def pid_here(owner):
    """By which number this host knows an owner's process, which has another one on its node."""
    return pids_here()[identity(owner)]


def identity(owner):
    """A process as all hosts of this machine can name it: its name space and its number there."""
    return owner["machine"].split()[-1], owner["pid"]


def pids_here():
    """By which number this host knows each process, by its `identity`."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            (numbers,) = re.findall(r"^NSpid:(.*)$", (path / "status").read_text(), re.MULTILINE)
            found[os.readlink(path / "ns" / "pid"), int(numbers.split()[-1])] = int(path.name)
    return found


def processes(site):
    """The processes of all nodes that have become a task of this store's jobs: pid here -> environment."""
    found, store = {}, os.fsencode(site.root)
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            words = (path / "cmdline").read_bytes().split(b"\0")
            # `srun` has these words, too, and the Python before that checks the code, but further behind.
            if words[1:4] == [b"-u", b"-m", b"htbench.sweeps.cluster.job"] and words[4].startswith(store):
                environment = (path / "environ").read_bytes().split(b"\0")
                found[int(path.name)] = dict(os.fsdecode(one).split("=", 1) for one in environment if one)
    return found


def attempt(folder, number=1):
    return json.loads((folder / "attempts" / f"{number}.json").read_text())


def owner(folder, number=1):
    return attempt(folder, number)["owner"]


def submit(site, spec, *words, **environment):
    began = time.monotonic()
    done = site("sweep", "submit", spec, *words, **environment)
    assert time.monotonic() - began < 150, "nobody waits on a login node"  # 30 s at five times the load
    return done


def accepted(site, spec, *words):
    """Submit; how many runs were."""
    done = submit(site, spec, *words)
    assert done.returncode == 0, done.stderr
    found = re.search(r"(\d+) submitted", done.stdout)
    return int(found[1]) if found else 0


def until_done(site, spec, *words):
    """Submit until nothing is left to submit, as a user would."""
    for _ in range(8):
        wait_for(lambda: not queue())
        if accepted(site, spec, *words) == 0:
            return


def finish(site, spec, name, *words, failures=False):
    """Submit until all points of a grid have a record; each has one and one trial."""
    until_done(site, spec, *words)
    assert site("sweep", "index", spec).returncode == 0
    check_whole(site.root, name, failures)


def finish_search(site, spec, *words):
    """Submit until all slots of a search have ended; each is one trial and one run."""
    until_done(site, spec, *words)
    for study in studies(site.root, spec):
        check_search(site.root, study)


def repeated_steps(root):
    """Updates that were made more than once because a process died between two checkpoints."""
    files = root.glob("runs/*/*/attempts/*.json")
    return sum(json.loads(file.read_text()).get("repeats", 0) for file in files)


def attempts(root):
    folders = root.glob("runs/*/*/attempts")
    return {folder.parent.name: len(list(folder.glob("*.json"))) for folder in folders}


def run_folders(root, name):
    """Of all runs that were submitted, in that order."""
    keys = [key for row in submitted(root, name) for key in row.get("points", ())]
    return [Store(root).run_folder(key) for key in keys]


def submitted(root, name):
    path = root / "sweeps" / name / "submissions.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def sbatch_that_kills_its_caller(folder):
    """The array is in the queue, but the submitter dies before it reads the answer."""
    script = folder / "sbatch"
    script.write_text(f'#!/bin/sh\n{shutil.which("sbatch")} "$@"\nkill -9 $PPID\n')
    script.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}
