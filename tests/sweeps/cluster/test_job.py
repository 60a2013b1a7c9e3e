"""What a job does, and that it does nothing but what was submitted, with the code that was submitted."""

import hashlib
import json
import os
import py_compile
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from htbench.harness.config.key import run_key
from htbench.harness.config.settings import resolve_config
from htbench.harness.errors import UsageError
from htbench.harness.show.status import Status
from htbench.harness.store import Reason, Store
from htbench.harness.store.points import SEARCH, Point
from htbench.harness.store.submissions import Submission
from htbench.harness.system import slurm
from htbench.harness.system.environment import CODE
from htbench.harness.train.monitor import STOP_SIGNALS, Monitor
from htbench.sweeps.cluster import job, job_array, job_log, snapshot, verify
from htbench.sweeps.cluster.job_log import NO_TASK
from htbench.sweeps.cluster.queue import ORDER
from htbench.sweeps.spec.resources import Resources
from tests.helpers import squeue as stand_in
from tests.helpers.job_process import JOB, order_words, srun_words
from tests.helpers.waiting import wait_for
from tests.helpers.warm import Command


def point(tiny, key=""):
    return Point("tiny", "only", SEARCH, key or run_key(resolve_config(tiny)), tiny)


def task(tmp_path, tiny, key="", code=CODE):
    """What `job.train_point` is called with."""
    return {"root": str(tmp_path / "store"), "code": str(code), "point": point(tiny, key)}


def scripted(root, point):
    """The words after `srun` of a real submission, from a real snapshot, and that snapshot."""
    code, array = snapshot.take(root), Submission("tiny", "w", (point.id,))
    folder, content = job_array.log_folder(root, array), job_array.encode_order([point])
    folder.mkdir(parents=True)
    (folder / ORDER).write_bytes(content)
    words = srun_words(job_array.write_array_script(root, code, array, Resources(), 1, content))
    return words[words.index("--export=ALL") + 1 :], code.folder.resolve()


@pytest.fixture(scope="module")
def taken(tmp_path_factory):
    """A store with a snapshot, for tests that leave it as it is or copy it."""
    root = tmp_path_factory.mktemp("taken") / "store"
    snapshot.take(root)
    return root


def job_of(tmp_path, taken, tiny):
    """A store with a snapshot of its own, the words that start a job of it, the snapshot."""
    root = tmp_path / "store"
    shutil.copytree(taken, root)
    words, code = scripted(root, point(tiny))
    return root, words, code


def trains(words, code, **environment):
    told = os.environ | {"SUBMITIT_EXECUTOR": "slurm", "PYTHONPATH": str(code)} | environment
    return subprocess.run(words, cwd=code, env=told, text=True, capture_output=True, timeout=120)


def test_a_job_runs_where_only_its_snapshot_is(tmp_path, taken, tiny):
    root, words, code = job_of(tmp_path, taken, tiny)
    done = trains(words, code)
    assert done.returncode == 0, done.stderr
    record = Store(root).record(run_key(resolve_config(tiny)))
    assert record is not None and record.status == "completed"
    left = verify.find_altered(str(code), hashlib.sha256((code / verify.LIST).read_bytes()).hexdigest())
    assert not left, "the next job would refuse it"


def plant(line):
    """Python code that shows when it is executed."""
    return f"import pathlib; pathlib.Path({str(line)!r}).touch()\n"


def compiled_elsewhere(code, ran):
    """Bytecode that Python takes in place of an untouched source."""
    source = code / "htbench/sweeps/__init__.py"
    found = source.stat()
    kept = source.read_text()
    source.write_text(plant(ran))
    os.utime(source, (found.st_atime, found.st_mtime))
    py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    source.write_text(kept)


