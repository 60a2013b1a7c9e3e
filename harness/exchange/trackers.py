"""The files of TensorBoard and Weights & Biases, one per run. Neither is imported before it is asked for.

The name of a file follows from its run, and a file is complete or not there: an export adds what is missing.
"""

import os
import tempfile
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from htbench.harness.errors import RunFailedError
from htbench.harness.exchange.outgoing import Outgoing
from htbench.harness.show.numbers import setting
from htbench.harness.system import atomic
from htbench.harness.system.folders import make_folder

TENSORBOARD, WANDB = "tensorboard", "wandb"  # also the names of the package and of the extra
TRACKERS = (TENSORBOARD, WANDB)
# Both programs know their files by these names: `tfevents`, and a folder `offline-run-<time>-<id>`.
_EVENTS = "events.out.tfevents.0.htbench"
_VERSION = "brain.Event:2"  # the first event of every file


def write(tracker: str, home: Path, run: Outgoing, project: str) -> bool:
    """Write the file of a run below `home` unless it is there; whether it was missing.

    Raises:
        RunFailedError: the tracker refuses the run.
    """
    if tracker == TENSORBOARD:
        if next(home.glob(f"*/{run.name}/{_EVENTS}"), None):  # perhaps in the folder of another of its sweeps
            return False
        path, content = home / run.group / run.name / _EVENTS, _events_file
    else:
        began = datetime.fromtimestamp(run.began, timezone.utc)
        path = home / f"offline-run-{began:%Y%m%d_%H%M%S}-{run.key}" / f"run-{run.key}.wandb"
        content = _wandb_file
        if path.exists():
            return False
    data = content(run, project)
    make_folder(path.parent)
    unfinished = path.parent / "unfinished"  # a name that neither program reads meanwhile
    atomic.remove_temporaries(path.parent)
    atomic.write_bytes(unfinished, data)
    os.rename(unfinished, path)
    return True


def _events_file(run: Outgoing, project: str) -> bytes:
    """The curve as scalars and the config as hparams.

    TensorBoard's own writer works in a thread and names its file after time, host and process. Made of its
    messages and records, the same run has the same bytes.
    """
    import io

    from tensorboard.summary.writer.record_writer import RecordWriter

    file = io.BytesIO()
    writer = RecordWriter(file)
    for event in _events(run):
        writer.write(event.SerializeToString(deterministic=True))
    return file.getvalue()


def _events(run: Outgoing) -> Iterator[Any]:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb

    yield Event(wall_time=run.began, file_version=_VERSION)
    settings = {
        name: value if isinstance(value, bool | int | float) else setting(value)
        for name, value in run.config.items()
    }
    yield Event(wall_time=run.began, summary=hparams_pb(settings, run.key, run.began))
    rows = dict(run.rows())
    in_curve = {name for values in rows.values() for name in values}
    last = {name: value for name, value in run.summary.items() if name not in in_curve}  # it has no summary
    for step, row in sorted((rows | {run.steps: rows.get(run.steps, {}) | last}).items()):
        values = [Summary.Value(tag=name, simple_value=value) for name, value in row.items()]
        yield Event(wall_time=run.time(step), step=step, summary=Summary(value=values))


# This machine did not make the run: nothing of it belongs into the run.
_SETTINGS: dict[str, Any] = {
    "silent": True,
    "console": "off",
    "disable_git": True,
    "save_code": False,
    "host": "",
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_disable_machine_info": True,
    "x_save_requirements": False,
}


def _wandb_file(run: Outgoing, project: str) -> bytes:
    """What an offline run leaves; `wandb sync` uploads it."""
    os.environ.update(WANDB_SILENT="true", WANDB_ERROR_REPORTING="false")  # read when it is imported
    import wandb

    words = [run.config.get(f"htbench.{name}", "") for name in ("stage", "status")]
    with tempfile.TemporaryDirectory() as scratch:
        try:
            live = wandb.init(
                mode="offline",
                dir=scratch,
                project=project,
                id=run.key,
                name=run.name,
                group=run.group,
                job_type=words[0] or "run",
                tags=list(filter(None, words)),
                config=dict(run.config),
                settings=wandb.Settings(**_SETTINGS),
            )
            for step, row in run.rows():
                time = {"_timestamp": run.time(step)} if run.began else {}
                live.log(row | time, step=step)
            live.summary.update(dict(run.summary))
            live.finish()
            wandb.teardown()  # `finish` returns while a process of wandb still writes; this waits for its end
        except wandb.Error as error:
            raise RunFailedError(f"wandb refuses run {run.key}: {error}.") from error
        (path,) = Path(scratch).glob("wandb/offline-run-*/*.wandb")
        return path.read_bytes()
