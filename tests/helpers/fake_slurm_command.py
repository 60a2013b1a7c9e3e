"""The stand-ins of `tests/helpers/fake_slurm.py`. Words: its folder, the command, what that was given."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

PLACE, COMMAND, WORDS = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]


def squeue(jobs):
    for id in [id for id in jobs if (PLACE / f"{id}.ended").exists()]:
        del jobs[id]
    told = json.loads((PLACE / "squeue.json").read_text())
    rows = [
        (id, state, str(sum(restarts)), told["user"], "Priority", "N/A", "N/A", "0:00", name, id)
        for id, (state, name, *restarts) in jobs.items()
    ]
    for row in (told["head"], *rows):
        print("".join(word.ljust(width) for word, width in zip(row, told["widths"], strict=True)))


def scontrol(jobs):
    if WORDS[:2] == ["show", "config"]:
        print("MaxArraySize = 1001")
    elif WORDS[0] == "requeue":
        _, name, *restarts = jobs[WORDS[1]]
        jobs[WORDS[1]] = ["PENDING", name, sum(restarts) + 1]
    else:
        shown = {id: job for id, job in jobs.items() if WORDS[-1] in (id, id.partition("_")[0])}
        ended = PLACE / f"{WORDS[-1]}.ended"
        if ended.exists():
            shown = {WORDS[-1]: ["COMPLETED" if ended.read_text() == "0\n" else "FAILED", ""]}
        if not shown:
            sys.exit("slurm_load_jobs error: Invalid job id specified")
        for id, (state, name, *_) in shown.items():
            array, _, task = id.partition("_")
            of_array = f"ArrayJobId={array} ArrayTaskId={task} " if task else ""
            print(f"JobId={array} {of_array}JobName={name} JobState={state}")


def sbatch(jobs):
    refusal = PLACE / ("refuse-test" if "--test-only" in WORDS else "refuse")
    if refusal.exists():
        sys.exit(refusal.read_text())
    text = sys.stdin.read()
    if "--partition=nowhere" in text:
        sys.exit("sbatch: error: invalid partition specified: nowhere")
    if "--test-only" in WORDS:
        return
    number = int((PLACE / "number").read_text()) + 1
    (PLACE / "number").write_text(str(number))
    name, tasks = re.search("--job-name=(.*)", text)[1], re.search(r"--array=0-(\d+)", text)
    ids = [f"{number}_{task}" for task in range(int(tasks[1]) + 1)] if tasks else [str(number)]
    jobs.update({id: ["PENDING", name] for id in ids})
    if (PLACE / "node").is_dir():
        jobs[str(number)] = ["RUNNING", name]
        begin(number, text)
    print("Submitted batch job", number)


def begin(number, text):
    """Run a job's script, on a node with its own stand-ins."""
    log = re.search("--output=(.*)", text)[1].replace("%j", str(number))
    script = PLACE / f"{number}.sh"
    script.write_text(text)
    told = {"SLURM_JOB_ID": str(number), "SLURMD_NODENAME": "n1", "HTBENCH_FAKE_LOG": log}
    told["PATH"] = f"{PLACE / 'node'}:{os.environ['PATH']}"
    shell = 'bash "$0" >> "$HTBENCH_FAKE_LOG" 2>&1; echo $? > "$1.tmp"; mv "$1.tmp" "$1"'
    subprocess.Popen(
        ["/bin/sh", "-c", shell, script, PLACE / f"{number}.ended"],
        env=os.environ | told,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def scancel(jobs):
    names = {word.removeprefix("--name=") for word in WORDS if word.startswith("--name=")}
    for job, (_, name, *_) in list(jobs.items()):
        if name in names or {job, job.partition("_")[0]} & {*WORDS}:
            del jobs[job]


queue = json.loads((PLACE / "jobs.json").read_text())
with (PLACE / "called").open("a") as log:
    print(COMMAND, *WORDS, file=log)
{"squeue": squeue, "scontrol": scontrol, "sbatch": sbatch, "scancel": scancel}[COMMAND](queue)
(PLACE / "jobs.json").write_text(json.dumps(queue))