ALTERATIONS = {
    "a line": lambda code, ran: (code / "htbench/sweeps/run/execute.py").open("a").write(plant(ran)),
    "a module": lambda code, ran: (code / "numpy.py").write_text(plant(ran)),
    "bytecode": compiled_elsewhere,
    "a link": lambda code, ran: (code / "yaml").symlink_to(ran.parent),
    "a link in place of a file": lambda code, ran: link_to_copy(
        code / "htbench/sweeps/__init__.py", ran.parent
    ),
    "a missing file": lambda code, ran: (code / "htbench/sweeps/run/execute.py").unlink(),
    "the list": lambda code, ran: (code / verify.LIST).write_text("{}"),
    "an entry of the list": lambda code, ran: approve(code, plant(ran)),
}


def link_to_copy(file, folder):
    shutil.copy(file, folder / "copy.py")
    file.unlink()
    file.symlink_to(folder / "copy.py")


def approve(code, text):
    """Add a module and name it in the list."""
    (code / "numpy.py").write_text(text)
    listed = json.loads((code / verify.LIST).read_text())
    listed["numpy.py"] = hashlib.sha256(text.encode()).hexdigest()
    (code / verify.LIST).write_text(json.dumps(listed))


@pytest.mark.parametrize("alter", ALTERATIONS.values(), ids=ALTERATIONS.keys())
def test_nothing_runs_from_a_snapshot_that_was_altered(tmp_path, taken, tiny, alter):
    root, words, code = job_of(tmp_path, taken, tiny)
    alter(code, tmp_path / "ran")
    done = trains(words, code)
    assert done.returncode == 1 and "is not what was submitted" in done.stderr
    assert not (tmp_path / "ran").exists() and not (root / "runs").exists()
    with pytest.raises(UsageError, match="is not what was copied there"):
        snapshot.take(root)


def test_other_things_in_the_working_folder_of_jobs_do_no_harm(tmp_path, taken, tiny):
    """A process that crashes leaves its core there."""
    root, _, code = job_of(tmp_path, taken, tiny)
    (code / "core.123").write_text("x")
    (code / "wandb").mkdir()
    assert snapshot.take(root).folder.resolve() == code


@pytest.mark.parametrize(("before", "after"), [('"lr": 0.1', '"lr": 9.9'), ("", "[]")])
def test_a_job_does_nothing_but_what_was_submitted(tmp_path, taken, tiny, before, after):
    """Its order lies in a folder of the store; SLURM keeps the digest."""
    tiny = tiny | {"optimizer.lr": 0.1}
    root, words, code = job_of(tmp_path, taken, tiny)
    (file,) = root.rglob(ORDER)
    text = file.read_text().replace('"optimizer.lr": 0.1', '"optimizer.lr": 9.9') if before else after
    assert text != file.read_text()
    file.write_text(text)
    done = trains(words, code)
    assert done.returncode == 1 and "order.json' is not what was submitted" in done.stderr
    assert not (root / "runs").exists()


def test_a_job_whose_order_is_gone_says_so(tmp_path, taken, tiny):
    root, words, code = job_of(tmp_path, taken, tiny)
    for file in root.rglob(ORDER):
        file.unlink()
    assert f"htbench: {NO_TASK}" in trains(words, code).stderr


def test_signals_are_held_back_until_the_handlers_are_there():
    assert set(verify.HELD_BACK) == set(STOP_SIGNALS)


def test_a_job_with_other_code_or_data_ends_before_it_trains(tmp_path, tiny, capsys):
    with pytest.raises(SystemExit, match="instead of its snapshot /elsewhere"):
        job.train_point(**task(tmp_path, tiny, code="/elsewhere"))
    with pytest.raises(SystemExit, match="1"):
        job.train_point(**task(tmp_path, tiny, key="0123456789ab"))
    assert "Run 0123456789ab was planned with other code, data or defaults" in capsys.readouterr().err
    assert not (tmp_path / "store").exists()


