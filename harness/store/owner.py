"""The process that owns a run, and whether it still lives, judged from outside that process."""

from __future__ import annotations

import functools
import os
import pwd
import socket
import time
import uuid
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from htbench.harness.system import atomic, slurm, typed

HEARTBEAT_SECONDS = 10.0
STALE_SECONDS = 120.0  # by the file server's clock; the owner of an older heartbeat counts as dead


@dataclass(frozen=True)
class Owner:
    """A process, identified such that a reused pid or a restarted job is recognised as another one.

    `pid` and `started` are valid within `machine` (one boot, one pid name space); empty in older attempts.
    """

    host: str
    pid: int
    started: float
    user: str
    cluster: str
    job: str
    restart: str
    nonce: str
    machine: str = ""
    rest: dict[str, Any] = field(default_factory=dict, compare=False, metadata=typed.REST)

    @classmethod
    def current(cls) -> Owner:
        """This process."""
        return cls(
            host=socket.gethostname(),
            pid=os.getpid(),
            started=_started(os.getpid()),
            user=current_user(),
            cluster=os.environ.get("SLURM_CLUSTER_NAME", ""),
            job=slurm.own_job(),
            restart=os.environ.get("SLURM_RESTART_COUNT", ""),
            nonce=uuid.uuid4().hex[:8],
            machine=_machine(),
        )

    @classmethod
    def from_json(cls, value: Any) -> Owner | None:
        """The owner in a JSON object, or None if it is not one."""
        owner = typed.make(cls, value)
        sound = owner is not None and 0 < owner.pid < 2**31 and (owner.restart or "0").isdecimal()
        return owner if sound else None

    def to_json(self) -> dict[str, Any]:
        """The owner as a JSON object."""
        value = asdict(self)
        rest: dict[str, Any] = value.pop("rest")
        return value | rest

    def __str__(self) -> str:
        return f"{self.user}@{self.host}, pid {self.pid}" + (f", job {self.job}" if self.job else "")


def current_user() -> str:
    """The user of this process as SLURM names it; $USER may be that of another user after a plain `su`."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # in containers a user id may have no name
        return str(os.getuid())


def is_alive(owner: Owner | None, heartbeat: Path) -> bool:
    """Whether the process that owns a run still lives.

    Args:
        owner: the process; None if its file is damaged, then only the heartbeat counts.
        heartbeat: the file that it touches every HEARTBEAT_SECONDS.
    """
    lives = None
    if owner is not None and (owner.host, owner.machine) == (socket.gethostname(), _machine()):
        lives = _process_lives(owner)
    if lives is None and owner is not None and owner.job:
        lives = _job_lives(owner)
    if lives is not None:
        return lives
    return _is_fresh(heartbeat) and not (owner is not None and _job_has_ended(owner))


def may_be_ending(owner: Owner | None) -> bool:
    """Whether a living owner is part of a job that SLURM does not show at work: it may be about to save.

    False for a process outside of jobs. True if SLURM does not answer.
    """
    return owner is not None and bool(owner.job) and not _job_lives(owner)


def _job_lives(owner: Owner) -> bool | None:
    """Whether SLURM still runs the owner's job, at the same start; None if the queue can't tell.

    A job that the queue lacks may be hidden, or part of the answer got lost on its way. One that is
    completing may have a process that saves.
    """
    restart = owner.restart or "0"
    if owner.job == slurm.own_job() and owner.cluster == slurm.cluster():
        # This process belongs to that job: a later start of it, or another of its nodes.
        return None if restart == os.environ.get("SLURM_RESTART_COUNT", "0") else False
    job = (slurm.recent_queue() or {}).get(owner.job)
    if job is None or job.state == "COMPLETING" or owner.cluster != slurm.cluster():
        return None
    return not job.pending and restart == str(job.restarts)


def _job_has_ended(owner: Owner) -> bool:
    """Whether SLURM says that the owner's job is over; False if it does not remember.

    Of a node that was lost it knows only that it can't reach it: the process may be at work there.
    """
    if not owner.job or owner.job == slurm.own_job() or owner.cluster != slurm.cluster():
        return False
    job = slurm.recently_ended().get(owner.job)
    return job is not None and job.state != "NODE_FAIL" and job.restarts >= int(owner.restart or 0)


def _is_fresh(heartbeat: Path) -> bool:
    """Whether it is younger than STALE_SECONDS; one from the future, as of a wrong clock, proves nothing."""
    # The clocks of two machines differ by less than an hour. For what is older, the file server need not
    # be asked for its time, which is a write: a store may have thousands of such runs.
    if time.time() - heartbeat.stat().st_mtime > 3600 + STALE_SECONDS:
        return False
    return abs(seconds_since_touched(heartbeat)) < STALE_SECONDS  # it may beat between the two looks


def _process_lives(owner: Owner) -> bool | None:
    """Whether a process of this machine lives; None if we may not see it."""
    try:
        # Rounding differs by a few ticks between two readings; a reused pid differs by much more.
        lives = abs(_started(owner.pid) - owner.started) < 1.0
        return lives and psutil.Process(owner.pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # or /proc does not show it: with hidepid, it shows own processes only
        try:
            os.kill(owner.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return None


def _started(pid: int) -> float:
    """When a process began, by a monotonic clock: on Linux in seconds since the machine's start.

    Raises:
        psutil.NoSuchProcess: there is none.
    """
    began = psutil.Process(pid).create_time()
    return began - (psutil.boot_time() if psutil.LINUX else 0.0)  # psutil has added it


@functools.cache
def _machine() -> str:
    """The boot of this machine and the pid name space of this process: containers may share a host name."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:  # no Linux
        return ""


def seconds_since_touched(path: Path) -> float:
    """Age of a file in seconds, by the clock of its file server: compared with a new file beside it."""
    probe = atomic.temporary_name(path)
    try:
        probe.touch()
        now = probe.stat().st_mtime
        probe.unlink()
    except OSError:  # a read-only store: use the local clock
        now = time.time()
    return now - path.stat().st_mtime
