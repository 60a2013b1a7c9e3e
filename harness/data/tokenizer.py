"""Documents to tokens: a byte-level BPE tokenizer, trained on the training split, and its token files.

Byte-level means that nothing is unknown and that a token's length in bytes can be read off its spelling.
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
    """Train on `splits["train"]`; write tokenizer.json, token_bytes.npy and <split>.npy of each split."""
    tokenizer = train(splits["train"], vocabulary)
    tokenizer.save(str(folder / TOKENIZER))
    np.save(folder / TOKEN_BYTES, token_bytes(tokenizer))
    for split, documents in splits.items():
        np.save(folder / f"{split}.npy", encode(tokenizer, documents))


def train(documents: list[str], vocabulary: int) -> tokenizers.Tokenizer:
    """A tokenizer with exactly `vocabulary` tokens, among them the 256 bytes and the end of text."""
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
    """Length in bytes of each token (V,): the byte-level alphabet spells every byte as one character."""
    lengths = np.zeros(tokenizer.get_vocab_size(), dtype=np.uint8)
    for spelling, token in tokenizer.get_vocab().items():
        lengths[token] = 0 if spelling == END_OF_TEXT else len(spelling)
    return lengths


def encode(tokenizer: tokenizers.Tokenizer, documents: list[str]) -> npt.NDArray[np.uint16]:
    """The documents one after the other, an end of text after each: (tokens,)."""
    end = [tokenizer.token_to_id(END_OF_TEXT)]
    ids = [np.array(encoding.ids + end, np.uint16) for encoding in tokenizer.encode_batch(documents)]
    return np.concatenate(ids)
