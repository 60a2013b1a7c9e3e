"""One run of a program: claim it, start the program, read what it reports, and write its record. Torch-free.

What decides how it ended, in this order: it said that it diverged, or its metric is not finite: diverged.
We stopped it: the run waits. Its exit status is not 0, or it never reported its metric: failed. Else it is
completed. Its status alone tells no preemption: torchrun turns SIGTERM into 1.
"""

import codecs
import contextlib
import ctypes
import json
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from htbench.harness.config import RunConfig, programs, template
from htbench.harness.config.key import run_key
from htbench.harness.config.programs import Program
from htbench.harness.config.settings import stored_form, to_yaml
from htbench.harness.errors import RunFailedError, StoppedError, UsageError
from htbench.harness.show.status import Status
from htbench.harness.store import Attempt, Reason, Store
from htbench.harness.store.layout import programs_folder
from htbench.harness.store.record import RunRecord, timestamp
from htbench.harness.system import atomic, environment
from htbench.harness.train.claim import claim_patiently, take
from htbench.harness.train.monitor import STOP_SIGNALS, Monitor
from htbench.harness.train.reports import Reader, Reported, from_results, read

RUN_DIR, METRICS, ATTEMPT, KEY, SEED = (
    f"HTBENCH_{name}" for name in ("RUN_DIR", "METRICS", "ATTEMPT", "KEY", "SEED")
)
# A killed program's last lines would be lost in a buffer; trackers would ask for a login.
_UNLESS_SET = {"PYTHONUNBUFFERED": "1", "WANDB_MODE": "offline"}

GRACE = 25.0  # seconds to save after a signal; SLURM kills 30 after its SIGTERM
GRACE_BEFORE_LIMIT = 90.0  # after SIGUSR2, which comes well before the time limit
_LOOK = 0.1  # seconds between two looks at a program
_CHECK = 10.0  # seconds between two looks whether another process has taken the run over
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)


def run_program(config: RunConfig, store: Store, monitor: Monitor) -> RunRecord:
    """Let a program make one run, unless its record exists already.

    Args:
        config: of the run, with its program.
        store: the store of the run; the program runs in its copy there.
        monitor: stop requests.

    Returns:
        the record, new or found.

    Raises:
        RunFailedError: the run failed now or earlier, or another process makes it.
        StoppedError: `monitor` asked for a stop.
        LostOwnershipError: another process took the run over.
        UsageError: the program's copy is gone.
    """
    key, program = run_key(config), programs.of(config)
    claim = take(key, claim_patiently(key, to_yaml(config), store, monitor))
    if isinstance(claim, RunRecord):
        return claim
    with claim as attempt:
        try:
            reported = _execute(config, program, attempt, store, monitor)
            rows = reported.curve(program)
            attempt.check()
            atomic.write_text(attempt.files.metrics, "".join(json.dumps(row) + "\n" for row in rows))
            return attempt.finish(_record(config, program, attempt, reported))
        except StoppedError:
            attempt.end(Reason.STOPPED)
            raise
        except RunFailedError as error:
            attempt.end(Reason.ERROR, str(error))
            raise RunFailedError(f"Run {key} failed: {error} See {attempt.files.log}.") from error
        except (OSError, UsageError) as error:
            attempt.end(Reason.STOPPED, str(error))
            raise


# --- the process ---


def _execute(
    config: RunConfig, program: Program, attempt: Attempt, store: Store, monitor: Monitor
) -> Reported:
    """Run the program to its end and return what it reported in all attempts."""
    files = attempt.files
    copied = programs_folder(store.root) / program.files
    if not copied.is_dir():
        raise UsageError(f"'{copied}', the copy of the program, is gone; `sweep run FILE` makes it anew.")
    if attempt.number > 1:
        _kill_leftovers(files.program)
    words, variables = _command(config, program, attempt)
    files.program.mkdir(parents=True, exist_ok=True)
    reader = Reader(program.log, files.metrics)
    attempt.note_start(0, 0)
    with files.log.open("ab") as log:
        log.write(f"$ {' '.join(words)}\n".encode())
        log.flush()
        try:
            process = subprocess.Popen(
                words,
                cwd=copied,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent() if sys.platform == "linux" else None,
            )
        except OSError as error:
            raise RunFailedError(f"The program can't be started: '{words[0]}': {error.strerror}.") from None
        trouble: list[OSError] = []
        listener = threading.Thread(target=_listen, args=(process, reader, log, trouble), daemon=True)
        listener.start()
        stopped = _wait(process, attempt, monitor)
        listener.join(timeout=5.0)  # a grandchild that lives on may hold the pipe open
    if trouble:
        raise trouble[0]
    reported = Reported([*read(files.metrics), *from_results(files.program, program.results)])
    reported_value = reported.series.get(program.metric)
    if reported.diverged or (reported_value and reported.value(program.metric, program) is None):
        return reported
    if stopped or (process.returncode and _is_stopping(process.returncode, monitor)):
        raise StoppedError(f"Run {attempt.key} was stopped; the same command goes on with it.")
    if process.returncode:
        raise RunFailedError(_how_it_failed(process.returncode, reader.last))
    if reader.lost:
        raise RunFailedError("Some of its metrics could not be written, so none of them can be trusted.")
    if not reported_value:
        raise RunFailedError(_what_is_missing(program.metric, reported))
    if program.report and not reported.series.get(program.report):
        raise RunFailedError(_what_is_missing(program.report, reported))
    return reported


