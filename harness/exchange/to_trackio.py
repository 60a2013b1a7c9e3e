"""trackio: a database `DIR/<project>.db`, with sweeps as groups. A run is one transaction with its config.

The config of a run holds the digest, so a run is there with all of it or not at all.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from harness.errors import RunFailedError, UsageError
from harness.exchange.destination import Destination, Options, complaints, held
from harness.exchange.outgoing import Outgoing

DIGEST = "htbench.digest"


@contextlib.contextmanager
def destination(options: Options) -> Iterator[Destination]:
    """The folder `options.out`, else $TRACKIO_DIR, else `trackio` in the store."""
    home = options.out or Path(os.environ.get("TRACKIO_DIR") or options.root / "trackio")
    os.environ["TRACKIO_DIR"] = str(home)  # read when it is imported
    project = options.project or "htbench"
    with held(home, "-"), complaints(f"The database in '{home}'", sqlite3.Error):
        from trackio.sqlite_storage import SQLiteStorage

        try:
            SQLiteStorage.validate_project_name(project)
        except ValueError as error:
            raise UsageError(f"trackio refuses the project '{project}': {error}") from None
        there = {key: config or {} for key, config in SQLiteStorage.get_all_run_configs(project).items()}

        def write(run: Outgoing) -> None:
            if run.key in there and not SQLiteStorage.delete_run(project, run.name, run_id=run.key):
                raise RunFailedError(f"trackio does not delete the old run {run.key} in '{home}'.")
            rows = run.rows_and_summary()
            SQLiteStorage.bulk_log(  # as trackio's own imports write a run: one transaction
                project=project,
                run=run.name,
                run_id=run.key,
                metrics_list=[row for _, row in rows],
                steps=[step for step, _ in rows],
                timestamps=[_timestamp(run.time(step)) for step, _ in rows],
                # With these two trackio itself files a run.
                config=run.config
                | run.place
                | {DIGEST: run.digest, "_Group": run.group, "_Created": _timestamp(run.began)},
            )

        present = {key: config[DIGEST] for key, config in there.items() if config.get(DIGEST)}
        yield Destination(f"'{home}'", present, write)


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()
