"""One run: claim it, train it (`harness/train/loop.py`), and write its outcome into the store.

Of several processes the main one claims the run and broadcasts the result. A process that fails writes the
reason; the other processes get PeerLostError and read that reason. If a process is killed, none writes an
outcome, as if all had been killed.
"""

import dataclasses
import errno
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from htbench.harness import errors, tasks
from htbench.harness.config import RunConfig, parts
from htbench.harness.config.key import ResolvedRun
from htbench.harness.config.settings import to_yaml
from htbench.harness.data.task import Scores
from htbench.harness.errors import LostOwnershipError, PeerLostError, RunFailedError, StoppedError, UsageError
from htbench.harness.parallel import device
from htbench.harness.parallel.group import ALONE, Group
from htbench.harness.show.status import Status
from htbench.harness.store import Attempt, Reason, Store, items
from htbench.harness.store.curve import finite
from htbench.harness.store.layout import cache_folder
from htbench.harness.store.record import RunRecord, timestamp
from htbench.harness.system import environment
from htbench.harness.train.claim import claim_patiently, take
from htbench.harness.train.learner import Learner
from htbench.harness.train.loop import MakeLearner, Outcome, Training, log
from htbench.harness.train.monitor import Monitor
from htbench.optimizers.reach import little_reach

# What the record tells of a run's cost besides, by its config and "cpu" or "cuda".
Count = Callable[[RunConfig, str], Mapping[str, float]]

# The store can't be written to, or the caller's own progress goes into a pipe that nobody reads any more. The
# run itself is valid: the same command resumes it.
_OUTER_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ESTALE, errno.EPIPE}


def run(
    resolved: ResolvedRun,
    store: Store,
    monitor: Monitor | None = None,
    group: Group = ALONE,
    count: Count = lambda config, device: {},
    make_learner: MakeLearner = Learner,
) -> RunRecord:
    """Train one run to its end, or as far as `monitor` lets it, unless its record exists already.

    Args:
        resolved: as `harness.config.key.resolved` makes it.
        store: the store of the run; an interrupted run resumes from its last checkpoint.
        monitor: stop requests and progress.
        group: the processes of the run; each of them calls this function.
        count: what the record tells of its cost besides, such as `harness.cost.estimate.for_record`.
        make_learner: what makes its model and optimizer.

    Returns:
        the record, new or found.

    Raises:
        RunFailedError: the run failed now or earlier, the disk is full, another process trains it, or a
            process of `group` was killed.
        StoppedError: `monitor` asked for a stop; the checkpoint is on disk.
        LostOwnershipError: another process took the run over.
        UsageError: the data is not what the config was made for, or the batch can't be divided among `group`.
    """
    monitor = monitor or Monitor()
    check_processes(resolved, group.size)
    attempt = _claim(resolved, store, monitor, group)
    if isinstance(attempt, RunRecord):
        return attempt
    key = attempt.key
    with attempt if group.is_main else nullcontext(), _log_to(attempt.files.log, group):
        log.info("run %s, attempt %d by %s", key, attempt.number, attempt.owner)
        try:
            cache = cache_folder(store.root)
            outcome = Training.start(resolved, attempt, cache, monitor, group, make_learner).outcome()
            study = monitor.study if outcome.status is Status.PRUNED else ""
            record = _finish(resolved, attempt, outcome, count, study) if group.is_main else None
            written = group.broadcast(record)
            assert written is not None
            return written
        except (StoppedError, LostOwnershipError):  # who has lost the run notes nothing
            if group.is_main:
                attempt.end(Reason.STOPPED)
            raise
        except PeerLostError as error:
            log.error("the run ended: %s", error)
            attempt.check()
            why = "one of its processes was killed; the same command goes on from the last checkpoint"
            end = store.attempt(key, attempt.number).get("outcome") or {}
            if message := end.get("message"):  # of the process that has failed
                attempt.end(Reason.STOPPED)
                why = f"({end['reason']}) {message}"
            raise RunFailedError(f"Run {key} ended: {why}.") from error
        except UsageError as error:
            attempt.end(Reason.STOPPED, str(error))
            raise
        except Exception as error:
            reason = _reason(error)
            log.error("the run ended: %s", reason, exc_info=reason is not Reason.STOPPED)
            why = f"{type(error).__name__}: {error}{errors.where(error)}"
            attempt.end(reason, why)
            raise RunFailedError(
                f"Run {key} ended ({reason}) with {why}; see {attempt.files.log}."
            ) from error


def check_processes(run: ResolvedRun, started: int) -> None:
    """Raise UsageError if `started` processes can't make the run together."""
    config = run.config
    if run.model.batch_norm and started != config.processes:
        raise UsageError(
            f"The numbers of '{config.model}', which has BatchNorm, depend on how many processes there are: "
            f"processes={config.processes}, but {started} were started (WORLD_SIZE)."
        )
    if config.batch_size % started:
        raise UsageError(
            f"batch_size={config.batch_size} can't be divided among the {started} processes "
            f"that were started (WORLD_SIZE)."
        )


