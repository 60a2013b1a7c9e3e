"""Miniatures of the published sets of images: files of the very schema, in both published layouts."""

import colorsys
import io
import json
import random
from pathlib import Path

from PIL import Image, ImageDraw

from htbench.harness.data import copies

PARTS = {"train": 48, "test": 16}
# (classes, validation, side of the prepared images, side of the model's images)
SHAPES = {"cifar10": (4, 8, 32, 32), "cifar100": (4, 8, 32, 32), "imagenet-1k": (4, 8, 40, 32)}
WNIDS = ("n01440764", "n01443537", "n01484850", "n01491361")


def write_all(folder, layout="parquet"):
    """Write all three sets below `folder`; returns the variables that make htbench take them."""
    rows = {task: write(task, Path(folder) / task, layout) for task in SHAPES}
    file = Path(folder) / "published-images.json"
    file.write_text(json.dumps(rows))
    return {"HTBENCH_DATA": str(folder), "HTBENCH_PUBLISHED": str(file)}


def write(task, folder, layout="parquet"):
    """Write one set as "parquet", "flat" (the same, without subfolders, other columns) or "folders".

    The last one are folders of classes, with the files that docs/data.md makes of them.
    """
    row = described(task)
    for part, images in encoded(task).items():
        its = row["parts"][part]
        if layout == "folders":
            classes = folder / "classes" / its["folder"]
            write_folders(classes, images, "JPEG" if task == "imagenet-1k" else "png")
            convert(classes, folder, its)
        else:
            write_parquet(task, row, its, folder, images, flat=layout == "flat")
    return row


def described(task):
    """The row of the published copy, in miniature."""
    classes, validation, side, size = SHAPES[task]
    row = json.loads(copies.PUBLISHED.read_text())[task]
    sizes = {
        "classes": classes,
        "validation": validation,
        "side": side,
        "size": size,
        "revision": "miniature",
    }
    for part, its in row["parts"].items():
        its |= {"images": PARTS[part], "files": 2 if task == "imagenet-1k" and part == "train" else 1}
        its["pattern"] = its["pattern"].replace("00294", f"{its['files']:05d}")
    return row | sizes


def encoded(task):
    """The image files of each part, with their classes: a disc whose colour tells the class."""
    generator = random.Random(task)
    return {
        part: [
            (picture(task, number % SHAPES[task][0], generator), number % SHAPES[task][0])
            for number in range(n)
        ]
        for part, n in PARTS.items()
    }


def picture(task, label, generator):
    exact = task.startswith("cifar")
    width, height = (32, 32) if exact else (generator.randint(40, 90), generator.randint(40, 90))
    image = (
        Image.effect_noise((width, height), 40).convert("RGB") if not exact else Image.new("RGB", (32, 32))
    )
    image.paste(tuple(generator.randrange(60) for _ in range(3)), (0, 0, width, height))
    x, y, r = generator.randint(10, width - 10), generator.randint(10, height - 10), generator.randint(6, 10)
    hue = label / SHAPES[task][0] + generator.uniform(-0.03, 0.03)
    colour = tuple(round(255 * value) for value in colorsys.hsv_to_rgb(hue % 1, 1, 1))
    ImageDraw.Draw(image).ellipse((x - r, y - r, x + r, y + r), fill=colour)
    file = io.BytesIO()
    image.save(file, "PNG" if exact else "JPEG")
    return file.getvalue()


def write_parquet(task, row, its, folder, images, flat):
    import pyarrow as pa
    import pyarrow.parquet as pq

    image, label = ("image", "label") if flat else (row["columns"]["image"][0], row["columns"]["label"][0])
    for number in range(its["files"]):
        part = images[number :: its["files"]]
        column = [{"bytes": data, "path": f"{number}-{at}.png"} for at, (data, _) in enumerate(part)]
        columns = {image: column, label: [label for _, label in part]}
        if task == "cifar100":
            columns["coarse_label"] = [0] * len(part)
        name = its["pattern"].format(number)
        path = folder / (Path(name).name if flat else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), path)


def write_folders(folder, images, ending):
    for number, (data, label) in enumerate(images):
        path = folder / WNIDS[label] / f"{WNIDS[label]}_{number}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def convert(classes, folder, its):
    import datasets

    images = datasets.load_dataset("imagefolder", data_files=f"{classes}/**", split="train", cache_dir=folder)
    for number in range(its["files"]):
        path = folder / its["pattern"].format(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        images.shard(its["files"], number).to_parquet(path)
