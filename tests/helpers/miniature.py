"""Miniatures of the published corpora: files of the very schema, a tokenizer each, and their description."""

import gzip
import json
import os
import random
from array import array
from pathlib import Path
from unittest import mock

from htbench.harness.data import prepare, raw
from tests.helpers import photographs

WORDS = "alder birch cedar elm fir hazel larch maple oak pine rowan spruce willow yew".split()
PROBE = "Hello, my alder is oak"


def text(generator, most=60):
    """Sentences in which every word depends on the one before it, so that a model can learn something."""
    at, words = generator.randrange(len(WORDS)), []
    for _ in range(generator.randint(3, most)):
        words.append(WORDS[at])
        at = (at + generator.choice((1, 1, 1, 5))) % len(WORDS)
    return " ".join(words) + "."


def write_all(folder, **settings):
    """Write all published sets below `folder`; returns the variables that make htbench take them."""
    published = {"c4": c4(folder, **settings), "openwebtext": openwebtext(folder, **settings)}
    published["fineweb"] = fineweb(folder, flat=settings.get("flat", False))
    published |= {task: photographs.write(task, Path(folder) / task) for task in photographs.SHAPES}
    file = Path(folder) / "published.json"
    file.write_text(json.dumps(published))
    return {"HTBENCH_DATA": str(folder), "HTBENCH_PUBLISHED": str(file)}


def prepared(folder, variables, names):
    """The folder with these sets prepared in it; `variables` are those of `write_all`."""
    with mock.patch.dict(os.environ, variables):
        for name in names:
            prepare_here(name, folder)
    return folder


def c4(folder, flat=False, files=3, documents=121, timestamps=str):
    """C4 in json.gz; its URLs tell the halves of the validation split apart."""
    place = Path(folder) / "c4"
    parts = {
        "train": part(f"en/c4-train.{{:05d}}-of-{files:05d}.json.gz", files, documents),
        "validation": part("en/c4-validation.{:05d}-of-00002.json.gz", 2, 40),
    }
    generator = random.Random(1)
    for its in parts.values():
        for name, size in names(its):
            with gzip.open(place_of(place, name, flat), "wt") as file:
                for number in range(size):
                    row = {"text": text(generator), "timestamp": timestamps(1556193177 + number)}
                    row["url"] = f"https://example.org/{generator.random()}"
                    file.write(json.dumps(row) + "\n")
    return published_row("allenai/c4", "json", parts, sentencepiece_like(place / "tokenizer.json"))


def openwebtext(folder, flat=False, files=3, documents=121, **others):
    """OpenWebText in parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    place = Path(folder) / "openwebtext"
    row = part(f"plain_text/train-{{:05d}}-of-{files:05d}.parquet", files, documents)
    generator = random.Random(2)
    for name, size in names(row):
        pq.write_table(
            pa.table({"text": [text(generator) for _ in range(size)]}), place_of(place, name, flat)
        )
    tokenizer = byte_level(place / "tokenizer.json")
    return published_row("Skylion007/openwebtext", "parquet", {"train": row}, tokenizer) | {"modulus": 8}


def fineweb(folder, flat=False, files=3, tokens=2000):
    """FineWeb as tokens of GPT-2, in the files of llm.c; the last training file is shorter."""
    from tokenizers import Tokenizer

    place = Path(folder) / "fineweb"
    described = byte_level(place / "tokenizer.json")
    tokenizer, end = Tokenizer.from_file(str(place / "tokenizer.json")), described["end"]
    generator = random.Random(3)
    parts = {
        "train": part("fineweb_train_{:06d}.bin", files, 50 * files) | {"first": 1, "file_tokens": tokens},
        "validation": part("fineweb_val_{:06d}.bin", 1, 50) | {"file_tokens": tokens},
    }
    stream = []
    while len(stream) < (files + 1) * tokens:
        stream += [tokenizer.token_to_id(end), *tokenizer.encode(text(generator)).ids]
    for number in range(files + 1):  # the first one is for validation, and documents go on in the next file
        kind = "train" if number else "val"
        own = stream[number * tokens : (number + 1) * tokens - 300 * (number == files)]
        llm_c(place_of(place, f"fineweb_{kind}_{number:06d}.bin", flat), own)
    described |= {"vocabulary": described["vocabulary"] + 20}
    return published_row("kjj0/fineweb10B-gpt2", "tokens", parts, described) | {"validation": 1200}


def published_row(repository, form, parts, tokenizer):
    fixed = {"repository": repository, "revision": "miniature", "format": form}
    return fixed | {"parts": parts, "tokenizer": tokenizer}


def llm_c(path, tokens, *head):
    """A file of tokens as llm.c writes it, or with another beginning."""
    numbers = array("i", [*(head or (20240520, 1, len(tokens))), *[0] * 256][:256])
    path.write_bytes(numbers.tobytes() + array("H", tokens).tobytes())


def part(pattern, files, documents):
    return {
        "pattern": pattern,
        "files": files,
        "documents": documents,
        "file_bytes": 4000,
        "file_tokens": 40 * documents // files,
    }


def names(row):
    """Every file of a part with its number of documents."""
    for number in range(row["files"]):
        size = row["documents"] // row["files"] + (number < row["documents"] % row["files"])
        yield row["pattern"].format(number), size


def place_of(folder, name, flat):
    path = folder / (Path(name).name if flat else name)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


# --- tokenizers ---


def sentencepiece_like(file):
    """As of T5: spaces are a letter of their own, and an end token is added by the tokenizer."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=80, special_tokens=special))
    tokenizer.post_processor = processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 1)])
    tokenizer.add_special_tokens(["<extra_id_0>"])  # T5 has a hundred, beyond the model's vocabulary
    return described(tokenizer, file, "google-t5/t5-base", "</s>", "<pad>", tokenizer.get_vocab_size() - 1)


def byte_level(file):
    """As of GPT-2: a letter is a byte."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    end = "<|endoftext|>"
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=[end], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(corpus(), trainer)
    return described(tokenizer, file, "openai-community/gpt2", end, end, tokenizer.get_vocab_size())


def corpus():
    generator = random.Random(0)
    return [PROBE, *(text(generator) for _ in range(50))]


def described(tokenizer, file, repository, end, pad, vocabulary):
    file.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(file))
    return {
        "repository": repository,
        "revision": "miniature",
        "file": file.name,
        "vocabulary": vocabulary,
        "end": end,
        "pad": pad,
        "probe": PROBE,
        "ids": tokenizer.encode(PROBE).ids,
    }


# --- prepared in this process, which takes a tenth of the time of a pool ---


class Silent:
    """A progress that keeps its lines."""

    def __init__(self):
        self.lines = []

    def note(self, line):
        self.lines.append(line)


def prepare_here(task, cache, train_files=3, raw_folder=None):
    """What `htbench data prepare` does, without its processes. The environment names the miniature."""
    progress = Silent()
    folder = raw_folder or raw.folder(Path(cache), task)
    with mock.patch.object(prepare, "make", make_here):
        prepare.prepare(prepare.source_of(task), Path(cache), folder, train_files, 1, progress)
    return progress


def make_here(source, files, raw_folder, folder, workers, progress):
    with mock.patch.dict(os.environ, {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}):
        import datasets  # noqa: F401  # reads the variables

        for file in files:
            prepare.make_one(source, file, raw_folder, folder)
