#!/bin/sh
# datasets 5.2.0, load_dataset("json", data_files=[...]).
#
# Believed: a string of a JSON file is that string in the data set, whatever it spells and whichever file comes first.
# Seen: a column whose strings in a file all look like dates is parsed as timestamps there. If the first file is such a one,
#   a later file with any other string ends the load. If the other file is first, the column is of strings, and each date of
#   the later files comes back as another string, without a word: "2024-03-01" as "2024-03-01 00:00:00". So a prompt, an answer
#   or a key to join by depends on the order of the files.
#   `features` that declare the column as a string do not help: they are applied after the parser has made timestamps.
# So: read the lines yourself, `Dataset.from_list([json.loads(line) for line in ...])`, or keep such data as Parquet.
#
# Exit status 0: as described. 1: the behaviour has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q datasets==5.2.0 pyarrow==26.0.1
HF_HOME="$folder/home" HF_HUB_OFFLINE=1 "$folder/venv/bin/python" - "$folder" <<'PYTHON'
import json
import sys
from pathlib import Path

import datasets

datasets.disable_progress_bars()
datasets.logging.set_verbosity_error()
folder = Path(sys.argv[1])
CONTENTS = {"dates": ["2024-03-01", "2024-03-02"], "words": ["soon"]}
for name, values in CONTENTS.items():
    lines = [json.dumps({"date": value}) for value in values]
    (folder / f"{name}.json").write_text("\n".join(lines) + "\n")


def load(*names, features=None):
    files = [str(folder / f"{name}.json") for name in names]
    try:
        loaded = datasets.load_dataset("json", data_files=files, split="train", features=features)
    except datasets.exceptions.DatasetGenerationError as error:
        return f"{type(error).__name__}: {error.__cause__}"
    return list(loaded["date"])


print("datasets", datasets.__version__)
plain = CONTENTS["words"] + CONTENTS["dates"]
first, later = load("dates", "words"), load("words", "dates")
declared = load("words", "dates", features=datasets.Features({"date": datasets.Value("string")}))
print("dates first:", first)
print("words first:", later)
print("declared:   ", declared)
lines = [line for name in ("words", "dates") for line in (folder / f"{name}.json").read_text().splitlines()]
own = list(datasets.Dataset.from_list([json.loads(line) for line in lines])["date"])
print("own reader: ", own)
rewritten = ["soon", "2024-03-01 00:00:00", "2024-03-02 00:00:00"]
same = later == declared == rewritten and str(first).startswith("DatasetGenerationError")
sys.exit(0 if same and own == plain else "the behaviour has changed")
PYTHON
