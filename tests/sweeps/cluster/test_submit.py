"""What `sweep submit` decides, without a SLURM: which runs, in which arrays, and what the queue tells."""

import dataclasses
import hashlib
import os
import re
import sys

import pytest

from htbench.harness import cli
from htbench.harness.cost.probe import NotProbedError
from htbench.harness.errors import EXIT_USAGE, UsageError
from htbench.harness.show.note import Note
from htbench.harness.show.status import Status
from htbench.harness.store import Attempt, Reason, RunState, Store, submissions
from htbench.harness.store.points import Point, read_points
from htbench.harness.store.submissions import Submission
from htbench.harness.system import slurm
from htbench.harness.system.environment import CODE
from htbench.harness.system.squeue import Job
from htbench.sweeps.cluster import job_array, queue, snapshot, submit
from htbench.sweeps.cluster.sbatch import RefusedError, UnsureError
from htbench.sweeps.cluster.snapshot import Snapshot
from htbench.sweeps.cluster.submit import Array
from htbench.sweeps.plan.planned import search_points, states
from htbench.sweeps.plan.stored import write_plan
from htbench.sweeps.screens import cost_card
from htbench.sweeps.spec import sweep_file as spec
from htbench.sweeps.spec.resources import Resources, read
from tests.helpers import squeue as stand_in
from tests.helpers.job_process import srun_words

SPEC = """
name: tiny
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16}
blocks:
  - {name: cpu, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.01, 0.02, 0.03, 0.05, 0.1]}}
  - name: gpu
    set: {optimizer.name: muon}
    space: {optimizer.lr: [0.01, 0.02]}
    resources: {gpus_per_node: 1}
  - {name: also-cpu, set: {optimizer.name: adamw}, resources: {timeout_min: 30}}
resources: {timeout_min: 30, partition: short}
"""


@pytest.fixture
def tiny_spec(write_spec):
    return spec.load(write_spec(SPEC))


def job(id, name, state="PENDING", restarts=0, user="anna"):
    return Job(id, state, restarts, user, "Priority", name)


# --- resources ---


def test_a_block_overrides_the_resources_of_its_sweep(tiny_spec):
    common = Resources(timeout_min=30, options={"partition": "short"})
    expected = [common, dataclasses.replace(common, gpus_per_node=1), common]
    assert [block.resources for block in tiny_spec.blocks] == expected


@pytest.mark.parametrize(
    ("tree", "sentence"),
    [
        ({"timeout_min": 0}, "timeout_min in block 'x' must be a whole number from 1, not 0."),
        ({"gpus_per_node": "two"}, "gpus_per_node in block 'x' must be a whole number from 0, not 'two'."),
        ({"cpus_per_task": True}, "cpus_per_task in block 'x' must be a whole number from 1, not True."),
        ({"mem": "much"}, "mem in block 'x' must be a size such as 16G, not 'much'."),
        (
            {"account": ["a"]},
            "account in block 'x' must be a word, a number or true, in one line, not ['a'].",
        ),
        ({"account": ""}, "account in block 'x' must be a word, a number or true, in one line, not ''."),
        (
            {"qos": "high\n#SBATCH -n 9"},
            "qos in block 'x' must be a word, a number or true, in one line, not 'high\\n#SBATCH -n 9'.",
        ),
        ({"a b": 1}, "Unknown resource 'a b' in block 'x'; options of `sbatch` are written like mail_type."),
        (
            {"timeout_min": 2, "signal_delay_s": 120},
            "signal_delay_s=120 in block 'x' must be less than the time limit, timeout_min=2 (120 s).",
        ),
        ({"setup": {"a": 1}}, "setup in block 'x' must be a list of shell lines, not {'a': 1}."),
    ],
)
def test_a_wrong_resource_is_one_sentence(tree, sentence):
    with pytest.raises(UsageError) as caught:
        read(tree, "block 'x'")
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("timeout: 5", "Unknown resource 'timeout'; did you mean 'timeout_min'?"),
        ("gpu_per_node: 1", "Unknown resource 'gpu_per_node'; did you mean 'gpus_per_node'?"),
        ("time: 5", "resources can't have 'time': the script of a job sets this option itself; "
         "docs/config.md lists the keys of resources."),
        ("job_name: x", "resources can't have 'job_name': the script of a job sets this option itself; "
         "docs/config.md lists the keys of resources."),
    ],
)  # fmt: skip
def test_an_option_of_sbatch_that_is_none_of_a_file_is_one_sentence(
    write_spec, tmp_path, capsys, line, sentence
):
    path = write_spec(SPEC.replace("partition: short", line))
    assert cli.main(["sweep", "plan", str(path), "--root", str(tmp_path)]) == EXIT_USAGE
    assert capsys.readouterr().err == f"htbench: {path}: {sentence}\n"


