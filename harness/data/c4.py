"""Task `c4`: language modelling on C4, English, with the tokens of T5.

Source: Raffel et al., "Exploring the limits of transfer learning with a unified text-to-text transformer"
(JMLR 2020); the copy of the Allen Institute for AI.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from harness.data.corpus import Corpus


def split_of(published: Mapping[str, Any], part: str, document: Mapping[str, str]) -> str:
    """Training files are for training. The published validation split is halved by the hash of the URL."""
    if part == "train":
        return "train"
    return ("val", "test")[hashlib.sha256(document["url"].encode()).digest()[0] & 1]


CORPUS = Corpus(
    "c4",
    columns=("text", "url"),
    splits={"train": ("train",), "validation": ("val", "test")},
    split_of=split_of,
    paper={"train": ("train",), "val": ("val", "test"), "test": ("val", "test")},
)
fingerprint = CORPUS.fingerprint
train_size = CORPUS.train_size
ready = CORPUS.ready
load = CORPUS.load
