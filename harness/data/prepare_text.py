"""How a corpus is prepared: raw files to shards of tokens, with the published tokenizer. Needs no torch.

From one raw file to its shards: read, divide, tokenise, write. Each step depends on that file alone.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers

from htbench.harness.data import raw
from htbench.harness.data.cache import MANIFEST, TOKEN_BYTES, TOKENIZER, digest, wrong_size
from htbench.harness.data.copies import RawFile
from htbench.harness.data.corpus import Corpus
from htbench.harness.data.stamps import OFFSETS, TOKENS, Prepared, Shard
from htbench.harness.errors import UsageError
from htbench.harness.system import atomic

BATCH = 1000  # documents that are tokenised at once
_SPACE = "\u2581"  # stands for a space in spellings of SentencePiece
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")  # one byte, where SentencePiece falls back to bytes

_HEAD, _MAGIC, _VERSION = 256, 20240520, 1  # of a file of tokens: numbers before them, and the first two

Tokens = npt.NDArray[np.uint16]
Document = tuple[Sequence[int] | Tokens, Mapping[str, Any]]  # with its end token, and its columns
Stamp = list[dict[str, Any]]  # of a raw file: a shard with its digests each


@dataclass(frozen=True)
class CorpusSource(Corpus):
    """A corpus for `prepare`."""

    def done(self, file: RawFile, folder: Path) -> Stamp | None:
        """The stamp of a raw file, a shard with its digests each; None if it is to be made."""
        rows = atomic.read_json(_stamp(folder, file))
        if not isinstance(rows, list) or any(wrong_size(folder, Shard(**row["shard"]).sizes) for row in rows):
            return None
        return rows

    def write(self, file: RawFile, path: Path, folder: Path) -> None:
        """Make the shards of a raw file, then a stamp with their sizes and digests: `done` finds it.

        Args:
            file: which file.
            path: where it lies.
            folder: of the prepared data.

        Raises:
            UsageError: the file can't be read, or has another number of documents than the published one.
        """
        published, part = self.published, self.published["parts"][file.part]
        tokenizer = PublishedTokenizer.read(folder / TOKENIZER, published["tokenizer"])
        names = {split: f"{split}-{file.number:05d}" for split in self.splits[file.part]}
        offsets = {split: array("q", [0]) for split in names}
        with contextlib.ExitStack() as stack:
            files = {
                split: stack.enter_context(atomic.writing(folder / (name + TOKENS)))
                for split, name in names.items()
            }
            read = _token_documents if self.is_tokens else _text_documents
            for tokens, document in read(self, file, path, tokenizer):
                split = self.split_of(published, file.part, document)
                files[split].write(np.asarray(tokens, dtype=np.uint16).tobytes())
                offsets[split].append(offsets[split][-1] + len(tokens))
            documents = sum(len(starts) - 1 for starts in offsets.values())
            least, more = divmod(part["documents"], part["files"])
            if not self.is_tokens and documents not in (least, least + bool(more)):
                raise UsageError(
                    f"'{path}' has {documents} documents, the published file has {least + bool(more)}: it is "
                    f"another or a partial copy; download it again."
                )
        rows = []
        for split, name in names.items():
            atomic.write_bytes(folder / (name + OFFSETS), offsets[split].tobytes())
            shard = Shard(name, len(offsets[split]) - 1, offsets[split][-1])
            digests = {kind: digest(folder / (name + kind)) for kind in (TOKENS, OFFSETS)}
            rows.append({"shard": vars(shard), "sha256": digests})
        atomic.write_json(_stamp(folder, file), rows)

    # --- the folder ---

    def finished(self, folder: Path, train_files: int) -> Prepared | None:
        """What the folder's stamp says, if that is enough and all there."""
        prepared = Prepared.read(folder)
        if prepared is None or prepared.train_files < train_files or wrong_size(folder, prepared.sizes):
            return None
        return prepared

    def copy_tokenizer(self, folder: Path, raw_folder: Path) -> None:
        """Copy the tokenizer into the folder, with the lengths of its tokens. What is there stays."""
        row, place = self.published["tokenizer"], folder / TOKENIZER
        if place.is_file() and (folder / TOKEN_BYTES).is_file():
            return
        file = raw.fetch(row["repository"], row["revision"], row["file"], raw_folder, "model")
        lengths = PublishedTokenizer.read(file, row).token_bytes()
        atomic.write_with(folder / TOKEN_BYTES, lambda file: np.save(file, lengths))
        atomic.write_bytes(place, file.read_bytes())

    def seal(self, folder: Path) -> Prepared:
        """Write the stamp over all files that are prepared by now, and the manifest of their digests."""
        row = self.published
        stamps = {file: self.done(file, folder) for file in self.files(self.train_files)}
        lacking = (file.number for file, stamp in stamps.items() if stamp is None)  # held-out files are done
        train_files = next(lacking, self.train_files)
        ready = {
            file: stamp
            for file, stamp in stamps.items()
            if stamp is not None and (file.part != "train" or file.number < train_files)
        }
        for part, published in row["parts"].items():
            files = {_stamp(folder, file): stamp for file, stamp in ready.items() if file.part == part}
            if len(files) == published["files"] and not self.is_tokens:
                documents = sum(shard["shard"]["documents"] for stamp in files.values() for shard in stamp)
                self.check_total(part, "documents", documents, files)
        shards = [shard for stamp in ready.values() for shard in stamp]
        tokenizer = PublishedTokenizer.read(folder / TOKENIZER, row["tokenizer"])
        prepared = Prepared(
            task=self.task,
            source=f"{row['repository']} at {row['revision']}",
            train_files=train_files,
            vocabulary=tokenizer.vocabulary,
            end=tokenizer.end,
            pad=tokenizer.pad,
            shards={shard["shard"]["name"]: Shard(**shard["shard"]) for shard in shards},
        )
        manifest = {name: digest(folder / name) for name in (TOKENIZER, TOKEN_BYTES)}
        manifest |= {
            shard["shard"]["name"] + kind: value
            for shard in shards
            for kind, value in shard["sha256"].items()
        }
        atomic.write_json(folder / MANIFEST, manifest)
        prepared.write(folder)
        return prepared


