"""A disk that gets full is told once, by its name, and the same command goes on."""

import errno
import os
import subprocess

import pytest

from htbench.harness.config.key import run_key
from htbench.harness.config.settings import resolve_config, to_settings
from htbench.harness.errors import EXIT_RUN_FAILED, RunFailedError, UsageError, refused
from htbench.harness.store.points import SEARCH, Point
from htbench.harness.train.monitor import Monitor
from htbench.sweeps.run.execute import EXIT_ENDED, EXIT_FULL, execute
from tests.helpers.command import Htbench
from tests.helpers.sweeping import SPEC, check_whole

FULL = "(No space left on device); make room there, and the same command goes on"


@pytest.fixture
def disk(tmp_path):
    """A disk of 60 KB; it has room for a plan, not for runs."""
    place = tmp_path / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=60k", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(words, capture_output=True).returncode:
        pytest.skip("nobody may mount a disk here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_sweep_stops_with_one_sentence_and_goes_on(disk, write_spec):
    spec, htbench = write_spec(SPEC), Htbench(disk / "store")
    done = htbench("sweep", "run", spec)
    assert done.returncode == EXIT_RUN_FAILED
    said = [line for line in done.stderr.splitlines() if not line.endswith(" ...") and "warning" not in line]
    assert said == [f"htbench: the disk at '{disk}' is full {FULL}."]
    subprocess.run(["mount", "-o", "remount,size=99m", str(disk)], check=True)
    assert htbench("sweep", "run", spec).returncode == 0
    check_whole(htbench.root)


@pytest.mark.parametrize(
    ("number", "status", "kind"),
    [(errno.ENOSPC, EXIT_FULL, RunFailedError), (errno.EDQUOT, EXIT_FULL, RunFailedError)]
    + [(errno.EACCES, EXIT_ENDED, UsageError)],
    ids=errno.errorcode.get,
)
@pytest.mark.parametrize("call", ["mkdir", "link"])  # before the store has the run, and while it claims it
def test_a_worker_tells_what_the_system_refuses(tmp_path, tiny, monkeypatch, number, status, kind, call):
    def refuse(*words, **named):
        raise OSError(number, os.strerror(number))

    config, said = resolve_config(tiny), []
    point = Point("tiny", "only", SEARCH, run_key(config), to_settings(config))
    monkeypatch.setattr(os, call, refuse)
    assert execute(tmp_path / "store", point, Monitor(), said.append) == status
    (error,) = said
    assert type(error) is kind and os.strerror(number) in str(error) and str(error).count(".") == 1


def test_what_is_refused_names_the_disk_or_the_file():
    full = OSError(errno.ENOSPC, "No space left on device")
    assert refused(full) == "the system refuses: No space left on device"
    assert refused(full, "/proc/self/fd") == f"the disk at '/proc' is full {FULL}"
    assert refused(OSError(13, "Permission denied", "/x")) == "the system refuses '/x': Permission denied"