def test_all_other_keys_go_to_sbatch_as_they_are(tmp_path):
    tree = {"gres": "gpu:a100:1", "nodelist": "n1", "constraint": "a100|h100", "exclusive": True}
    tree |= {"comment": "two words", "nice": 10, "oversubscribe": False, "reservation": None}
    array = Submission("s", "w", ("a",))
    text = job_array.write_array_script(tmp_path, Snapshot(tmp_path, ""), array, read(tree, "resources"))
    lines = text.splitlines()
    expected = [
        "gres=gpu:a100:1",
        "nodelist=n1",
        "constraint='a100|h100'",
        "exclusive",
        "comment='two words'",
    ]
    assert {f"#SBATCH --{option}" for option in [*expected, "nice=10"]} <= {*lines}
    assert "oversubscribe" not in text and "reservation" not in text
    assert read(tree, "resources").asked()["gres"] == "gpu:a100:1", "so `submit` says it"


def test_the_warning_comes_a_tenth_before_the_limit_or_as_told():
    assert [Resources(timeout_min=n).warning_seconds for n in (5, 20, 600)] == [30, 120, 120]
    assert Resources(timeout_min=600, signal_delay_s=300).warning_seconds == 300


# --- arrays ---


@pytest.mark.parametrize(
    ("told", "size"),
    [
        ({}, 1001),
        ({"MaxArraySize": "50"}, 50),
        ({"MaxArraySize": "0"}, 1),
        ({"MaxArraySize": "1001", "SchedulerParameters": "bf_interval=1,max_array_tasks=20"}, 20),
        ({"MaxArraySize": "10", "SchedulerParameters": "max_array_tasks=20"}, 10),
        ({"MaxArraySize": "10", "SchedulerParameters": "(null)"}, 10),
    ],
)
def test_an_array_is_as_large_as_a_site_lets_it(monkeypatch, told, size):
    monkeypatch.setattr(slurm, "config", lambda: told)
    assert submit.max_array_size() == size


def test_arrays_hold_one_class_each_and_no_more_tasks_than_slurm_takes(tiny_spec):
    points = [one.point for one in search_points(tiny_spec)]
    twin = dataclasses.replace(points[0], block="gpu")  # two blocks want this run
    arrays = submit.group_into_arrays(tiny_spec, [twin, *points], largest=4)
    assert [[point.block for point in array.points] for array in arrays] == [
        ["cpu"] * 4,
        ["cpu", "also-cpu"],
        ["gpu"] * 2,
    ]
    assert [array.resources.gpus_per_node for array in arrays] == [0, 0, 1]


@pytest.mark.parametrize(("queued", "kept"), [(0, [4, 1]), (3, [2]), (5, []), (9, [])])
def test_a_submit_limit_counts_what_is_queued_already(tiny_spec, queued, kept):
    points = tuple(one.point for one in search_points(tiny_spec)[:5])
    limited = Resources(submit_limit=5)
    arrays = [Array(limited, points[:4]), Array(limited, points[4:])]
    assert [len(array.points) for array in submit.apply_submit_limit(arrays, queued)] == kept


# --- which runs ---


def test_only_what_is_neither_finished_nor_live_nor_queued_nor_failed_is_submitted(tiny_spec, tmp_path):
    alive = set()
    store = Store(tmp_path, alive=lambda owner, path: path.parent.parent.name in alive)
    planned = search_points(tiny_spec)
    keys = [one.point.key for one in planned]
    failed, live, dead = (store.claim(key, "") for key in keys[:3])
    assert all(isinstance(one, Attempt) for one in (failed, live, dead))
    failed.end(Reason.OOM, "too large")
    alive.add(keys[1])
    taken = {keys[3]: job("7_0", "x")}
    known = states(store, [one.point for one in planned]) | {keys[-1]: RunState(Status.DAMAGED)}
    report, todo = submit.select_pending(planned, taken, known)
    assert report.failed == {keys[0]: "oom"} and (report.live, report.queued) == (1, 1)
    assert [point.key for point in todo] == [keys[2], *keys[4:-1]]


