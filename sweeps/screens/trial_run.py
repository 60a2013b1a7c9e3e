"""`sweep try`: what is understood of a program's output, before two hundred jobs start. Torch-free."""

import shutil
import tempfile
import threading
import time
from pathlib import Path

from htbench.harness.config import RunConfig, programs
from htbench.harness.config.key import run_key
from htbench.harness.errors import RunFailedError, StoppedError
from htbench.harness.show.note import Note
from htbench.harness.show.report import Column, Report, table
from htbench.harness.store import Store
from htbench.harness.train.monitor import Monitor
from htbench.harness.train.program import run_program
from htbench.harness.train.reports import Reported, from_results, read
from htbench.sweeps.plan.program_copy import copy_program
from htbench.sweeps.spec.sweep import SweepSpec


def try_program(spec: SweepSpec, config: RunConfig, seconds: float) -> Report:
    """Let a program make a run for some seconds, and report what it reported.

    Args:
        spec: the sweep.
        config: of the run.
        seconds: after which it is asked to stop.
    """
    monitor, program, key = Monitor(), programs.of(config), run_key(config)

    def stop() -> None:
        monitor.stop_requested = True

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="htbench-try-") as folder:
        store = Store(Path(folder))
        copy_program(store.root, program)
        try:
            run_program(config, store, monitor)
            ended = [Note("try_ended")]
        except StoppedError:
            ended = [Note("try_stopped", seconds=seconds)]
        except RunFailedError:
            why, *output = store.state(key).message.rstrip().splitlines()
            ended = [Note("try_failed", why=why), *(Note("try_output", line=line) for line in output)]
        took = time.monotonic() - began
        files = store.files(key)
        reported = Reported([*read(files.metrics), *from_results(files.program, program.results)])
    timer.cancel()
    chosen = "chosen by it" if program.report else "chosen by it, and reported"
    uses = {program.report: "reported", program.metric: chosen}
    lines = [
        [name, len(values), min(values), max(values), values[max(values)], uses.get(name, "")]
        for name, values in reported.series.items()
    ]
    columns = [Column("metric", kind="text"), Column("values"), Column("first step"), Column("last step")]
    columns += [Column("last value"), Column("used", kind="text")]
    steps = reported.last_step
    notes = [*ended, *([Note("try_pace", steps=steps, seconds=took / steps)] if steps else [])]
    missing = [name for name in (program.metric, program.report) if name and name not in reported.series]
    notes += [Note("try_missing", metrics=missing)] if missing else []
    if ended[0].kind == "try_ended" and steps and len(reported.series.get(program.metric, ())) == 1:
        notes.append(Note("try_once", metric=program.metric))
    words, _ = programs.command(config, {"run_dir": "RUN_DIR"})
    above = [Note("try_command", sweep=spec.name, command=" ".join(words))]
    if (place := shutil.which(words[0])) and place != words[0]:
        above.append(Note("try_starts", word=words[0], place=place))
    return Report("sweep try", "", [table(columns, lines, above=[*notes, *above])])
