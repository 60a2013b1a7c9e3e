"""Task `openwebtext`: language modelling on the text of linked web pages, with the tokens of GPT-2.

It has no published splits: of `modulus` (2000) documents one is for validation and one for test, by the hash
of the text.
Source: Gokaslan and Cohen, "OpenWebText corpus" (2019).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from harness.data.corpus import Corpus


def split_of(published: Mapping[str, Any], part: str, document: Mapping[str, str]) -> str:
    """The split of a document."""
    first = hashlib.sha256(document["text"].encode()).digest()[:8]
    return {0: "val", 1: "test"}.get(int.from_bytes(first, "big") % published["modulus"], "train")


CORPUS = Corpus(
    "openwebtext",
    columns=("text",),
    splits={"train": ("train", "val", "test")},
    split_of=split_of,
    paper={"train": ("train", "val"), "val": ("test",), "test": ("test",)},
)
fingerprint = CORPUS.fingerprint
train_size = CORPUS.train_size
ready = CORPUS.ready
load = CORPUS.load
