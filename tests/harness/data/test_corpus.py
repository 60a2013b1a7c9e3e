"""The corpora as tasks, recomputed from the raw files of miniatures: splits, rows, order, what is refused."""

import gzip
import hashlib
import json
import math
import os
import time

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from torch import nn

from htbench.harness import tasks
from htbench.harness.data import corpus
from htbench.harness.data.corpus import C4, CORPORA, OPENWEBTEXT
from htbench.harness.data.order import permutation
from htbench.harness.data.stamps import Prepared
from htbench.harness.data.task import IGNORED
from htbench.harness.errors import UsageError
from htbench.harness.parallel.group import Group
from tests.helpers import miniature

pytestmark = pytest.mark.usefixtures("published_corpora")
T = 24
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def cache(tmp_path_factory, corpora):
    """All files of both corpora, prepared."""
    return miniature.prepared(tmp_path_factory.mktemp("cache"), corpora, ("c4", "openwebtext"))


@pytest.fixture
def two_files(tmp_path):
    """A cache with two of the three training files of C4."""
    miniature.prepare_here("c4", tmp_path, train_files=2)
    return tmp_path


def build(cache, name="c4", **changes):
    settings = {"batch_size": 8, "data_seed": 3, "seq_len": T} | changes
    return tasks.build(name, cache=cache, **settings)


def documents(raw, name="c4", part="train"):
    """(tokens with the end token, raw document) of every document of a part, file by file."""
    if name == "c4":
        files = sorted((raw / "c4" / "en").glob(f"c4-{part}*"))
        rows = [json.loads(line) for file in files for line in gzip.open(file, "rt")]
    else:
        import pyarrow.parquet as pq

        files = sorted((raw / name / "plain_text").glob("*.parquet"))
        rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    tokenizer = Tokenizer.from_file(str(raw / name / "tokenizer.json"))
    end = [tokenizer.token_to_id("</s>" if name == "c4" else "<|endoftext|>")]
    return [(tokenizer.encode(row["text"], add_special_tokens=False).ids + end, row) for row in rows]


def all_rows(task, split):
    inputs, targets = task.rows[split].gather(np.arange(len(task.rows[split])))
    return inputs.tolist(), targets.tolist()


# --- splits and rows ---


def test_padded_rows_are_documents_cut_and_filled(cache, published_corpora):
    inputs, targets = all_rows(build(cache), "train")
    expected = [tokens for tokens, _ in documents(published_corpora)]
    assert len(inputs) == len(expected) == 121
    assert any(len(tokens) > T for tokens in expected) and any(len(tokens) < T for tokens in expected)
    for row, its, tokens in zip(inputs, targets, expected, strict=True):
        if len(tokens) > T:  # as the T5 tokenizer truncates: the end token stays
            tokens = tokens[: T - 1] + tokens[-1:]
        missing = T - len(tokens)
        assert row == tokens + [0] * missing
        assert its == tokens[1:] + [IGNORED] * (missing + 1)


def test_packed_rows_are_windows_over_the_documents_of_a_file(cache, published_corpora):
    inputs, targets = all_rows(build(cache, "openwebtext", layout="packed"), "train")
    chosen = [split_of_text(row["text"]) for _, row in documents(published_corpora, "openwebtext")]
    expected = []
    files = np.split(np.arange(121), [41, 81])
    everything = documents(published_corpora, "openwebtext")
    for file in files:
        stream = [token for n in file if chosen[n] == "train" for token in everything[n][0]]
        expected += [stream[w : w + T + 1] for w in range(0, len(stream) - T, T)]
    assert inputs == [window[:-1] for window in expected]
    assert targets == [window[1:] for window in expected]


def split_of_text(text):
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % 8
    return {0: "val", 1: "test"}.get(number, "train")