def _stamp(folder: Path, file: RawFile) -> Path:
    return folder / f"{file.stem}.json"


def _text_documents(
    corpus: Corpus, file: RawFile, path: Path, tokenizer: PublishedTokenizer
) -> Iterator[Document]:
    """The documents of a file of text; the types of columns that nobody wants differ by copy."""
    with raw.rows(path, corpus.published["format"]) as rows:
        for batch in rows.select_columns(list(corpus.columns)).iter(batch_size=BATCH):
            tokens = tokenizer.encode(batch[corpus.columns[0]])
            for number, own in enumerate(tokens):
                yield [*own, tokenizer.end], {column: batch[column][number] for column in corpus.columns}


def _token_documents(
    corpus: Corpus, file: RawFile, path: Path, tokenizer: PublishedTokenizer
) -> Iterator[Document]:
    """The documents of a file of tokens, cut after end tokens and where validation ends.

    An end token stands before each document there, so that the first piece of a file may be that alone. The
    format is that of llm.c (https://github.com/karpathy/llm.c, `dev/data`): 256 int32, the first three a
    magic number, a version and the number of tokens, then these as uint16.
    """
    head = np.fromfile(path, "<i4", _HEAD)
    tokens = np.fromfile(path, np.uint16, offset=4 * _HEAD if len(head) == _HEAD else 0)
    if (*head[:3],) != (_MAGIC, _VERSION, len(tokens)) or path.stat().st_size != 4 * _HEAD + 2 * len(tokens):
        raise UsageError(f"'{path}' is no whole file of tokens as llm.c writes them; download it again.")
    part = corpus.published["parts"][file.part]
    most, is_last = part["file_tokens"], file.number + 1 == part["files"]
    if len(tokens) > most or (len(tokens) < most and not is_last):
        raise UsageError(
            f"'{path}' has {len(tokens)} tokens, the published file has {most}; download it again."
        )
    if len(tokens) and (highest := int(tokens.max())) >= tokenizer.vocabulary:
        raise UsageError(f"'{path}' has token {highest}, but the vocabulary is {tokenizer.vocabulary}.")
    cuts = np.flatnonzero(tokens == tokenizer.end) + 1
    if file.part == "validation":
        cuts = np.union1d(cuts, [corpus.published["validation"] + 1])
    edges = [0, *cuts[cuts < len(tokens)].tolist(), len(tokens)]
    for start, end in itertools.pairwise(edges):
        yield tokens[start:end], {"start": start}


# --- the tokenizer ---


@dataclass(frozen=True)
class PublishedTokenizer:
    """A tokenizer with the vocabulary that the model gets, its end token and its padding token."""

    tokenizer: tokenizers.Tokenizer
    vocabulary: int
    end: int
    pad: int

    @classmethod
    def read(cls, file: Path, row: Mapping[str, Any]) -> PublishedTokenizer:
        """The tokenizer of a tokenizer.json, proven on a sentence of its row in copies.json.

        Raises:
            UsageError: it can't be read, or it is another one.
        """
        try:
            tokenizer = tokenizers.Tokenizer.from_file(str(file))
        except Exception as error:  # the library raises plain exceptions
            raise UsageError(f"'{file}' is no tokenizer of the `tokenizers` library: {error}.") from None
        tokenizer.no_padding()
        tokenizer.no_truncation()
        ids = tokenizer.encode(row["probe"]).ids
        end, pad = tokenizer.token_to_id(row["end"]), tokenizer.token_to_id(row["pad"])
        if ids != row["ids"] or end is None or pad is None:
            raise UsageError(
                f"'{file}' is not the tokenizer of {row['repository']}: '{row['probe']}' has the tokens "
                f"{ids} instead of {row['ids']}."
            )
        # A document that spells out an end token must not end there.
        tokenizer.encode_special_tokens = True
        return cls(tokenizer, row["vocabulary"], end, pad)

    def encode(self, texts: list[str]) -> list[list[int]]:
        """The tokens of each text, without an end token."""
        encodings = self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        tokens = [encoding.ids for encoding in encodings]
        most = max((max(ids) for ids in tokens if ids), default=0)
        if most >= self.vocabulary:
            raise UsageError(f"The tokenizer gives token {most}, but the vocabulary is {self.vocabulary}.")
        return tokens

    def token_bytes(self) -> npt.NDArray[np.uint16]:
        """The length in bytes of the text of each token, (vocabulary,).

        An unknown character counts as one byte, and so does the space that SentencePiece puts before a text.
        """
        description = json.loads(self.tokenizer.to_str())
        special = {token["id"] for token in description["added_tokens"] if token["special"]}
        unknown = description["model"].get("unk_id", description["model"].get("unk_token"))
        by_bytes = "ByteLevel" in json.dumps([description["pre_tokenizer"], description["decoder"]])
        lengths = np.zeros(self.vocabulary, dtype=np.uint16)
        for spelling, token in self.tokenizer.get_vocab().items():
            if token >= self.vocabulary:
                continue
            if unknown in (token, spelling):
                lengths[token] = 1
            elif token not in special:
                is_byte = not by_bytes and _BYTE.fullmatch(spelling)
                text = spelling if by_bytes else spelling.replace(_SPACE, " ").encode()
                lengths[token] = 1 if is_byte else len(text)
        return lengths
