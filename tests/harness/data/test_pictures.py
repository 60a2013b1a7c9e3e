"""Published sets of images, recomputed from the raw files of miniatures, in every layout; what is refused."""

import io
import os
import shutil
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from htbench.harness import tasks
from htbench.harness.data import copies
from htbench.harness.data.cache import damaged
from htbench.harness.data.images import splits
from htbench.harness.data.pictures import SETS, Pictures
from htbench.harness.data.raw import find
from htbench.harness.data.stamps import ImageFiles, write_index
from htbench.harness.errors import UsageError
from tests.helpers import miniature, photographs
from tests.helpers.sweeping import results

LAYOUTS = ("parquet", "flat", "folders")


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    """The folder of the raw files in each layout."""
    folders = {layout: tmp_path_factory.mktemp(layout) for layout in LAYOUTS}
    for layout, folder in folders.items():
        photographs.write_all(folder, layout)
    return folders


@pytest.fixture(autouse=True)
def _miniatures(raw, monkeypatch):
    use(monkeypatch, raw["parquet"])


def use(monkeypatch, folder):
    monkeypatch.setenv("HTBENCH_DATA", str(folder))
    monkeypatch.setenv("HTBENCH_PUBLISHED", str(folder / "published-images.json"))


@pytest.fixture
def copy(raw, tmp_path, monkeypatch):
    """Raw files that a test may spoil."""

    def make():
        folder = tmp_path / "raw"
        shutil.copytree(raw["parquet"], folder)
        use(monkeypatch, folder)
        return folder

    return make


def content(cache, task, protocol="honest"):
    """(bytes, class) of all images of each split, in their order."""
    return {
        split: [
            (image.numpy().tobytes(), label)
            for image, label in zip(images[torch.arange(len(images))], images.labels.tolist(), strict=True)
        ]
        for split, images in splits(SETS[task].folder(cache), protocol).items()
    }


@pytest.mark.parametrize("task", SETS)
def test_all_layouts_give_the_same_splits(task, raw, tmp_path, monkeypatch):
    found = []
    for layout in LAYOUTS:
        use(monkeypatch, raw[layout])
        miniature.prepare_here(task, tmp_path / layout)
        found.append(content(tmp_path / layout, task))
        assert damaged(SETS[task].folder(tmp_path / layout)) == []
    assert found[0] == found[1] == found[2]
    honest, paper = found[0], content(tmp_path / "flat", task, "paper")
    assert {split: len(rows) for split, rows in honest.items()} == {"train": 40, "val": 8, "test": 16}
    assert sorted(paper["train"]) == sorted(honest["train"] + honest["val"])
    assert paper["val"] == paper["test"] == honest["test"]
    sizes = [tasks.train_size(task, tmp_path, protocol=protocol) for protocol in ("honest", "paper")]
    assert sizes == [40, 48]
    raws = photographs.encoded(task)
    expected = {
        part: sorted((plain(task, data), label) for data, label in rows) for part, rows in raws.items()
    }
    assert sorted(paper["train"]) == expected["train"] and sorted(paper["test"]) == expected["test"]


def plain(task, data):
    """The pixels of an image file, by another way: resize the shorter side, then cut out the middle."""
    image = Image.open(io.BytesIO(data)).convert("RGB")
    side, least = photographs.SHAPES[task][2], min(image.size)
    if image.size != (side, side):
        left, top = (image.size[0] - least) / 2, (image.size[1] - least) / 2
        image = image.transform(image.size, Image.Transform.AFFINE, (1, 0, 0, 0, 1, 0))
        image = image.resize(
            (side, side), Image.Resampling.BICUBIC, box=(left, top, left + least, top + least)
        )
    return np.asarray(image).transpose(2, 0, 1).tobytes()


def test_the_published_numbers_are_those_of_the_papers(monkeypatch):
    monkeypatch.delenv("HTBENCH_PUBLISHED")
    counts = {
        task: [copies.row(task)["parts"][part]["images"] for part in ("train", "test")] for task in SETS
    }
    assert counts == {"cifar10": [50000, 10000], "cifar100": [50000, 10000], "imagenet-1k": [1281167, 50000]}
    assert [tasks.train_size(task, None) for task in SETS] == [45000, 45000, 1271167]


def test_an_interrupted_call_leaves_what_it_has_made(tmp_path, monkeypatch):
    miniature.prepare_here("imagenet-1k", tmp_path / "whole")
    written = []

    def interrupted(source, files, raw_folder, folder, workers, progress):
        written.append(files[0])
        source.write(files[0], find(raw_folder, files[0].name), folder)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(miniature, "make_here", interrupted)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                miniature.prepare_here("imagenet-1k", tmp_path / "parts")
    with pytest.raises(UsageError, match="not prepared in .*htbench data prepare imagenet-1k`"):
        tasks.build("imagenet-1k", cache=tmp_path / "parts", batch_size=4, data_seed=0)
    miniature.prepare_here("imagenet-1k", tmp_path / "parts")
    assert len(set(written)) == 2, "a file was read twice"
    folders = [SETS["imagenet-1k"].folder(tmp_path / name) for name in ("whole", "parts")]
    files = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders]
    assert files[0] == files[1]