def test_the_validation_split_of_c4_is_halved_by_url(cache, published_corpora):
    everything = documents(published_corpora, part="validation")
    for number, split in enumerate(("val", "test")):
        its = [d for d, row in everything if hashlib.sha256(row["url"].encode()).digest()[0] % 2 == number]
        assert 5 < len(its) < 35
        inputs, _ = all_rows(build(cache, seq_len=400), split)
        assert [row[: len(d)] for row, d in zip(inputs, its, strict=True)] == its


def test_documents_of_openwebtext_are_held_out_by_their_text(cache, published_corpora):
    for split in ("train", "val", "test"):
        rows = build(cache, "openwebtext", layout="padded", seq_len=400).rows[split]
        its = [
            d for d, row in documents(published_corpora, "openwebtext") if split_of_text(row["text"]) == split
        ]
        inputs, _ = rows.gather(np.arange(len(rows)))
        assert [row[: len(d)].tolist() for row, d in zip(inputs, its, strict=True)] == its


def test_one_document_in_2000_is_held_out_of_the_published_copy(monkeypatch):
    monkeypatch.delenv("HTBENCH_PUBLISHED")
    row = OPENWEBTEXT.published
    splits = [OPENWEBTEXT.split_of(row, "train", {"text": str(n)}) for n in range(20_000)]
    assert 2 <= splits.count("val") <= 25 and 2 <= splits.count("test") <= 25


def test_the_protocol_of_the_paper_reports_what_it_selects_on(cache):
    honest, paper = (build(cache, protocol=protocol) for protocol in ("honest", "paper"))
    assert len(paper.rows["val"]) == len(paper.rows["test"]) == 40
    assert len(honest.rows["val"]) + len(honest.rows["test"]) == 40
    assert len(paper.rows["train"]) == len(honest.rows["train"]) == 121
    honest, paper = (build(cache, "openwebtext", layout="padded", protocol=p) for p in ("honest", "paper"))
    sizes = {split: len(rows) for split, rows in honest.rows.items()}
    assert len(paper.rows["train"]) == sizes["train"] + sizes["val"]
    assert len(paper.rows["val"]) == len(paper.rows["test"]) == sizes["test"]


def test_a_document_that_spells_out_an_end_token_does_not_end_there(published_corpora):
    from htbench.harness.data.prepare_text import PublishedTokenizer

    for name, end in (("c4", "</s>"), ("openwebtext", "<|endoftext|>")):
        row = CORPORA[name].published["tokenizer"]
        tokenizer = PublishedTokenizer.read(published_corpora / name / "tokenizer.json", row)
        (ids,) = tokenizer.encode([f"oak {end} <extra_id_0> pine"])
        assert tokenizer.end not in ids and max(ids) < tokenizer.vocabulary


def test_bytes_of_tokens_add_up_to_the_text(cache, published_corpora):
    for name in ("c4", "openwebtext"):
        lengths = build(cache, name).token_bytes
        for tokens, row in documents(published_corpora, name)[:20]:
            space = name == "c4"  # in front of the text
            assert int(lengths[tokens].sum()) == len(row["text"].encode()) + space


# --- order ---


def test_batches_run_through_the_files_shuffled_within_each(cache):
    task = build(cache, batch_size=121)
    order = [permutation(size, 3, shard << 32) for shard, size in enumerate((41, 40, 40))]
    rows = np.concatenate([start + part for start, part in zip((0, 41, 81), order, strict=True)])
    inputs, _ = task.rows["train"].gather(rows)
    assert torch.equal(task.batch(0).inputs, torch.from_numpy(inputs))
    second = task.batch(1)  # the next epoch: the same rows in another order
    assert sorted(second.inputs.tolist()) == sorted(task.batch(0).inputs.tolist())
    assert not torch.equal(second.inputs, task.batch(0).inputs)
    first = permutation(41, 3, 1)
    assert torch.equal(second.inputs[:41], torch.from_numpy(task.rows["train"].gather(first)[0]))


def test_a_run_sees_the_same_samples_however_much_is_prepared(cache, two_files):
    few, all_of_it = build(two_files), build(cache)
    for step in range(10):  # 80 of 81 samples
        for name in ("inputs", "targets"):
            assert torch.equal(getattr(few.batch(step), name), getattr(all_of_it.batch(step), name))
    with pytest.raises(UsageError, match="81 training samples.*htbench data prepare"):
        few.batch(10)