def test_what_a_cancelled_job_still_saves_is_submitted_again(tiny_spec, tmp_path, monkeypatch):
    """Such jobs counted as queued, and a moment later nobody was at their runs."""
    planned = search_points(tiny_spec)[:2]
    word = submissions.intend(tmp_path_with_sweep(tmp_path), "tiny", [one.point.id for one in planned], {})
    submissions.answer(tmp_path, word, job="7")
    rows = [stand_in.row(f"7_{n}", "COMPLETING", name=word.name) for n in (0, 1)]
    folder = stand_in.install(tmp_path / "bin", *rows)
    for name in ("sbatch", "scontrol"):
        (folder / name).write_text(f"#!/bin/sh\necho {'8' if name == 'sbatch' else 'ClusterName = here'}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_CLUSTER_NAME", "here")
    monkeypatch.setattr(slurm, "_remembered", {})
    store = Store(tmp_path, alive=lambda owner, path: True)
    with monkeypatch.context() as job:
        job.setenv("SLURM_JOB_ID", "7")
        job.setenv("SLURM_ARRAY_JOB_ID", "7")
        job.setenv("SLURM_ARRAY_TASK_ID", "0")
        store.claim(planned[0].point.key, "")
    report = submit.submit(store, tiny_spec, planned)
    assert (report.submitted, report.ending) == (2, 1)
    assert Note("submit_ending", runs=1) in report.make_notes(tiny_spec, 2)


# --- what was submitted, by the files and by the queue ---


def test_an_array_of_version_0_1_whose_jobs_had_several_runs_is_left_out(tmp_path):
    submissions.intend(tmp_path_with_sweep(tmp_path), "tiny", ["aa", "bb"], {"runs_per_job": 2})
    one = submissions.intend(tmp_path, "tiny", ["cc"], {"runs_per_job": 1})
    assert submissions.read(tmp_path, "tiny") == [one] and not submissions.is_damaged(tmp_path)


def tmp_path_with_sweep(root):
    (root / "sweeps" / "tiny").mkdir(parents=True)
    return root


def test_a_job_is_known_by_the_word_that_its_name_ends_in(tiny_spec, tmp_path):
    points = [one.point for one in search_points(tiny_spec)]
    root = tmp_path_with_sweep(tmp_path)
    label = queue.label_blocks([points[0], points[-1]])
    new = submissions.intend(root, "tiny", ["aa", "bb"], {"label": label})
    old = submissions.intend(root, "tiny", ["cc"], {})  # of version 0.1
    assert label == "cpu+1" and new.name == f"tiny.cpu+1.{new.word}" and old.name == f"tiny.{old.word}"
    assert submissions.read(root, "tiny") == [new, old]
    jobs = [
        job("8_0", new.name),
        job("8_1", f"tiny.cpu.lr=0.02.{new.word}", "RUNNING"),
        job("9", old.name),
        job("10", "tiny.other"),
    ]
    jobs = {one.id: one for one in jobs}
    taken = queue.map_jobs([new, old], jobs)
    assert {point: one.id for point, one in taken.items()} == {"aa": "8_0", "bb": "8_1", "cc": "9"}
    queue.recover_ids(root, {"8_1": jobs["8_1"]})
    assert submissions.read(root, "tiny")[0] == dataclasses.replace(new, job="8")
    assert dataclasses.replace(new, job="8").jobs() == {"8_0": "aa", "8_1": "bb"}
    assert dataclasses.replace(old, job="9").jobs() == {"9": "cc"}, "one run is no array"


def test_a_name_has_nothing_that_a_shell_reads():
    point = Point("s", "a b;$(x) \"#'", "search", "", {"seed": 0}, slot="study/3")
    assert queue.label_blocks([point]) == "a_b_x_"
    assert queue.label_blocks([dataclasses.replace(point, block="a" + "ä" * 80)]) == "a" + "ä" * 39, (
        "80 bytes"
    )


def test_a_torn_line_loses_its_submission_only(tmp_path):
    first = submissions.intend(tmp_path_with_sweep(tmp_path), "tiny", ["aa"], {"code": "v1"})
    path = tmp_path / "sweeps" / "tiny" / "submissions.jsonl"
    path.write_bytes(path.read_bytes() + b'{"submission": "012345')
    second = submissions.intend(tmp_path, "tiny", ["bb"], {})
    submissions.answer(tmp_path, second, refused="no room")
    assert submissions.read(tmp_path, "tiny") == [first, dataclasses.replace(second, refused="no room")]


