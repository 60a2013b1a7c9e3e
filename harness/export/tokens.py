"""The tokenizer of a run's task as files of Hugging Face. Torch-free until data is prepared.

The tokens of a text are those of training, without an end token. The tokenizer of T5 appends `</s>` by
itself; a program that encodes a question and its answer together would score that token, too.
In packed rows a document follows the end token of the one before, so that token is the `bos_token`, too. In
padded rows it begins at position 0 with nothing before it, and there is no `bos_token`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers

from htbench.harness import tasks
from htbench.harness.data.cache import TOKENIZER
from htbench.harness.data.pydocs import END_OF_TEXT
from htbench.harness.data.stamps import Prepared
from htbench.harness.errors import UsageError


@dataclass(frozen=True)
class TaskTokens:
    """The tokenizer of a task.

    Attributes:
        content: of tokenizer.json.
        end: the id of the token after every document.
        pad: the id of the token that fills rows.
        begin: the id of the token before every document; None: there is none.
        spelled_out: whether a text that spells a special token has that token; otherwise it is text, too.
    """

    content: Mapping[str, Any]
    end: int
    pad: int
    begin: int | None
    spelled_out: bool

    @property
    def ids(self) -> dict[str, int | None]:
        """The ids as config.json names them."""
        return {"bos_token_id": self.begin, "eos_token_id": self.end, "pad_token_id": self.pad}

    def tokenizer(self) -> tokenizers.Tokenizer:
        """The tokenizer as `tokenizers` has it; its `encode` adds no tokens."""
        tokenizer = tokenizers.Tokenizer.from_str(json.dumps(self.content))
        tokenizer.encode_special_tokens = not self.spelled_out
        return tokenizer

    def files(self, max_length: int) -> dict[str, Any]:
        """The content of the files by their names.

        Args:
            max_length: tokens that the model takes.
        """
        words = self.tokenizer().get_vocab()
        spelling = {token: text for text, token in words.items()}
        special = {"bos_token": self.begin, "eos_token": self.end, "pad_token": self.pad}
        special |= {"unk_token": words.get("<unk>")}
        settings: dict[str, Any] = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": max_length,
            "clean_up_tokenization_spaces": False,
            "split_special_tokens": not self.spelled_out,
        }
        settings |= {name: spelling[token] for name, token in special.items() if token is not None}
        return {TOKENIZER: self.content, "tokenizer_config.json": settings}


def of_run(config: Mapping[str, Any], cache: Path) -> TaskTokens | None:
    """The tokenizer of the task that a run was trained on; None for a user's own task, which has its own.

    Args:
        config: of the run, nested.
        cache: folder of prepared data.

    Raises:
        UsageError: the data of the run is not prepared here.
    """
    task, fingerprint = str(config["task"]), str(config.get("data_fingerprint"))
    if task not in tasks.TASKS:
        return None
    folder = cache / f"{task}-{fingerprint}"
    if not (folder / TOKENIZER).is_file():
        if tasks.fingerprint(task) != fingerprint:
            raise UsageError(
                f"The run was trained on '{task}' with the fingerprint {fingerprint}, and here it has "
                f"{tasks.fingerprint(task)}; copy '{task}-{fingerprint}' of the run's store into '{cache}'."
            )
        if tasks.TASKS[task].ready:
            raise UsageError(
                f"The tokenizer of '{task}' is not in '{cache}'; `htbench data prepare {task}` puts it there."
            )
        tasks.build(task, cache=cache, batch_size=1, seq_len=1, data_seed=0)
    content = json.loads((folder / TOKENIZER).read_text(encoding="utf-8"))
    prepared = Prepared.read(folder)
    if prepared is None:  # of Python: a stream of documents
        end = int(content["model"]["vocab"][END_OF_TEXT])
        return TaskTokens(content, end, end, end, spelled_out=True)
    begin = prepared.end if config.get("layout") == "packed" else None
    content = _cut(content, prepared.vocabulary)
    return TaskTokens(content, prepared.end, prepared.pad, begin, spelled_out=False)


def _cut(content: dict[str, Any], vocabulary: int) -> dict[str, Any]:
    """Without tokens that the model has no row for (T5 has a hundred), and adding none to a text."""
    model, words = dict(content["model"]), content["model"]["vocab"]
    if isinstance(words, dict):
        model["vocab"] = {word: token for word, token in words.items() if token < vocabulary}
    else:  # of SentencePiece, with scores, in the order of the ids
        model["vocab"] = words[:vocabulary]
    added = [token for token in content["added_tokens"] if token["id"] < vocabulary]
    nothing = {"post_processor": None, "padding": None, "truncation": None}
    return {**content, "model": model, "added_tokens": added, **nothing}