@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_the_count_is_that_of_the_whole_batch_in_every_process(cache, layout):
    task = build(cache, layout=layout)
    whole = task.batch(4)
    assert whole.count == int((whole.targets != IGNORED).sum())
    shares = [task.batch(4, Group(rank, 2)) for rank in range(2)]
    assert {share.count for share in shares} == {whole.count}
    assert torch.equal(torch.cat([share.inputs for share in shares]), whole.inputs)
    assert torch.equal(torch.cat([share.targets for share in shares]), whole.targets)


# --- evaluation ---


def bigram(task):
    """A model whose logits depend on the current token only."""
    return nn.Embedding(*[task.model_options["vocabulary"]] * 2)


@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_evaluation_equals_a_plain_computation(cache, layout):
    task = build(cache, layout=layout, held_out_tokens=10**6)
    torch.manual_seed(0)
    model = bigram(task)
    figures = task.evaluate(model, "val", micro_batch=3, device=CPU)
    inputs, targets = map(torch.tensor, all_rows(task, "val"))
    nats = -model.weight.detach().log_softmax(1)[inputs].gather(2, targets.clamp(min=0)[..., None])
    counted = targets != IGNORED
    nats = torch.where(counted, nats[..., 0], 0).double()
    means = [part.sum() / n.sum() for part, n in zip(nats.split(8), counted.split(8), strict=True)]
    text_bytes = task.token_bytes[targets[counted]].sum()
    assert figures == {
        "loss": pytest.approx((nats.sum() / counted.sum()).item()),
        "loss_biased": pytest.approx((sum(means) / (len(means) + 1)).item()),
        "perplexity": pytest.approx(math.exp(nats.sum() / counted.sum())),
        "bits_per_byte": pytest.approx((nats.sum() / math.log(2) / text_bytes).item()),
        "samples": int(counted.sum()),
    }


@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_about_so_many_held_out_tokens_are_evaluated(cache, layout):
    task = build(cache, layout=layout, held_out_tokens=200)
    figures = task.evaluate(bigram(task), "val", micro_batch=8, device=CPU)
    assert 150 <= figures["samples"] <= 250


@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_rows_of_a_corpus_know_their_documents_in_all_shards(cache, layout):
    task = build(cache, layout=layout)
    rows = task.rows["val"]
    assert len(rows.shards) > 1
    found, end = rows.documents(np.arange(len(rows)), np.zeros(0, dtype=bool)), rows.end
    if layout == "padded":
        assert found.tolist() == list(range(len(rows)))
        return
    expected, before = [], 0
    for shard in rows.shards:
        tokens = np.fromfile(rows.folder / (shard.name + ".tokens"), dtype=np.uint16)
        starts = np.arange(shard.rows(layout, rows.seq_len)) * rows.seq_len
        expected += [before + int((tokens[:start] == end).sum()) for start in starts]
        before += shard.documents
    assert found.tolist() == expected and len(set(expected)) > 2


def test_of_a_huge_test_split_a_bounded_part_is_scored(cache, monkeypatch):
    task = build(cache, layout="padded")
    model = bigram(task)
    whole = task.score(model, "test", micro_batch=8, device=CPU)
    assert whole.whole == len(whole.sums) == len(task.rows["test"])
    monkeypatch.setattr(corpus, "TEST_TOKENS", 200)
    part = build(cache, layout="padded", held_out_tokens=7).score(model, "test", micro_batch=8, device=CPU)
    assert 150 <= part.counts.sum() <= 250 and part.whole == whole.whole
    assert part.sums == pytest.approx(whole.sums[part.places])


def test_a_row_longer_than_all_text_is_refused(cache):
    with pytest.raises(UsageError, match="seq_len=100000 is longer than all text of 'train'"):
        build(cache, layout="packed", seq_len=100_000)


