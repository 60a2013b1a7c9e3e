"""Trains a byte-level BPE tokenizer on the training split, and writes it and the tokens of all splits.

Byte-level: every text can be encoded, and the length of a token in bytes is the length of its spelling.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

END_OF_TEXT = "<|endoftext|>"  # token 0; ends every document and counts as zero bytes
TOKENIZER = "tokenizer.json"
TOKEN_BYTES = "token_bytes.npy"


def write_tokens(folder: Path, splits: Mapping[str, list[str]], vocabulary: int) -> None:
    """Train a tokenizer on `splits["train"]`; write it and the tokens of all splits.

    Args:
        folder: gets tokenizer.json, token_bytes.npy (V,) and, for each split, <split>.npy (tokens,).
        splits: the documents of each split, by its name.
        vocabulary: V, the number of tokens.
    """
    tokenizer = train(splits["train"], vocabulary)
    tokenizer.save(str(folder / TOKENIZER))
    np.save(folder / TOKEN_BYTES, token_bytes(tokenizer))
    for split, documents in splits.items():
        np.save(folder / f"{split}.npy", encode(tokenizer, documents))


def train(documents: list[str], vocabulary: int) -> tokenizers.Tokenizer:
    """Train a tokenizer with exactly `vocabulary` tokens, including the 256 bytes and the end of text."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents, trainer)
    assert tokenizer.get_vocab_size() == vocabulary, "too little text for this vocabulary"
    return tokenizer


def token_bytes(tokenizer: tokenizers.Tokenizer) -> npt.NDArray[np.uint8]:
    """The length of each token in bytes, (V,). A spelling has one character per byte."""
    lengths = np.zeros(tokenizer.get_vocab_size(), dtype=np.uint8)
    for spelling, token in tokenizer.get_vocab().items():
        lengths[token] = 0 if spelling == END_OF_TEXT else len(spelling)
    return lengths


def encode(tokenizer: tokenizers.Tokenizer, documents: list[str]) -> npt.NDArray[np.uint16]:
    """Encode and concatenate the documents, with an end-of-text token after each; (tokens,)."""
    end = [tokenizer.token_to_id(END_OF_TEXT)]
    ids = [np.array(encoding.ids + end, np.uint16) for encoding in tokenizer.encode_batch(documents)]
    return np.concatenate(ids)
