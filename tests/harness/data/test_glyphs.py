"""The glyphs: a hundred characters, each drawn in faces that only one split has."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from htbench.harness import tasks
from htbench.harness.data import glyphs
from htbench.harness.data.images import splits
from htbench.harness.errors import UsageError


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def task(cache):
    assert not tasks.spec("glyphs").ready  # a run draws them by itself
    return tasks.build("glyphs", cache=cache, batch_size=4, data_seed=0, protocol="paper")


@pytest.fixture(scope="module")
def drawn(task, cache):
    parts = splits(cache / f"glyphs-{glyphs.fingerprint()}", "honest")
    return {
        name: (part[torch.arange(len(part))].numpy(), part.labels.numpy()) for name, part in parts.items()
    }


def test_the_protocol_of_the_paper_trains_on_validation_too(task):
    assert task.epoch_size == glyphs.train_size(None, None, protocol="paper")
    assert torch.equal(task.labels["val"], task.labels["test"])


def test_no_face_is_in_two_splits():
    faces = [face for split in glyphs.FACES.values() for face in split]
    assert len(faces) == len(set(faces)) == 21
    files = [glyphs._font_file(face).read_bytes() for face in faces]
    assert len(set(files)) == len(files)


def test_every_split_has_a_hundred_classes_in_similar_numbers(drawn):
    for images, labels in drawn.values():
        assert images.dtype == np.uint8 and images.shape[1:] == (1, 16, 16)
        counts = np.bincount(labels)
        assert len(counts) == len(glyphs.CHARACTERS) == 100
        assert counts.min() > 0.7 * counts.max()
    assert len(drawn["train"][0]) == glyphs.train_size(None, None)
    both = len(drawn["train"][0]) + len(drawn["val"][0])
    assert glyphs.train_size(None, None, protocol="paper") == both


def test_every_character_is_in_its_font():
    """A font draws one and the same box for all that it lacks."""
    for split in glyphs.FACES:
        pairs = glyphs._drawn(split)
        shapes = {pair: glyph.tobytes() for pair, glyph in zip(pairs, glyphs._glyphs(pairs), strict=True)}
        for face in glyphs.FACES[split]:
            own = [shape for (name, _), shape in shapes.items() if name == face]
            assert len(set(own)) >= len(own) - 2, "one box for several characters"
            assert not any(shape == bytes(len(shape)) for shape in own), "an empty glyph"


def test_the_images_are_the_same_every_time_and_differ_among_each_other(drawn):
    images, labels = glyphs.draw("val")
    assert np.array_equal(images, drawn["val"][0]) and np.array_equal(labels, drawn["val"][1])
    assert len({image.tobytes() for image in images}) == len(images)


def test_the_constants_are_those_of_the_training_images(drawn):
    shares = drawn["train"][0] / 255
    assert shares.mean() == pytest.approx(glyphs.MEAN[0], abs=1e-3)
    assert shares.std() == pytest.approx(glyphs.DEVIATION[0], abs=1e-3)


def test_the_noise_has_a_tenth_of_the_grey_scale(drawn):
    """Measured above the dots; noise below black is cut off."""
    images, labels = drawn["train"]
    corner = images[labels == glyphs.CHARACTERS.index("."), 0, :4].astype(float)
    assert (corner == 0).mean() == pytest.approx(0.5, abs=0.01)
    assert np.sqrt((corner**2).mean() * 2) == pytest.approx(25.5, rel=0.02)


def test_the_fingerprint_reads_the_fonts_and_needs_no_numpy(monkeypatch):
    code = (
        "import sys; from htbench.harness.data import glyphs; print(glyphs.fingerprint());"
        "sys.exit(bool({'torch', 'numpy', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, glyphs.fingerprint()), done.stderr
    monkeypatch.setattr(glyphs, "_font_file", lambda face: glyphs.Path(__file__))
    assert glyphs.fingerprint.__wrapped__() != done.stdout.strip()


def test_a_missing_matplotlib_is_one_sentence(monkeypatch):
    monkeypatch.setattr(glyphs.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="matplotlib"):
        glyphs.draw("val")