def _command(config: RunConfig, program: Program, attempt: Attempt) -> tuple[list[str], dict[str, str]]:
    """The words that start this attempt, and all variables of its environment."""
    files = attempt.files
    where = str(files.program.resolve())
    values = {"run_dir": where, "attempt": attempt.number, "key": attempt.key}
    exists = program.resume.get("exists", "")
    how = program.resume.get("how") or ("self" if exists else "none")
    if how == "none" and attempt.number > 1:
        for path in (files.program, files.metrics):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    words, env = programs.command(config, values)
    if exists and attempt.number > 1 and Path(template.fill(exists, values)).exists():
        given = programs.settings(config)
        words += template.words(program.resume.get("args", ""), given, values)
    said = {RUN_DIR: where, METRICS: str(files.metrics.resolve()), KEY: attempt.key}
    said |= {ATTEMPT: str(attempt.number)} | ({} if program.seeds == "none" else {SEED: str(config.seed)})
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONSAFEPATH",)}
    return words, {**_UNLESS_SET, **inherited, **env, **said}


def _die_with_parent() -> Callable[[], object]:
    """What lets a child get SIGKILL when the process that started it is gone."""
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def _listen(process: subprocess.Popen[bytes], reader: Reader, log: Any, trouble: list[OSError]) -> None:
    """Copy the program's output into the log as it comes, and read what it reports.

    If the disk is full, the program is not held up: its output is read on and lost.
    """
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    assert process.stdout is not None
    with process.stdout as output:
        while data := os.read(output.fileno(), 1 << 16):
            try:
                log.write(data)
                log.flush()
                reader.read(decoder.decode(data))
            except (OSError, ValueError) as error:  # the log may be closed, if a grandchild lives on
                trouble += [error] if isinstance(error, OSError) else []
        try:
            reader.read("", ended=True)
        except OSError as error:
            trouble.append(error)


def _wait(process: subprocess.Popen[bytes], attempt: Attempt, monitor: Monitor) -> bool:
    """Wait for the end of the program, then end its process group; whether we asked it to stop."""
    stopped, limit, due = False, math.inf, time.monotonic() + _CHECK
    try:
        while process.poll() is None:
            if monitor.stop_requested and not stopped:
                stopped = True
                early = signal.SIGUSR2 in monitor.signals and signal.SIGTERM not in monitor.signals
                _signal_group(process, signal.SIGUSR2 if early else signal.SIGTERM)
                limit = time.monotonic() + (GRACE_BEFORE_LIMIT if early else GRACE)
            if time.monotonic() > limit:
                _signal_group(process, signal.SIGKILL)
            if time.monotonic() > due:
                attempt.check()
                due = time.monotonic() + _CHECK
            time.sleep(_LOOK)
    finally:
        _signal_group(process, signal.SIGKILL)  # with what it has left behind
    return stopped


def _is_stopping(status: int, monitor: Monitor) -> bool:
    """Whether a signal that asks us to stop has ended the program: SLURM sends its warning to all processes.

    The program may have died of it before we have noticed ours.
    """
    if -status in STOP_SIGNALS:
        time.sleep(_LOOK)
    return monitor.stop_requested


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _kill_leftovers(run_dir: Path) -> None:
    """Kill what earlier attempts on this machine have left: it would write where the program writes now."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(RUN_DIR) == str(run_dir.resolve()):
                process.kill()


# --- the outcome ---


def _how_it_failed(status: int, last: list[str]) -> str:
    """Why a program failed, with its last lines."""
    if status < 0:
        name = signal.Signals(-status).name
        memory = "; the machine's memory may have been full" if status == -signal.SIGKILL else ""
        how = f"{name} killed it{memory}"
    else:
        how = f"it ended with status {status}"
    return f"{how}, after these lines:\n" + "\n".join(last) + "\n" if last else f"{how}, without a word."


def _what_is_missing(metric: str, reported: Reported) -> str:
    """Why a program that ended well has no result."""
    if metric in reported.words:
        return f"it reported {metric} as text, {json.dumps(reported.words[metric])}, not as a number."
    known = ", ".join(sorted(reported.series)) or "nothing"
    return f"it never reported {metric}; it reported {known}."


def _record(config: RunConfig, program: Program, attempt: Attempt, reported: Reported) -> RunRecord:
    metrics = {name: reported.value(name, program) for name in reported.series}
    results = {"val": metrics.get(program.metric), "test": metrics.get(program.report or program.metric)}
    diverged = reported.diverged or results["val"] is None
    ours = {f"{split}_{program.shown_metric}": None if diverged else x for split, x in results.items()}
    # Other values of the program by these names stay, too.
    metrics |= {f"reported_{name}": x for name, x in metrics.items() if ours.get(name, x) != x} | ours
    task = programs.task(config)
    return RunRecord(
        key=attempt.key,
        config=json.loads(json.dumps(stored_form(config))),  # as it is read again: lists, no tuples
        status=Status.DIVERGED if diverged else Status.COMPLETED,
        metrics=metrics,
        steps=max(reported.series.get(program.metric, ()), default=0) or reported.last_step,
        useful_seconds=_seconds(attempt),
        seconds_per_step=None,
        timing={},
        peak_memory=resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024,
        cost={},
        attempts=attempt.number,
        environment=environment.describe("cpu", config.data_fingerprint)
        | {"task": {"kind": task.kind, "metric": task.metric, "higher_is_better": task.higher_is_better}},
        began=timestamp(attempt.first_began),
        ended=timestamp(time.time()),
        divergence={"kind": "metric_not_finite", "metric": program.metric} if diverged else {},
    )


def _seconds(attempt: Attempt) -> float:
    """Seconds of all attempts."""
    earlier = [attempt.store.attempt(attempt.key, number) for number in range(1, attempt.number)]
    before = sum(max(0.0, (one.get("ended") or 0.0) - one.get("began", 0.0)) for one in earlier)
    return float(before + time.time() - attempt.began)
