"""Preparing a corpus: always the same bytes, and one sentence on whatever is wrong with its files."""

import dataclasses
import errno
import gzip
import json
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from htbench.harness.data import copies, raw
from htbench.harness.data.cache import damaged
from htbench.harness.data.corpus import C4, CORPORA
from htbench.harness.errors import UsageError
from tests.helpers import miniature


def contents(cache, task="c4"):
    (folder,) = cache.glob(f"{task}-*")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def describe(monkeypatch, folder, **settings):
    """Write other miniatures and take them."""
    for name, value in miniature.write_all(folder, **settings).items():
        monkeypatch.setenv(name, value)
    return folder


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Miniatures that this test may damage."""
    return describe(monkeypatch, tmp_path / "raw")


# --- the same bytes ---


def test_flat_files_and_other_types_of_other_columns_give_the_same(tmp_path, monkeypatch, published_corpora):
    for name in ("c4", "openwebtext", "fineweb"):
        miniature.prepare_here(name, tmp_path / "a")
    describe(
        monkeypatch, tmp_path / "flat", flat=True, timestamps=lambda seconds: f"2019-04-25T11:{seconds}Z"
    )
    for name in ("c4", "openwebtext", "fineweb"):
        miniature.prepare_here(name, tmp_path / "b")
        assert contents(tmp_path / "a", name) == contents(tmp_path / "b", name)


def test_files_can_be_added_later(tmp_path, published_corpora):
    miniature.prepare_here("c4", tmp_path / "a", 3)
    for number in (1, 2, 3):
        miniature.prepare_here("c4", tmp_path / "b", number)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    miniature.prepare_here("c4", tmp_path / "b", 1)  # fewer: nothing is lost
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_what_is_prepared_needs_no_raw_files_and_no_writing(tmp_path, own):
    miniature.prepare_here("c4", tmp_path / "a")
    shutil.rmtree(own / "c4")
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "a").rglob("*")}
    assert miniature.prepare_here("c4", tmp_path / "a").lines == []
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "a").rglob("*")} == times


def test_a_flipped_byte_is_found_and_mended(tmp_path, published_corpora):
    miniature.prepare_here("c4", tmp_path)
    before, folder = contents(tmp_path), C4.folder(tmp_path)
    assert damaged(folder) == []
    file = folder / "train-00001.tokens"
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    assert damaged(folder) == ["train-00001.tokens"]
    file.unlink()
    miniature.prepare_here("c4", tmp_path)
    assert contents(tmp_path) == before


# --- what is refused ---


def test_another_number_of_documents_is_refused(tmp_path, own):
    file = own / "c4" / "en" / "c4-train.00001-of-00003.json.gz"
    lines = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
    file.write_bytes(gzip.compress(b"".join(lines[:-1])))
    with pytest.raises(
        UsageError, match="00001-of-00003.json.gz' has 39 documents, the published file has 41"
    ):
        miniature.prepare_here("c4", tmp_path)
    file.write_bytes(gzip.compress(b"".join([*lines, lines[0]])))  # as many as a file may have
    with pytest.raises(UsageError, match="train documents of 'c4' are 122 instead of the published 121"):
        miniature.prepare_here("c4", tmp_path)
    file.write_bytes(gzip.compress(b"".join(lines)))
    miniature.prepare_here("c4", tmp_path)


def test_a_truncated_file_is_refused(tmp_path, own):
    file = own / "c4" / "en" / "c4-train.00001-of-00003.json.gz"
    file.write_bytes(file.read_bytes()[:500])
    with pytest.raises(UsageError, match=r"can't be read as json \(.*\); download it again"):
        miniature.prepare_here("c4", tmp_path)
    assert not [name for name in contents(tmp_path) if name.startswith(".") or "00001.tokens" in name]


def test_another_tokenizer_is_refused(tmp_path, own):
    shutil.copy(own / "openwebtext" / "tokenizer.json", own / "c4" / "tokenizer.json")
    with pytest.raises(UsageError, match="is not the tokenizer of google-t5/t5-base: 'Hello, my alder"):
        miniature.prepare_here("c4", tmp_path)
    (own / "c4" / "tokenizer.json").write_text("{}")
    with pytest.raises(UsageError, match="is no tokenizer"):
        miniature.prepare_here("c4", tmp_path)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("tokenizer.json", "https://huggingface.co/google-t5/t5-base/resolve/miniature/tokenizer.json"),
        (
            "en/c4-train.00002-of-00003.json.gz",
            "https://huggingface.co/datasets/allenai/c4/resolve/miniature/en/c4-train.00002-of-00003.json.gz",
        ),
    ],
)
def test_a_missing_file_without_network_is_named_with_its_place(tmp_path, own, monkeypatch, name, place):
    (own / "c4" / name).unlink()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UsageError) as refused:
        miniature.prepare_here("c4", tmp_path)
    for words in (f"'{name}' of", "can't be fetched", f"'{place}'", f"into '{own / 'c4'}'"):
        assert words in str(refused.value)


def test_a_disk_that_gets_full_is_named(tmp_path, own, monkeypatch):
    def split(published, part, document):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setitem(CORPORA, "c4", dataclasses.replace(C4, split_of=split))
    with pytest.raises(OSError, match="No space left") as full:
        miniature.prepare_here("c4", tmp_path)
    assert full.value.filename.startswith(str(C4.folder(tmp_path)))


def test_raw_files_lie_in_a_folder_of_the_task(tmp_path, monkeypatch):
    assert raw.folder(tmp_path, "c4") == tmp_path / "data" / "c4"
    monkeypatch.setenv("HTBENCH_DATA", "/data")
    assert str(raw.folder(tmp_path, "c4")) == "/data/c4"


# --- the description of the published copies ---


def test_a_description_of_ones_own_stands_before_ours(tmp_path, monkeypatch):
    ours = copies.digest("c4")
    assert copies.row("c4")["repository"] == "allenai/c4"
    file = tmp_path / "mine.json"
    monkeypatch.setenv("HTBENCH_PUBLISHED", str(file))
    with pytest.raises(UsageError, match="mine.json' can't be read"):
        copies.row("c4")
    for text, complaint in (("[", "is no JSON"), ("[]", "must hold an object")):
        file.write_text(text)
        with pytest.raises(UsageError, match=complaint):
            copies.row("c4")
    file.write_text(json.dumps({"openwebtext": {}}))
    assert copies.row("openwebtext") == {} and copies.digest("c4") == ours
    with pytest.raises(UsageError, match="No published copy of 'pydocs'"):
        copies.row("pydocs")


def test_the_published_numbers(monkeypatch):
    parts = copies.row("c4")["parts"]
    assert (parts["train"]["files"], parts["train"]["documents"]) == (1024, 364_868_892)
    assert parts["train"]["pattern"].format(12) == "en/c4-train.00012-of-01024.json.gz"
    assert (parts["validation"]["files"], parts["validation"]["documents"]) == (8, 364_608)
    (part,) = copies.row("openwebtext")["parts"].values()
    assert part["documents"] == 8_013_769
    for name, vocabulary in (("c4", 32_000), ("openwebtext", 50_257)):
        assert copies.row(name)["tokenizer"]["vocabulary"] == vocabulary


# --- a hub ---


class Hub(SimpleHTTPRequestHandler):
    """Answers as the Hugging Face hub does for files: /datasets/OWNER/NAME/resolve/REVISION/FILE."""

    asked: list[str] = []

    def send_head(self):
        self.asked.append(f"{self.command} {self.path}")
        return super().send_head()

    def translate_path(self, path):
        name = path.partition("/resolve/miniature/")[2]
        task = "c4" if "c4" in path or "t5" in path else "openwebtext"
        return f"{self.directory}/{task}/{name}"

    def end_headers(self):
        self.send_header("ETag", '"0123456789abcdef0123456789abcdef"')
        self.send_header("X-Repo-Commit", "0123456789abcdef0123456789abcdef01234567")
        super().end_headers()

    def log_message(self, *words):
        pass


FETCH = """
import sys
from pathlib import Path
from htbench.harness.data import raw
place = Path(sys.argv[1])
print(raw.fetch("allenai/c4", "miniature", "en/c4-train.00002-of-00003.json.gz", place))
print(raw.fetch("google-t5/t5-base", "miniature", "tokenizer.json", place, "model"))
try:
    raw.fetch("allenai/c4", "miniature", "en/absent.json.gz", place)
except raw.UsageError as error:
    print(error)
"""


def test_files_are_fetched_from_a_hub_into_the_folder_of_raw_files(tmp_path, published_corpora):
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Hub, directory=str(published_corpora)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_HOME": str(tmp_path / "home"),
        "PATH": "",
    }
    done = subprocess.run(
        [sys.executable, "-c", FETCH, str(tmp_path / "c4")], capture_output=True, text=True, env=environment
    )
    server.shutdown()
    server.server_close()
    assert done.returncode == 0, done.stderr
    *places, refused = done.stdout.splitlines()
    for name in ("en/c4-train.00002-of-00003.json.gz", "tokenizer.json"):
        assert str(tmp_path / "c4" / name) in places
        assert raw.find(tmp_path / "c4", name).read_bytes() == (published_corpora / "c4" / name).read_bytes()
    assert "'en/absent.json.gz' of allenai/c4 can't be fetched" in refused and "goes on from here" in refused
