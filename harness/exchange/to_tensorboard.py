"""TensorBoard: `DIR/<sweep>/<name>/` with one events file: the curve as scalars, the config as hparams.

TensorBoard's own writer works in a thread and names its file after time, host and process. Here the file is
made of TensorBoard's messages and records, so the same run gives the same bytes.
"""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from harness.exchange.destination import Destination, Options, held
from harness.exchange.outgoing import Outgoing
from harness.show.numbers import setting

EVENTS = "events.out.tfevents.0.htbench"  # TensorBoard reads files with `tfevents` in their name
_VERSION = "brain.Event:2"  # the first event of every file


@contextlib.contextmanager
def destination(options: Options) -> Iterator[Destination]:
    """The folder `options.out`, else `tensorboard` in the store."""
    home = options.out or options.root / "tensorboard"
    with held(home, "*/*") as folders:

        def write(run: Outgoing) -> None:
            def fill(folder: Path) -> Path:
                made = folder / run.name
                made.mkdir()
                # A TensorBoard that runs meanwhile does not see the file before it is complete.
                _write_events(made / "events", _events(run))
                return (made / "events").rename(made / EVENTS).parent

            folders.put(run, run.digest, fill, run.group)

        yield Destination(f"'{home}'", folders.present(), write)


def _write_events(path: Path, events: Iterable[Any]) -> None:
    from tensorboard.summary.writer.record_writer import RecordWriter

    with open(path, "wb") as file:
        writer = RecordWriter(file)
        for event in events:
            writer.write(event.SerializeToString(deterministic=True))


def _events(run: Outgoing) -> Iterator[Any]:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb

    yield Event(wall_time=run.began, file_version=_VERSION)
    settings = {
        name: value if isinstance(value, bool | int | float) else setting(value)
        for name, value in (run.config | run.place).items()
    }
    yield Event(wall_time=run.began, summary=hparams_pb(settings, run.key, run.began))
    for step, row in run.rows_and_summary():
        values = [Summary.Value(tag=name, simple_value=value) for name, value in row.items()]
        yield Event(wall_time=run.time(step), step=step, summary=Summary(value=values))
