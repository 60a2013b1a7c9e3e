"""FineWeb, published as tokens: its rows recomputed from a miniature, and which files are refused."""

import math
import re

import numpy as np
import pytest

from htbench.harness import tasks
from htbench.harness.data.corpus import FINEWEB
from htbench.harness.data.order import permutation
from htbench.harness.data.stamps import Prepared
from htbench.harness.errors import UsageError
from tests.helpers import miniature

T = 24


@pytest.fixture
def cache(tmp_path, published_corpora):
    miniature.prepare_here("fineweb", tmp_path)
    return tmp_path


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Files that this test may damage."""
    for name, value in miniature.write_all(tmp_path / "raw").items():
        monkeypatch.setenv(name, value)
    return tmp_path / "raw" / "fineweb"


def tokens(folder, name):
    return np.fromfile(folder / f"fineweb_{name}.bin", np.uint16)[512:].tolist()  # the head has 1024 bytes


def build(cache, **changes):
    return tasks.build("fineweb", cache=cache, **{"batch_size": 8, "data_seed": 3, "seq_len": T} | changes)


def windows(stream):
    return [stream[start : start + T + 1] for start in range(0, len(stream) - T, T)]


def rows(task, split):
    rows = task.rows[split]
    inputs, targets = rows.gather(np.arange(len(rows)))
    return [[*row, last] for row, last in zip(inputs.tolist(), targets[:, -1].tolist(), strict=True)]


def test_training_rows_are_the_windows_of_the_published_files(cache, published_corpora):
    names = ("train_000001", "train_000002", "train_000003")
    files = [tokens(published_corpora / "fineweb", name) for name in names]
    assert list(map(len, files)) == [2000, 2000, 1700]
    assert rows(build(cache), "train") == [window for file in files for window in windows(file)]


def test_validation_is_the_beginning_of_its_file_to_the_token(cache, published_corpora):
    file = tokens(published_corpora / "fineweb", "val_000000")
    task = build(cache)
    assert rows(task, "val") == windows(file[:1201]) and len(task.rows["val"]) * T == 1200
    assert rows(task, "test") == windows(file[1201:])
    judged = build(cache, protocol="paper")
    assert rows(judged, "val") == rows(judged, "test") == rows(task, "val")
    assert rows(judged, "train") == rows(task, "train")


def test_all_of_the_published_validation_is_evaluated(monkeypatch):
    monkeypatch.delenv("HTBENCH_PUBLISHED", raising=False)
    row, published = tasks.spec("fineweb"), FINEWEB.published
    assert row.defaults["held_out_tokens"] == published["validation"] == 20 * 512 * 1024
    assert math.log(row.target) == pytest.approx(3.28)
    assert [file.name for file in FINEWEB.files(1)] == ["fineweb_train_000001.bin", "fineweb_val_000000.bin"]


def test_documents_begin_after_end_tokens(cache):
    shard = Prepared.read(FINEWEB.folder(cache)).shards["train-00001"]
    folder = FINEWEB.folder(cache)
    offsets = np.fromfile(folder / "train-00001.offsets", np.int64)
    stream = np.fromfile(folder / "train-00001.tokens", np.uint16)
    assert offsets[0] == 0 and offsets[-1] == len(stream) == shard.tokens
    assert (np.flatnonzero(stream == 0) + 1).tolist() == offsets[1:-1].tolist()


def test_the_order_is_shuffled_within_a_file(cache):
    task = build(cache)
    inputs = np.concatenate([task.batch(step).inputs.numpy() for step in range(10)])
    expected, _ = task.rows["train"].gather(permutation(83, 3, 0)[:80])
    assert len(windows([0] * 2000)) == 83 and np.array_equal(inputs, expected)


def test_a_run_needs_as_many_files_as_it_reads(tmp_path, published_corpora):
    miniature.prepare_here("fineweb", tmp_path, train_files=1)
    tasks.check_ready("fineweb", tmp_path, 83, T)
    with pytest.raises(UsageError, match=re.escape("run `htbench data prepare fineweb --shards 2`")):
        tasks.check_ready("fineweb", tmp_path, 84, T)


@pytest.mark.parametrize(
    ("head", "count", "complaint"),
    [
        ((20240520, 2, 2000), 2000, "is no whole file of tokens"),
        ((20240520, 1, 2000), 1999, "is no whole file of tokens"),
        ((20240520, 1, 1999), 1999, "has 1999 tokens, the published file has 2000"),
        ((20240520, 1, 2001), 2001, "has 2001 tokens, the published file has 2000"),
    ],
)
def test_other_files_are_refused(tmp_path, own, head, count, complaint):
    file = own / "fineweb_train_000002.bin"
    miniature.llm_c(file, (tokens(own, "train_000002") * 2)[:count], *head)
    with pytest.raises(UsageError, match=f"train_000002.bin' {complaint}"):
        miniature.prepare_here("fineweb", tmp_path)


def test_a_cut_or_foreign_file_is_refused(tmp_path, own):
    file = own / "fineweb_train_000003.bin"
    for content in (file.read_bytes()[:-1], b"short"):
        file.write_bytes(content)
        with pytest.raises(UsageError, match="is no whole file of tokens"):
            miniature.prepare_here("fineweb", tmp_path)
    miniature.llm_c(file, [60_000])
    with pytest.raises(UsageError, match="has token 60000, but the vocabulary is "):
        miniature.prepare_here("fineweb", tmp_path)
