"""A stand-in for `squeue`: the rows that the real one would print for some jobs."""

from htbench.harness.system.squeue import COLUMNS

HEAD = ("JOBID", "STATE", "RESTARTS", "USER", "REASON", "START_TIME", "END_TIME", "TIME", "NAME")
BEGAN, LIMIT = "2026-11-23T05:24:36", "2026-11-23T06:24:36"


def row(id, state="RUNNING", restarts=0, user="anna", reason="None", name="x", times=(BEGAN, LIMIT, "0:03")):
    """A row; `times` are its start, its end and what it has used."""
    return _line(id, state, restarts, user, reason, *times, name)


def table(*rows):
    """The whole answer."""
    return "".join(f"{line}\n" for line in (_line(*HEAD), *rows))


def install(folder, *rows, first=""):
    """Put a `squeue` into a folder that prints these rows, after some lines of shell; the folder."""
    folder.mkdir(exist_ok=True)
    (folder / "answer").write_text(table(*rows), encoding="utf-8")
    (folder / "squeue").write_text(f"#!/bin/sh\n{first}\ncat '{folder}/answer'\n", encoding="utf-8")
    (folder / "squeue").chmod(0o755)
    return folder


def _line(*words):
    cells = zip((*words, words[0]), COLUMNS, strict=True)
    padded = (str(word).encode().ljust(width)[:width] for word, (_, width) in cells)
    return b"".join(padded).decode()
