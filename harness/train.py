"""One run: claim it, train it (`harness/loop.py`), and leave its outcome in the store, whatever it is."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from harness.config import RunConfig
from harness.errors import LostOwnershipError, RunFailedError, StoppedError, UsageError
from harness.key import run_key
from harness.loop import Training, log
from harness.monitor import Monitor
from harness.record import RunRecord
from harness.settings import to_yaml
from harness.store import Attempt, Kind, Store

# The store can't be written to. The run itself is sound: the same command goes on once there is room.
_STORAGE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE}


def run(config: RunConfig, store: Store, monitor: Monitor | None = None) -> RunRecord:
    """Train one run to its end, or as far as `monitor` lets it, unless its record exists already.

    Args:
        config: resolved (`harness.settings.make`).
        store: where the run lives; a run that was interrupted goes on from its last checkpoint.
        monitor: stop requests and progress.

    Returns:
        the record: of this process's work, or the one found.

    Raises:
        RunFailedError: the run failed now or earlier, the disk is full, or another process is at it.
        StoppedError: `monitor` asked for a stop; the checkpoint is on disk.
        LostOwnershipError: another process took the run over.
        UsageError: the data is not what the config was made for.
    """
    monitor = monitor or Monitor()
    key = run_key(config)
    claim = store.claim(key, to_yaml(config))
    if not isinstance(claim, Attempt):
        if claim.record is not None:
            return claim.record
        what = f"is being trained by {claim.owner}" if claim.kind is Kind.LIVE else f"failed ({claim.reason})"
        raise RunFailedError(f"Run {key} {what}{': ' if claim.message else ''}{claim.message}.")
    with claim as attempt, _log_to(attempt.folder / "log.txt"):
        log.info("run %s, attempt %d by %s", key, attempt.number, attempt.owner)
        try:
            return Training(config, attempt, store.root / "cache", monitor).result()
        except StoppedError:
            attempt.end("stopped")
            raise
        except LostOwnershipError:
            raise
        except UsageError as error:
            attempt.end("stopped", str(error))
            raise
        except Exception as error:
            reason = _reason(error)
            log.error("the run ended: %s", reason, exc_info=reason != "stopped")
            attempt.end(reason, f"{type(error).__name__}: {error}")
            raise RunFailedError(
                f"Run {key} ended ({reason}) with {type(error).__name__}: {error}; "
                f"see {attempt.folder / 'log.txt'}."
            ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return "oom"
    if isinstance(error, OSError) and error.errno in _STORAGE_ERRORS:
        return "stopped"
    return "error"


@contextmanager
def _log_to(path: Path) -> Iterator[None]:
    """Copy what is logged meanwhile to `path`, for whoever looks into the run's folder."""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        handler.close()
