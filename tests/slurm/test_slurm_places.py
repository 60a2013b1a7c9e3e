"""Where sweeps live: code that changes, disks full or read-only, accounting switched off, several people."""

import grp
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from htbench.harness.errors import EXIT_RUN_FAILED, EXIT_USAGE
from tests.helpers.command import Htbench
from tests.helpers.on_cluster import (
    LONG,
    PAIR,
    accepted,
    ask,
    attempts,
    cluster,
    finish,
    held,
    hold,
    let_go,
    owner,
    partition,
    queue,
    run_folders,
    site,
    submit,
    wait_for,
)

pytestmark = pytest.mark.slurm
__all__ = ["cluster", "held", "site"]  # fixtures
HOME = Path(__file__).resolve().parents[2]


@pytest.fixture
def disk(cluster):
    """A small file system of its own: `disk.fill()` and `disk.remount("ro")`."""

    class Disk:
        # Where nodes see what is mounted, as they do a file server.
        path = Path(tempfile.mkdtemp(dir=Path(os.environ["SLURM_CONF"]).parents[1] / "mnt"))

        def remount(self, mode):
            subprocess.run(["mount", "-o", f"remount,{mode}", self.path], check=True)

        def fill(self):
            """Leave no room; again, once more is free (a writer that fails takes its temporary away)."""
            with open(self.path / "ballast", "ab") as file:
                try:
                    while True:
                        os.write(file.fileno(), b"x" * 4096)
                except OSError:
                    pass

        def empty(self):
            (self.path / "ballast").unlink()

    disk = Disk()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=30m,mode=755", "tmpfs", disk.path], check=True)
    yield disk
    ask("scancel", "-f", "-s", "KILL", "-u", "root")
    ask("scancel", "-u", "root")
    wait_for(lambda: not queue())
    subprocess.run(["umount", "-l", disk.path], check=True)
    disk.path.rmdir()


def one_sentence(done, status):
    assert done.returncode == status, done
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    return done.stderr


def test_a_full_disk_is_told_and_the_work_goes_on_once_there_is_room(disk, cluster, write_spec):
    site = Htbench(disk.path / "store")
    spec = write_spec(LONG.replace("0.1, 0.2, 0.3]", "0.1]"))
    assert accepted(site, spec) == 2
    folders = run_folders(site.root, "few")
    hold(*folders)
    disk.fill()
    let_go(*folders)
    wait_for(lambda: not queue())
    assert len([owner(folder) for folder in folders]) == 2, "what was there is still whole"
    disk.fill()
    assert "No space left on device" in one_sentence(submit(site, spec), EXIT_RUN_FAILED)
    assert site("sweep", "status", spec).returncode == 0
    disk.empty()
    finish(site, spec, "few")
    assert all("going on from step" in (folder / "log.txt").read_text() for folder in folders)


def test_a_read_only_store_can_be_looked_at_and_is_told(disk, cluster, write_spec):
    site = Htbench(disk.path / "store")
    spec = write_spec(PAIR)
    assert accepted(site, spec) == 2
    wait_for(lambda: not queue())
    disk.remount("ro")
    spec.write_text(PAIR.replace("0.1]", "0.1, 0.2]"))
    for action in ("status", "plan"):
        looked = site("sweep", action, spec)
        assert looked.returncode == 0, looked.stderr
    assert f"'{site.root}' is not writable" in one_sentence(submit(site, spec), EXIT_USAGE) and not queue()
    disk.remount("rw")
    finish(site, spec, "few")
    assert list(attempts(site.root).values()) == [1, 1, 1]


def test_accounting_is_never_asked(site, cluster, write_spec, tmp_path):
    sacct = tmp_path / "sacct"
    sacct.write_text(
        f'#!/bin/sh\ntouch {tmp_path}/asked\necho "Slurm accounting storage is disabled" >&2\nexit 1\n'
    )
    sacct.chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    spec = write_spec(PAIR)
    assert "2 submitted" in submit(site, spec, **path).stdout
    wait_for(lambda: not queue())
    status = site("sweep", "status", spec, "--json", **path)
    assert json.loads(status.stdout)[0]["completed"] == 2
    assert "2 finished" in submit(site, spec, **path).stdout
    assert not (tmp_path / "asked").exists()


