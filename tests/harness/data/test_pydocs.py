"""The documentation corpus: whole modules held out, nothing lost in the tokens, an honest fingerprint."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tokenizers

from htbench.harness.data import pydocs
from htbench.harness.errors import UsageError

SMALL_LIBRARY = {
    "json/__init__.py": '"""JSON."""\ndef dumps():\n  """Write it.\n\n  Like this:\n\n      x\n  """\n',
    "json/decoder.py": '"""Reads it."""\nclass Decoder:\n  """It decodes."""\n  def decode(self): "Do it."\n',
    "json/tests/test_it.py": '"""Not this."""\n',
    "string.py": 'x = 1\n"""No docstring."""\n',
    "textwrap.py": '"""Wraps text."""\n',
    "sitecustomize.py": '"""Not of the library."""\n',
    "encodings/cp1.py": '"""A table."""\n',
    "site-packages/json.py": '"""Not this either."""\n',
}


@pytest.fixture(scope="module")
def modules():
    return pydocs.modules()


@pytest.fixture(scope="module")
def documents(modules):
    return pydocs.divide(modules, pydocs.topics())


@pytest.fixture
def small_library(tmp_path, monkeypatch):
    """A standard library of a few files; the topics stay those of this Python."""
    for name, text in SMALL_LIBRARY.items():
        path = tmp_path / "lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    topics = tmp_path / "lib" / "pydoc_data" / "topics.py"
    topics.parent.mkdir()
    topics.write_text("topics = {}\n")
    monkeypatch.setattr(pydocs, "_library", lambda: tmp_path / "lib")
    pydocs.fingerprint.cache_clear()
    yield tmp_path / "lib"
    pydocs.fingerprint.cache_clear()


def size(texts):
    return sum(len(text.encode()) for text in texts)


def test_the_held_out_splits_have_their_share(documents):
    total = sum(size(texts) for texts in documents.values())
    assert total > 1_000_000
    for split in pydocs.HELD_OUT:
        assert 0.06 < size(documents[split]) / total <= pydocs.HELD_OUT_SHARE


def test_whole_modules_are_held_out(modules, documents):
    homes = {
        name: {split for split in documents if not set(texts).isdisjoint(documents[split])}
        for name, texts in modules.items()
    }
    assert all(len(splits) == 1 for splits in homes.values())
    assert sum(map(len, documents.values())) == sum(map(len, modules.values())) + len(pydocs.topics())


def test_topics_are_for_training_only(documents):
    from pydoc_data.topics import topics

    assert set(topics.values()) <= set(documents["train"])


def test_a_module_that_would_dominate_its_split_trains(monkeypatch):
    modules = {f"small{i}": ["x" * 10] for i in range(100)} | {f"large{i}": ["y" * 50] for i in range(10)}

    def held_out():
        documents = pydocs.divide(modules, topics=[])
        return {text for split in pydocs.HELD_OUT for text in documents[split]}

    assert held_out() == {"x" * 10}
    monkeypatch.setattr(pydocs, "LARGEST_SHARE", 1)
    assert held_out() == {"x" * 10, "y" * 50}


def test_only_docstrings_of_the_librarys_own_modules_are_read(small_library):
    assert pydocs.modules() == {
        "json": ["JSON.\n\nWrite it.\n\nLike this:\n\n    x", "Reads it.\n\nIt decodes.\n\nDo it."],
        "textwrap": ["Wraps text."],
    }


def test_a_python_without_sources_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(pydocs, "_library", lambda: tmp_path)
    with pytest.raises(UsageError, match="no sources of the standard library"):
        pydocs.modules()


def test_the_fingerprint_notices_every_file_it_reads(small_library):
    def now():
        pydocs.fingerprint.cache_clear()
        return pydocs.fingerprint()

    seen = {now()}
    for name in ("json/decoder.py", "textwrap.py", "pydoc_data/topics.py"):
        path = small_library / name
        path.write_text(path.read_text() + "# changed\n")
        seen.add(now())
    (small_library / "string.py").rename(small_library / "stringprep.py")
    seen.add(now())
    assert len(seen) == 5
    (small_library / "sitecustomize.py").write_text("")
    (small_library / "json" / "tests" / "test_it.py").write_text("")
    assert now() in seen


@pytest.fixture(scope="module")
def token_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens")
    pydocs._fill(folder)
    return folder


def test_tokens_spell_the_documents_exactly(token_folder, documents):
    tokenizer = tokenizers.Tokenizer.from_file(str(token_folder / pydocs.TOKENIZER))
    lengths = np.load(token_folder / pydocs.TOKEN_BYTES).astype(int)
    end = tokenizer.token_to_id(pydocs.END_OF_TEXT)
    assert len(lengths) == tokenizer.get_vocab_size() == pydocs.VOCABULARY
    for split, texts in documents.items():
        stream = np.load(token_folder / f"{split}.npy")
        assert stream.dtype == np.uint16
        assert lengths[stream].sum() == size(texts)
        ends = np.flatnonzero(stream == end)
        assert len(ends) == len(texts)
        assert ends[-1] == len(stream) - 1
        assert tokenizer.decode(stream[: ends[0]].tolist()) == texts[0]


def test_tokens_are_the_same_in_another_process_and_on_one_thread(documents, tmp_path):
    code = (
        "import json, sys; from pathlib import Path; from htbench.harness.data import pydocs;"
        "pydocs.write_tokens(Path(sys.argv[1]), json.load(sys.stdin), 400)"
    )
    some = json.dumps({split: texts[:40] for split, texts in documents.items()})
    folders = []
    for number, threads in enumerate(("true", "false")):
        folders.append(tmp_path / str(number))
        folders[-1].mkdir()
        environment = os.environ | {"TOKENIZERS_PARALLELISM": threads, "PYTHONHASHSEED": str(number)}
        words = [sys.executable, "-c", code, str(folders[-1])]
        subprocess.run(words, input=some, text=True, check=True, env=environment)
    for path in folders[0].iterdir():
        assert path.read_bytes() == (folders[1] / path.name).read_bytes(), path.name


def test_merges_come_from_the_training_split_only():
    train, held_out = ["abab abab abab " * 20], ["xyxy xyxy " * 500]
    tokenizer = pydocs.train(train, vocabulary=259)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    assert ["a", "b"] in [list(merge) for merge in merges]
    assert tokenizer.decode(pydocs.encode(tokenizer, held_out)[:-1].tolist()) == held_out[0]


def test_nothing_is_unknown():
    tokenizer = pydocs.train(["abab abab"], vocabulary=258)
    text = "héllo \x00 \U0001f600"
    tokens = pydocs.encode(tokenizer, [text])
    assert tokenizer.decode(tokens[:-1].tolist()) == text
    assert pydocs.token_bytes(tokenizer)[tokens].sum() == len(text.encode())
