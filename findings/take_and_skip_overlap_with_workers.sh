#!/bin/sh
# datasets 5.2.0, IterableDataset.take and skip, beside torch 2.13.0, DataLoader; on a CPU.
#
# Believed: `take(1000)` is the first 1000 examples of a stream and `skip(1000)` all others, so the two are a validation set
#   and a training set that share nothing. Workers of a DataLoader, or `split_dataset_by_node`, only share out that work.
# Seen: what is shared out is the number. Each of two workers takes, or skips, 500 at the start of its own files. So one call
#   gives another set for each number of workers, of the same length as a rule. Validation without workers and training with
#   two: half of the validation set is trained on. Validation in one process and training in four: three quarters, and as many
#   examples are in neither. Two runs with other numbers of workers have losses of different validation sets. Nothing warns.
# So: split by what does not depend on who reads: by files, or by `filter` on a digest of the example.
#
# Exit status 0: as described. 1: the behaviour has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q datasets==5.2.0 pyarrow==26.0.1 torch==2.13.0 numpy==2.3.5
cat >"$folder/split.py" <<'PYTHON'
import json
import sys
import zlib
from pathlib import Path

import datasets
from datasets.distributed import split_dataset_by_node
from torch.utils.data import DataLoader

FILES, EACH, HELD = 8, 1000, 1000


def is_held(row):
    return zlib.crc32(b"%d" % row["number"]) % FILES == 0


def is_rest(row):
    return not is_held(row)


def read(stream, workers=0, processes=1):
    parts = [stream]
    if processes > 1:  # what each process of a distributed run would read
        parts = [split_dataset_by_node(stream, rank, processes) for rank in range(processes)]
    loaders = [DataLoader(part, batch_size=100, num_workers=workers) for part in parts]
    return [number for loader in loaders for batch in loader for number in batch["number"].tolist()]


def main():
    folder = Path(sys.argv[1])
    paths = [folder / f"{file}.jsonl" for file in range(FILES)]
    for file, path in enumerate(paths):
        path.write_text("".join(json.dumps({"number": file * EACH + i}) + "\n" for i in range(EACH)))
    stream = datasets.load_dataset("json", data_files=[*map(str, paths)], split="train", streaming=True)
    print("datasets", datasets.__version__, "-", stream.num_shards, "files of", EACH, "examples")

    changed = False
    held = read(stream.take(HELD))
    changed |= held != list(range(HELD))
    by_digest = read(stream.filter(is_held))
    for how, share in (({}, 0), ({"workers": 2}, HELD // 2), ({"processes": 4}, HELD * 3 // 4)):
        validation, training = read(stream.take(HELD), **how), read(stream.skip(HELD), **how)
        same, trained = len({*validation} & {*held}), len({*training} & {*held})
        neither = FILES * EACH - len({*training} | {*held})
        print(f"{how or 'plain'}: take has {len(validation)}, {same} of them in the plain take; skip has {len(training)}")
        print(f"    validation by the plain take: {trained} of {len(held)} trained on, {neither} examples in neither")
        changed |= (len(validation), len(training)) != (HELD, FILES * EACH - HELD)
        changed |= (same, trained, neither) != (HELD - share, share, share)

        rest = read(stream.filter(is_rest), **how)
        shared, missing = len({*rest} & {*by_digest}), FILES * EACH - len({*rest} | {*by_digest})
        print(f"    by a digest: {shared} of {len(by_digest)} trained on, {missing} examples in neither")
        changed |= shared > 0 or missing > 0
    sys.exit("the behaviour has changed" if changed else 0)


if __name__ == "__main__":
    main()
PYTHON
HF_HOME="$folder/home" HF_HUB_OFFLINE=1 "$folder/venv/bin/python" "$folder/split.py" "$folder"