def test_a_warning_while_a_job_prepares_is_kept_for_the_training(tmp_path, tiny, monkeypatch):
    kept = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    handlers = []
    monkeypatch.setattr(job, "execute", lambda *_: handlers.append(signal.getsignal(signal.SIGUSR2)))
    try:
        with pytest.raises(SystemExit):
            job.train_point(**task(tmp_path, tiny, key="0123456789ab"))
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
    assert [getattr(one, "__func__", None) for one in handlers] == [Monitor._request_stop]


def be_scontrol(folder, shown):
    """A stand-in for `scontrol` that shows the job so, and notes all other calls in `called`."""
    program = folder / "scontrol"
    program.write_text(f'#!/bin/sh\n[ $1 = show ] && echo "{shown}" || echo "$@" >> {folder}/called\n')
    program.chmod(0o755)


def holds_back(pid, number):
    """Whether a process that has become the Python of a job blocks a signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    (mask,) = re.findall(r"^SigBlk:\s*(\w+)", status, re.MULTILINE)
    started = b"\0-u\0-m\0htbench.sweeps.cluster.job\0" in Path(f"/proc/{pid}/cmdline").read_bytes()[:200]
    return started and bool(int(mask, 16) >> number - 1 & 1)


@pytest.mark.parametrize(
    ("number", "shown"),
    [(signal.SIGUSR2, ""), (signal.SIGTERM, "JobState=RUNNING PreemptTime=2026-11-21T10:14:45")],
    ids=["warned", "preempted"],
)
def test_a_warning_before_anything_is_loaded_is_kept(tmp_path, tiny, number, shown):
    """It came before the handlers and killed the job."""
    be_scontrol(tmp_path, shown)
    root = tmp_path / "store"
    words, code = scripted(root, point(tiny))
    told = {"SLURM_JOB_ID": "8", "SUBMITIT_EXECUTOR": "slurm", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    process = subprocess.Popen(words, cwd=code, env=os.environ | told | {"PYTHONPATH": str(code)})
    wait_for(lambda: holds_back(process.pid, number))
    process.send_signal(number)
    assert process.wait(timeout=60) == 2
    assert (tmp_path / "called").read_text() == "requeue 8\n"
    assert not (root / "runs").exists(), "it had no time to begin"


def test_a_job_waits_for_the_one_before_it_that_is_saving(tmp_path, tiny, monkeypatch):
    """It found the run at work and ended, and then nobody was at it."""
    asked, one, store = tmp_path / "asked", point(tiny), Store(tmp_path / "store")
    row = stand_in.row("7", "COMPLETING")
    folder = stand_in.install(tmp_path / "bin", row, first=f"touch {asked}")
    monkeypatch.setenv("SLURM_CLUSTER_NAME", "here")
    with monkeypatch.context() as job_before:
        job_before.setenv("SLURM_JOB_ID", "7")
        before = store.claim(one.key, "")
    given = order_words(store.root, CODE, tmp_path / "logs", one)
    told = {"SLURM_JOB_ID": "8", "PATH": f"{folder}:{os.environ['PATH']}"}
    process = Command(["-c", JOB, *given], os.environ | told, CODE)
    wait_for(asked.exists)  # it has found the run at work
    before.end(Reason.STOPPED)
    assert process.wait(timeout=60) == 0
    assert store.record(one.key).attempts == 2


def test_without_the_gpu_that_it_was_promised_a_job_ends_and_its_run_waits(tmp_path, tiny):
    """A node with a broken driver would train all runs that come to it on its CPU."""
    root, code = tmp_path / "store", CODE
    told = {"HTBENCH_GPUS_PER_NODE": "1", "SLURMD_NODENAME": "gpu-03", "CUDA_VISIBLE_DEVICES": ""}
    given = order_words(root, code, tmp_path / "logs", point(tiny))
    process = Command(["-c", JOB, *given], os.environ | told, code)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "htbench: Node gpu-03 shows 0 of 1 GPUs that the job was promised; the run waits" in said
    state = Store(root).state(run_key(resolve_config(tiny)))
    assert state.status is Status.WAITING and state.message.startswith("Node gpu-03 shows 0 of 1 GPUs")


@pytest.mark.parametrize(
    ("number", "shown", "requeues"),
    [
        (signal.SIGUSR2, "", True),
        (signal.SIGTERM, "JobState=RUNNING PreemptTime=2026-11-21T10:14:45", True),
        (signal.SIGTERM, "JobState=RUNNING PreemptTime=None", False),
        (signal.SIGTERM, "JobState=COMPLETING PreemptTime=None", False),
    ],
    ids=["warned", "preempted", "terminated", "cancelled"],
)
def test_a_job_that_must_make_room_saves_and_is_queued_again(tmp_path, tiny, number, shown, requeues):
    be_scontrol(tmp_path, shown)
    root, slow = tmp_path / "store", point(tiny | {"steps": 3000, "log_every": 1})
    folder = Store(root).run_folder(slow.key)
    # The last task of an array to start has the number of the whole array: that must not be requeued.
    env = {"SLURM_JOB_ID": "8", "SLURM_ARRAY_JOB_ID": "8", "SLURM_ARRAY_TASK_ID": "2", "PATH": str(tmp_path)}
    env |= {"SLURM_JOB_NAME": "tiny.only.0123456789"}
    given = order_words(root, CODE, tmp_path / "logs", slow)
    process = Command(["-c", JOB, *given], os.environ | env, CODE)
    wait_for((folder / "metrics.jsonl").exists)
    process.send_signal(number)
    assert process.wait(timeout=60) == 2
    assert (folder / "checkpoint.pt").exists()
    called = tmp_path / "called"
    assert (called.read_text() if called.exists() else "") == ("requeue 8_2\n" if requeues else "")


def test_a_job_in_a_container_without_scontrol_leaves_it_to_its_script_to_queue_it_again(tmp_path):
    words = "from htbench.sweeps.cluster.job import *; must_restart(Monitor()) and restart()"
    told = {"PATH": str(tmp_path / "image"), job_log.SCRIPT_REQUEUES: "1", "PYTHONPATH": str(CODE)}
    inside = subprocess.run([sys.executable, "-c", words], env=os.environ | told, cwd=CODE)
    assert inside.returncode == job_log.EXIT_AGAIN


@pytest.mark.parametrize(
    ("signals", "shown", "again"),
    [
        ({signal.SIGUSR2}, "JobState=RUNNING Reason=None PreemptTime=None", True),
        ({signal.SIGUSR2, signal.SIGTERM}, "JobState=COMPLETING Reason=TimeLimit", True),
        ({signal.SIGUSR2, signal.SIGTERM}, "JobState=COMPLETING Reason=None", False),
        ({signal.SIGUSR2, signal.SIGTERM}, "JobState=CANCELLED Reason=None PreemptTime=None", False),
        ({signal.SIGUSR2}, "JobState=COMPLETING Reason=None PreemptTime=2026-11-23T14:07:10", True),
        ({signal.SIGUSR2}, slurm.SlurmError("no answer"), True),
        ({signal.SIGTERM}, "JobState=RUNNING Reason=None PreemptTime=None", False),
        ({signal.SIGTERM}, "JobState=RUNNING Reason=None", False),  # its partition has no preemption
        ({signal.SIGTERM}, "JobState=RUNNING Reason=None PreemptTime=2026-11-23T14:07:10", True),
        ({signal.SIGTERM}, slurm.SlurmError("no answer"), False),
    ],
)  # fmt: skip
def test_a_job_comes_back_unless_it_was_cancelled(monkeypatch, signals, shown, again):
    """SLURM 22.05 showed these of jobs that were warned, at their limit, cancelled and preempted."""

    def call(*words):
        if isinstance(shown, slurm.SlurmError):
            raise shown
        return f"JobId=8 {shown} ExitCode=0:15"

    monkeypatch.setattr(slurm, "call", call)
    monitor = Monitor()
    monitor.signals = signals
    assert job.must_restart(monitor) == again
