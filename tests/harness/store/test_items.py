"""The test split item by item: what a run keeps is what is read, and damage is one note, never an error."""

import dataclasses
import zlib

import numpy as np
import pytest

from htbench.harness.config.key import resolved, run_key
from htbench.harness.config.settings import resolve_config
from htbench.harness.show.note import Note
from htbench.harness.store import Store, items
from htbench.harness.train import run
from tests.helpers.stored_runs import put, some_items

LM = {"task": "pydocs", "model": "llama-nano", "steps": 4, "batch_size": 16, "optimizer.name": "adamw"}


def assert_same(one, other):
    for name in ("sums", "counts", "clusters"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert one.digest == other.digest
    assert (one.correct is None) == (other.correct is None) and np.array_equal(one.correct, other.correct)


@pytest.fixture
def stored(tmp_path):
    """The files and the record of a run."""
    key = put(tmp_path)
    store = Store(tmp_path)
    return store.files(key), store.record(key)


@pytest.mark.parametrize("correct", [None, np.array([True, False, False, True, True])])
def test_what_is_written_is_read(stored, correct):
    files, record = stored
    items.write(files.test_items, some_items(correct))
    assert_same(items.read(files, record), some_items(correct))
    before = files.test_items.read_bytes()
    items.write(files.test_items, some_items(correct))
    assert files.test_items.read_bytes() == before


def test_a_run_without_items_has_none(stored):
    files, record = stored
    assert items.read(files, dataclasses.replace(record, items_digest="", test_items=0)) is None
    files.test_items.unlink()
    assert items.read(files, record) is None


def test_every_damage_is_one_note(stored):
    files, record = stored
    whole, generator = files.test_items.read_bytes(), np.random.default_rng(0)
    harmless, broken = 0, [whole[:end] for end in range(len(whole))]
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(generator.integers(8))
        broken.append(bytes(flipped))
    broken += [generator.bytes(200), zlib.compress(bytes(10**7)), zlib.compress(b"")]
    for content in broken:
        files.test_items.write_bytes(content)
        kept = items.read(files, record)
        if kept != Note("items_damaged"):  # of the bits that fill up the last byte nothing depends
            assert_same(kept, some_items())
            harmless += 1
    assert harmless <= 2


@pytest.mark.parametrize(
    "change",
    [
        {"test_items": 4},
        {"test_items": 0},
        {"test_items": 10**15},
        {"test_tokens": 11},
        {"test_tokens": 0},
        {"items_digest": "f" * 16},
        {"metrics": {"test_loss": 0.9}},
    ],
)
def test_items_that_are_not_those_of_the_record(stored, change):
    files, record = stored
    fitting = dataclasses.replace(record, metrics={"test_loss": 1.25})
    assert not isinstance(items.read(files, fitting), Note)
    assert items.read(files, dataclasses.replace(fitting, **change)) == Note("items_damaged")


# --- of real runs ---


def trained(root, **settings):
    config = resolve_config(LM | settings)
    record = run.run(resolved(config), Store(root))
    return record, items.read(Store(root).files(run_key(config)), record)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("text"))


def test_the_figures_of_a_record_are_those_of_its_items(text):
    record, kept = text
    assert record.test_items == record.test_split == len(kept.sums) > 1000
    assert record.test_tokens == record.metrics["test_samples"] == kept.counts.sum() > 60_000
    assert record.metrics["val_samples"] == 16_384
    assert kept.sums.sum(dtype=float) / kept.counts.sum() == pytest.approx(
        record.metrics["test_loss"], rel=1e-9
    )
    assert kept.clusters[0] == 0 and (np.diff(kept.clusters) >= 0).all() and kept.clusters[-1] > 10


def test_images_keep_which_are_right(tmp_path, tiny):
    record = run.run(resolved(resolve_config(tiny)), Store(tmp_path))
    kept = items.read(Store(tmp_path).files(record.key), record)
    assert kept.correct.mean() == pytest.approx(record.metrics["test_accuracy"])
    assert kept.sums.mean(dtype=float) == pytest.approx(record.metrics["test_loss"])
    assert record.test_items == record.test_tokens == record.metrics["test_samples"]


def test_rows_on_the_same_items_have_one_digest_and_on_others_another(text, tmp_path):
    same = trained(tmp_path, steps=3, held_out_tokens=640, **{"optimizer.lr": 1e-4})[0]
    assert same.metrics["val_samples"] == 640
    assert (same.items_digest, same.test_items) == (text[0].items_digest, text[0].test_items)
    other = trained(tmp_path, steps=3, seq_len=16)[0]
    assert other.items_digest != same.items_digest


@pytest.mark.parametrize("change", ["fingerprint", "places", "counts", "clusters"])
def test_whatever_tells_items_apart_is_in_the_digest(change):
    given = {"places": np.arange(4), "counts": np.full(4, 8), "clusters": np.array([0, 0, 1, 1])}
    before = items.digest("a", **given)
    assert before == items.digest("a", **{name: array.astype(np.int32) for name, array in given.items()})
    if change == "fingerprint":
        assert items.digest("b", **given) != before
    else:
        assert items.digest("a", **given | {change: given[change] + 1}) != before


def test_a_run_that_diverged_keeps_none(tmp_path, tiny):
    config = resolve_config(tiny | {"optimizer.lr": 1e30, "schedule.warmup": 0})
    record = run.run(resolved(config), Store(tmp_path))
    assert record.status == "diverged" and record.items_digest == ""
    assert not Store(tmp_path).files(record.key).test_items.exists()
