"""mlflow: an experiment for each sweep; a run has its key in the tag `htbench.key`.

The tag `htbench.complete` is set last and holds the digest. A run without it was left by a killed export,
and is deleted and written anew.
"""

import contextlib
import logging
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.exchange.destination import Destination, Options, complaints
from harness.exchange.outgoing import Outgoing
from harness.show.numbers import setting
from harness.system import atomic
from harness.system.folders import make_folder

KEY, COMPLETE = "htbench.key", "htbench.complete"
_SQLITE = "sqlite:///"
_SCHEMES = (_SQLITE, "postgresql", "mysql", "mssql", "http://", "https://")
# What mlflow takes in one request, and at most as a value (mlflow.utils.validation).
_PARAMS, _METRICS, _LONGEST, _PAGE = 100, 1000, 5000, 1000


@contextlib.contextmanager
def destination(options: Options) -> Iterator[Destination]:
    """The database or server `options.uri`, else the database `mlflow.db` in the store."""
    uri = options.uri or f"{_SQLITE}{options.root.absolute() / 'mlflow.db'}"
    if not uri.startswith(_SCHEMES):
        raise UsageError(
            f"--uri '{uri}' is no database or server; mlflow only maintains its file store, so write sqlite:///PATH."
        )
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when it is imported
    logging.getLogger("mlflow").setLevel(logging.CRITICAL)  # it tells of each table, and errors twice
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    with contextlib.ExitStack() as stack:
        folder = None
        if uri.startswith(_SQLITE):  # a server has no lock that we could hold
            path = Path(uri.removeprefix(_SQLITE).partition("?")[0]).absolute()
            folder = path.parent
            make_folder(folder)
            stack.enter_context(atomic.locked(path.with_name(f".{path.name}.htbench.lock")))
        stack.enter_context(complaints(f"mlflow at '{uri}'", MlflowException, SQLAlchemyError))
        if folder:
            _make_database(path)
        yield _opened(uri, folder)


def _make_database(path: Path) -> None:
    """Make a database unless it is there: mlflow can't go on with one whose making was killed."""
    from mlflow import MlflowClient

    for remains in list(atomic.temporaries(path.parent, path.name)):
        shutil.rmtree(remains)
    if not path.exists():
        temporary = atomic.temporary_name(path)  # a folder: the database has a journal beside it
        temporary.mkdir()
        MlflowClient(tracking_uri=f"{_SQLITE}{temporary / path.name}").search_experiments(max_results=1)
        os.rename(temporary / path.name, path)
        shutil.rmtree(temporary)


def _opened(uri: str, folder: Path | None) -> Destination:
    """A tracking database or server; `folder` is that of a database, for what belongs to its runs."""
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, ViewType

    client = MlflowClient(tracking_uri=uri)
    experiments = {row.name: row for row in _pages(client.search_experiments, view_type=ViewType.ALL)}
    live = [row.experiment_id for row in experiments.values() if row.lifecycle_stage == "active"]
    there: dict[str, list[tuple[str, str]]] = {}  # key -> runs with their digests
    for run in _pages(client.search_runs, experiment_ids=live, filter_string=f"tags.`{KEY}` != ''"):
        tags = run.data.tags
        there.setdefault(tags[KEY], []).append((run.info.run_id, tags.get(COMPLETE, "")))

    def experiment_of(name: str) -> str:
        """The id of the experiment of a sweep, which is made if it is not there."""
        if name not in experiments:
            # By default a database takes the folder in which the command happens to run.
            client.create_experiment(
                name, artifact_location=str(folder / "mlruns" / name) if folder else None
            )
            experiments[name] = client.get_experiment_by_name(name)
        made = experiments[name]
        if made.lifecycle_stage != "active":
            raise UsageError(
                f"The experiment '{name}' is deleted in {uri}; `mlflow experiments restore "
                f"--experiment-id {made.experiment_id}` brings it back, or give another --uri."
            )
        return str(made.experiment_id)

    def write(run: Outgoing) -> None:
        """A run of its own, after those of this key are deleted."""
        for old, _ in there.pop(run.key, []):
            client.delete_run(old)
        texts = run.place | {"htbench.group": run.group, "htbench.job_type": run.job_type}
        tags = {name: text[:_LONGEST] for name, text in texts.items()}
        began = _milliseconds(run.began)
        made = client.create_run(
            experiment_of(run.group), start_time=began, tags=tags, run_name=run.name
        ).info.run_id
        params = [Param(_name(name), setting(value)[:_LONGEST]) for name, value in run.config.items()]
        for start in range(0, len(params), _PARAMS):
            client.log_batch(made, params=params[start : start + _PARAMS])
        metrics = [
            Metric(_name(name), value, _milliseconds(run.time(step)), step)
            for step, row in run.rows_and_summary()
            for name, value in row.items()
        ]
        for start in range(0, len(metrics), _METRICS):
            client.log_batch(made, metrics=metrics[start : start + _METRICS])
        client.set_terminated(made, "FINISHED", end_time=_milliseconds(run.time(run.steps)))
        client.set_tag(made, COMPLETE, run.digest)

    complete = {key: [digest for _, digest in runs if digest] for key, runs in there.items()}
    return Destination(
        uri, {key: digests[0] for key, digests in complete.items() if len(digests) == 1}, write
    )


def _pages(search: Any, **terms: Any) -> list[Any]:
    """All pages of a search."""
    entries, token = [], None
    while True:
        page = search(max_results=_PAGE, page_token=token, **terms)
        entries += page
        token = page.token
        if not token:
            return entries


def _name(name: str) -> str:
    """A name as mlflow takes it: other people's metrics may have any sign in theirs."""
    return re.sub(r"[^\w.\- /]", "_", name).strip("/. ") or "_"


def _milliseconds(seconds: float) -> int:
    return int(1000 * seconds)
