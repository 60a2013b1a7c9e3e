"""Evaluates a run's model on tasks of multiple-choice questions, and adds the figures to its record."""

import dataclasses
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.data import pydocs
from harness.errors import UsageError
from harness.export import cloze, evaluation_harness, tokens
from harness.export.results import CLOZE, Entry, default_tasks, is_done, share
from harness.export.scoring import Scorer, right
from harness.export.trained import Trained
from harness.show.status import Status
from harness.store import Store
from harness.store.layout import cache_folder
from harness.store.record import RunRecord, timestamp
from harness.system.environment import require

BeginTask = Callable[[int], Callable[[int], Any]]  # number of answers -> gets the number after every batch
Begin = Callable[[str, int], Callable[[int], Any]]  # the same for a task


@dataclass(frozen=True)
class Options:
    """How a model is evaluated.

    Attributes:
        tasks: their names; empty: those of the run's task.
        limit: the first questions of a task only; None: all.
        batch_size: answers that are scored at once.
        device: "cpu" or "cuda".
        again: evaluate what the record has, too.
        include: a folder with tasks of one's own for lm-evaluation-harness.
    """

    tasks: Sequence[str] = ()
    limit: int | None = None
    batch_size: int = 32
    device: str = "cpu"
    again: bool = False
    include: Path | None = None


def evaluate(store: Store, word: str, options: Options, begin: Begin) -> RunRecord:
    """Evaluate what is missing; every task is in the record as soon as it is done.

    Args:
        store: of the run.
        word: the beginning of its key.
        options: which tasks, and how.
        begin: is called before each task.

    Returns:
        the record with all evaluations.

    Raises:
        UsageError: the run has not ended or has no weights, its model is no language model of ours, or a task
            or its data can't be had.
    """
    record = store.record(store.find(word))
    if record is None or record.status != Status.COMPLETED:
        status = "has not ended" if record is None else f"is {record.status}"
        raise UsageError(f"Run {store.find(word)} {status}; only the model of a completed run is evaluated.")
    wanted = dict.fromkeys(options.tasks or default_tasks(str(record.config["task"])))
    left = [task for task in wanted if options.again or not is_done(record.downstream, task, options.limit)]
    if not left:
        return record
    if set(left) - {CLOZE}:
        require("eval", "lm_eval")
    cache, limit, trained = cache_folder(store.root), options.limit, Trained.load(store, record.key)
    scorer = _scorer(trained, cache, options)
    loaded = {task: evaluation_harness.load(task, options.include) for task in left if task != CLOZE}
    for task in left:
        begin_task = functools.partial(begin, task)
        if task == CLOZE:
            entry = _cloze(trained, scorer, limit, cache, begin_task)
        else:
            entry, _ = evaluation_harness.evaluate(loaded[task], scorer, limit, begin_task)
        entry |= {"limit": limit, "ended": timestamp(time.time())}
        add = functools.partial(_with, task, entry)
        record = store.amend(record.key, add)
    return record


def _with(task: str, entry: Entry, record: RunRecord) -> RunRecord:
    return dataclasses.replace(record, downstream={**record.downstream, task: entry})


def _scorer(trained: Trained, cache: Path, options: Options) -> Scorer:
    task_tokens = tokens.of_run(trained.config, cache)
    if task_tokens is None:
        raise UsageError(
            f"The task '{trained.task}' is not one of htbench, so the model's tokenizer is not known; "
            f"export the model and evaluate it with lm-evaluation-harness itself."
        )
    tokenizer = task_tokens.tokenizer()
    return Scorer(
        trained.module().to(options.device),
        lambda text: list(tokenizer.encode(text, add_special_tokens=False).ids),
        task_tokens.end,
        trained.settings["max_length"],
        options.batch_size,
        options.device,
    )


def _cloze(trained: Trained, scorer: Scorer, limit: int | None, cache: Path, begin: BeginTask) -> Entry:
    """Our own scoring of our own questions."""
    if trained.task != "pydocs" or trained.config["data_fingerprint"] != pydocs.fingerprint():
        raise UsageError(
            f"'{CLOZE}' asks about the held-out documents of this Python ({pydocs.fingerprint()}); run "
            f"{trained.key} was trained on {trained.task} {trained.config['data_fingerprint']}."
        )
    questions, fingerprint = cloze.load(cache)
    questions = questions[:limit]
    scores = scorer.endings(questions, begin(sum(len(question.endings) for question in questions)))
    entry: Entry = {}
    for name, answers in zip(("acc", "acc_norm"), right(questions, scores), strict=True):
        entry[name], entry[f"{name}_stderr"] = share(answers)
    about = {"scorer": "htbench", "version": float(cloze.RECIPE), "fingerprint": fingerprint}
    return entry | {"questions": len(questions), **about}