# --- the claim ---


def _claim(run: ResolvedRun, store: Store, monitor: Monitor, group: Group) -> Attempt | RunRecord:
    """The claim of the main process, in all processes: their attempt, or the existing record."""
    claim = claim_patiently(run.key, to_yaml(run.config), store, monitor) if group.is_main else None
    facts: Any = claim
    if isinstance(claim, Attempt):
        facts = claim.number, claim.owner, claim.began, claim.checkpoint_found, False
    facts = group.broadcast(facts)
    if not group.is_main:
        claim = Attempt(store, run.key, *facts) if isinstance(facts, tuple) else facts
    return take(run.key, claim)


# --- the end ---


def _finish(run: ResolvedRun, attempt: Attempt, outcome: Outcome, count: Count, study: str) -> RunRecord:
    """Write the record, with the metrics, what the run took, and how it was made.

    Args:
        run: its config and its rows.
        attempt: the right to work on it.
        outcome: how it has ended.
        count: as in `run`.
        study: that has pruned it; empty: none.
    """
    config, learner, progress, diverged = run.config, outcome.learner, outcome.progress, outcome.diverged
    samples, kind = progress.step * config.batch_size, learner.device.type
    # What the config leaves open.
    made = {"threads": config.threads, "compile": config.compile}
    made |= {"micro_batch": learner.micro_batch} if learner.halved else {}
    made |= {"stack": progress.stack} if progress.stack > 1 else {}
    scores = outcome.scores
    scored = _keep_items(attempt, scores, config.data_fingerprint) if scores else {}
    record = RunRecord(
        key=attempt.key,
        config=json.loads(json.dumps(dataclasses.asdict(config))),  # as it is read again: lists, no tuples
        status=outcome.status,
        metrics=finite(outcome.metrics),
        steps=progress.step,
        useful_seconds=progress.seconds,
        seconds_per_step=outcome.timing.get("mean"),
        timing=outcome.timing,
        peak_memory=device.peak_memory(kind),
        cost={
            "parameters": sum(p.numel() for p in learner.model.parameters()),
            "samples": samples,
            "tokens": samples * (config.seq_len or 0),
            **count(config, kind),
        },
        attempts=attempt.number,
        repeated_steps=attempt.store.repeated_steps(attempt.key),
        environment=environment.describe(kind, config.data_fingerprint, learner.group.size)
        | tasks.described(run.task)
        | parts.described(config)
        | ({"reach": few._asdict()} if (few := little_reach(run.optimizer.name, learner.optimizer)) else {})
        | made
        | ({"imports": ran} if (ran := parts.unseen(config)) else {}),
        began=timestamp(attempt.first_began),
        ended=timestamp(time.time()),
        divergence={"kind": diverged.kind, **diverged.fields} if diverged else {},
        pruned_by=[study] if study else [],
        **scored,
    )
    shown = ", ".join(f"{name} {value:.6g}" for name, value in record.metrics.items() if value is not None)
    log.info("%s after %d steps: %s", record.status, record.steps, shown)
    return attempt.finish(record)


def _keep_items(attempt: Attempt, scores: Scores, fingerprint: str) -> dict[str, Any]:
    """Write the test items, before the record that names them; return what it says of them."""
    which = items.digest(fingerprint, scores.places, scores.counts, scores.clusters)
    kept = items.TestItems(scores.sums, scores.counts, scores.clusters, scores.correct, which)
    attempt.check()
    items.write(attempt.files.test_items, kept)
    return {
        "test_items": len(scores.sums),
        "test_tokens": int(scores.counts.sum()),
        "test_split": scores.whole,
        "items_digest": which,
    }


def _reason(error: Exception) -> Reason:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return Reason.OOM
    if isinstance(error, OSError) and error.errno in _OUTER_ERRORS:
        return Reason.STOPPED
    return Reason.ERROR


@contextmanager
def _log_to(path: Path, group: Group) -> Iterator[None]:
    """Copy log messages to `path`, for people.

    Of several processes only the main one logs information; all log warnings and errors.
    """
    who = f" process {group.rank}:" if group.size > 1 else ""
    level = log.level
    with path.open("a", encoding="utf-8") as file:  # `FileHandler` would follow a link
        handler = logging.StreamHandler(file)
        if threading.current_thread() is not threading.main_thread():  # one of several runs
            ours = threading.get_ident()
            handler.addFilter(lambda record: record.thread == ours)
        handler.setFormatter(logging.Formatter(f"%(asctime)s %(levelname)s{who} %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO if group.is_main else logging.WARNING)
        try:
            yield
        finally:
            log.removeHandler(handler)
            if threading.current_thread() is threading.main_thread():  # others are at work beside this one
                log.setLevel(level)