def test_what_a_site_limit_refuses_goes_in_by_halves(tiny_spec, tmp_path, monkeypatch):
    sizes = []

    def picky(root, code, one, resources, points):
        sizes.append(len(points))
        if len(points) > 2:
            raise RefusedError("AssocMaxSubmitJobLimit; Job violates accounting/QOS policy")
        return "5"

    monkeypatch.setattr(job_array, "submit", picky)
    points = tuple(one.point for one in search_points(tiny_spec))
    report = submit.Report()
    root = tmp_path_with_sweep(tmp_path)
    submit.submit_array(
        root, Snapshot(root / "code" / "v1", ""), tiny_spec, Array(Resources(), points), report
    )
    assert sizes == [8, 4, 2] and report.submitted == 2 and "AssocMaxSubmitJobLimit" in report.refusal


def test_without_an_answer_of_sbatch_the_next_call_looks_in_the_queue(tiny_spec, tmp_path, monkeypatch):
    def silent(*_):
        raise UnsureError("sbatch: no answer within 20 s")

    monkeypatch.setattr(job_array, "submit", silent)
    points = tuple(one.point for one in search_points(tiny_spec)[:2])
    root = tmp_path_with_sweep(tmp_path)
    with pytest.raises(UsageError) as caught:
        submit.submit_array(
            root, Snapshot(root / "code" / "v1", ""), tiny_spec, Array(Resources(), points), submit.Report()
        )
    assert str(caught.value) == (
        "2 jobs of 'tiny' may be in the queue (sbatch: no answer within 20 s). Give the same command again: "
        "it finds them there, or submits them anew."
    )
    (one,) = submissions.read(root, "tiny")
    assert not one.refused
    jobs = {f"8_{n}": job(f"8_{n}", one.name) for n in (0, 1)}
    queue.recover_ids(root, jobs)
    assert submissions.read(root, "tiny")[0].job == "8"


@pytest.mark.parametrize(
    ("named", "fewer_would_go"),
    [
        ("", True),
        ("AssocMaxSubmitJobLimit; ", True),
        ("QOSMaxSubmitJobPerUserLimit; ", True),
        ("AssocGrpSubmitJobsLimit; ", True),
        ("QOSMaxWallDurationPerJobLimit; ", False),
        ("QOSMaxGRESPerJob; ", False),
        ("QOSMinGRES; ", False),
    ],
)
def test_a_limit_on_one_job_is_not_one_on_their_number(named, fewer_would_go):
    general = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
    assert submit.is_limit(f"{named}Batch job submission failed: {general}") is fewer_would_go


