"""The sources of Python: what pydocs holds out is held out with its tests, copies are left out."""

import platform
import random

import numpy as np
import pytest
import tokenizers

from htbench.harness.data import pydocs, pysource
from htbench.harness.errors import UsageError
from tests.helpers import prepared

HOMES = {
    "json": "test",
    "re": "val",
    "io": "test",
    "py_compile": "val",
    "_markupbase": "test",
    "cProfile": "val",
}


def words(seed, count=200):
    generator = random.Random(seed)
    return " ".join(f"word{generator.randrange(10**6)}" for _ in range(count))


LIBRARY = {
    "json/__init__.py": words(1),
    "json/decoder.py": words(2),
    "json/tests/test_own.py": words(3),
    "queue.py": words(4),
    "heapq.py": words(5),
    "stringprep.py": words(6),
    "encodings/cp1.py": words(7),
    "html/entities.py": words(8),
    "html/parser.py": words(9),
    "site-packages/other.py": words(10),
    "json.txt": words(11),
    "test/test_json/test_dump.py": words(12),
    "test/test_heapq.py": words(13),
    "test/test_queue.py": words(14),
    "test/test_zlib.py": words(2) + words(15, 900),  # has the text of a held-out module
    "test/test_copy.py": words(13),
    "test/test_latin.py": b"# \xe9 " + words(16).encode(),
    "test/__init__.py": "",
}


@pytest.fixture
def library(tmp_path, monkeypatch):
    for name, text in LIBRARY.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    monkeypatch.setattr(pydocs, "_library", lambda: tmp_path)
    monkeypatch.setattr(pydocs, "fingerprint", lambda: "of pydocs")
    yield tmp_path
    pysource.fingerprint.cache_clear()


def test_modules_of_pydocs_are_held_out_with_their_tests_and_copies_are_left_out(library):
    documents = pysource.divide(pysource._sources(), {"json": "test", "queue": "val"})
    names = {text: name for name, text in LIBRARY.items()}
    assert {split: [names[text] for text in texts] for split, texts in documents.items()} == {
        "test": [
            "json/__init__.py",
            "json/decoder.py",
            "json/tests/test_own.py",
            "test/test_json/test_dump.py",
        ],
        "val": ["queue.py", "test/test_queue.py"],
        "train": ["heapq.py", "html/parser.py", "test/test_copy.py"],  # test_heapq.py is its copy
    }


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("json/decoder.py", "test"),
        ("_json.py", "test"),
        ("_pyio.py", "test"),
        ("test/test_json/test_re.py", "test"),
        ("test/test_re.py", "val"),
        ("test/re_tests.py", "val"),
        ("test/test_re2.py", "val"),
        ("test/test_io.py", "test"),
        ("test/test_py_compile.py", "val"),
        ("test/test_markupbase.py", "test"),
        ("test/test_cprofile.py", "val"),
        ("test/test_requests.py", "train"),
        ("test/test_asyncio/test_re.py", "train"),
        ("jsonlike.py", "train"),
    ],
)
def test_the_split_of_a_file(name, split):
    assert pysource.split_of(name, HOMES) == split


def test_a_document_may_share_a_twentieth_with_those_before():
    first, own = words(1, 500), words(2, 1000)
    some, many = (" ".join([*first.split()[:shared], *own.split()]) for shared in (50, 90))
    assert pysource.unrepeated([first, some]) == [True, True]
    assert pysource.unrepeated([first, many]) == [True, False]
    assert pysource.unrepeated([some, first]) == [True, False]  # in turn: 38 of its 488 grams
    # What was left out has not been seen: the last one shares nothing with a kept one.
    assert pysource.unrepeated([first, many, own]) == [True, False, True]
    assert pysource.unrepeated(["x " * 12, "y " * 13, "y " * 14]) == [False, True, False]


def test_the_fingerprint_notices_files_and_the_release(library, monkeypatch):
    def now():
        pysource.fingerprint.cache_clear()
        return pysource.fingerprint()

    seen = {now()}
    (library / "test" / "test_heapq.py").write_text("# changed\n")
    seen.add(now())
    (library / "queue.py").rename(library / "sched.py")
    seen.add(now())
    monkeypatch.setattr(platform, "python_version", lambda: "3.11.99")
    seen.add(now())
    assert len(seen) == 4
    (library / "encodings" / "cp1.py").write_text("")
    assert now() in seen


def test_a_python_without_tests_is_one_sentence(library):
    for file in (library / "test").glob("test_*.py"):
        file.unlink()
    with pytest.raises(UsageError, match=f"no tests of the standard library in {library}.*or task pydocs$"):
        pysource.fingerprint()


@pytest.mark.slow
def test_the_library_of_this_python(tmp_path):
    prepared.whole_library(tmp_path)
    tokens = {split: np.load(tmp_path / f"{split}.npy", mmap_mode="r") for split in ("train", "val", "test")}
    total = sum(map(len, tokens.values()))
    assert total > 10_000_000
    assert all(0.03 < len(tokens[split]) / total < 0.2 for split in ("val", "test"))
    spelled = tokenizers.Tokenizer.from_file(str(tmp_path / pydocs.TOKENIZER))
    asked = spelled.decode(tokens["test"].tolist(), skip_special_tokens=False).split(pydocs.END_OF_TEXT)
    learnt = spelled.decode(tokens["train"].tolist(), skip_special_tokens=False).split(pydocs.END_OF_TEXT)
    assert not set(asked[:-1]) & set(learnt)
    homes = pydocs.held_out(pydocs.modules(), pydocs.topics())
    held_out = {path.read_text() for name, path in pysource._sources() if name.partition("/")[0] in homes}
    assert not held_out & set(learnt) and len(held_out & set(asked)) > 20
