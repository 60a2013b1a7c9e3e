"""What `HTBENCH_CRASH` may name: where a process can be made to die (`harness/system/atomic.py`)."""

# The instants at which a killed process leaves different remains on disk. A test tries all of them.
CRASH_POINTS = (
    "claim.before",  # the attempt file is complete under its temporary name
    "claimed",  # the run is owned, nothing else has happened
    "checkpoint.before",  # the new checkpoint is complete under its temporary name
    "checkpoint.after",  # it is in place, the loop has not gone on
    "items.before",  # the run is finished, its test items are complete under their temporary name
    "record.before",  # the run is finished, the record is complete under its temporary name
    "record.after",  # the record is in place, the index lacks it
    "slot.before",  # the points of a sweep are complete under their temporary name
    "study.before",  # the journal of an Optuna study is complete under its temporary name
    "ask.before",  # a search has drawn a trial, the file of its slot has its temporary name
    "tell",  # the record of a trial is in place, its study lacks the result
)