# --- what a run needs ---


def test_the_runs_of_the_paper_need_15_and_130_files(monkeypatch):
    monkeypatch.delenv("HTBENCH_PUBLISHED")
    needed = [C4.files_needed(steps * 512, 256, "padded") for steps in (10_000, 90_000)]
    assert needed == [15, 130]
    assert C4.files_needed(None, 256, "padded") == 1024
    assert OPENWEBTEXT.files_needed(10_000 * 480, 1024, "packed") == 80
    assert C4.files_needed(10_000 * 512, 256, "packed") < 15


def ready(cache, samples, name="c4"):
    tasks.check_ready(name, cache, samples, T)


def test_missing_data_is_refused_with_the_command(tmp_path, two_files):
    with pytest.raises(UsageError, match="needs 2 of its 3 .*0 are prepared.*data prepare c4 --shards 2`"):
        ready(tmp_path / "empty", 60)
    with pytest.raises(UsageError, match="needs 3 of its 3 .*2 are prepared.*data prepare c4 --shards 3`"):
        ready(two_files, 82)
    with pytest.raises(UsageError, match="data prepare openwebtext`"):
        ready(two_files, 1, "openwebtext")
    with pytest.raises(UsageError, match="--shards 3`"):
        ready(two_files, None)  # whole epochs
    ready(two_files, 81)
    with pytest.raises(UsageError, match="data prepare c4 --shards 1`"):
        build(tmp_path / "empty")


def test_a_file_of_another_size_is_refused_at_the_start(two_files):
    file = C4.folder(two_files) / "train-00001.tokens"
    os.truncate(file, file.stat().st_size - 2)
    ready(two_files, 41)  # does not need it
    with pytest.raises(UsageError, match="train-00001.tokens' has .* `htbench data prepare c4` writes"):
        ready(two_files, 42)
    build(two_files).batch(0)
    with pytest.raises(UsageError, match="train-00001.tokens"):
        build(two_files).batch(6)
    miniature.prepare_here("c4", two_files, train_files=2)
    ready(two_files, 42)


def test_the_number_of_samples_is_known_without_data(cache, tmp_path):
    assert tasks.train_size("c4", tmp_path, T) == 121
    assert tasks.train_size("c4", cache, T) == 121
    exact = tasks.train_size("openwebtext", cache, T)
    assert exact == build(cache, "openwebtext").epoch_size
    assert tasks.train_size("openwebtext", tmp_path, T) > 0.5 * exact


def test_the_fingerprint_is_of_the_description_not_of_the_bytes(monkeypatch, tmp_path, published_corpora):
    before = tasks.fingerprint("c4")
    assert len(before) == 16 and before != tasks.fingerprint("openwebtext")
    description = json.loads((published_corpora / "published.json").read_text())
    description["c4"]["revision"] = "another"
    (tmp_path / "mine.json").write_text(json.dumps(description))
    monkeypatch.setenv("HTBENCH_PUBLISHED", str(tmp_path / "mine.json"))
    assert tasks.fingerprint("c4") != before
    monkeypatch.delenv("HTBENCH_PUBLISHED")
    assert tasks.fingerprint("c4") != before


def test_the_start_of_a_run_reads_next_to_nothing_of_a_large_cache(two_files):
    folder = C4.folder(two_files)
    stamp = json.loads((folder / "prepared.json").read_text())
    for shard in stamp["shards"]:
        shard["tokens"] = 2**29  # a GiB each, with holes
        os.truncate(folder / f"{shard['name']}.tokens", 2**30)
    (folder / "prepared.json").write_text(json.dumps(stamp))
    before, began = characters_read(), time.monotonic()
    ready(two_files, 81)
    task = build(two_files)
    task.batch(0)
    assert characters_read() - before < 2e5
    assert time.monotonic() - began < 2
    assert sum(Prepared.read(folder).sizes.values()) > 2**32
    assert task.epoch_size == 81


def characters_read():
    with open("/proc/self/io") as file:
        return int(file.readline().split()[1])
