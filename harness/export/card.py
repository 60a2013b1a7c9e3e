"""The model card: what the model is, how it was trained, what its figures are worth, and how to open it.

Its words are in `card.md.jinja`.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from harness.export.trained import Trained
from harness.show.numbers import plain as plain_values
from harness.store import curve

LAST_STEPS = 20  # of the training loss that is averaged
LAST_ROWS = 5  # validations that are shown

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
_DATA_SETS = {
    "c4": "allenai/c4",
    "openwebtext": "Skylion007/openwebtext",
    "fineweb": "HuggingFaceFW/fineweb",
}
_PRIVATE = {"host"}  # of the environment: a card is published


def text(trained: Trained, has_tokenizer: bool) -> str:
    """The content of README.md.

    Args:
        trained: the model.
        has_tokenizer: whether the folder has the files of a tokenizer.
    """
    rows = [row for row in curve.read(trained.files.metrics) if row["step"] <= (trained.step or math.inf)]
    losses = [row for row in rows if isinstance(row.get("loss"), float)][-LAST_STEPS:]
    record, config = trained.record, yaml.safe_dump(plain_values(trained.config), sort_keys=False).rstrip()
    figures = list(record.metrics.items()) if record else []
    for task, entry in record.downstream.items() if record else ():
        figures += [(f"{task}: {name}", entry[name]) for name in ("acc", "acc_norm") if name in entry]
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
            losses=losses,
            mean_loss=math.fsum(row["loss"] for row in losses) / max(1, len(losses)),
            evaluated=[row for row in rows if "val_loss" in row][-LAST_ROWS:],
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
