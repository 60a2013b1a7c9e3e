"""The tokenizer that is published with a corpus: read from its file, proven on a sentence. Needs no torch."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers

from harness.errors import UsageError

_SPACE = "\u2581"  # stands for a space in spellings of SentencePiece
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")  # one byte, where SentencePiece falls back to bytes


@dataclass(frozen=True)
class PublishedTokenizer:
    """A tokenizer with the vocabulary that the model gets, its end token and its padding token."""

    tokenizer: tokenizers.Tokenizer
    vocabulary: int
    end: int
    pad: int

    @classmethod
    def read(cls, file: Path, row: Mapping[str, Any]) -> PublishedTokenizer:
        """The tokenizer of a tokenizer.json, checked against its row in published.json.

        Raises:
            UsageError: it can't be read, or it is another one.
        """
        try:
            tokenizer = tokenizers.Tokenizer.from_file(str(file))
        except Exception as error:  # the library raises plain exceptions
            raise UsageError(f"'{file}' is no tokenizer of the `tokenizers` library: {error}.") from None
        tokenizer.no_padding()
        tokenizer.no_truncation()
        found, end, pad = (
            tokenizer.encode(row["probe"]).ids,
            tokenizer.token_to_id(row["end"]),
            tokenizer.token_to_id(row["pad"]),
        )
        if found != row["ids"] or end is None or pad is None:
            raise UsageError(
                f"'{file}' is not the tokenizer of {row['repository']}: '{row['probe']}' has the tokens "
                f"{found} instead of {row['ids']}."
            )
        # A document that spells out an end token must not end there.
        tokenizer.encode_special_tokens = True
        return cls(tokenizer, row["vocabulary"], end, pad)

    def encode(self, texts: list[str]) -> list[list[int]]:
        """The tokens of each text, without an end token."""
        encodings = self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        found = [encoding.ids for encoding in encodings]
        most = max((max(ids) for ids in found if ids), default=0)
        if most >= self.vocabulary:
            raise UsageError(f"The tokenizer gives token {most}, but the vocabulary is {self.vocabulary}.")
        return found

    def token_bytes(self) -> npt.NDArray[np.uint16]:
        """The length in bytes of the text of each token, (vocabulary,).

        An unknown character counts as one byte, and so does the space that SentencePiece puts before a text.
        """
        description = json.loads(self.tokenizer.to_str())
        special = {one["id"] for one in description["added_tokens"] if one["special"]}
        unknown = description["model"].get("unk_id", description["model"].get("unk_token"))
        by_bytes = "ByteLevel" in json.dumps([description["pre_tokenizer"], description["decoder"]])
        lengths = np.zeros(self.vocabulary, dtype=np.uint16)
        for spelling, token in self.tokenizer.get_vocab().items():
            if token >= self.vocabulary:
                continue
            if unknown in (token, spelling):
                lengths[token] = 1
            elif token not in special:
                lengths[token] = len(spelling) if by_bytes else _bytes(spelling)
        return lengths


def _bytes(spelling: str) -> int:
    return 1 if _BYTE.fullmatch(spelling) else len(spelling.replace(_SPACE, " ").encode())
