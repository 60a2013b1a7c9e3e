"""From a run to a folder of Hugging Face: weights, config, tokenizer, card. Needs no `transformers`.

The folder is complete or not there.
"""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from htbench.harness.errors import UsageError
from htbench.harness.export import tokens
from htbench.harness.export.tokens import TaskTokens
from htbench.harness.export.trained import Trained
from htbench.harness.show.numbers import plain as plain_values
from htbench.harness.store import Store
from htbench.harness.store.layout import cache_folder
from htbench.harness.system import atomic
from htbench.harness.system.folders import make_folder

WEIGHTS = "model.safetensors"


def export(store: Store, word: str, place: Path) -> Trained:
    """Write the model of the run whose key begins with `word`.

    Args:
        store: of the run.
        word: the beginning of its key.
        place: the folder; new or empty.

    Raises:
        UsageError: there is no such run, it has no weights, it is no language model of ours, its data is not
            prepared here, or `place` is not free.
        OSError: the disk is full, for example; `place` is what it was.
    """
    place = place.resolve()
    if place.exists() and not (place.is_dir() and not any(place.iterdir())):
        raise UsageError(f"'{place}' is not empty; name a folder that is new or empty.")
    trained = Trained.load(store, word)
    task_tokens = tokens.of_run(trained.config, cache_folder(store.root))
    make_folder(place.parent)
    atomic.replace_folder(place, lambda folder: fill(folder, trained, task_tokens))
    return trained


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
    atomic.write_text(folder / "README.md", card(trained, task_tokens is not None))
    _write_weights(folder / WEIGHTS, trained)


def _write_weights(path: Path, trained: Trained) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    weights = trained.family.weights(trained.state)
    weights.pop(trained.family.tied, None)
    contents = {name: tensor.contiguous() for name, tensor in weights.items()}
    try:
        save_file(contents, path, metadata={"format": "pt"})
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))  # the system's, such as that of a full disk
        if number is None:
            raise UsageError(f"The weights can't be written to '{path}': {error}.") from None
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from None
    shutil.copymode(path.with_name("config.json"), path)  # safetensors lets only the owner read


# --- the model card ---


# What people should know about the data; THIRD_PARTY.md has the sources.
_DATA = {
    "pydocs": "Language topics and docstrings of Python's standard library: licence of the Python Software "
    "Foundation, version 2.",
    "pysource": "Sources of Python's standard library and its tests: licence of the Python Software "
    "Foundation, version 2.",
    "c4": "C4, English, in the copy of the Allen Institute for AI: ODC-BY and the terms of use of Common "
    "Crawl. The tokenizer is that of T5 (Apache-2.0).",
    "openwebtext": "OpenWebText: its packaging is CC0-1.0, the texts are their authors'. The tokenizer is "
    "that of GPT-2 (MIT).",
    "fineweb": "FineWeb, its sample of 10 billion tokens: ODC-BY and the terms of use of Common Crawl. The "
    "tokenizer is that of GPT-2 (MIT).",
}
_DATA_SETS = {"c4": "allenai/c4", "openwebtext": "Skylion007/openwebtext", "fineweb": "HuggingFaceFW/fineweb"}
_PRIVATE = {"host"}  # of the environment: a card is published


def card(trained: Trained, has_tokenizer: bool) -> str:
    """README.md, with the words of `card.md.jinja`: the model, its training, its figures, how to open it.

    Args:
        trained: the model.
        has_tokenizer: whether the folder has the files of a tokenizer.
    """
    record, config = trained.record, yaml.safe_dump(plain_values(trained.config), sort_keys=False).rstrip()
    figures = list(record.metrics.items()) if record else []
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, autoescape=False
    )
    # JSON is YAML, whatever is in it.
    environment.filters |= {"json": json.dumps, "plain": plain, "number": _number}
    return (
        environment.get_template("card.md.jinja").render(
            model=trained,
            config={"steps": None, **trained.config},
            record=record,
            optimizer=str(trained.config["optimizer"]["name"]),
            length=trained.settings["max_length"],
            parameters=sum(parameter.numel() for parameter in trained.module().parameters()),
            has_tokenizer=has_tokenizer,
            figures=figures,
            yaml=config,
            # A block of code whose fence is longer than any in it.
            fence="`" * max(3, *(len(ticks) + 1 for ticks in re.findall(r"`+", config)), 3),
            private=_PRIVATE,
            data=_DATA.get(trained.task, ""),
            data_set=_DATA_SETS.get(trained.task, ""),
        )
        + "\n"
    )


def plain(words: object) -> str:
    """Any text as one line of Markdown in which no character means anything."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(words)).split())
    escaped = re.sub(r"([\\`*_{}\[\]|~$])", r"\\\1", line)
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float | int) else "none"
