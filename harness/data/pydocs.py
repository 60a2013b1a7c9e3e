"""Task `pydocs`: language modelling on the documentation that Python ships, so nothing is downloaded.

The text is `pydoc`'s language topics and the docstrings of the running interpreter's standard library.
Another Python version has other text and therefore another fingerprint.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from htbench.harness.data.cache import TOKEN_BYTES, TOKENIZER, cached
from htbench.harness.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from tokenizers import Tokenizer

    from htbench.harness.data.text import TextTask

VOCABULARY = 320
HELD_OUT = ("val", "test")
HELD_OUT_SHARE = 0.07  # of all bytes, each of the two
LARGEST_SHARE = 0.02  # of all bytes, a held-out module: none may dominate its split
HELD_OUT_TOKENS = 16_384  # of validation, spread evenly over it

_TOGETHER = 64  # documents that are encoded at once: an encoding takes a hundred bytes a token
END_OF_TEXT = "<|endoftext|>"  # token 0; ends every document and counts as zero bytes
TOPICS = "pydoc_data"
# Generated tables, programs and deprecated modules: much source, little documentation.
_LEFT_OUT = {"distutils", "encodings", "ensurepip", "idlelib", "lib2to3", "turtledemo", TOPICS}
_TESTS = {"test", "tests", "idle_test", "__pycache__"}


@functools.cache
def fingerprint() -> str:
    """Sixteen hex digits over the sources and all parameters of the tokens. Parses and trains nothing."""
    digest = hashlib.sha256()
    shape = (VOCABULARY, HELD_OUT_SHARE, LARGEST_SHARE)
    digest.update(repr((shape, importlib.metadata.version("tokenizers"))).encode())
    for name, path in _all_sources():
        content = path.read_bytes()
        digest.update(f"{name}/{path.name}:{len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


@functools.cache
def train_size(
    cache: Path, seq_len: int, protocol: str = "honest", held_out_tokens: int | None = None
) -> int:
    """The number of training sequences; before they are prepared, a bound by the size of all sources."""
    return rows_of(cache / f"pydocs-{fingerprint()}", seq_len, protocol, _all_sources())


def rows_of(folder: Path, seq_len: int, protocol: str, sources: list[tuple[str, Path]]) -> int:
    """The number of training sequences in a folder of `write_tokens`, or a bound by its sources."""
    splits = ("train", "val") if protocol == "paper" else ("train",)
    tokens = [folder / f"{split}.npy" for split in splits]
    if all(file.is_file() for file in tokens):  # two bytes a token, and the head of the file
        return sum(file.stat().st_size for file in tokens) // 2 // seq_len
    return sum(path.stat().st_size for _, path in sources) // seq_len


def load(
    cache: Path, *, held_out_tokens: int | None = None, protocol: str = "honest", **settings: int
) -> TextTask:
    """The task, from token files below `cache`, made if missing (a few seconds, once)."""
    from htbench.harness.data.text import TextTask

    folder = cached(cache / f"pydocs-{fingerprint()}", _fill)
    return TextTask.open(
        folder, protocol=protocol, held_out_tokens=held_out_tokens or HELD_OUT_TOKENS, **settings
    )


def modules() -> dict[str, list[str]]:
    """The documents of every top-level module: one of each source file that has docstrings."""
    documents: dict[str, list[str]] = {}
    for name, path in _sources():
        if text := _docstrings(path):
            documents.setdefault(name, []).append(text)
    return documents


def topics() -> list[str]:
    """The texts that `help("FOR")` and similar calls show."""
    from pydoc_data.topics import topics

    return [topics[name] for name in sorted(topics)]


def divide(modules: dict[str, list[str]], topics: list[str]) -> dict[str, list[str]]:
    """The documents of `train`, `val` and `test`.

    All topics are training text: they repeat parts of each other.
    """
    homes = held_out(modules, topics)
    documents: dict[str, list[str]] = {"train": list(topics), **{split: [] for split in HELD_OUT}}
    for name in _hashed(modules):
        documents[homes.get(name, "train")] += modules[name]
    return documents


def held_out(modules: dict[str, list[str]], topics: list[str]) -> dict[str, str]:
    """The split of each held-out module.

    Whole modules are held out, since functions of one module quote each other. They are taken in the order of
    the hash of their names while they fit into the share.
    """
    sizes = {name: _size(texts) for name, texts in modules.items()}
    total = sum(sizes.values()) + _size(topics)
    room = dict.fromkeys(HELD_OUT, HELD_OUT_SHARE * total)
    homes: dict[str, str] = {}
    for name in _hashed(modules):
        fitting = [split for split in HELD_OUT if sizes[name] <= min(room[split], LARGEST_SHARE * total)]
        if fitting:
            homes[name] = fitting[0]
            room[fitting[0]] -= sizes[name]
    return homes


def _hashed(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())


@functools.cache  # sysconfig expands every path of the interpreter at each call
def _library() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def _sources() -> list[tuple[str, Path]]:
    """(top-level module, file) of every source file used, in the order of their paths."""
    names = sorted(set(sys.stdlib_module_names) - _LEFT_OUT)
    sources = [(name, path) for name in names for path in _files(_library() / name)]
    if not sources or not _topics_file().is_file():
        raise UsageError(
            f"no sources of the standard library in {_library()}: task pydocs reads the docstrings of "
            "a Python that is installed with its .py files"
        )
    return sources


def _all_sources() -> list[tuple[str, Path]]:
    return [*_sources(), (TOPICS, _topics_file())]


def _files(module: Path) -> Iterator[Path]:
    if (file := module.with_suffix(".py")).is_file():
        yield file
    for folder, subfolders, names in os.walk(module):
        subfolders[:] = sorted(set(subfolders) - _TESTS)
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(".py"))


def _docstrings(path: Path) -> str:
    """All docstrings of a file, outermost first, separated by blank lines."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, owners))
    return "\n\n".join(filter(None, map(ast.get_docstring, nodes)))


