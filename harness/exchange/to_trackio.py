"""trackio: a database `DIR/<project>.db`, with sweeps as groups. A run is one transaction with its config.

The config of a run holds the digest, so a run is there with all of it or not at all.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path

from harness.errors import RunFailedError, UsageError
from harness.exchange.destination import Destination, Options, require
from harness.exchange.folders import held
from harness.exchange.outgoing import Outgoing

DIGEST = "htbench.digest"


@contextlib.contextmanager
def destination(options: Options) -> Iterator[Destination]:
    """The folder `options.out`, else $TRACKIO_DIR, else `trackio` in the store."""
    require("trackio", "trackio")
    home = options.out or Path(os.environ.get("TRACKIO_DIR") or options.root / "trackio")
    os.environ["TRACKIO_DIR"] = str(home)  # read when it is imported
    project = options.project or "htbench"
    with held(home, "-"), _complaints(home):
        yield Trackio(home, project)


class Trackio:
    """A project of trackio."""

    def __init__(self, home: Path, project: str) -> None:
        from trackio.sqlite_storage import SQLiteStorage

        self.place = f"'{home}'"
        self._storage, self._project = SQLiteStorage, project
        try:
            SQLiteStorage.validate_project_name(project)
        except ValueError as error:
            raise UsageError(f"trackio refuses the project '{project}': {error}") from None
        self._found = {
            key: config or {} for key, config in SQLiteStorage.get_all_run_configs(project).items()
        }

    def present(self) -> Mapping[str, str]:
        """By the configs."""
        found = {key: config.get(DIGEST, "") for key, config in self._found.items()}
        return {key: digest for key, digest in found.items() if digest}

    def write(self, run: Outgoing) -> None:
        """The call with which trackio's own imports write a run: one transaction."""
        if run.key in self._found and not self._storage.delete_run(self._project, run.name, run_id=run.key):
            raise RunFailedError(f"trackio does not delete the old run {run.key} in {self.place}.")
        rows = run.rows_and_summary()
        config = run.config | run.place | {DIGEST: run.digest}
        self._storage.bulk_log(
            project=self._project,
            run=run.name,
            run_id=run.key,
            metrics_list=[row for _, row in rows],
            steps=[step for step, _ in rows],
            timestamps=[_timestamp(run.time(step)) for step, _ in rows],
            # The fields with which trackio itself files a run.
            config=config | {"_Group": run.group, "_Created": _timestamp(run.began)},
        )
        self._found[run.key] = config


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()


@contextlib.contextmanager
def _complaints(home: Path) -> Iterator[None]:
    """Make one sentence of what the database says."""
    try:
        yield
    except sqlite3.Error as error:
        raise RunFailedError(
            f"The database in '{home}' refuses: {error}. What is exported stays; the same command goes on."
        ) from error
