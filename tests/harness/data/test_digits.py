"""The digits: the data of scikit-learn, split by class, and one clear sentence if it is missing."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from htbench.harness.data import cache, digits
from htbench.harness.errors import UsageError


@pytest.fixture(scope="module")
def arrays():
    return digits.splits()


def test_the_splits_partition_scikit_learns_digits(arrays):
    original = load_digits()
    pixels = np.concatenate([arrays[f"{split}_images"] for split in ("train", "val", "test")])
    labels = np.concatenate([arrays[f"{split}_labels"] for split in ("train", "val", "test")])
    scale = np.ptp(original.images) / np.ptp(pixels)
    rounded = np.rint((pixels - pixels.min()) * scale).astype(int).reshape(-1, 64)
    ours = sorted((*row, label) for row, label in zip(rounded.tolist(), labels.tolist(), strict=True))
    theirs = zip(original.data.astype(int).tolist(), original.target.tolist(), strict=True)
    assert ours == sorted((*row, label) for row, label in theirs)


def test_every_class_is_divided_in_the_same_proportions(arrays):
    total = np.bincount(load_digits().target)
    for split in ("val", "test"):
        share = np.bincount(arrays[f"{split}_labels"]) / total
        assert np.abs(share - digits.HELD_OUT_SHARE).max() < 0.005


def test_training_images_are_standardised(arrays):
    images = arrays["train_images"]
    assert images.dtype == np.float32
    assert images.shape[1:] == (1, 8, 8)
    assert abs(images.mean()) < 1e-5
    assert abs(images.std() - 1) < 1e-5


def test_the_splits_are_the_same_every_time(arrays):
    again = digits.splits()
    assert all(np.array_equal(arrays[name], again[name]) for name in arrays)


def test_a_missing_scikit_learn_is_one_sentence(monkeypatch):
    monkeypatch.setattr(cache.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="scikit-learn"):
        digits.splits()