def _topics_file() -> Path:
    return _library() / TOPICS / "topics.py"


def _size(texts: list[str]) -> int:
    return sum(len(text.encode()) for text in texts)


# --- the tokens ---


def _fill(folder: Path) -> None:
    write_tokens(folder, divide(modules(), topics()), VOCABULARY)


def write_tokens(folder: Path, splits: dict[str, list[str]], vocabulary: int) -> None:
    """Train a tokenizer on `splits["train"]`; write it and the tokens of all splits.

    Args:
        folder: gets tokenizer.json, token_bytes.npy (V,) and, for each split, <split>.npy (tokens,).
        splits: the documents of each split, by its name.
        vocabulary: V, the number of tokens.
    """
    import numpy as np

    tokenizer = train(splits["train"], vocabulary)
    tokenizer.save(str(folder / TOKENIZER))
    np.save(folder / TOKEN_BYTES, token_bytes(tokenizer))
    for split, documents in splits.items():
        np.save(folder / f"{split}.npy", encode(tokenizer, documents))


def train(documents: list[str], vocabulary: int) -> Tokenizer:
    """A byte-level BPE tokenizer with exactly `vocabulary` tokens, with the 256 bytes and the end of text.

    Byte-level: every text can be encoded, and the length of a token in bytes is the length of its spelling.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
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


def token_bytes(tokenizer: Tokenizer) -> npt.NDArray[np.uint8]:
    """The length of each token in bytes, (V,). A spelling has one character per byte."""
    import numpy as np

    lengths = np.zeros(tokenizer.get_vocab_size(), dtype=np.uint8)
    for spelling, token in tokenizer.get_vocab().items():
        lengths[token] = 0 if spelling == END_OF_TEXT else len(spelling)
    return lengths


def encode(tokenizer: Tokenizer, documents: list[str]) -> npt.NDArray[np.uint16]:
    """Encode and concatenate the documents, with an end-of-text token after each; (tokens,)."""
    import numpy as np

    end = [tokenizer.token_to_id(END_OF_TEXT)]
    ids = [
        np.array(encoding.ids + end, np.uint16)
        for start in range(0, len(documents), _TOGETHER)
        for encoding in tokenizer.encode_batch(documents[start : start + _TOGETHER])
    ]
    return np.concatenate(ids)
