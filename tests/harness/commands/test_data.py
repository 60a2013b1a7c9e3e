"""`htbench data`, and the whole way of a corpus: prepare, train, kill, resume, evaluate, table."""

import json
import os
import random
import shutil
import signal
import time

import pytest

from htbench.harness import tasks
from htbench.harness.cli import main
from htbench.harness.commands import data, doctor
from htbench.harness.data import cache
from htbench.harness.data.cache import damaged
from htbench.harness.data.corpus import C4
from tests.helpers import miniature
from tests.helpers.command import Htbench
from tests.helpers.sweeping import results

SWEEP = """
name: corpora
base: {model: llama-nano, steps: 6, batch_size: 8, checkpoint.every_steps: 2, optimizer.name: adamw}
blocks:
  - {name: c4, set: {task: c4, seq_len: 24}}
  - {name: openwebtext, set: {task: openwebtext, seq_len: 24}}
replicate: {seeds: 1}
"""
# The cluster that it asks for does not exist: nothing may come so far that this matters.
ON_SLURM = SWEEP + "resources: {timeout_min: 20, cpus_per_task: 1}\n"
PREPARE = ("data", "prepare")
KILLED = (*PREPARE, "c4", "--shards", 6, "--workers", 1)


def contents(root, task="c4"):
    (folder,) = (root / "cache").glob(f"{task}-*")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def said(capsys, *words):
    """What `htbench WORDS` refuses with, in this process."""
    assert main([str(word) for word in words]) == 2
    return capsys.readouterr().err


@pytest.fixture
def root(tmp_path, published_corpora):
    return tmp_path / "store"


@pytest.fixture
def fresh(tmp_path):
    """The command in a fresh Python: its workers are spawned, and it needs no torch."""
    return Htbench(tmp_path / "store", fresh=True)


# --- how much ---


def test_one_has_to_say_how_much(root, capsys):
    for words, complaint in (
        (["c4"], "How many of the 3 training files of 'c4' are needed? Give --shards N"),
        (["pydocs"], "'pydocs' is not prepared by this command; known are: c4, cifar10, cifar100, "),
        (["c4", "--shards", 0], "--shards must be at least 1"),
        (["openwebtext", "--shards", 1], "is prepared whole"),
        (["cifar10", "--shards", 1], "is prepared whole"),
    ):
        assert complaint in said(capsys, *PREPARE, *words, "--root", root)


def test_what_is_there_stays(root):
    miniature.prepare_here("c4", root / "cache", 2, miniature.raw.folder(root, "c4"))
    folder = C4.folder(root / "cache")
    assert [data._count_train_files(C4, shards, folder) for shards in (None, 1, 3, 9)] == [2, 2, 3, 3]


# --- runs without data ---


def test_runs_and_sweeps_without_data_name_the_command(root, capsys, write_spec, monkeypatch):
    sweep, job = write_spec(SWEEP), write_spec(ON_SLURM, "job.yaml")
    monkeypatch.setattr("htbench.sweeps.cluster.submit.submit", None)  # must not be reached
    run = ("run", "task=c4", "model=llama-nano", "steps=6", "batch_size=8", "seq_len=24")
    for words in (run, ("sweep", "run", sweep), ("sweep", "submit", job)):
        assert "run `htbench data prepare c4 --shards 2`" in said(capsys, *words, "--root", root)
    assert not (root / "runs").exists() and not (root / "sweeps").exists()
    longer = write_spec(SWEEP.replace("steps: 6,", "steps: 6, data_seed: 0,") + "space: {steps: [2, 12]}\n")
    assert "--shards 3`" in said(capsys, "sweep", "run", longer, "--root", root)


def test_a_sweep_is_planned_without_data(root, capsys, write_spec):
    assert main(["sweep", "plan", str(write_spec(SWEEP)), "--no-measure", "--root", str(root)]) == 0
    assert "2" in capsys.readouterr().out
    assert not (root / "cache").exists()


def test_what_is_prepared_is_told_again(root, capsys):
    miniature.prepare_here("c4", root / "cache", 2, miniature.raw.folder(root, "c4"))
    assert main(["data", "prepare", "c4", "--root", str(root)]) == 0
    assert "c4: 2 of 3 training files, 81 documents, 3.7k tokens, " in capsys.readouterr().out


