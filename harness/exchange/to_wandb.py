"""Weights & Biases: a folder `DIR/offline-run-<time>-<key>` for each run, as wandb's offline mode writes it.

`wandb sync` uploads such folders and leaves out what it has uploaded before. It is called here only if
WANDB_MODE is `online`; nothing else touches the network.
"""

import contextlib
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.errors import RunFailedError, UsageError
from harness.exchange.destination import Destination, Options, held
from harness.exchange.outgoing import Outgoing
from harness.system.environment import our_code_only

PATTERN = "offline-run-*"
_SILENT = {"WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false"}
_TAG = 64  # characters that the server takes
_AT_ONCE = 100  # folders in one command


@contextlib.contextmanager
def destination(options: Options) -> Iterator[Destination]:
    """The folder `options.out`, else `wandb` in the store; uploads it at the end if WANDB_MODE says so."""
    mode = os.environ.get("WANDB_MODE") or "offline"
    if mode not in ("offline", "online"):
        raise UsageError(f"WANDB_MODE is '{mode}'; an export needs `offline`, the default here, or `online`.")
    os.environ.update(_SILENT)  # read when it is imported
    logging.raiseExceptions = False  # on a full disk wandb's log would print a traceback for each line
    home = options.out or options.root / "wandb"
    project = options.project or os.environ.get("WANDB_PROJECT") or "htbench"
    end = f" {project}"  # of a digest: runs of another project are to be written anew
    with held(home, PATTERN) as folders:

        def write(run: Outgoing) -> None:
            def fill(folder: Path) -> Path:
                _log(run, folder, project)
                (made,) = (folder / "wandb").glob(PATTERN)
                for part in ("logs", "tmp"):
                    shutil.rmtree(made / part, ignore_errors=True)
                return made

            folders.put(run, run.digest + end, fill)

        there = folders.present().items()
        present = {key: digest.removesuffix(end) for key, digest in there if digest.endswith(end)}
        yield Destination(f"'{home}'", present, write)
        if mode == "online":
            upload(home)


def _log(run: Outgoing, folder: Path, project: str) -> None:
    """An offline run, without what wandb notes of this machine."""
    import wandb

    words = (run.place.get(f"htbench.{name}", "") for name in ("block", "stage", "status"))
    try:
        live = wandb.init(
            mode="offline",
            dir=folder,
            project=project,
            id=run.key,
            name=run.name,
            group=run.group,
            job_type=run.job_type,
            tags=list(dict.fromkeys(word[:_TAG] for word in words if word)),
            config=run.config | run.place,
            settings=wandb.Settings(**_SETTINGS),
        )
        for step, row in run.rows():
            time = {"_timestamp": run.time(step)} if run.began else {}
            live.log(row | time, step=step)
        live.summary.update(dict(run.summary))
        live.finish()
    except wandb.Error as error:
        raise RunFailedError(f"wandb refuses run {run.key}: {error}.") from error


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


def upload(home: Path) -> None:
    """Call `wandb sync` for the runs that it has not uploaded.

    Raises:
        RunFailedError: it fails.
    """
    folders = [str(path) for path in sorted(home.glob(PATTERN)) if not list(path.glob("*.synced"))]
    for start in range(0, len(folders), _AT_ONCE):
        words = [sys.executable, "-m", "wandb", "sync", "--yes", *folders[start : start + _AT_ONCE]]
        with our_code_only():
            status = subprocess.run(words).returncode
        if status:
            raise RunFailedError(
                f"`wandb sync` ends with status {status}; the runs are in '{home}', and the same command "
                "uploads the rest."
            )
