"""What may mislead in a row whose runs are not ours: of a file, which nobody planned, or of a program."""

from collections.abc import Sequence

from htbench.harness.config.programs import RULE
from htbench.harness.show.note import Note
from htbench.results.compare.select import Choice, has_stages
from htbench.results.frames.from_csv import FILE
from htbench.results.frames.metrics import is_number
from htbench.results.frames.run_row import CHOSEN


def note_misleading_runs(choice: Choice, choices: Sequence[Choice]) -> tuple[Note, ...]:
    """The footnotes to a row: runs that stopped before others, and how its setting was chosen.

    Runs of a program may also have ignored their seeds, or have been resumed.

    Args:
        choice: of the row.
        choices: of all rows of its workload.
    """
    of_file, fresh = bool(choice.rows[0].get(FILE)), [run for run in choice.replicas if run["rule"] == RULE]
    if not of_file and choice.rows[0]["rule"] != RULE:
        return ()
    notes = []
    most = max((max(_list_steps(row), default=0) for row in choices), default=0)
    lengths = _list_steps(choice)
    if early := [steps for steps in lengths if steps < most]:
        notes.append(Note("stopped_early", count=len(early), runs=len(lengths), first=min(early), most=most))
    if of_file and not has_stages(choice.rows[0]) and len(choice.candidates) > 1:
        notes.append(Note("chosen_by_reported", settings=len(choice.candidates), axes=choice.axes))
    notes += [Note("seed_ignored", seeds=choice.equal_seeds)] if choice.equal_seeds else []
    if fresh and fresh[0].get("take") == "best" and fresh[0]["protocol"] == CHOSEN:
        notes.append(Note("program_best"))
    notes += [Note("program_without_seeds")] if any(run.get("seeds") == "none" for run in fresh) else []
    if resumed := sum(is_number(run.get("attempts")) and run["attempts"] > 1 for run in fresh):
        notes.append(Note("program_resumed", runs=resumed, of=len(fresh)))
    return tuple(notes)


def _list_steps(choice: Choice) -> list[int]:
    """How long each run was that has a value."""
    runs = {run["key"]: run for run in (*choice.rows, *choice.replicas)}.values()
    return [int(run["steps"]) for run in runs if run["state"] == "completed" and is_number(run["steps"])]