# --- people ---

LIBRARIES = f"{HOME / 'src'}:{Path(torch.__file__).parents[1]}"
PEOPLE, GROUP = ("htb-anna", "htb-bert"), "htb-lab"


class Person(Htbench):
    """`htbench` as somebody else, whose files others may only read by default."""

    def __init__(self, name, root):
        super().__init__(root)
        self.name = name
        # Our own python may be in a home that is closed to others; Debian's is for everybody.
        self.python = next(filter(self.can_run, (sys.executable, "/usr/bin/python3")), "")

    def can_run(self, python):
        words = ("runuser", "-u", self.name, "--", "env", f"PYTHONPATH={LIBRARIES}", python, "-c")
        return (
            subprocess.run(
                [*words, "import torch, htbench.harness.cli"], capture_output=True, cwd="/"
            ).returncode
            == 0
        )

    def start(self, *words, crash=None, **environment):
        person = pwd.getpwnam(self.name)
        return subprocess.Popen(
            [self.python, "-m", "htbench", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env=os.environ
            | {"HTBENCH_ROOT": str(self.root), "PYTHONPATH": LIBRARIES}
            | {"HOME": "/tmp", "USER": self.name, "LOGNAME": self.name}
            | environment,
            start_new_session=True,
            user=person.pw_uid,
            group=grp.getgrnam(GROUP).gr_gid,
            extra_groups=[grp.getgrnam(GROUP).gr_gid],
            umask=0o022,
            cwd="/tmp",
        )


@pytest.fixture
def people(cluster):
    """Two members of a group, and a store in a folder that the group shares."""
    subprocess.run(["groupadd", "-f", GROUP], check=True)
    for name in PEOPLE:
        subprocess.run(["useradd", "-M", "-g", GROUP, name], check=False, capture_output=True)
    root = Path(tempfile.mkdtemp(prefix="htbench-slurm-lab-"))
    os.chown(root, 0, grp.getgrnam(GROUP).gr_gid)
    root.chmod(0o2775)
    yield [Person(name, root / "store") for name in PEOPLE]
    for name in PEOPLE:
        ask("scancel", "-u", name)
    wait_for(lambda: not queue())
    shutil.rmtree(root)
    for name in PEOPLE:
        subprocess.run(["userdel", name], check=True)


def test_two_people_share_a_store(people, held):
    anna, bert = people
    if not bert.python:
        pytest.skip(f"other people can't read '{HOME}' or its libraries")
    hers, his = (anna.root.with_name(f"{name}.yaml") for name in ("hers", "his"))
    hers.write_text(LONG)
    his.write_text(LONG.replace("name: few", "name: his").replace("[0.03,", "[0.02, 0.03,"))
    assert accepted(anna, hers) == 4
    assert accepted(bert, his) == 1, "the other four are in the queue already"
    (seen,) = json.loads(bert("sweep", "status", his, "--json").stdout)
    assert seen.get("queued", 0) + seen.get("running", 0) == 5, "with hers"
    assert "1 job cancelled" in bert("sweep", "cancel", his).stdout
    assert "4 of other people go on" in bert("sweep", "cancel", hers).stdout
    partition("UP")
    folders = run_folders(anna.root, "few")
    hold(*folders)
    assert "4 jobs cancelled" in anna("sweep", "cancel", hers).stdout
    let_go(*folders)
    wait_for(lambda: not queue())
    assert accepted(bert, his) == 5, "what she began and gave up, he goes on with"
    wait_for(lambda: not queue())
    for person, spec, points in ((anna, hers, 4), (bert, his, 5)):
        assert f"{points} finished" in submit(person, spec).stdout
        status = person("sweep", "status", spec, "--json")
        assert json.loads(status.stdout)[0]["completed"] == points, status.stderr
        assert person("sweep", "index", spec).returncode == 0
    owners = {
        json.loads(path.read_text())["owner"]["user"] for path in anna.root.glob("runs/*/*/attempts/*.json")
    }
    assert owners == set(PEOPLE)
    assert anna("table", "--sweep", "his").returncode == 0
