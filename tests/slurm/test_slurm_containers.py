"""Jobs in another environment: in a container, and with an interpreter that is missing.

Debian 12 has no apptainer, so a script plays it: it starts the command with the PATH of an image that has no
SLURM. With SLURM_TEST_IMAGE=IMAGE the machine's own apptainer runs the jobs, in an image that has Python and
our requirements.
"""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.helpers.on_cluster import (
    FEW,
    LONG,
    accepted,
    ask,
    attempt,
    attempts,
    cluster,
    owner,
    pid_here,
    queue,
    run_folders,
    site,
    wait_for,
)

pytestmark = pytest.mark.slurm
__all__ = ["cluster", "site"]  # fixtures

OWN_IMAGE = os.environ.get("SLURM_TEST_IMAGE")
IMAGE = OWN_IMAGE or "/images/torch.sif"
APPTAINER = f"""#!/bin/sh
[ "$1" = exec ] || exit 64
shift
while true; do
  case $1 in
    --nv) shift ;;
    --bind) ls -d $(echo "$2" | tr , ' ') > /dev/null || exit 65; shift 2 ;;
    --pwd) cd "$2" || exit 66; shift 2 ;;
    -*) exit 67 ;;
    *) break ;;
  esac
done
export APPTAINER_CONTAINER=$1
shift
PATH={Path(sys.executable).parent} exec "$@"
"""


@pytest.fixture
def inside(site):
    """Resources of jobs that run in a container."""
    if OWN_IMAGE:
        return f"timeout_min: 20, container: {IMAGE}, srun_args: [--job-name=x]"
    place = site.root.parent / "bin"
    place.mkdir()
    (place / "apptainer").write_text(APPTAINER)
    (place / "apptainer").chmod(0o755)
    setup = f"export PATH={place}:{os.environ['PATH']}"
    return f"timeout_min: 20, setup: ['{setup}'], container: {IMAGE}, srun_args: [--job-name=x]"


def in_container(pid):
    return f"APPTAINER_CONTAINER={IMAGE}".encode() in Path(f"/proc/{pid}/environ").read_bytes()


def test_a_run_in_a_container_is_told_to_save_and_its_job_comes_back(site, inside, write_spec):
    text = LONG.replace("[0.03, 0.1, 0.2, 0.3]", "[0.03, 0.1]")
    spec = write_spec(text.replace("timeout_min: 20", inside))
    assert accepted(site, spec) == 2
    folders = run_folders(site.root, "few")
    wait_for(lambda: all((folder / "checkpoint.pt").exists() for folder in folders))
    assert all(in_container(pid_here(owner(folder))) for folder in folders)
    jobs = {owner(folder)["job"] for folder in folders}
    assert len(jobs) == 2
    ask("scancel", "--signal=USR2", *jobs)
    wait_for(lambda: all((folder / "attempts" / "2.json").exists() for folder in folders))
    for folder in folders:
        assert attempt(folder)["outcome"]["reason"] == "stopped"
        assert owner(folder, 2)["job"] == owner(folder)["job"] and owner(folder, 2)["restart"] == "1"
    assert accepted(site, spec) == 0
    wait_for(lambda: not queue())
    assert set(attempts(site.root).values()) == {2}


def test_a_run_in_a_container_that_is_cancelled_does_not_come_back(site, inside, write_spec):
    spec = write_spec(LONG.replace("[0.03, 0.1, 0.2, 0.3]", "[0.1]").replace("timeout_min: 20", inside))
    assert accepted(site, spec) == 1
    (folder,) = run_folders(site.root, "few")
    wait_for((folder / "checkpoint.pt").exists)
    ask("scancel", owner(folder)["job"])
    wait_for(lambda: not queue())
    assert attempt(folder)["outcome"]["reason"] == "stopped" and set(attempts(site.root).values()) == {1}


def test_status_tells_of_an_interpreter_that_nodes_do_not_have(site, write_spec):
    wrong = "timeout_min: 20, python: /no/such/bin/python"
    spec = write_spec(FEW.replace("timeout_min: 20", wrong))
    assert accepted(site, spec) == 3
    wait_for(lambda: not queue())
    said = site("sweep", "status", spec)
    assert "/no/such/bin/python" in said.stdout and "No such file" in said.stdout, said.stdout
    assert json.loads(site("sweep", "status", spec, "--json").stdout)
