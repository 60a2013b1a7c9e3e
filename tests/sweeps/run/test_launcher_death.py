"""Who starts processes may be killed: they notice, save and end, and the same command goes on from there."""

import json
import os
import signal
import subprocess
import sys

import psutil
import pytest

from htbench.harness.store import Store
from htbench.harness.system.environment import CODE
from tests.helpers.command import Htbench
from tests.helpers.waiting import wait_for

# No periodic checkpoint within the test: the one that is found was written because of the death.
BASE = {"task": "digits", "model": "resnet-nano", "steps": 400, "batch_size": 16, "log_every": 2}
DIES = """
import os, signal, torch

class Dies(torch.optim.SGD):
    def step(self, closure=None):
        os.kill(os.getpid(), signal.SIGKILL)
"""
SPEC = f"name: tiny\nbase: {json.dumps(BASE)}\nspace: {{optimizer.lr: [0.03, 0.1]}}\n"


def alive(processes):
    return [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize(
    ("command", "fresh"), [("run", False), pytest.param("sweep run", True, marks=pytest.mark.slow)]
)
def test_nobody_trains_on_after_the_command_was_killed(htbench, write_spec, command, fresh):
    words = [f"{name}={value}" for name, value in BASE.items()] + ["processes=2"]
    if command == "sweep run":
        words = [write_spec(SPEC), "--workers", "2"]
    process = Htbench(htbench.root, fresh=fresh).start(*command.split(), *words)
    wait_for(
        lambda: len(list(htbench.root.glob("runs/*/*/metrics.jsonl"))) == (2 if "sweep" in command else 1)
    )
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) >= 2
    process.send_signal(signal.SIGKILL)  # to the command alone, not to its group
    process.wait()
    wait_for(lambda: not alive(family), told=lambda: f"still at work: {alive(family)}")
    folders = [path.parent for path in htbench.root.glob("runs/*/*/config.yaml")]
    for folder in folders:
        assert (folder / "checkpoint.pt").exists() and not (folder / "record.json").exists()
        outcome = json.loads((folder / "attempts" / "1.json").read_text())["outcome"]
        assert outcome["reason"] == "stopped"
    done = htbench(*command.split(), *words)
    assert done.returncode == 0, done.stderr
    records = [Store(htbench.root).record(folder.name) for folder in folders]
    assert [(r.steps, r.attempts, r.repeated_steps) for r in records] == [(400, 2, 0)] * len(folders)


def test_a_run_that_only_dies_is_given_up_by_a_launcher_that_lives(htbench, write_spec):
    spec = write_spec(SPEC.replace("[0.03, 0.1]", '[0.1], optimizer.name: ["dies:Dies"]'))
    (spec.parent / "dies.py").write_text(DIES)
    for _ in range(2):  # the second call leaves it alone
        done = htbench("sweep", "run", spec)
        assert done.returncode == 1 and "failed (killed): two processes in a row" in done.stderr
        (folder,) = (path.parent for path in htbench.root.glob("runs/*/*/config.yaml"))
        assert [json.loads(path.read_text())["outcome"] for path in folder.glob("attempts/*")] == [
            {"reason": "died"}
        ] * 2


def test_runs_go_on_after_the_death_of_the_server_that_starts_them(htbench, write_spec):
    process = htbench.start("sweep", "run", write_spec(SPEC), "--workers", "2")
    wait_for(lambda: len(list(htbench.root.glob("runs/*/*/metrics.jsonl"))) == 2)
    children = psutil.Process(process.pid).children()
    (server,) = [child for child in children if child.children()]
    at_work = server.children()
    server.kill()
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    records = Store(htbench.root).index.rows()
    assert [(r.steps, r.attempts, r.repeated_steps) for _, r in records.values()] == [(400, 2, 0)] * 2
    assert len(at_work) == 2 and not alive([server, *at_work])


def test_nothing_stands_in_for_a_module_of_python(htbench, write_spec, tmp_path):
    """A file of the working folder ran in the process that tracks resources; one beside the file is used."""
    spec = write_spec(SPEC.replace("[0.03, 0.1]", '[0.1], optimizer.name: ["mine:Mine"]').replace("400", "4"))
    (spec.parent / "mine.py").write_text("import torch\n\nclass Mine(torch.optim.SGD):\n    pass\n")
    here = tmp_path / "here"
    here.mkdir()
    ran = here / "ran"
    for name in ("subprocess", "weakref", "contextlib", "threading", "selectors", "tempfile", "struct"):
        (here / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write('{name} ')\nraise ImportError\n")
    # The script of an installed command has its own folder first, not the working folder.
    script = "import sys; del sys.path[0]; from htbench.__main__ import main; sys.exit(main())"
    words = [sys.executable, "-c", script, "sweep", "run", spec, "--root", htbench.root]
    environment = os.environ | {"PYTHONPATH": str(CODE)}
    done = subprocess.run(words, cwd=here, env=environment, capture_output=True, text=True)
    assert not ran.exists(), ran.read_text()
    assert done.returncode == 0, done.stderr
