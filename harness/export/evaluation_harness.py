"""Zero-shot tasks of lm-evaluation-harness, asked of a model of ours through the harness' own interface.

The harness makes the questions and the metrics; `scoring` gives it log-likelihoods. Its `--model hf` on the
exported folder finds the same figures.
"""

import contextlib
import importlib.metadata
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError, reason
from harness.export.results import SEVEN, Entry
from harness.export.scoring import Scorer
from harness.system.environment import require

# Where the harness keeps a task, below `lm_eval/tasks`.
_FOLDERS = {
    "arc_challenge": "arc",
    "arc_easy": "arc",
    "piqa": "piqa",
    "hellaswag": "hellaswag",
    "openbookqa": "openbookqa",
    "winogrande": "winogrande",
    "boolq": "super_glue",
}


@dataclass(frozen=True)
class Loaded:
    """A task with its data, and the index that it was found in."""

    name: str
    task: Any
    index: Any


def load(name: str, include: Path | None = None) -> Loaded:
    """A task of the harness.

    Args:
        name: of the task.
        include: a folder with tasks of one's own; None: only those that the harness brings.

    Raises:
        UsageError: there is no such task, its data can't be had, or it is not about given answers.
    """
    require("eval", "lm_eval")
    from lm_eval.tasks import TaskManager

    for folders, all_of_them in _places(name, include):
        index = TaskManager(include_path=folders, include_defaults=all_of_them)
        if name in index.all_subtasks:
            return Loaded(name, _task(index, name), index)
    raise UsageError(
        f"lm-evaluation-harness has no task '{name}'; --include-path names a folder with your own."
    )


def _places(name: str, include: Path | None) -> Iterator[tuple[list[str | Path], bool]]:
    """Folders of tasks, and whether all that the harness brings are wanted: that takes 20 seconds."""
    if include is not None and not include.is_dir():
        raise UsageError(f"--include-path '{include}' is no folder with tasks of lm-evaluation-harness.")
    folders: list[str | Path] = [include] if include is not None else []
    if folders:
        yield folders, False
    if name in _FOLDERS:
        import lm_eval.tasks

        yield [Path(lm_eval.tasks.__path__[0], _FOLDERS[name])], False
    yield folders, True


def _task(index: Any, name: str) -> Any:
    try:
        with _quiet():
            task = index.load([name])["tasks"][name]
    except Exception as error:  # of datasets, of the hub, and of whatever a task does with its data
        raise UsageError(
            f"The data of '{name}' ({SEVEN.get(name, 'see its task')}) can't be had "
            f"({reason(error)}); load them once where there is a network, copy the folder "
            "that HF_HOME names, and set HF_DATASETS_OFFLINE=1; or name a folder with a task of yours by "
            "--include-path."
        ) from None
    if task.OUTPUT_TYPE != "multiple_choice":
        raise UsageError(f"The task '{name}' is not multiple choice but {task.OUTPUT_TYPE}.")
    return task


def evaluate(
    loaded: Loaded, scorer: Scorer, limit: int | None, begin: Callable[[int], Callable[[int], Any]]
) -> tuple[Entry, list[Any]]:
    """The figures of a task, and the harness' sample of each question.

    Args:
        loaded: the task.
        scorer: the model.
        limit: the first questions only; None: all.
        begin: is told the number of answers to score, and gives what is told every number that is done.

    Raises:
        UsageError: an answer is too long for the model.
    """
    from lm_eval import simple_evaluate

    with _quiet():
        results = simple_evaluate(
            model=_model(scorer, begin),
            tasks=[loaded.task],
            task_manager=loaded.index,
            num_fewshot=0,
            limit=limit,
            log_samples=True,
            bootstrap_iters=100,  # only metrics that are no means need it
        )
    name, version = loaded.name, importlib.metadata.version("lm_eval")
    figures = {key.partition(",")[0]: value for key, value in results["results"][name].items() if "," in key}
    entry: Entry = {key: value for key, value in figures.items() if isinstance(value, float | int)}
    entry["questions"] = int(results["n-samples"][name]["effective"])
    entry |= {"scorer": f"lm-eval {version}", "version": results["versions"].get(name)}
    return entry, results["samples"][name]


def _model(scorer: Scorer, begin: Callable[[int], Callable[[int], Any]]) -> Any:
    """The model as the harness wants it; the class needs the harness."""
    from lm_eval.api.model import TemplateLM

    class Ours(TemplateLM):  # type: ignore[misc]
        @property
        def eot_token_id(self) -> int:
            return scorer.end

        def tok_encode(self, string: str, add_special_tokens: bool | None = None, **others: Any) -> list[int]:
            return scorer.encode(string)

        def _loglikelihood_tokens(
            self, requests: Sequence[tuple[Any, list[int], list[int]]], **others: Any
        ) -> list[tuple[float, bool]]:
            pairs = [(context, continuation) for _, context, continuation in requests]
            return scorer.log_likelihoods(pairs, begin(len(pairs)))

        def loglikelihood(self, requests: Any, disable_tqdm: bool = False) -> Any:
            return super().loglikelihood(requests, disable_tqdm=True)  # encoding takes moments

        def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> list[float]:
            raise NotImplementedError

        def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
            raise NotImplementedError

    return Ours()


@contextmanager
def _quiet() -> Iterator[None]:
    """No news of libraries, such as every context that is cut; their bars are for a terminal only."""
    logs = {log: log.level for log in map(logging.getLogger, ("lm_eval", "huggingface_hub", "datasets"))}
    with contextlib.ExitStack() as stack:
        if not sys.stderr.isatty():
            stack.enter_context(contextlib.redirect_stderr(stack.enter_context(open(os.devnull, "w"))))
        for log in logs:
            log.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for log, level in logs.items():
                log.setLevel(level)
