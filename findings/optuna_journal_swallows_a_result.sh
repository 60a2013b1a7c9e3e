#!/bin/sh
# optuna 5.0.0, JournalStorage on a JournalFileBackend.
#
# Believed: if a worker dies while it writes a line into the journal (killed, disk full, quota), that line is lost and no
#   more: loading ignores it, and the other workers go on.
# Seen: loading ignores it. But the next line that any worker appends is glued to the torn one and gets lost with it. If that
#   is a `tell`, it returns without a word, the trial stays RUNNING for everybody, and the value is nowhere. The append after
#   that makes the glued line one that stands before the last, and from then on every load raises JSONDecodeError.
# So: keep results where they were made, and write the journal anew from there; before an append look whether the last byte
#   is a line feed.
#
# Exit status 0: as described. 1: the behaviour has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q optuna==5.0.0 numpy==2.3.5
"$folder/venv/bin/python" - "$folder/journal.log" <<'PYTHON'
import json
import sys
from pathlib import Path

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

optuna.logging.set_verbosity(optuna.logging.ERROR)
journal = Path(sys.argv[1])


def load():
    return optuna.load_study(study_name="s", storage=JournalStorage(JournalFileBackend(str(journal))))


def trials():
    return [(trial.state.name, trial.value) for trial in load().trials]


optuna.create_study(study_name="s", storage=JournalStorage(JournalFileBackend(str(journal))))
one, other = load(), load()
first, second = one.ask(), other.ask()
size = journal.stat().st_size
other.tell(second, 1.0)
content = journal.read_bytes()
journal.write_bytes(content[: size + (len(content) - size) // 2])  # it died in the middle of this line
print("optuna", optuna.__version__)
print("after the death:", trials())
one.tell(first, 0.5)
after = trials()
print("after tell(first, 0.5), which raised nothing:", after)
try:
    one.ask()
    outcome = "went on"
except Exception as error:
    outcome = type(error).__name__
print("the next ask:", outcome)
try:
    trials()
    loaded = "loads"
except json.JSONDecodeError as error:
    loaded = f"JSONDecodeError: {error}"
print("the next load:", loaded)
lost = after == [("RUNNING", None)] * 2
sys.exit(0 if lost and loaded.startswith("JSONDecodeError") else "the behaviour has changed")
PYTHON
