"""The model card: what the model is, how it was trained, what its figures are worth, and how to open it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from harness.export.trained import Trained
from harness.store import curve

LAST_STEPS = 20  # of the training loss that is averaged
LAST_ROWS = 5  # validations that are shown

# What people should know about the data; THIRD_PARTY.md has the sources.
_DATA = {
    "pydocs": "Language topics and docstrings of Python's standard library: licence of the Python Software "
    "Foundation, version 2.",
    "c4": "C4, English, in the copy of the Allen Institute for AI: ODC-BY and the terms of use of Common "
    "Crawl. The tokenizer is that of T5 (Apache-2.0).",
    "openwebtext": "OpenWebText: its packaging is CC0-1.0, the texts are their authors'. The tokenizer is "
    "that of GPT-2 (MIT).",
}
_DATA_SETS = {"c4": "allenai/c4", "openwebtext": "Skylion007/openwebtext"}
_OWN_DATA = "The task is not one of htbench; whoever made it knows the licence of its data."
_PRIVATE = {"host"}  # of the environment: a card is published


def text(trained: Trained, has_tokenizer: bool) -> str:
    """The content of README.md.

    Args:
        trained: the model.
        has_tokenizer: whether the folder has the files of a tokenizer.
    """
    config = trained.config
    optimizer = str(config["optimizer"]["name"])
    parts = [
        f"---\n{_front_matter(trained, optimizer)}---",
        f"# {plain(trained.model)}, trained on {plain(trained.task)} by {plain(optimizer)}",
        f"{_what(trained)}\n\n- parameters: {_parameters(trained):,}\n- weights: {_weights(trained)}\n"
        f"- run: `{trained.key}`",
        f"## How to open it\n\n{_opening(trained, has_tokenizer)}",
        f"## Figures\n\n{_figures(trained)}",
        f"## End of the curve\n\n{_curve(trained)}",
        f"## Config\n\n{_fenced(yaml.safe_dump(_plain_values(config), sort_keys=False), 'yaml')}",
        f"## Environment\n\n{_environment(trained)}",
        f"## Data and licence\n\n{_DATA.get(trained.task, _OWN_DATA)} The card grants no licence for the "
        "weights; whoever publishes them chooses one.",
    ]
    return "\n\n".join(parts) + "\n"


def plain(words: object) -> str:
    """Any text as one line of Markdown in which no character means anything."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(words)).split())
    escaped = re.sub(r"([\\`*_{}\[\]|~$])", r"\\\1", line)
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _front_matter(trained: Trained, optimizer: str) -> str:
    """YAML of one line per entry. JSON strings are YAML, whatever is in them."""
    tags = ["htbench", f"optimizer:{optimizer}"]
    entries: dict[str, Any] = {
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": tags,
    }
    if trained.task in _DATA:
        entries["language"] = ["en"]
    if trained.task in _DATA_SETS:
        entries["datasets"] = [_DATA_SETS[trained.task]]
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in entries.items())


def _what(trained: Trained) -> str:
    config = trained.config
    sequences, length = config["batch_size"], trained.settings["max_length"]
    return (
        f"A {trained.family.title} of htbench, which compares optimizers: "
        f"{trained.family.architecture} with {trained.settings['layers']} layers of width "
        f"{trained.settings['hidden']}, trained from random weights with {sequences} sequences of {length} "
        f"tokens per step."
    )


def _parameters(trained: Trained) -> int:
    return sum(parameter.numel() for parameter in trained.module().parameters())


def _weights(trained: Trained) -> str:
    planned = trained.config.get("steps")
    if trained.step is not None:
        of = f" of {planned}" if planned else ""
        return f"of a checkpoint after step {trained.step}{of}; the run had not ended ({trained.dtype})"
    steps = trained.record.steps if trained.record is not None else planned
    return f"final ones, after step {steps} ({trained.dtype})"


def _opening(trained: Trained, has_tokenizer: bool) -> str:
    length = trained.settings["max_length"]
    lines = ["from transformers import AutoModelForCausalLM, AutoTokenizer", ""]
    lines += ['model = AutoModelForCausalLM.from_pretrained("DIR")']
    if not has_tokenizer:
        code = _fenced("\n".join(lines).replace(", AutoTokenizer", ""), "python")
        return f"{code}\n\nThe folder has no tokenizer: the task brought tokens of its own."
    lines += [
        'tokenizer = AutoTokenizer.from_pretrained("DIR")',
        'inputs = tokenizer("Return the number of", return_tensors="pt")',
        f"print(tokenizer.decode(model.generate(**inputs, max_new_tokens={min(16, length // 2)})[0]))",
    ]
    return (
        f"{_fenced(chr(10).join(lines), 'python')}\n\nThe model was trained on at most {length} tokens at "
        "once. The tokenizer adds no tokens to a text, as in training, where only its end has one."
    )


# --- figures ---


def _figures(trained: Trained) -> str:
    record = trained.record
    if record is None or trained.step is not None:
        return "The run had not ended, so it has no final figures."
    rows = [(name, _number(value)) for name, value in record.metrics.items()]
    for task, entry in record.downstream.items():
        rows += [
            (f"{task}: {name}", _number(entry.get(name))) for name in ("acc", "acc_norm") if name in entry
        ]
    seeds = f"seed {record.config.get('seed')}, data seed {record.config.get('data_seed')}"
    return (
        f"{_table(('figure', 'value'), rows)}\n\nThese are of one run (n = 1: {plain(seeds)}). They have no "
        "error bar over seeds, and one run says little about which optimizer is better.\n\n"
        "Losses are in nats per token. The run's status is "
        f"{plain(record.status)}{f': {plain(record.note)}' if record.note else ''}."
    )


def _curve(trained: Trained) -> str:
    rows = [row for row in curve.read(trained.files.metrics) if row["step"] <= (trained.step or math.inf)]
    losses = [(row["step"], row["loss"]) for row in rows if isinstance(row.get("loss"), float)][-LAST_STEPS:]
    evaluated = [row for row in rows if "val_loss" in row][-LAST_ROWS:]
    parts = []
    if losses:
        mean = math.fsum(loss for _, loss in losses) / len(losses)
        parts.append(
            f"Training loss, mean of {len(losses)} steps up to step {losses[-1][0]}: {_number(mean)}."
        )
    if evaluated:
        lines = [(row["step"], _number(row["val_loss"])) for row in evaluated]
        parts.append(_table(("step", "validation loss"), lines))
    return "\n\n".join(parts) or "The curve is not there."


def _environment(trained: Trained) -> str:
    if trained.record is None:
        return "It is written at the end of the run."
    found = trained.record.environment
    return _table(("what", "value"), [(name, found[name]) for name in found if name not in _PRIVATE])


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float | int) else "none"


# --- Markdown ---


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *([plain(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _fenced(content: str, language: str) -> str:
    """A block of code whose fence is longer than any in it."""
    longest = max(map(len, re.findall(r"`+", content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{content.rstrip()}\n{fence}"


def _plain_values(value: Any) -> Any:
    """Tuples as lists: YAML has no tuples."""
    if isinstance(value, Mapping):
        return {str(name): _plain_values(one) for name, one in value.items()}
    return [_plain_values(one) for one in value] if isinstance(value, list | tuple) else value
