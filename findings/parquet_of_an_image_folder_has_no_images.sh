#!/bin/sh
# datasets 5.2.0, load_dataset("imagefolder", ...) and to_parquet.
#
# Believed: `to_parquet` writes a data set that stands for itself, as `push_to_hub` and the published sets of images do: their
#   rows have the bytes of each picture. So a folder of classes becomes shards, the shards go to the cluster, the folder goes.
# Seen: the rows have no bytes, only the absolute path of each picture. Lengths, labels and `features` are right, and so is
#   every read on the machine where the folder lies. Elsewhere the first look at a picture raises FileNotFoundError.
#   `save_to_disk` of the very same data set does have the bytes.
# So: keep the folder until the files have been read where it lies, or write with `save_to_disk`; before files are copied,
#   look whether a row has bytes.
#
# Exit status 0: as described. 1: the behaviour has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q datasets==5.2.0 pyarrow==26.0.1 pillow==13.0.0
HF_HOME="$folder/home" HF_HUB_OFFLINE=1 "$folder/venv/bin/python" - "$folder" <<'PYTHON'
import shutil
import sys
from pathlib import Path

import datasets
import pyarrow.parquet
from PIL import Image

datasets.disable_progress_bars()
folder = Path(sys.argv[1])
for label in ("cat", "dog"):
    for number in range(2):
        path = folder / "pictures" / label / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number * 100, 50, 50)).save(path)
pictures = datasets.load_dataset("imagefolder", data_dir=str(folder / "pictures"), split="train")
pictures.to_parquet(folder / "shard.parquet")
pictures.save_to_disk(folder / "saved")
print("datasets", datasets.__version__)

rows = pyarrow.parquet.read_table(folder / "shard.parquet").to_pylist()
sizes = [len(row["image"]["bytes"] or b"") for row in rows]
named = all(Path(row["image"]["path"]).is_absolute() for row in rows)
print(f"to_parquet: {len(rows)} rows, bytes of their pictures {sizes}, absolute paths: {named}")

shutil.move(folder / "pictures", folder / "elsewhere")  # as if the file had gone to another machine
shard = datasets.load_dataset("parquet", data_files=str(folder / "shard.parquet"), split="train")
print("elsewhere:", len(shard), "rows, labels", shard["label"][:])
try:
    shard[0]["image"].load()
    outcome = "the picture is there"
except FileNotFoundError:
    outcome = "FileNotFoundError"
print("elsewhere, the first picture of to_parquet:", outcome)
saved = datasets.load_from_disk(str(folder / "saved"))[0]["image"].size
print("elsewhere, the first picture of save_to_disk:", saved)
same = sizes == [0] * 4 and named and outcome == "FileNotFoundError" and saved == (8, 8)
sys.exit(0 if same else "the behaviour has changed")
PYTHON