# --- what is refused ---


def refused(task, tmp_path, match):
    with pytest.raises(UsageError, match=match):
        miniature.prepare_here(task, tmp_path / "cache")
    assert ImageFiles.read(SETS[task].folder(tmp_path / "cache")) is None


def test_a_partial_copy_is_refused_and_a_whole_one_mends_it(copy, tmp_path):
    file = copy() / "cifar10" / "plain_text" / "train-00000-of-00001.parquet"
    table = pq.read_table(file)
    pq.write_table(table.slice(1), file)
    refused("cifar10", tmp_path, "train images of 'cifar10' are 47 instead of the published 48")
    pq.write_table(table, file)
    miniature.prepare_here("cifar10", tmp_path / "cache")
    assert len(content(tmp_path / "cache", "cifar10")["train"]) == 40


def test_other_images_are_refused(copy, tmp_path):
    file = copy() / "cifar10" / "plain_text" / "train-00000-of-00001.parquet"
    table, other = pq.read_table(file), io.BytesIO()
    Image.new("RGB", (28, 28)).save(other, "PNG")
    rows = table.to_pylist()
    right = rows[0]["img"]["bytes"]
    for data, complaint in (
        (other.getvalue(), "an image of 28x28 pixels instead of 32x32"),
        (right[: len(right) // 2], "can't be read"),
    ):
        rows[0]["img"]["bytes"] = data
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), file)
        refused("cifar10", tmp_path, complaint)


def test_other_columns_and_classes_are_refused(copy, tmp_path):
    file = copy() / "cifar10" / "plain_text" / "test-00000-of-00001.parquet"
    table = pq.read_table(file)
    pq.write_table(table.rename_columns(["img", "kind"]), file)
    refused("cifar10", tmp_path, "columns img, kind, and none of them is label")
    pq.write_table(table.set_column(1, "label", pa.array([-1] * 16)), file)
    refused("cifar10", tmp_path, "the class -1")
    file.write_bytes(b"no parquet")
    refused("cifar10", tmp_path, "can't be read")


def test_missing_files_are_named_with_their_address(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HTBENCH_DATA", str(tmp_path / "nothing"))
    refused("imagenet-1k", tmp_path, "train-00000-of-00002.parquet.*datasets/ILSVRC/imagenet-1k/resolve")


def test_a_file_of_another_size_is_one_sentence(tmp_path):
    miniature.prepare_here("cifar100", tmp_path)
    file = SETS["cifar100"].folder(tmp_path) / "train-00000-file.images"
    os.truncate(file, 1000)
    row = tasks.spec("cifar100")
    with pytest.raises(UsageError, match="has 1000 bytes instead of .*htbench data prepare cifar100` writes"):
        tasks.check_ready("cifar100", tmp_path, 100, None, **row.defaults)
    miniature.prepare_here("cifar100", tmp_path)
    tasks.check_ready("cifar100", tmp_path, 100, None, **row.defaults)


def test_a_large_set_is_neither_read_nor_held(tmp_path, monkeypatch):
    """Four gigabytes that are holes on the disk: only what a batch needs is touched."""
    import resource

    images, shape = 20_000, (3, 256, 256)
    files = ImageFiles(shape, 1000, {"train": {"a": images}, "test": {"b": 10}})
    monkeypatch.setattr(Pictures, "folder", lambda *_: tmp_path)
    for part, shards in files.parts.items():
        for name, count in shards.items():
            write_index(tmp_path, part, np.arange(count), np.zeros(count, dtype=int))
            with open(tmp_path / f"{name}.images", "wb") as file:
                file.truncate(count * 3 * 256 * 256)
    files.write(tmp_path)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    task = tasks.build("imagenet-1k", cache=tmp_path, batch_size=4, data_seed=0, augment="none")
    assert task.batch(0).inputs.shape == (4, *shape)
    assert time.perf_counter() - began < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # KiB


# --- the whole way ---

SWEEP = """
name: pictures
base: {task: cifar10, model: resnet-nano, steps: 12, batch_size: 8, mixup: 0.2}
blocks: [{name: adamw, set: {optimizer.name: adamw}}]
replicate: {seeds: 1}
"""


def test_from_raw_files_to_a_table(htbench, write_spec):
    miniature.prepare_here("cifar10", htbench.root / "cache")
    done = htbench("sweep", "run", write_spec(SWEEP), "--workers", 1, "--quiet")
    assert done.returncode == 0, done.stderr
    assert {status for _, status, *_ in results(htbench.root, "pictures").values()} == {"completed"}
    table = htbench("table", "--sweep", "pictures")
    assert table.returncode == 0 and "cifar10" in table.stdout, table.stderr