def test_the_doctor_reads_all_prepared_data(root, capsys):
    miniature.prepare_here("c4", root / "cache", 2, miniature.raw.folder(root, "c4"))
    folder = C4.folder(root / "cache")
    main(["doctor", "--data", "--json", "--root", str(root)])
    found = [one for one in json.loads(capsys.readouterr().out) if str(folder) in one["finding"]]
    assert [one["level"] for one in found] == ["ok"]
    file = folder / "val-00001.offsets"
    file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:])
    assert main(["doctor", "--data", "--json", "--root", str(root)]) == 1
    found = [one for one in json.loads(capsys.readouterr().out) if str(folder) in one["finding"]]
    assert [one["level"] for one in found] == ["problem"] and f"'{file}' is" in found[0]["finding"]


def test_the_doctor_makes_embedded_data_again(root, capsys):
    """Digests stand beside what they are of, and who changes one may change the other."""
    import numpy as np

    tasks.build("digits", cache=root / "cache", batch_size=1, data_seed=0)
    (file,) = root.glob("cache/digits-*/digits.npz")
    found = list(doctor._digests(root))
    assert [one.level for one in found] == ["ok"]
    arrays = dict(np.load(file))
    arrays["train_labels"][:50] = 0
    np.savez(file, **arrays)
    file.with_name("manifest.json").write_text(json.dumps({file.name: cache.digest(file)}))
    (problem,) = doctor._digests(root)
    assert problem.level == "problem" and problem.finding["path"] == file
    cache.cached(file.parent, None)  # a run looks at digests only


# --- the whole way ---


@pytest.mark.slow
def test_from_raw_files_to_a_table(htbench, fresh, published_corpora, write_spec):
    sweep = write_spec(SWEEP)
    done = fresh(*PREPARE, "c4", "--shards", 2, "--workers", 2, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "c4: 4 files, 4 to prepare in " in done.stderr and ", 0 to download into " in done.stderr
    assert "[4/4] en/c4-" in done.stderr and "81 documents" in done.stdout
    miniature.prepare_here("openwebtext", htbench.root / "cache", 3, published_corpora / "openwebtext")
    killed = htbench.start("sweep", "run", sweep, "--workers", 1, "--quiet", crash="checkpoint.after")
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    done = htbench("sweep", "run", sweep, "--workers", 1, "--quiet", timeout=60)
    assert done.returncode == 0, done.stderr
    found = results(htbench.root, "corpora")
    assert len(found) == 4 and {status for _, status, *_ in found.values()} == {"completed"}
    undisturbed = Htbench(htbench.root.with_name("other"))
    shutil.copytree(htbench.root / "cache", undisturbed.root / "cache")
    done = undisturbed("sweep", "run", sweep, "--workers", 1, "--quiet", timeout=60)
    assert done.returncode == 0 and results(undisturbed.root, "corpora") == found
    table = htbench("table", "--sweep", "corpora")
    assert table.returncode == 0 and "c4" in table.stdout and "openwebtext" in table.stdout, table.stderr


def test_of_two_at_once_one_works_and_the_other_waits(htbench, published_corpora):
    both = [htbench.start(*PREPARE, "c4", "--shards", 2, "--workers", 1) for _ in range(2)]
    outputs = [one.communicate(timeout=60) for one in both]
    assert [one.returncode for one in both] == [0, 0], outputs
    errors = sorted((err for _, err in outputs), key=lambda err: "waiting" in err)
    assert "4 to prepare" in errors[0] and "waiting" not in errors[0]
    assert "another process prepares" in errors[1] and " 0 to prepare" in errors[1]
    assert outputs[0][0] == outputs[1][0]


@pytest.mark.slow
def test_ten_kills_leave_the_bytes_of_an_undisturbed_call(fresh, tmp_path, monkeypatch):
    for name, value in miniature.write_all(tmp_path / "raw", files=6, documents=6000).items():
        monkeypatch.setenv(name, value)
    began = time.monotonic()
    assert fresh(*KILLED, "--root", tmp_path / "once").returncode == 0
    whole = time.monotonic() - began
    for number in range(10):
        process = fresh.start(*KILLED)
        time.sleep(random.Random(number).uniform(0.1, 0.9) * whole)
        os.kill(process.pid, signal.SIGKILL)  # its workers have to notice by themselves
        process.communicate()
    assert fresh(*KILLED).returncode == 0
    assert contents(fresh.root) == contents(tmp_path / "once")
    assert damaged(C4.folder(fresh.root / "cache")) == []