def test_cancelling_goes_on_after_a_failure_and_takes_twins_along(tmp_path, monkeypatch):
    monkeypatch.setattr(queue, "current_user", lambda: "anna")
    first = submissions.intend(tmp_path_with_sweep(tmp_path), "tiny", ["aa", "bb"], {})
    again = submissions.intend(tmp_path, "tiny", ["aa", "bb"], {})  # the first seemed not to be taken
    jobs = [job("8_0", first.name, "RUNNING"), job("8_1", first.name), job("9_1", again.name)]
    jobs += [job("7", again.name, user="bert")]
    monkeypatch.setattr(slurm, "queue", lambda age=0.0: {one.id: one for one in jobs})
    monkeypatch.setattr(queue, "AT_A_TIME", 1)
    called = []

    def scancel(*words):
        called.append(words)
        if "8" in words:
            raise slurm.SlurmError("SLURM does not answer")
        return ""

    monkeypatch.setattr(slurm, "call", scancel)
    with pytest.raises(slurm.SlurmError):
        queue.cancel(tmp_path, "tiny")
    assert called == [("scancel", "--quiet", "8"), ("scancel", "--quiet", "9")]


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A SLURM with an empty queue that takes all arrays; returns the ids that were submitted."""
    taken = []
    monkeypatch.setattr(slurm, "queue", lambda age=0.0: {})
    monkeypatch.setattr(slurm, "ending", lambda age=0.0: {})
    monkeypatch.setattr(slurm, "config", dict)
    monkeypatch.setattr(slurm, "require", lambda command: None)
    monkeypatch.setattr(snapshot, "take", lambda root, configs: Snapshot(root / "code" / "v1", ""))
    monkeypatch.setattr(
        job_array, "submit", lambda root, code, one, resources, points: taken.append(one.points) or "7"
    )
    return taken


def test_one_block_is_submitted_and_the_plan_keeps_the_others(
    write_spec, tmp_path, site, capsys, monkeypatch
):
    def fail(*_):
        raise NotProbedError("It takes too long.")

    monkeypatch.setattr(cost_card, "probe", fail)
    path, root = write_spec(SPEC), tmp_path / "store"
    points = [one.point for one in search_points(spec.load(path))]
    words = ["sweep", "submit", str(path), "--root", str(root), "--block"]
    assert cli.main([*words, "gpu"]) == 0
    assert site == [tuple(point.id for point in points if point.block == "gpu")]
    assert "tiny: 2 runs, 2 submitted\n" in capsys.readouterr().out
    assert submissions.read(root, "tiny")[0].label == "gpu", "so `squeue` names it"
    assert read_points(root, "tiny") == points
    assert cli.main([*words, "gpu", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "#SBATCH --job-name=tiny.gpu." in out and "tiny.cpu" not in out
    lines = out[out.index("#!/bin/bash") :].splitlines()
    assert all(line.startswith(("#SBATCH", "#!", "# P")) or not line for line in lines[:10]), (
        "what is asked for"
    )
    assert "import hashlib" not in out and len(lines) < 45, "no Python between it and the end"
    plan = ["sweep", "plan", str(path), "--no-measure", "--sbatch", "--json", "--root", str(root)]
    assert cli.main(plan) == 0
    assert "import hashlib" in capsys.readouterr().out, "programs get all of it"


@pytest.mark.parametrize("words", [[], ["--dry-run"]])
@pytest.mark.parametrize(
    ("name", "store", "wants", "sentence"),
    [
        ("ä" * 64, "store", "", "has 128 bytes, .* room for 127; give"),
        ("a" + "ä" * 63, "store", "", ""),
        ("tiny", "a,b", "", ""),
    ],
)
def test_names_that_no_job_can_have_are_refused(
    write_spec, tmp_path, site, capsys, name, store, wants, sentence, words
):
    text = "base: {task: digits, model: resnet-nano, steps: 2}\nblocks: [{name: b}]\n"
    path = write_spec(f"name: {name}\n{text}resources: {{{wants}}}\n")
    done = cli.main(["sweep", "submit", str(path), "--root", str(tmp_path / store), *words])
    err = capsys.readouterr().err
    assert (done, bool(re.search(sentence, err))) == (EXIT_USAGE if sentence else 0, True), err
    assert (site == []) == bool(sentence or words) and (not sentence or err.count("\n") == 1)


@pytest.mark.parametrize("action", ["submit", "cancel"])
def test_an_unknown_block_is_one_sentence(write_spec, tmp_path, site, capsys, action):
    words = ["sweep", action, str(write_spec(SPEC)), "--root", str(tmp_path / "store"), "--block", "gpus"]
    assert cli.main(words) == EXIT_USAGE
    assert capsys.readouterr().err == "htbench: Unknown block 'gpus'; did you mean 'gpu'?\n"


def test_the_jobs_of_one_block_are_cancelled(write_spec, tmp_path, monkeypatch, capsys):
    path, root = write_spec(SPEC), tmp_path / "store"
    tiny = spec.load(path)
    planned = search_points(tiny)
    write_plan(root, tiny, planned)
    ids = {one.point.id: one.point.block for one in planned}
    one = submissions.intend(root, "tiny", list(ids), {})
    jobs = [job(f"8_{task}", one.name) for task in range(len(ids))] + [job("9", "tiny.other")]
    called = []
    monkeypatch.setattr(queue, "current_user", lambda: "anna")
    monkeypatch.setattr(slurm, "queue", lambda age=0.0: {one.id: one for one in jobs})
    monkeypatch.setattr(slurm, "require", lambda command: None)
    monkeypatch.setattr(slurm, "call", lambda *words: called.append(words))
    path.write_text(SPEC.replace("name: gpu", "name: renamed"))  # its jobs still have the old name
    assert cli.main(["sweep", "cancel", str(path), "--root", str(root), "--block", "gpu"]) == 0
    tasks = [f"8_{task}" for task, block in enumerate(ids.values()) if block == "gpu"]
    assert called == [("scancel", "--quiet", *tasks)] and len(tasks) == 2
    assert capsys.readouterr().out == "tiny: 2 jobs cancelled\n"


# --- the text and the order ---


def test_the_text_asks_for_what_the_file_says(tmp_path):
    wants = Resources(
        timeout_min=90,
        gpus_per_node=2,
        cpus_per_task=8,
        mem="16G",
        array_parallelism=3,
        options={"account": "lab", "mail_type": "FAIL"},
        setup=("module load cuda",),
    )
    text = job_array.write_array_script(
        tmp_path, Snapshot(tmp_path / "code" / "v1", ""), Submission("s", "w", ("a", "b", "c", "d")), wants
    )
    for line in (
        *("--time=90", "--gpus-per-node=2", "--cpus-per-task=8", "--mem=16G", "--array=0-3%3", "--requeue"),
        *("--account=lab", "--mail-type=FAIL", "--signal=USR2@120", "--job-name=s.w", "--open-mode=append"),
        f"--output={tmp_path}/sweeps/s/logs/w/%A_%a_0_log.out",
    ):
        assert f"#SBATCH {line}\n" in text
    assert " --export=ALL " in text, "the job may be one of a site with SBATCH_EXPORT=NONE"
    assert "\nexport HTBENCH_GPUS_PER_NODE=2\n" in text
    assert "wckey" not in text and "\nmodule load cuda\n" in text
    assert text.index("module load cuda") < text.index("export PYTHONPATH"), "ours come last and win"
    assert "--array" not in job_array.write_array_script(
        tmp_path, Snapshot(tmp_path, ""), Submission("s", "w", ("a",)), wants
    )


@pytest.mark.parametrize(
    ("wants", "starts"),
    [
        (Resources(), [sys.executable, "-I"]),
        (Resources(python="/env/bin/python"), ["/env/bin/python", "-I"]),
        (Resources(srun_args=("--container-image=a",)), ["--container-image=a", "python3", "-I"]),
        (
            Resources(container="/my.sif", gpus_per_node=1),
            ["apptainer", "exec", "--nv", "--bind", "ROOT,CODE", "--pwd", "CODE", "/my.sif", "python3", "-I"],
        ),
        (
            Resources(container="docker://a/b", python="/opt/python", srun_args=("--mpi=pmix",)),
            ["--mpi=pmix", "apptainer", "exec", "--bind", "ROOT,CODE", "--pwd", "CODE", "docker://a/b"],
        ),
    ],
)
def test_a_job_starts_in_its_environment(tmp_path, wants, starts):
    root, code = tmp_path / "a store", tmp_path / "a store" / "code" / "v1"
    text = job_array.write_array_script(
        root, Snapshot(code, "d1"), Submission("s", "w", ("a",)), wants, 1, b"d2"
    )
    words = srun_words(text)
    begin = words.index("--export=ALL") + 1
    names = [word.replace("CODE", str(code)).replace("ROOT", str(root)) for word in starts]
    assert words[begin : begin + len(names)] == names
    assert words[-10:-8] == [str(code), "d1"], "the code is checked first"
    assert words[-8:-4] == [wants.interpreter, "-u", "-m", "htbench.sweeps.cluster.job"]
    assert words[-3:] == [hashlib.sha256(b"d2").hexdigest(), str(root), str(code)]


def test_what_jobs_do_is_there_before_they_are(tiny_spec, tmp_path, monkeypatch):
    points = [one.point for one in search_points(tiny_spec)[:4]]
    one = Submission("tiny", "w", tuple(point.key for point in points))
    folder = job_array.log_folder(tmp_path, one)
    program = tmp_path / "bin" / "sbatch"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\ncp {folder}/order.json {tmp_path}/seen\ncat > {tmp_path}/script\necho 8\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    code = Snapshot(CODE, "")
    assert job_array.submit(tmp_path, code, one, Resources(), points) == "8"
    assert sorted(path.name for path in folder.iterdir()) == ["order.json", "submission.sh"]
    content = job_array.encode_order(points)
    assert (tmp_path / "seen").read_bytes() == content
    text = job_array.write_array_script(tmp_path, code, one, Resources(), content=content)
    assert (tmp_path / "script").read_text() == (folder / "submission.sh").read_text() == text
