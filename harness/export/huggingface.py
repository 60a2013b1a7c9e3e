"""From a run to a folder of Hugging Face: weights, config, tokenizer, card. Needs no `transformers`.

The folder is complete or not there. Only an earlier export is replaced, never files of somebody else.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.export import card, tokens
from harness.export.tokens import TaskTokens
from harness.export.trained import Trained
from harness.store import Store
from harness.store.layout import cache_folder
from harness.system import atomic
from harness.system.folders import make_folder

WEIGHTS = "model.safetensors"
STAMP = "htbench.json"  # names the run, the step and the files


def export(store: Store, word: str, place: Path, *, force: bool = False) -> Trained:
    """Write the model of the run whose key begins with `word`.

    Args:
        store: of the run.
        word: the beginning of its key.
        place: the folder; new, empty, or an earlier export of the run.
        force: replace the export of another run, too.

    Raises:
        UsageError: there is no such run, it has no weights, it is no language model of ours, its data is not
            prepared here, or `place` is not free.
        OSError: the disk is full, for example; `place` is what it was.
    """
    place = place.resolve()
    _check(place, store.find(word), force)
    trained = Trained.load(store, word)
    task_tokens = tokens.of_run(trained.config, cache_folder(store.root))

    def write(folder: Path) -> None:
        fill(folder, trained, task_tokens)
        names = sorted(os.listdir(folder))
        atomic.write_json(folder / STAMP, {"key": trained.key, "step": trained.step, "files": names})

    make_folder(place.parent)
    atomic.replace_folder(place, write)
    return trained


def _check(folder: Path, key: str, force: bool) -> None:
    """Raise UsageError unless `folder` may become the export of run `key`."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UsageError(f"'{folder}' is a file; name a folder that is new or empty.")
    names = set(os.listdir(folder))
    if not names:
        return
    stamp = atomic.read_json(folder / STAMP)
    written = stamp.get("files") if isinstance(stamp, dict) else None
    if not isinstance(stamp, dict) or not isinstance(written, list) or not names <= {*written, STAMP}:
        raise UsageError(f"'{folder}' has other files; name a folder that is new or empty.")
    if stamp.get("key") != key and not force:
        raise UsageError(f"'{folder}' is the export of run {stamp.get('key')}; --force replaces it.")


def fill(folder: Path, trained: Trained, task_tokens: TaskTokens | None) -> None:
    """Write all files into an empty folder.

    Args:
        folder: gets them.
        trained: the model.
        task_tokens: its tokenizer; None: the files have none, and the config has no token.
    """
    ids: dict[str, Any] = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
    if task_tokens is not None:
        ids = task_tokens.ids
        for name, content in task_tokens.files(trained.settings["max_length"]).items():
            atomic.write_json(folder / name, content)
    config = {**trained.family.config(trained.settings), **ids, "dtype": trained.dtype}
    atomic.write_json(folder / "config.json", config)
    atomic.write_text(folder / "README.md", card.text(trained, task_tokens is not None))
    _write_weights(folder / WEIGHTS, trained)


def _write_weights(path: Path, trained: Trained) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    theirs = trained.family.weights(trained.state)
    theirs.pop(trained.family.tied, None)
    contents = {name: tensor.contiguous() for name, tensor in theirs.items()}
    try:
        save_file(contents, path, metadata={"format": "pt"})
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))  # the system's, such as that of a full disk
        if number is None:
            raise UsageError(f"The weights can't be written to '{path}': {error}.") from None
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from None
    shutil.copymode(path.with_name("config.json"), path)  # safetensors lets only the owner read
